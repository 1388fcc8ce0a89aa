"""Tests patterns of attention: shares worked out by hand, distances against scipy, and planted clusters."""

import numpy as np
from scipy.spatial.distance import jensenshannon

from keras_bert_app.analysis import head_distances
from keras_bert_app.analysis.options import Options
from keras_bert_app.analysis.studies import attention_patterns
from tests.analysis.tiny_subject import VOCABULARY, tiny_subject


def test_shares_have_the_values_worked_out_by_hand():
    # [CLS] a . [SEP]
    ids = np.array([2, VOCABULARY.index("a"), VOCABULARY.index("."), 3])
    attention = np.zeros((1, 1, 4, 4))
    attention[0, 0] = [[0.5, 0.25, 0.25, 0], [0.1, 0.2, 0.3, 0.4], [0, 1, 0, 0], [0.25] * 4]
    is_punctuation = attention_patterns.punctuation_pieces(VOCABULARY)
    assert [piece for piece, mark in zip(VOCABULARY, is_punctuation, strict=True) if mark] == [".", ","]
    shares = dict(
        zip(
            attention_patterns.PATTERNS,
            attention_patterns.head_shares(attention, ids, 3, is_punctuation)[0, 0],
            strict=True,
        )
    )
    assert np.isclose(shares["[CLS]"], 0.5 + 0.1 + 0 + 0.25) and np.isclose(shares["[SEP]"], 0 + 0.4 + 0 + 0.25)
    assert np.isclose(shares["punctuation"], 0.25 + 0.3 + 0 + 0.25)
    assert np.isclose(shares["previous"], 0.1 + 1 + 0.25) and np.isclose(shares["next"], 0.25 + 0.3 + 0)
    assert np.isclose(shares["itself"], 0.5 + 0.2 + 0 + 0.25)
    by_hand = sum(-p * np.log(p) for p in attention.ravel() if p)
    assert np.isclose(shares["entropy"], by_hand)


def test_divergences_are_those_of_scipy():
    generator = np.random.default_rng(3)
    attention = generator.dirichlet([0.3] * 7, (5, 7))  # [heads, rows, S]
    distances = head_distances.Distances()
    distances.add(attention[:, :3])
    distances.add(attention[:, 3:])
    expected = np.mean(jensenshannon(attention[:, None], attention[None], axis=-1) ** 2, axis=-1)
    np.testing.assert_allclose(distances.matrix(), expected, atol=1e-7)
    disjoint = np.eye(2)[:, None]
    assert np.isclose(head_distances.divergences(disjoint)[0, 1], np.log(2))


def test_heads_that_attend_alike_are_in_one_cluster():
    generator, kinds = np.random.default_rng(0), [0, 1, 2, 0, 1, 2, 0]
    heads = np.stack([0.9 * np.eye(5)[[kind] * 4] + 0.1 * generator.dirichlet([1] * 5, 4) for kind in kinds])
    clusters = head_distances.head_clusters(head_distances.divergences(heads) / 4)
    assert len(set(clusters)) == 3 and all(
        (clusters[a] == clusters[b]) == (kinds[a] == kinds[b]) for a in range(7) for b in range(7)
    )
    assert head_distances.head_clusters(np.zeros((2, 2))).tolist() == [0, 0]


def test_the_table_has_each_share_next_to_its_baselines(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("The cat sat. The unflapp cat was by the river, by the bank.\nA cat.\n" * 3, encoding="utf-8")
    findings = attention_patterns.run(tiny_subject(), Options(input_file=str(path), num_seeds=1), lambda line: None)
    shares = np.array(findings.values["shares"])
    assert shares.shape == (3, 2, 7) and np.shape(findings.values["distances"]) == (6, 6)
    by_name = {row[0]: row for row in findings.tables[0].rows}
    for index, name in enumerate(attention_patterns.PATTERNS):
        assert np.isclose(by_name[name][1], shares[..., index].mean()) and np.isclose(
            by_name[name][4], shares[..., index].max()
        )
    assert by_name["entropy"][2] > by_name["entropy"][1]  # uniform attention is the broadest
    # Sentences have 6, 16 (un ##fl ##app) and 5 tokens. With uniform attention, [CLS] gets 1 in total in each sentence.
    assert np.isclose(by_name["[CLS]"][2], 3 / (6 + 16 + 5)) and np.isclose(by_name["itself"][2], 3 / 27)
    assert [row[0] for row in findings.tables[3].rows] == ["trained", "untrained 0"]
    assert all(findings.files[name].startswith(b"\x89PNG") for name in ("patterns.png", "patterns_heads.png"))

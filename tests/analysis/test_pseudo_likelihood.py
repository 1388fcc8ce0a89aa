"""Tests minimal pairs, surprise and endings against values worked out by hand and direct calls of a model."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.analysis import pseudo_likelihood
from keras_bert_app.analysis.encoders import Subject
from keras_bert_app.analysis.options import Options
from keras_bert_app.analysis.studies import endings, minimal_pairs, surprise
from keras_bert_app.errors import UserError
from keras_bert_app.modeling.pretrainer import BertPretrainer
from keras_bert_app.training.evaluation import wilson_interval
from tests.analysis.tiny_subject import VOCABULARY, tiny_subject


@pytest.fixture(scope="module")
def subject():
    tiny = tiny_subject()
    model = BertPretrainer(tiny.config, seed=11)
    return Subject("tiny", model.encoder, tiny.tokenizer, model)


def direct_log_probabilities(subject, row):
    """Computes log p of each piece, with one call of the model for each masked piece."""
    result = []
    for place, piece in enumerate(row):
        ids = np.array([[2, *row, 3]], np.int32)
        ids[0, place + 1] = 4
        logits = subject.model(
            {"input_word_ids": ids, "input_mask": np.ones_like(ids), "input_type_ids": np.zeros_like(ids)}
        )["mlm_logits"]
        result.append(float(tf.nn.log_softmax(logits[0, place + 1])[piece]))
    return result


def test_each_piece_is_scored_with_only_this_piece_masked_in_any_order_of_the_texts(subject):
    rows = [np.array(row, np.int32) for row in ([8, 9, 10, 5], [7], [10, 13, 14, 15], [11, 8])]
    scores_by_text = pseudo_likelihood.piece_log_probabilities(subject, rows, print)
    for scores, row in zip(scores_by_text, rows, strict=True):
        np.testing.assert_allclose(scores, direct_log_probabilities(subject, row), atol=1e-4)


def test_unigrams_are_counts_with_one_added():
    log_probabilities = pseudo_likelihood.unigram_log_probabilities([np.array([1, 1]), np.array([3])], 4)
    np.testing.assert_allclose(np.exp(log_probabilities), np.array([1, 3, 1, 2]) / 7)


def test_pairs_are_decided_by_the_sums_of_the_scores_of_their_pieces(subject, tmp_path):
    pairs, corpus = tmp_path / "pairs.tsv", tmp_path / "corpus.txt"
    pairs.write_text("the cat sat\tthe cat on\n\nthe bank.\tthe river was.\nmoney\tmoney\n")
    corpus.write_text("the cat sat on the bank\nthe cat sat\n")
    findings = minimal_pairs.run(subject, Options(pairs_file=str(pairs), input_file=str(corpus)), print)
    first = [
        sum(direct_log_probabilities(subject, [VOCABULARY.index(word) for word in text.split()]))
        for text in ("the cat sat", "the cat on")
    ]
    np.testing.assert_allclose(findings.values["pairs"][0]["scores"], first, atol=1e-3)
    results = {name: accuracy for name, accuracy, _, _ in findings.tables[0].rows}
    # Two of the three pairs have equal lengths, and one of these two has equal sentences. The corpus has "sat" twice
    # and "on" once.
    assert results["baseline: fewer pieces"] == pytest.approx((0.5 + 1 + 0.5) / 3)
    assert results["baseline: unigrams"] == pytest.approx((1 + 1 + 0.5) / 3)
    wins = [np.sign(good - bad) / 2 + 0.5 for good, bad in (pair["scores"] for pair in findings.values["pairs"])]
    assert results["pseudo-log-likelihood"] == pytest.approx(np.mean(wins))
    # Wilson's interval of three pairs is wide for any answers of the model.
    assert "Pseudo-log-likelihood is not distinguishable from the best baseline" in findings.remarks[-1]
    assert findings.tables[0].rows[0][2:] == [*map(pytest.approx, wilson_interval(np.mean(wins), 3))]


@pytest.mark.parametrize(
    "text, message",
    [
        ("a b c\n", ":1: 1 cells; expected a good sentence, a tab and a bad one"),
        ("a\tb\na\t\n", ":2: 2 cells"),
        ("a\tb\tc\n", ":1: 3 cells"),
        ("\n", "holds no pair"),
    ],
)
def test_lines_that_are_not_a_pair_are_refused_by_their_number(tmp_path, text, message):
    path = tmp_path / "pairs.tsv"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        minimal_pairs.read_pairs(str(path))
    with pytest.raises(UserError, match="there is no such file"):
        minimal_pairs.read_pairs(str(tmp_path / "none"))


def test_planting_replaces_a_word_of_one_piece_by_another_word():
    # "unflapp" has several pieces, and "." is not a word. The second text has no word of one piece.
    rows = [np.array(row, np.int32) for row in ([7, 13, 14, 15, 5], [5, 13, 14], [10], [11, 6])]
    planted, places = surprise.plant(rows, VOCABULARY, seed=1)
    assert places == [0, 0, 0]
    for before, after in zip((rows[0], rows[2], rows[3]), planted, strict=True):
        assert after[0] in {7, 10, 11, 12} - {before[0]}
        np.testing.assert_array_equal(after[1:], before[1:])
    assert rows[0][0] == 7  # the input is unchanged


def test_equally_surprising_pieces_share_one_hit():
    assert surprise.hits([np.array([1.0, 3, 2]), np.array([2.0, 2]), np.array([5.0, 1])], [1, 0, 1]) == pytest.approx(
        1.5 / 3
    )


def test_the_most_surprising_pieces_come_first_with_what_the_model_expected(subject, tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("The cat sat on the bank.\nMoney was by the river.\n")
    findings = surprise.run(subject, Options(input_file=str(path)), print)
    bits = [row[0] for row in findings.tables[0].rows]
    assert bits == sorted(bits, reverse=True) and len(bits) == 13
    direct = direct_log_probabilities(subject, [VOCABULARY.index(word) for word in "the cat sat on the bank .".split()])
    row_of_cat = next(row for row in findings.tables[0].rows if row[2] == "cat")
    assert row_of_cat[:4] == [pytest.approx(-direct[1] / np.log(2), abs=1e-3), "the", "cat", "sat on the bank ."]
    assert (
        row_of_cat[5] >= np.exp(direct[1]) - 1e-6
    )  # the likeliest piece is at least as likely as the piece in the text
    assert set(findings.values["planted"]) == {"most surprising piece", "baseline: rarest piece", "baseline: chance"}
    assert findings.values["planted"]["baseline: chance"] == pytest.approx((1 / 7 + 1 / 6) / 2)


def test_the_text_has_priority_over_the_file_and_a_remark_says_so(subject, tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("The cat sat on the bank.\n")
    findings = surprise.run(subject, Options(text="Money was by the river.", input_file=str(path)), print)
    assert "--text was read; --input_file was not used." in findings.remarks and findings.tables[0].title.endswith(
        "of 6 pieces"
    )
    findings = surprise.run(subject, Options(input_file=str(path)), print)
    assert f"All 1 sentences of {path} were read." in findings.remarks


def test_every_analysis_by_masked_lm_draws_a_picture(subject, tmp_path):
    pairs, endings_file = tmp_path / "pairs.tsv", tmp_path / "codah.tsv"
    pairs.write_text("the cat sat\tthe cat on\n")
    endings_file.write_text("o\tThe cat\tsat on the bank.\twas.\tsat by.\twas money on the river.\t1\n")
    for module, given in (
        (minimal_pairs, {"pairs_file": str(pairs)}),
        (endings, {"endings_file": str(endings_file)}),
        (surprise, {"text": "The cat sat on the bank."}),
    ):
        name = module.__name__.rpartition(".")[2]
        assert module.run(subject, Options(**given), print).files[f"{name}.png"][:4] == b"\x89PNG"


def test_an_ending_is_scored_by_its_own_pieces_after_the_beginning(subject, tmp_path):
    path = tmp_path / "codah.tsv"
    path.write_text(
        "o\tThe cat\tsat on the bank.\twas.\tsat by.\twas money on the river.\t1\n"
        "o\tMoney\twas a b c.\tsat.\tsat by the bank.\twas on.\t0\n"
    )
    findings = endings.run(subject, Options(endings_file=str(path)), print)
    results = findings.values["accuracy"]
    assert results["baseline: shortest ending"] == 0.5 and results["baseline: chance"] == 0.25
    assert results["baseline: longest ending"] == 0.25  # two endings of the second beginning have five pieces
    ids = [
        [VOCABULARY.index(piece) for piece in text.split()]
        for text in (
            "the cat sat on the bank .",
            "the cat was .",
            "the cat sat by .",
            "the cat was money on the river .",
        )
    ]
    sums = [sum(direct_log_probabilities(subject, row)[2:]) for row in ids]
    single = tmp_path / "one.tsv"
    single.write_text(f"o\tThe cat\tsat on the bank.\twas.\tsat by.\twas money on the river.\t{int(np.argmax(sums))}\n")
    assert endings.run(subject, Options(endings_file=str(single)), print).values["accuracy"]["ending, sum"] == 1.0


def test_an_ending_has_four_measures_and_tied_endings_share_the_answer():
    assert endings.measures(np.array([-1.0, -2.0, -4.0]), 2) == (-7.0, -6.0, -3.0, 2)
    assert endings.right_shares(np.array([[1.0, 2, 2, 0], [0, 3, 1, 2]]), np.array([2, 3])).tolist() == [0.5, 0]
    # The first way is best on the even examples (2 of 2), and the second way on the odd examples (1 of 2).
    right = np.array([[1.0, 0], [0, 1], [1, 1], [0, 0]])
    assert endings._best_of_other_half(right) == (0 + 1 + 0 + 0) / 4


def test_models_without_a_masked_lm_head_and_files_of_an_unknown_kind_are_refused(subject):
    for module in (minimal_pairs, surprise, endings):
        with pytest.raises(UserError, match="no masked-LM head"):
            module.run(tiny_subject(), Options(), print)
    with pytest.raises(UserError, match=r"expected \.tsv of codah"):
        endings.run(subject, Options(endings_file="x.txt"), print)
    with pytest.raises(UserError, match="--text is missing"):
        surprise.run(subject, Options(), print)

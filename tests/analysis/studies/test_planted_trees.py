"""Tests that analyses of trees find planted information in unseen sentences, and none in noise."""

import dataclasses
import json

import numpy as np
import pytest

from keras_bert_app.analysis import findings, tree_probe
from keras_bert_app.analysis.options import Options
from keras_bert_app.analysis.studies import attention_probe, edge_probing, grammar_heads, structural_probe
from keras_bert_app.errors import UserError
from tests.analysis import planted, toy

# This tree is too long: the toy has 19 positions, and [CLS] and [SEP] take 2 of them.
LONG = toy.tree(" ".join(["cat"] * 18), [-1, *[0] * 17], ["root", *["obj"] * 17])


@pytest.fixture(scope="module")
def trees():
    generator = np.random.default_rng(0)
    return list(planted.random_trees(generator, 160)), list(planted.random_trees(generator, 80))


@pytest.fixture
def files(trees, tmp_path, monkeypatch):
    """Writes two disjoint files and plants the answers for both. Returns Options that read the files."""
    for name, file_trees in zip(("train", "dev"), trees, strict=True):
        (tmp_path / f"{name}.conllu").write_text(toy.conllu(file_trees))
    planted.plant(monkeypatch, planted.tree_answers([*trees[0], *trees[1]]))
    return Options(
        train_file=str(tmp_path / "train.conllu"), dev_file=str(tmp_path / "dev.conllu"), num_seeds=2, probe_rank=14
    )


def quietly(line):
    pass


def count_of(trees, *relations):
    return sum(relation in relations for tree in trees for relation in tree.relations)


def test_heads_that_follow_a_relation_are_named_and_the_parser_of_attention_reads_them_and_beats_its_baselines(
    files, trees, tmp_path
):
    result = grammar_heads.run(toy.subject(tmp_path), files, quietly)
    rows = {row[0]: row for row in result.tables[0].rows}
    for relation, head in zip(planted.RELATIONS, ("2-1", "2-2"), strict=True):
        name, words, best, accuracy, low, high, _, offset, lead, _, untrained, _ = rows[relation]
        assert (words, best, accuracy) == (count_of(trees[1], relation), f"{head} dependent->head", 1.0)
        assert offset < 0.5 and untrained < 0.5 and 0.9 < low < high == 1.0 and lead > 0.4
    assert rows[grammar_heads.ALL][1] == count_of(trees[1], *planted.RELATIONS)
    assert result.remarks[0].startswith(
        "2 of 2 relations have a head above the best fixed offset, 2 of them by 10 points or more: "
    )
    table = result.tables[1]
    offset, distance, untrained, attention = table.rows
    train_offsets, dev_offsets = (
        np.concatenate(
            [
                (tree.heads - np.arange(len(tree)))[
                    [head >= 0 and tag != "PUNCT" for head, tag in zip(tree.heads, tree.tags, strict=True)]
                ]
                for tree in file_trees
            ]
        )
        for file_trees in trees
    )
    best = max(range(-10, 11), key=lambda shift: (np.mean(train_offsets == shift), shift))
    assert offset[2] == np.mean(dev_offsets == best) and offset[0] == f"fixed offset {best:+d}"
    assert table.title.endswith(f"UAS of {len(dev_offsets):,} words")
    assert attention[1] == 8 and attention[2] > 0.97 and attention[3] > 0.9
    assert max(offset[2], distance[2], untrained[2]) < 0.6 and untrained[5] is not None


def test_only_attention_tells_word_pairs_apart(files, trees, tmp_path):
    result = attention_probe.run(toy.subject(tmp_path), files, quietly)
    any_pair, same_distance, which_relation = result.tables[0].rows
    for row in (any_pair, same_distance):
        _, pairs, majority, distance, untrained, attention, low, high, spread, control, selectivity, *_ = row
        assert attention > 0.97 and untrained < 0.62 and majority == 0.5 and spread is not None
        assert low < attention < high and control < 0.62  # no word occurs twice, so no probe can know its random answer
    assert same_distance[3] < 0.6
    _, pairs, majority, distance, untrained, attention, low, high, spread, control, selectivity, *bounds = (
        which_relation
    )
    assert pairs == count_of(trees[1], *planted.RELATIONS) and attention == 1.0 and spread is None
    assert max(majority, distance, untrained, control) < 0.65 and bounds[0] < selectivity < bounds[1]
    assert selectivity == pytest.approx(1.0 - control)
    assert result.remarks[0].startswith("Attention is above majority, distance alone and untrained attention at 3 of 3")
    assert len(result.values["accuracy"][attention_probe.TASKS[2]]["attention"]) == 1


def test_trees_are_found_at_the_layer_that_holds_them(files, tmp_path, monkeypatch):
    monkeypatch.setattr(tree_probe, "MOST_EPOCHS", 15)
    result = structural_probe.run(toy.subject(tmp_path), dataclasses.replace(files, num_seeds=1), quietly)
    trained, untrained = (np.mean(result.values[name], axis=1) for name in ("trained", "untrained"))
    neighbours = result.values["neighbours"]["uuas"]
    assert trained[:, 0].argmax() == 1 and trained[1, 0] > 0.9 and trained[1, 3] > 0.9  # UUAS, Spearman of depths
    assert max(trained[0, 0], trained[2, 0], untrained[:, 0].max()) < trained[1, 0] - 0.3 and neighbours < 0.6
    by_length = result.values["by_length"]
    assert list(by_length)[::2] == ["layer 1", "neighbours"] and result.values["layer"] == 1
    assert set(by_length["layer 1"]["depth_spearman"]) == set(range(5, 12))
    assert np.mean(list(by_length["neighbours"]["distance_spearman"].values())) == pytest.approx(
        result.values["neighbours"]["distance_spearman"]
    )
    row = next(row for row in result.tables[0].rows if row[0] == "toy 1")
    # No word occurs twice, so no probe can know the control trees, and the selectivity is high.
    assert row[2] < row[1] == trained[1, 0] < row[3] and row[7] > 0.2
    assert result.remarks[0].endswith("over each of them is more than 0.1, as Hewitt and Manning found.")
    assert result.files["structural_probe_lengths.png"][:4] == b"\x89PNG"


@pytest.mark.parametrize(
    "module, counted, remark",
    [
        (grammar_heads, lambda table: table.rows[0][1], "3 sentences were longer"),
        (attention_probe, lambda table: table.rows[2][1], "(3 were longer"),
        (structural_probe, lambda table: int(table.title.split()[0]), "3 of them longer"),
        (edge_probing, lambda table: table.rows[1][1] - 30, "3 of them longer"),  # minus 30 arcs of punctuation
    ],
)
def test_sentences_that_do_not_fit_are_not_counted_and_a_remark_says_so(
    module, counted, remark, files, trees, tmp_path, monkeypatch
):
    monkeypatch.setattr(tree_probe, "MOST_EPOCHS", 1)
    for path, file_trees in zip((files.train_file, files.dev_file), trees, strict=True):
        with open(path, "w") as file:
            file.write(toy.conllu([*[LONG] * 3, *file_trees[:30]]))
    result = module.run(toy.subject(tmp_path), dataclasses.replace(files, num_seeds=1), quietly)
    assert counted(result.tables[0]) == count_of(trees[1][:30], *planted.RELATIONS)
    assert remark in " ".join(result.remarks)


@pytest.mark.parametrize("module", [grammar_heads, attention_probe, structural_probe, edge_probing])
def test_files_of_single_words_are_refused_before_anything_is_encoded(module, files, tmp_path, monkeypatch):
    planted.plant(monkeypatch, None)
    for name in ("train_file", "dev_file"):
        path = tmp_path / "single.conllu"
        path.write_text(toy.conllu([toy.tree("cat", [-1])] * 3))
        with pytest.raises(UserError, match="single.conllu: ") as error:
            module.run(toy.subject(tmp_path), dataclasses.replace(files, **{name: str(path)}), quietly)
        assert "3 sentences" in str(error.value)


def test_a_single_tree_leaves_no_half_for_the_choice(files, trees, tmp_path):
    with open(files.dev_file, "w") as file:
        file.write(toy.conllu(trees[1][:1]))
    result = grammar_heads.run(toy.subject(tmp_path), dataclasses.replace(files, train_file=""), quietly)
    (row,) = result.tables[0].rows
    assert row[1] == count_of(trees[1][:1], *planted.RELATIONS) and row[3] is row[7] is row[8] is row[10] is None
    for module in (structural_probe, edge_probing):
        with pytest.raises(UserError, match="dev.conllu: .*expected at least two, one to choose the layer"):
            module.run(toy.subject(tmp_path), files, quietly)
    assert result.files["grammar_heads.png"][:4] == b"\x89PNG"


def test_short_sentences_have_no_correlation_and_the_pictures_are_still_drawn(files, trees, tmp_path, monkeypatch):
    monkeypatch.setattr(tree_probe, "MOST_EPOCHS", 1)
    with open(files.dev_file, "w") as file:
        file.write(toy.conllu([tree for tree in trees[1] if len(tree) < 5]))
    result = structural_probe.run(toy.subject(tmp_path), files, quietly)
    assert result.values["neighbours"]["distance_spearman"] is None and result.values["neighbours"]["uuas"] > 0
    assert all(row[1] is row[2] is row[3] is None for row in result.tables[1].rows)
    assert all(image[:4] == b"\x89PNG" for image in result.files.values())
    json.loads(findings.contents(result, files)["structural_probe.json"], parse_constant=pytest.fail)  # NaN is not JSON

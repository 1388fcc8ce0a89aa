"""Draws of examples keep the shares of classes and depend on the seed. Held-out parts have whole sources."""

import collections
import itertools

import pytest

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.tasks import registry, sampling
from keras_bert_app.tasks.labelled_data import load_data
from tests.tasks.texts import WORDS, read, split, tokenizer, written


def name_of(example):
    return (example,)


def sorted_table(directory, name, counts):
    """Writes a table whose lines are sorted by class. All texts are different."""
    texts = map(" ".join, itertools.permutations(WORDS, 3))
    lines = [f"{next(texts)}\t{label}\n" for label, count in counts.items() for _ in range(count)]
    return written(directory, name, "text\tlabel\n" + "".join(lines))


def loaded(directory, **settings):
    return load_data(FinetuningConfig(task="classification", data_dir=str(directory), **settings), tokenizer())


def test_fewer_training_examples_of_a_file_sorted_by_class_have_every_class(tmp_path):
    sorted_table(tmp_path, "train.tsv", {f"c{number}": 13 for number in range(77)})
    sorted_table(tmp_path, "dev.tsv", {f"c{number}": 1 for number in range(77)})
    data = loaded(tmp_path, max_train_examples=231)
    assert set(collections.Counter(example.label for example in data.train_examples).values()) == {3}
    assert "drawn from 1,001 by --seed=12345" in data.train.notes and not data.warnings
    again = loaded(tmp_path, max_train_examples=231)
    assert again.train.fingerprint() == data.train.fingerprint()
    assert loaded(tmp_path, max_train_examples=231, seed=7).train.fingerprint() != data.train.fingerprint()


def test_a_draw_keeps_the_shares_and_the_order_and_loses_no_class():
    examples = ["often"] * 1000 + ["seldom"] * 5 + ["once"]
    assert collections.Counter(sampling.drawn(examples, 20, 1, name_of)) == {"often": 18, "seldom": 1, "once": 1}
    numbers = sampling.drawn(list(range(53)), 17, 1, lambda example: ())
    assert len(numbers) == 17 and numbers == sorted(numbers)
    assert sampling.drawn(examples, 0, 1, name_of) == sampling.drawn(examples, 1006, 1, name_of) == examples


def test_a_draw_of_label_sets_has_every_label_and_texts_without_one():
    examples = [("a", "b")] * 50 + [("c",)] + [()] * 30 + [("a", "d")]
    chosen = sampling.drawn(examples, 8, 1, lambda labels: labels)
    assert len(chosen) == 8 and set().union(*chosen) == {"a", "b", "c", "d"} and () in chosen


@pytest.mark.parametrize(
    "task, name, content, expected",
    [
        ("ner", "a.txt", "Ann B-PER\nsees O\nBonn B-LOC\n\nit O\n", [("LOC", "PER"), ()]),
        ("pos", "a.txt", "Ann N\nsees V\nBonn N\n", [("N", "V")]),
        ("multi_label", "a.tsv", "text\tlabel\na\tx,y\nb\t\n", [("x", "y"), ()]),
        ("regression", "a.tsv", "text\tlabel\na\t1\n", [()]),
    ],
)
def test_classes_are_labels_and_types_of_entities_and_numbers_have_none(tmp_path, task, name, content, expected):
    examples = read(task, written(tmp_path, name, content))
    assert [registry.find(task).classes(example) for example in examples] == expected


def test_classes_without_an_example_in_training_or_dev_are_named(tmp_path):
    sorted_table(tmp_path, "train.tsv", dict.fromkeys("abcdefghij", 5))
    sorted_table(tmp_path, "dev.tsv", {"a": 9, "b": 9})
    data = loaded(tmp_path, max_train_examples=9, max_eval_examples=9)
    training, dev = data.warnings
    assert training.startswith("warning: 1 of 10 classes have no training example (") and training.endswith(
        "): the model does not learn them; raise --max_train_examples"
    )
    assert dev == (
        "warning: 9 of 10 classes have no dev example (b, c, d, e, f, g and others): the dev scores do not count them; "
        "raise --max_eval_examples, which keeps the first examples"
    )
    assert len(loaded(tmp_path).warnings) == 1  # the warning is about dev


def test_a_held_out_share_keeps_equal_texts_together_and_is_the_same_for_every_seed(tmp_path):
    lines = [f"{text} word {number}\t{label}\n" for number in range(40) for text, label in (("one", "a"), ("two", "b"))]
    written(tmp_path, "train.tsv", "text\tlabel\n" + "".join(lines) * 2 + "ONE  word 0\ta\nonly one\tc\n")
    parts = [
        [(example.text_a.lower().split(), example.label) for example in split("classification", tmp_path, which, **run)]
        for run in ({"dev_fraction": 0.25}, {"dev_fraction": 0.25, "seed": 3})
        for which in ("train", "dev")
    ]
    assert parts[:2] == parts[2:]
    train, dev = parts[:2]
    assert collections.Counter(label for _, label in dev)["b"] == 20  # 10 of 40 texts, each of which occurs twice
    assert len(train) + len(dev) == 162 and ["only", "one"] in [words for words, _ in train]
    assert not [words for words, _ in dev if words in [others for others, _ in train]]


def test_one_file_as_data_dir_gives_training_and_dev_examples(tmp_path):
    path = sorted_table(tmp_path, "my tickets.tsv", {"x": 20, "y": 20})
    data = loaded(path, dev_fraction=0.1)
    held_out = sorted(example.label for example in (*data.dev_examples, *data.reported_examples))
    assert len(data.train_examples) == 36 and held_out == ["x", "x", "y", "y"]
    with pytest.raises(UserError, match="is one file; give --dev_fraction=0.1, which holds out a tenth of its"):
        loaded(path)
    with pytest.raises(UserError, match="is one file, of training examples; give the file of test by --input_file"):
        registry.find("classification").path(path, "test")


def test_a_share_and_a_file_for_dev_exclude_each_other_and_one_text_cannot_be_divided(tmp_path):
    sorted_table(tmp_path, "train.tsv", {"x": 20, "y": 20})
    with pytest.raises(UserError, match="found: train.tsv.; --dev_fraction=0.1 holds out a share of the training"):
        loaded(tmp_path)
    sorted_table(tmp_path, "dev.tsv", {"x": 2})
    with pytest.raises(UserError, match="--dev_fraction=0.2: .* has dev.tsv for dev; leave out --dev_fraction, or"):
        loaded(tmp_path, dev_fraction=0.2)
    path = written(tmp_path, "same.tsv", "text\tlabel\nsame\tx\nSame\ty\n")
    with pytest.raises(UserError, match="--dev_fraction=0.5: .* has 2 examples of too few different texts to divide"):
        loaded(path, dev_fraction=0.5)


def test_questions_about_one_context_are_held_out_together():
    questions = registry.find("squad1").family
    examples = [questions.Example(str(n), "a", f"Text  {n // 4}.", ("Text",), (0, 4), "x:1") for n in range(40)]
    is_dev = sampling.held_out(examples, 0.2, lambda example: (), questions.sources(examples))
    assert sum(is_dev) == 8 and all(len(set(is_dev[start : start + 4])) == 1 for start in range(0, 40, 4))


def test_sentences_of_one_document_are_held_out_together_if_there_are_many_documents(tmp_path):
    content = "".join(f"-DOCSTART- O\n\nAnn B-PER\n\nword{number} O\n\n" for number in range(20))
    examples = read("ner", written(tmp_path, "a.txt", content))
    family = registry.find("ner").family
    assert len(set(family.sources(examples))) == 20
    assert family.sources(examples[:4]) == [("ann",), ("word0",), ("ann",), ("word1",)]

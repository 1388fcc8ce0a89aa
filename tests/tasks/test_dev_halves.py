"""Dev examples in two halves: the division, and the report of a run on random labels."""

import collections
import json

import numpy as np
import pytest

from keras_bert_app.errors import UserError
from keras_bert_app.tasks import dev_halves, registry
from keras_bert_app.tasks.families.sequences import Example
from keras_bert_app.tasks.task import Examples
from tests.tasks.conftest import CONFIG, VOCABULARY, launched, run_on, sentence, write_table

_TASK = registry.find("classification")


def examples_of(texts):
    return Examples([Example(str(number), text, None, "1", f"dev.tsv:{number}") for number, text in enumerate(texts)])


def test_each_example_is_in_one_half_with_all_examples_of_its_text():
    texts = [f"text {number // 3}" for number in range(300)]
    chosen, reported = dev_halves.split(_TASK, examples_of(texts))
    assert sorted(example.guid for example in (*chosen, *reported)) == sorted(map(str, range(300)))
    assert not {example.text_a for example in chosen} & {example.text_a for example in reported}
    assert 100 < len(chosen) < 200


def test_an_example_keeps_its_half_when_others_come_or_go():
    texts = [f"text {number}" for number in range(200)]
    half_of = {}
    for some in (texts, texts[::3], texts[50:]):
        for half, examples in enumerate(dev_halves.split(_TASK, examples_of(some))):
            for example in examples:
                assert half_of.setdefault(example.text_a, half) == half


@pytest.mark.parametrize("texts", [["a", "b"], ["same", "same", "same"], ["a", "b", "c"]])
def test_few_examples_also_leave_no_half_empty(texts):
    assert all(dev_halves.split(_TASK, examples_of(texts)))


def test_one_example_cannot_be_divided():
    with pytest.raises(UserError, match="dev of task classification has one example, .* give more, or --test_file"):
        dev_halves.split(_TASK, examples_of(["alone"]))


def test_sentences_of_one_document_stay_together_wherever_the_files_lie(tmp_path):
    task, halves_by_folder = registry.find("ner"), []
    for folder in ("here", "there"):
        path = tmp_path / folder / "dev.txt"
        path.parent.mkdir()
        path.write_text(
            "".join(
                "-DOCSTART- -X- O O\n\n" + "".join(f"w{document} NN O\nx{number} NN O\n\n" for number in range(3))
                for document in range(30)
            )
        )
        examples = task.read_file(str(path), run_config(str(path.parent)))
        halves_by_folder.append([[example.words[0] for example in half] for half in dev_halves.split(task, examples)])
        # A half has fewer documents than the file. They are its sources all the same.
        sources = [dev_halves.sources_of(task, half) for half in dev_halves.split(task, examples)]
        assert [len(set(half)) for half in sources] == [len(half) // 3 for half in sources] and len(
            set(sources[1])
        ) < 20
    assert halves_by_folder[0] == halves_by_folder[1]
    assert all(count == 3 for half in halves_by_folder[0] for count in collections.Counter(half).values())


def run_config(data_dir):
    from keras_bert_app.config.finetuning_config import FinetuningConfig

    return FinetuningConfig(task="ner", data_dir=data_dir)


@pytest.mark.slow
def test_no_run_on_random_labels_is_called_better_than_its_baseline(tmp_path):
    """The best of 16 evaluations on 408 dev examples looks better than the baseline by chance."""
    generator = np.random.default_rng(5)
    for name, count in (("train", 96), ("dev", 408)):
        lines = [f"{sentence(generator, '1')}\t{label}\n" for label in generator.choice(["0", "1"], count)]
        (tmp_path / f"{name}.tsv").write_text("sentence\tlabel\n" + "".join(lines))
    figures, output = launched(
        tmp_path / "runs",
        {
            "data_dir": str(tmp_path),
            "num_train_steps": 16,
            "eval_steps": 1,
            "global_batch_size": 32,
            "jit_compile": "none",
        },
        num_seeds=2,
        start=(None, False, CONFIG, VOCABULARY),
    )
    assert figures["degenerate_seeds"] == [3, 4]
    for run in figures["runs"]:
        assert run["num_evaluations"] == 16 and run["no_better_than_baseline"]
        assert run["best"]["score"] >= run["last"]["score"]
        low, high = run["baseline"]["difference_interval"]
        assert low <= 0 <= high
        assert run["dev_examples"] + run["reported"]["examples"] == 408
    # Without the halves, a run would have reported the scores that chose the weights.
    assert np.mean([run["best"]["score"] for run in figures["runs"]]) > figures["mean"] + 0.03
    assert output.count("is degenerate: no better than the baseline") == 2


def test_a_test_file_is_scored_once_and_all_of_dev_chooses(table_dir, tmp_path):
    write_table(str(tmp_path), "test", 23, 9)
    path = str(tmp_path / "test.tsv")
    figures, output = run_on(tmp_path / "run", table_dir, test_file=path, num_train_steps=2, eval_steps=1)
    assert figures["reported"]["on"] == path and figures["reported"]["examples"] == 23
    assert figures["dev_examples"] == 37 and figures["num_evaluations"] == 2
    assert f"{path}: 23 examples" in output and "chose the weights, too" not in output
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert sum("eval_accuracy" in row for row in rows) == 2


def test_reported_examples_that_are_training_examples_are_counted(table_dir, tmp_path):
    _, output = run_on(tmp_path / "run", table_dir, test_file=f"{table_dir}/train.tsv", num_train_steps=1)
    assert "; 92 of the examples are training examples, too" in output
    _, output = run_on(tmp_path / "dev", table_dir, test_file=f"{table_dir}/dev.tsv", num_train_steps=1)
    assert "; 37 of the examples chose the weights, too" in output


def test_a_missing_test_file_is_named_before_anything_is_trained(table_dir, tmp_path):
    with pytest.raises(UserError, match="nowhere.tsv: there is no such file"):
        run_on(tmp_path / "run", table_dir, test_file="nowhere.tsv", num_train_steps=1)
    assert not (tmp_path / "run").exists()

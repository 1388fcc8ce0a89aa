"""Short training runs of the kinds of tasks that the other tests only read, featurize and score."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

from keras_bert_app.config.bert_config import PARTS
from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.interop import load
from keras_bert_app.modeling.task_head import Head
from keras_bert_app.modeling.task_model import BertTaskModel
from keras_bert_app.runs import checkpoints
from keras_bert_app.tasks import registry, transfer
from keras_bert_app.tasks.labelled_data import load_data
from keras_bert_app.tasks.scoring import Ensemble, FinetunedRun
from pipelines.wordpiece.tokenizer import BertTokenizer
from tests.tasks.conftest import BAD, CONFIG, FILLERS, GOOD, SETTINGS, VOCABULARY, launched, run_on
from tests.tasks.texts import written

_MNLI = ("index", "sentence1", "sentence2", "gold_label")
_LABELS = ("contradiction", "entailment", "neutral")


def texts_of(count, seed):
    """A list of texts with 2 to 18 words."""
    generator = np.random.default_rng(seed)
    return [" ".join(generator.choice([*FILLERS, *GOOD, *BAD], generator.integers(2, 19))) for _ in range(count)]


def table(columns, rows):
    return "".join("\t".join(map(str, row)) + "\n" for row in (columns, *rows))


def nli(count, seed):
    texts = texts_of(2 * count, seed)
    return table(
        _MNLI, [(number, texts[2 * number], texts[2 * number + 1], _LABELS[number % 3]) for number in range(count)]
    )


@pytest.fixture
def nli_dir(tmp_path):
    (directory := tmp_path / "nli").mkdir()
    for name, count, seed in (("train", 23, 1), ("dev_matched", 7, 2), ("dev_mismatched", 13, 3)):
        written(directory, f"{name}.tsv", nli(count, seed))
    return directory


def test_additional_dev_files_are_scored_with_the_best_weights(nli_dir, tmp_path):
    matched = (nli_dir / "dev_matched.tsv").read_text(encoding="utf-8").splitlines(keepends=True)[1:]
    with open(nli_dir / "dev_mismatched.tsv", "a", encoding="utf-8") as file:
        file.writelines(matched)  # half of these choose the weights
    figures, output = run_on(tmp_path / "run", str(nli_dir), task="mnli", num_train_steps=2)
    path = str(nli_dir / "dev_mismatched.tsv")
    scores, examples, notes, _ = FinetunedRun(str(tmp_path / "run")).evaluate(path, 0, "dev_mismatched", True)
    assert len(examples) == 13 + figures["reported"]["examples"]
    assert notes[0] == f"{figures['dev_examples']} further ones chose the weights"
    assert figures["dev_mismatched"] == pytest.approx(scores, abs=1e-6)
    assert f"dev_mismatched: accuracy {scores['accuracy']:.4f}" in output


def test_a_fault_in_an_additional_dev_file_is_reported_before_training(nli_dir, tmp_path):
    written(nli_dir, "dev_mismatched.tsv", nli(3, 3) + "9\ta\tb\n")
    with pytest.raises(UserError, match=r"dev_mismatched\.tsv:5: has 3 fields; expected 4"):
        run_on(tmp_path / "run", str(nli_dir), task="mnli", num_train_steps=2)
    written(nli_dir, "dev_mismatched.tsv", nli(3, 3).replace("neutral", "perhaps"))
    with pytest.raises(UserError, match=r"dev_mismatched\.tsv:4: .*'perhaps'"):
        run_on(tmp_path / "run", str(nli_dir), task="mnli", num_train_steps=2)
    assert not (tmp_path / "run").exists()


def questions(count, seed):
    """A SQuAD 2.0 file. The answer is the first word of GOOD; every third question has no answer."""
    paragraphs = []
    for number, text in enumerate(texts_of(count, seed)):
        good_word = re.search("|".join(GOOD), text) if number % 3 else None
        answers = [{"text": good_word[0], "answer_start": good_word.start()}] if good_word else []
        paragraphs.append(
            {
                "context": text,
                "qas": [{"id": str(number), "question": "the day", "answers": answers, "is_impossible": not answers}],
            }
        )
    return json.dumps({"version": "v2.0", "data": [{"title": "t", "paragraphs": paragraphs}]})


def test_a_run_of_squad_2_reports_the_scores_of_its_tuned_threshold(tmp_path):
    for name, count, seed in (("train-v2.0.json", 29, 4), ("dev-v2.0.json", 17, 5)):
        written(tmp_path, name, questions(count, seed))
    figures, output = run_on(
        tmp_path / "run", str(tmp_path), task="squad2", max_query_length=5, num_train_steps=1, pooling="cls"
    )
    run = FinetunedRun(str(tmp_path / "run"))
    _, examples, _, predictions = run.evaluate(str(tmp_path / "dev-v2.0.json"))
    scores, *_ = run.evaluate(str(tmp_path / "dev-v2.0.json"), has_chosen=True)
    assert figures["tuned"]["null_score_diff_threshold"] != 0
    assert "tuned on the examples that chose the weights" in output
    assert figures["metric"] == "f1" and figures["reported"]["metrics"] == pytest.approx(scores, abs=1e-6)
    answered = sum(bool(one["text"]) for one in predictions)
    at_zero = sum(one["null_odds"] <= 0 for one in predictions)
    assert answered != at_zero  # otherwise the test could not distinguish the thresholds


@pytest.mark.parametrize(
    "task, column, value_of, settings",
    [
        ("regression", "label", lambda text: 7000 + 250 * len(text.split()), {}),
        (
            "multi_label",
            "fine,grim",
            lambda text: "\t".join(str(int(word in text.split())) for word in ("fine", "grim")),
            {},
        ),
        (
            "classification",
            "label",
            lambda text: "yes" if "the" in text.split() else "no",
            {"long_documents": "hierarchical", "max_seq_length": 9, "doc_stride": 5, "pooling": "mean"},
        ),
    ],
)
def test_a_task_of_each_kind_learns_something_and_answers(tmp_path, task, column, value_of, settings):
    names = column.split(",")
    for name, count, seed in (("train", 97, 6), ("dev", 31, 7)):
        written(
            tmp_path, f"{name}.tsv", table(("text", *names), [(text, value_of(text)) for text in texts_of(count, seed)])
        )
    figures, _ = run_on(
        tmp_path / "run",
        str(tmp_path),
        task=task,
        label_column=column,
        num_train_epochs=8.0,
        eval_steps=52,
        classifier_dropout=0.0,
        **settings,
    )
    assert figures["reported"]["score"] > figures["baseline"]["score"]
    (tmp_path / "some.tsv").write_text("text\nthe fine day\n\n", encoding="utf-8")
    count, names, _ = FinetunedRun(str(tmp_path / "run")).predict(str(tmp_path / "some.tsv"), str(tmp_path / "answers"))
    assert count == 2 and names == ["predictions.tsv", "probabilities.jsonl"]
    if task == "regression":
        ours, trivial = (figures[name]["metrics"]["negative_rmse"] for name in ("reported", "baseline"))
        assert ours > 0.9 * trivial < -500
        _check_units(str(tmp_path / "run"))


def test_seeds_with_other_units_answer_together_in_numbers(tmp_path):
    for name, count, seed in (("train", 97, 6), ("dev", 31, 7)):
        rows = [(text, 7000 + 250 * len(text.split()) ** 2) for text in texts_of(count, seed)]
        written(tmp_path, f"{name}.tsv", table(("text", "label"), rows))
    wanted = {"task": "regression", "data_dir": str(tmp_path), "num_train_steps": 1, "max_train_examples": 9}
    launched(tmp_path / "run", wanted, num_seeds=2, start=(None, False, CONFIG, VOCABULARY))
    together = Ensemble([str(path) for path in sorted((tmp_path / "run").glob("seed-*"))])
    examples = together.task.read_split(str(tmp_path), "dev", together.run)
    alone = [FinetunedRun(directory) for directory in together.directories]
    assert alone[0].model.head.offset != alone[1].model.head.offset
    expected = np.mean([run.logits(examples) for run in alone], axis=0)
    np.testing.assert_allclose(together.logits(examples), expected, rtol=1e-5)


def _check_units(workdir):
    """Checks that other programs load the output layer in plain numbers and that the same task keeps its units."""
    with open(f"{workdir}/config.json", encoding="utf-8") as file:
        head = Head(**json.load(file)["head"])
    trained, _ = checkpoints.read_tensors(checkpoints.best_checkpoints(workdir)[-1])
    weights, _ = load.load_weights(workdir, allow_missing=PARTS[1:])
    assert 8000 < weights.tensors["classifier/bias"][0] < 11_000 and abs(trained["classifier/bias"][0]) < 1
    data = SimpleNamespace(task=registry.find("sts-b"), train=None)
    assert transfer.in_units_of(Head("text", 1), data) == Head("text", 1)
    kept, _ = transfer.keep_output_layer(weights, [], head, registry.find("regression"), ())
    for path in ("classifier/kernel", "classifier/bias"):
        np.testing.assert_allclose(kept.tensors[path], trained[path], atol=2e-6)


def test_multiple_choice_learns_which_ending_has_a_good_word_and_answers(tmp_path):
    """Only the right ending has a word of GOOD. Rows have many lengths; each question is a group of rows."""
    generator = np.random.default_rng(8)

    def row(place):
        endings = [" ".join(generator.choice([*FILLERS, *BAD], generator.integers(1, 9))) for _ in range(4)]
        endings[place] += f" {generator.choice(GOOD)}"
        return "\t".join(["o", "the day was", *endings, str(place)])

    rows = [f"{row(place)}\n" for place in generator.integers(0, 4, 161)]
    for name, part in (("train", rows[:97]), ("dev", rows[97:129]), ("test", rows[129:])):
        written(tmp_path, f"{name}.tsv", "".join(part))
    figures, _ = run_on(
        tmp_path / "run",
        str(tmp_path),
        task="codah",
        pooling="mean",
        num_train_epochs=12.0,
        eval_steps=78,
        learning_rate=5e-3,
        classifier_dropout=0.0,
    )
    assert figures["reported"]["score"] > 0.6 > figures["baseline"]["score"]
    count, *_ = FinetunedRun(str(tmp_path / "run")).predict(str(tmp_path / "test.tsv"), str(tmp_path / "answers"))
    assert count == 32


def test_a_new_output_layer_over_label_sets_begins_with_the_share_of_each_label(tmp_path):
    for task, has_shares in (("multi_label", True), ("classification", False)):
        written(
            tmp_path,
            "train.tsv",
            table(("text", "label"), [("the day", "b"), ("fine", "a"), ("grim", "b"), ("so kind", "b"), ("the", "c")]),
        )
        written(tmp_path, "dev.tsv", table(("text", "label"), [("the day", "a"), ("grim", "b")]))
        run = FinetuningConfig(**{**SETTINGS, "task": task, "data_dir": str(tmp_path), "text_columns": ("text",)})
        data = load_data(run, BertTokenizer(VOCABULARY, True))
        model = BertTaskModel(CONFIG, data.task.family.make_head(data.task, run, data.labels))
        transfer.begin_with_label_shares(model, data)
        bias = model.classifier.bias.numpy()
        np.testing.assert_allclose(
            1 / (1 + np.exp(-bias)), [1.5 / 6, 3.5 / 6, 1.5 / 6] if has_shares else [0.5] * 3, rtol=1e-6
        )


def test_a_run_of_one_table_without_a_header_is_scored_again_on_its_held_out_examples(tmp_path):
    table = tmp_path / "my tickets.csv"
    rows = [f'"{number % 2}","{text}"\n' for number, text in enumerate(texts_of(41, 7))]
    table.write_text("".join(rows), encoding="utf-8")
    settings = dict(text_columns=("1",), label_column="0", dev_fraction=0.2, max_train_examples=16, num_train_steps=2)
    figures, output = run_on(tmp_path / "run", str(table), **settings)
    assert "training: 16 examples" in output and "line 1 was read as an example, and columns have numbers" in output
    num_held_out = figures["dev_examples"] + figures["reported"]["examples"]
    assert f"drawn from {41 - num_held_out} by --seed=3" in output
    run = FinetunedRun(str(tmp_path / "run"))
    path = run.task.path(str(table), "dev", dev_fraction=0.2)
    scores, examples, _, _ = run.evaluate(path, split="dev", has_chosen=True)
    assert len(examples) == figures["reported"]["examples"] and run.run.header == "no"
    assert scores["accuracy"] == pytest.approx(figures["reported"]["score"], abs=1e-6)

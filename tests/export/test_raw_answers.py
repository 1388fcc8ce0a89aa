"""Answers to raw texts, from a run by `predict --text` and from its export by `ask`."""

import json

import numpy as np
import pytest

from keras_bert_app.export import finetuned_export, raw_answers
from keras_bert_app.tasks.families import multiple_choice, question_answering, sequences
from tests.cli.conftest import run  # noqa: F401  fixture
from tests.cli.test_commands import assert_refused
from tests.export.untrained import predictions, untrained
from tests.tasks.conftest import finished, table_dir  # noqa: F401  fixtures

TEXTS = ["the river was cold in spring", "men saw it", "", "men " * 40]


def answers_of(finetuned, inputs, rows):
    """The answers of an untrained model to rows, in the form of raw_answers."""
    serve = finetuned_export._module(finetuned, inputs, 64).exported["serving_default"]
    return [answer for _, answer in raw_answers.answers(serve, rows)]


def lines_of(row, answer):
    assert json.loads(raw_answers.json_line(row, answer)) == {"inputs": row, **answer}
    return list(raw_answers.text_lines(row, answer))


def test_classes_numbers_and_label_sets_are_those_of_predict():
    rows = [{"text": text} for text in TEXTS]
    examples = [sequences.Example(str(n), text, None, None, f"x:{n}") for n, text in enumerate(TEXTS)]
    finetuned = untrained("classification", ("x", "y", "z"))
    expected, answers = predictions(finetuned, examples), answers_of(finetuned, ["text"], rows)
    assert [answer["label"] for answer in answers] == [prediction["label"] for prediction in expected]
    for answer, prediction in zip(answers, expected, strict=True):
        assert list(answer["probabilities"]) == ["x", "y", "z"]
        np.testing.assert_allclose(
            list(answer["probabilities"].values()), list(prediction["probabilities"].values()), atol=1e-5
        )
    first = max(answers[0]["probabilities"], key=answers[0]["probabilities"].get)
    assert lines_of(rows[0], answers[0])[1].startswith(f"  {first} {answers[0]['probability']:.3f}  ")
    assert [answer.get("truncated", False) for answer in answers] == [False, False, False, True]
    assert "a part of it was left out" in lines_of(rows[3], answers[3])[1]
    finetuned = untrained("regression")
    expected, answers = predictions(finetuned, examples), answers_of(finetuned, ["text"], rows)
    np.testing.assert_allclose(
        [answer["value"] for answer in answers], [prediction["value"] for prediction in expected], atol=1e-4
    )
    assert lines_of(rows[0], answers[0]) == [TEXTS[0], f"  {answers[0]['value']:.4f}"]
    finetuned = untrained("multi_label", ("x", "y"))
    expected, answers = predictions(finetuned, examples), answers_of(finetuned, ["text"], rows)
    assert [answer["labels"] for answer in answers] == [prediction["labels"] for prediction in expected]
    assert lines_of(rows[0], answers[0])[1] == f"  labels: {', '.join(answers[0]['labels']) or 'none'}"


def test_the_words_of_a_sentence_have_tags_and_its_entities_have_offsets():
    finetuned = untrained("ner", ("O", "B-PER", "I-PER"))
    text = "O'Neil saw Anna in Paris, 北京."
    (answer,) = answers_of(finetuned, ["text"], [{"text": text}])
    assert answer["words"] == ["O'Neil", "saw", "Anna", "in", "Paris", ",", "北", "京", "."]
    assert len(answer["tags"]) == len(answer["probabilities"]) == 9
    for entity in answer["entities"]:
        assert text[entity["start"] : entity["end"]] == entity["text"] and entity["label"] == "PER"
    lines = lines_of({"text": text}, answer)
    assert lines[1].startswith(f"  O'Neil/{answer['tags'][0]} saw/") and len(lines) == 2 + len(answer["entities"])
    assert answers_of(finetuned, ["text"], [{"text": ""}])[0]["words"] == []


def test_the_answer_to_a_question_is_a_part_of_its_context():
    finetuned = untrained("squad1", max_seq_length=29, max_query_length=6)
    pairs = [("men?", "the river was cold in spring"), ("river?", "anna saw paris")]
    rows = [dict(zip(("question", "context"), pair, strict=True)) for pair in pairs]
    examples = [question_answering.Example(str(n), *pair, None, None, f"x:{n}") for n, pair in enumerate(pairs)]
    answers = answers_of(finetuned, ["question", "context"], rows)
    assert [answer["answer"] for answer in answers] == [each["text"] for each in predictions(finetuned, examples)]
    for row, answer in zip(rows, answers, strict=True):
        assert row["context"][answer["start"] : answer["end"]] == answer["answer"]
        assert lines_of(row, answer)[1] == f"  {answer['answer']} {answer['probability']:.3f}"


def test_the_chosen_answer_is_marked_for_any_number_of_choices():
    finetuned = untrained("swag")
    rows = [{"context": "men saw", "choices": ["the river", "anna", "paris"]}, {"context": "a", "choices": ["b", "it"]}]
    examples = [multiple_choice.Example("0", row["context"], "", tuple(row["choices"]), None, "x:0") for row in rows]
    answers = answers_of(finetuned, ["context", "choices"], rows)
    expected = [predictions(finetuned, [example])[0]["label"] for example in examples]
    assert [answer["choice"] for answer in answers] == expected
    assert [len(answer["probabilities"]) for answer in answers] == [3, 2]
    lines = lines_of(rows[0], answers[0])
    assert lines[0] == "men saw" and [line[2] for line in lines[1:]].index(">") == answers[0]["choice"]
    assert answers[1]["text"] == rows[1]["choices"][answers[1]["choice"]]


@pytest.fixture(scope="module")
def exported(finished, tmp_path_factory):  # noqa: F811
    """(work directory, raw-text export) of the task of the fixture finished."""
    written = tmp_path_factory.mktemp("my exports") / "moods"
    finetuned_export.export_finetuned(finished[0], str(written))
    return finished[0], str(written)


def test_predict_and_ask_answer_raw_texts_as_predict_answers_a_file(run, exported, tmp_path):  # noqa: F811
    workdir, saved_model = exported
    texts = ["the day was warm.", "a very grim day", "北京"]
    (tmp_path / "table.tsv").write_text("sentence\n" + "".join(f"{text}\n" for text in texts))
    (tmp_path / "plain.txt").write_text("".join(f"{text}\n" for text in texts))
    from_file = run(
        "predict", f"--workdir={workdir}", f"--input_file={tmp_path}/table.tsv", f"--output_dir={tmp_path}/from_file"
    )
    assert from_file.returncode == 0, from_file.stderr
    expected = [json.loads(line) for line in (tmp_path / "from_file" / "probabilities.jsonl").read_text().splitlines()]
    shown = run("predict", f"--workdir={workdir}", *(f"--text={text}" for text in texts))
    assert shown.returncode == 0 and shown.stdout.splitlines()[::2] == texts, shown.stderr
    asked = run("ask", f"--saved_model={saved_model}", *texts)
    assert asked.stdout == shown.stdout and asked.returncode == 0, asked.stderr
    flags = (f"--workdir={workdir}", f"--text_file={tmp_path}/plain.txt", f"--output_dir={tmp_path}/answers")
    written = run("predict", *flags)
    assert written.returncode == 0 and written.stdout.startswith(shown.stdout), written.stderr
    answers = [json.loads(line) for line in (tmp_path / "answers" / "answers.jsonl").read_text().splitlines()]
    asked = run("ask", f"--saved_model={saved_model}", f"--text_file={tmp_path}/plain.txt", "--output_format=jsonl")
    assert [json.loads(line) for line in asked.stdout.splitlines()] == answers, asked.stderr
    assert [answer["inputs"]["text"] for answer in answers] == texts
    assert [answer["label"] for answer in answers] == [each["label"] for each in expected]
    for answer, each in zip(answers, expected, strict=True):
        np.testing.assert_allclose(
            list(answer["probabilities"].values()), list(each["probabilities"].values()), atol=2e-6
        )
    assert_refused(run("predict", *flags), "answers.jsonl is there already; --overwrite replaces it")
    assert run("predict", *flags, "--overwrite").returncode == 0


@pytest.mark.parametrize(
    "flags, message",
    [
        ([], "--input_file is missing: a file in the layout of the task; raw texts go into --text or --text_file"),
        (["--text=x", "--input_file=y"], "--input_file and raw texts were both given"),
        (["--text=x", "--text_file=y"], "--text_file and --text were both given"),
        (["--text=x", "--ensemble"], "--ensemble is for --input_file"),
        (["--text_file=/nowhere/x.txt"], "/nowhere/x.txt: cannot be read"),
        (["--text_file=/dev/null"], "/dev/null: has no text, not even an empty line"),
        (["--question=x", "--context=y"], "--text is missing: this model takes --text"),
        (["--text=x", "--text_pair=y"], "--text_pair does not apply: this model takes --text"),
    ],
)
def test_raw_texts_that_do_not_fit_are_refused_in_one_line(run, exported, flags, message):  # noqa: F811
    assert_refused(run("predict", f"--workdir={exported[0]}", *flags), message)


def test_a_plain_text_file_as_input_file_is_refused_with_a_hint_at_text_file(run, exported, tmp_path):  # noqa: F811
    (tmp_path / "plain.txt").write_text("the day was warm\na grim day\n")
    flags = (f"--workdir={exported[0]}", f"--input_file={tmp_path}/plain.txt", f"--output_dir={tmp_path}/out")
    assert_refused(run("predict", *flags), f"{tmp_path}/plain.txt:2: ", "; plain texts go into --text_file")


def test_ask_refuses_an_ids_export_a_missing_text_and_an_unknown_output_format(run, exported):  # noqa: F811
    assert_refused(
        run("ask", f"--saved_model={exported[1]}_ids", "x"), "no answers to raw texts; give the export without _ids"
    )
    assert_refused(run("ask", f"--saved_model={exported[1]}"), "no text was given")
    assert_refused(run("ask", f"--saved_model={exported[1]}", "x", "--output_format=xml"), "table")

"""SQuAD's files: questions, answers, and the error messages about faulty files."""

import json
import os
import pathlib

import pytest

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.tasks import registry

RUN = FinetuningConfig()
CONTEXT = "The  miller\u00a0Otto ground rye and oats in Brücke."
REAL = pathlib.Path(__file__).parents[4] / "shared" / "data" / "tasks" / "squad"


def question(text="Otto", start=12, **changes):
    return {"id": "q1", "question": "Who ground rye?", "answers": [{"text": text, "answer_start": start}], **changes}


@pytest.fixture
def read(tmp_path):
    """A function that writes questions (dicts) to a file and reads them as examples of a task."""

    def read(*questions, task="squad1", has_labels=True, context=CONTEXT):
        path = tmp_path / "questions.json"
        content = {"data": [{"paragraphs": [{"context": context, "qas": list(questions)}]}]}
        path.write_text(json.dumps(content), encoding="utf-8")
        return registry.find(task).read_file(str(path), RUN, has_labels)

    return read


def test_a_question_has_all_its_answers_and_the_place_of_the_first(read):
    answers = [{"text": "oats", "answer_start": 32}, {"text": "rye and oats", "answer_start": 24}]
    (example,) = read(question(answers=answers))
    assert (example.guid, example.question, example.context) == ("q1", "Who ground rye?", CONTEXT)
    assert example.answers == ("oats", "rye and oats") and example.span == (32, 36)
    assert example.place.endswith("questions.json:1: question q1")


def test_an_id_may_be_a_number(read):
    assert read(question(id=57))[0].guid == "57"


@pytest.mark.parametrize(
    "text, start, expected",
    [
        ("miller Otto", 5, "miller\u00a0Otto"),
        ("The miller", 0, "The  miller"),
        (" Otto ", 11, "Otto"),
        ("Ot to", 12, "Otto"),
    ],
)
def test_an_answer_may_differ_in_white_space(read, text, start, expected):
    (example,) = read(question(text, start))
    assert CONTEXT[slice(*example.span)] == expected
    assert example.answers == (text,)


def test_half_of_a_surrogate_pair_becomes_a_question_mark(read):
    (example,) = read(question("x\ud83dy", 1, question="\ude00?"), context="\udfffx\ud83dy")
    assert (example.context, example.question, example.answers) == ("?x?y", "??", ("x?y",)) and example.span == (1, 4)


@pytest.mark.parametrize(
    "text, start, reason",
    [
        ("Otto", 13, r"answer 'Otto' is not at answer_start 13 .* which has 'tto ' there \(it is at 12\)"),
        ("Anna", 12, r"which has 'Otto' there \(it is not in the context\)"),
        ("Otto", -1, "answer_start -1"),
        ("Otto", 500, r"which has '' there"),
        ("otto", 12, "it is not in the context"),
        ("  ", 3, "has an empty answer"),
    ],
)
def test_an_answer_that_is_not_in_its_context_is_refused_by_file_and_question(read, text, start, reason):
    with pytest.raises(UserError, match=rf"questions.json:1: question q1: .*{reason}"):
        read(question(text, start))


def test_each_of_several_answers_must_be_in_the_context(read):
    several = question()
    several["answers"] += [{"text": "miller\u00a0Otto", "answer_start": 5}, {"text": "Anna", "answer_start": 12}]
    with pytest.raises(UserError, match="question q1: answer 'Anna' is not at answer_start 12"):
        read(several)
    del several["answers"][2]
    (example,) = read(several)
    assert example.answers == ("Otto", "miller\u00a0Otto") and example.span == (12, 16)


def test_a_file_without_labels_is_read_for_its_questions_alone(read):
    plain = {"id": "q1", "question": "Who?"}
    for task in ("squad1", "squad2"):
        (example,) = read(plain, task=task, has_labels=False)
        assert example.answers is None and example.span is None
    with pytest.raises(UserError, match="question q1: 'answers' is missing; expected a list"):
        read(plain)


def test_a_question_without_answer_is_for_squad2(read):
    (example,) = read(question(answers=[], is_impossible=True), task="squad2")
    assert example.answers == () and example.span is None
    with pytest.raises(UserError, match="question q1: has no answer; --task=squad2"):
        read(question(answers=[], is_impossible=True))


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"is_impossible": True}, "is_impossible, but has the answer 'Otto'"),
        ({"answers": [], "is_impossible": False}, "has no answer, but is_impossible is false"),
        ({"question": 5}, "'question' is 5; expected a text"),
        ({"answers": [{"text": "Otto", "answer_start": "12"}]}, "'answer_start' is '12'; expected a whole number"),
        ({"answers": ["Otto"]}, "'text' is missing"),
        ({"id": None}, "article 1, paragraph 1: has a question without an id"),
    ],
)
def test_a_question_that_contradicts_itself_or_the_layout_is_refused(read, changes, reason):
    with pytest.raises(UserError, match=reason):
        read(question(**changes), task="squad2")


def test_a_repeated_id_is_refused(read):
    with pytest.raises(UserError, match="question q1: occurs twice"):
        read(question(), question())


@pytest.mark.parametrize("ids", [("a", "b"), (1, -2), ('a "b"', "é")])
def test_a_question_is_named_with_the_line_of_its_id(tmp_path, ids):
    paragraphs = [{"context": 'Who is \n"id": "b" ?', "qas": [{"question": "Who?", "id": one}]} for one in ids]
    path = tmp_path / "questions.json"
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}, indent=1), encoding="utf-8")
    lines = path.read_text(encoding="utf-8").split("\n")
    examples = registry.find("squad1").read_file(str(path), RUN, False)
    for example, one in zip(examples, ids, strict=True):
        (id_line,) = (number for number, line in enumerate(lines, 1) if line.strip() == f'"id": {json.dumps(one)}')
        assert example.place == f"{path}:{id_line}: question {one}"


def test_the_error_about_a_repeated_id_names_the_second_line(tmp_path):
    path = tmp_path / "questions.json"
    item = json.dumps({"question": "Who?", "id": "q"})
    paragraph = f'{{"context": "c", "qas": [\n{item},\n{item}]}}'
    path.write_text(f'{{"data": [{{"paragraphs": [{paragraph}]}}]}}', encoding="utf-8")
    with pytest.raises(UserError, match=r"questions.json:3: question q: occurs twice"):
        registry.find("squad1").read_file(str(path), RUN, False)


@pytest.mark.parametrize(
    "content, reason",
    [
        (b'{"data": [\n{"paragraphs": ]}', ":2: is not JSON"),
        (b"[" * 200_000, ":1: is not JSON"),
        (b"[" + b"1" * 5_000 + b"]", ":1: is not JSON"),
        (b'["data"]', "article 1: 'paragraphs' is missing; expected a list"),
        (b'{"date": []}', "'data' is missing; expected a list"),
        (b'{"data": [{"paragraphs": [{"qas": []}]}]}', "article 1, paragraph 1: 'context' is missing"),
        (b'{"data": "\xff"}', "is not UTF-8"),
        (b'{"data": []}', "holds no example of task squad1"),
    ],
)
def test_a_file_in_another_layout_is_refused(tmp_path, content, reason):
    path = tmp_path / "other.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=reason):
        registry.find("squad1").read_file(str(path), RUN)


def test_files_are_found_by_their_version_whatever_follows_it(tmp_path):
    task = registry.find("squad1")
    for name in ("train-v1.1.first-part.json", "train-v2.0.json", "xquad.en.json", "xquad.zh.json"):
        (tmp_path / name).touch()
    assert os.path.basename(task.path(str(tmp_path), "train")) == "train-v1.1.first-part.json"
    assert os.path.basename(task.path(str(tmp_path), "dev")) == "xquad.en.json"
    assert task.extra_splits(str(tmp_path)) == ["dev_languages"]
    (tmp_path / "train-v1.1.json").touch()
    assert os.path.basename(task.path(str(tmp_path), "train")) == "train-v1.1.json"


def test_the_questions_of_several_languages_are_read_together_and_keep_their_language(tmp_path):
    content = json.dumps({"data": [{"paragraphs": [{"context": CONTEXT, "qas": [question()]}]}]})
    for name in ("de", "zh"):
        (tmp_path / f"xquad.{name}.json").write_text(content, encoding="utf-8")
    examples = registry.find("squad1").read_split(str(tmp_path), "dev_languages", RUN)
    assert [(example.guid, example.group) for example in examples] == [("q1", "de"), ("q1", "zh")]


def test_several_files_that_fit_the_same_pattern_are_refused(tmp_path):
    for name in ("dev-v2.0.a.json", "dev-v2.0.b.json"):
        (tmp_path / name).touch()
    with pytest.raises(UserError, match=r"dev-v2.0.a.json, dev-v2.0.b.json all fit dev-v2.0\*.json"):
        registry.find("squad2").path(str(tmp_path), "dev")


@pytest.mark.skipif(not REAL.is_dir(), reason="../shared/data/tasks/squad is missing")
def test_the_real_files_have_their_known_counts_and_every_first_answer_is_at_its_place():
    counts = {
        "train-v1.1.first-12-articles": ("squad1", 4373, 0),
        "train-v2.0.first-articles": ("squad2", 4719, 348),
        "dev-v2.0.cs224n-half": ("squad2", 6078, 3168),
        **{f"xquad.{name}": ("squad1", 1190, 0) for name in ("en", "de", "es", "zh")},
    }
    for name, (task, count, without) in counts.items():
        examples = registry.find(task).read_file(str(REAL / f"{name}.json"), RUN)
        assert (len(examples), sum(not example.answers for example in examples)) == (count, without)
        assert all(
            example.context[slice(*example.span)] == example.answers[0] for example in examples if example.answers
        )


FLAT = [
    {"id": "q1", "context": CONTEXT, "question": "Who?", "answers": {"text": ["Otto"], "answer_start": [12]}},
    {"id": "q2", "context": CONTEXT, "question": "Why?", "answers": {"text": [], "answer_start": []}},
]


@pytest.mark.parametrize(
    "name, content",
    [
        ("train.json", json.dumps(FLAT)),
        ("train.json", json.dumps({"version": "2", "data": FLAT}, indent=1)),
        ("train.jsonl", "".join(json.dumps(row) + "\n" for row in FLAT)),
        ("train.json", "\n".join(map(json.dumps, FLAT))),
    ],
)
def test_lists_of_questions_in_the_layout_of_hugging_face_are_read(tmp_path, name, content):
    (tmp_path / name).write_text(content, encoding="utf-8")
    answered, unanswered = registry.find("squad2").read_split(str(tmp_path), "train", RUN)
    assert (answered.guid, answered.context, answered.answers, answered.span) == ("q1", CONTEXT, ("Otto",), (12, 16))
    assert unanswered.answers == () and unanswered.span is None
    line = 1 + content.partition('"q2"')[0].count("\n")
    assert unanswered.place == f"{tmp_path / name}:{line}: question q2"


def test_one_line_of_json_is_a_list_of_one_question(tmp_path):
    (tmp_path / "validation.jsonl").write_text(json.dumps(FLAT[0]) + "\n", encoding="utf-8")
    assert len(registry.find("squad1").read_split(str(tmp_path), "dev", RUN)) == 1


@pytest.mark.parametrize(
    "content, message",
    [
        (
            [{**FLAT[0], "answers": {"text": ["Otto"], "answer_start": []}}],
            ":1: question q1: has 1 answers, but 0 answer_start; give one for each answer",
        ),
        ([{**FLAT[0], "answers": {"text": [3], "answer_start": [1]}}], ":1: question q1: 'text' is 3; expected a text"),
        ([{"question": "Who?"}], ": article 1: 'paragraphs' is missing; expected a list, as SQuAD's files have it"),
        ([{**FLAT[0], "id": None}], ": row 1: has a question without an id; give each an id of its own"),
        ([3], ": article 1: 'paragraphs' is missing; expected a list, as SQuAD's files have it"),
    ],
)
def test_a_fault_in_a_list_of_questions_is_named(tmp_path, content, message):
    (tmp_path / "train.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(UserError) as error:
        registry.find("squad1").read_split(str(tmp_path), "train", RUN)
    assert str(error.value).startswith(f"{tmp_path / 'train.json'}{message}")


def test_a_fault_in_json_lines_has_its_line(tmp_path):
    (tmp_path / "train.jsonl").write_text(json.dumps(FLAT[0]) + "\n{nothing}\n", encoding="utf-8")
    with pytest.raises(UserError, match="train.jsonl:2: is not JSON"):
        registry.find("squad1").read_split(str(tmp_path), "train", RUN)

"""SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018), and XQuAD (Artetxe et al. 2020).

The files are SQuAD's own, or lists of questions as Hugging Face's datasets have them: {"id", "context", "question",
"answers": {"text": [...], "answer_start": [...]}}. Such a list is JSON lines, one JSON list, or the value of "data" in
a JSON object.
"""

import json
import os
import re

from keras_bert_app.errors import UserError
from keras_bert_app.tasks.families import question_answering
from keras_bert_app.tasks.families.question_answering import Example
from keras_bert_app.tasks.task import Task

_XQUAD = re.compile(r"xquad\.(\w+)\.json")
# The id of a question in a file. Inside a text, backslashes would precede the quotation marks.
_ID = re.compile(r'"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+)')
_KINDS = {str: "a text", list: "a list", dict: "an object", int: "a whole number"}


def _reader(has_null):
    """A function (path, run, has_labels) that reads SQuAD's JSON.

    Args:
        has_null: bool. Whether questions may have no answer.
    """

    def read(path, run, has_labels):
        language = _XQUAD.fullmatch(os.path.basename(path))
        language = language[1] if language else ""
        examples, seen = [], set()
        for context, question, place in _questions(path):
            guid = _with_whole_characters(str(question["id"]))
            if guid in seen:
                raise UserError(f"{place}: occurs twice; give each question its own id")
            seen.add(guid)
            answers, span = None, None
            if has_labels:
                answers, span = _answers(question, context, place, has_null)
            text = _value(question, "question", str, place)
            examples.append(Example(guid, text, context, answers, span, place, language))
        return examples

    return read


def _questions(path):
    """Yields (context, question as a dict, "file:line: question id") of a file."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
        content = _json_of(text)
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not UTF-8 (byte {error.start}); convert the file") from None
    except (ValueError, RecursionError) as error:
        # Errors about very long numbers and very deep lists have no line and no column.
        column = f", column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise UserError(
            f"{path}:{getattr(error, 'lineno', 1)}: is not JSON ({getattr(error, 'msg', error)}{column}); expected "
            "SQuAD's layout"
        ) from None
    lines = _lines_of_ids(text)
    for place, context, questions in _contexts(path, content):
        for question in questions:
            if not isinstance(question, dict) or type(question.get("id")) not in (str, int):
                raise UserError(f"{place}: has a question without an id; give each an id of its own")
            id_lines = lines.get(question["id"])
            question_place = f"{path}:{id_lines.pop(0)}" if id_lines else path
            yield context, question, f"{question_place}: question {question['id']}"


def _contexts(path, content):
    """Yields (place, context, its questions) of a file's JSON value."""
    is_flat = isinstance(content, dict) and "data" not in content and "context" in content  # JSON lines with one line
    items = content if isinstance(content, list) else [content] if is_flat else _value(content, "data", list, path)
    for number, item in enumerate(items, 1):
        if isinstance(item, dict) and "context" in item and "paragraphs" not in item:
            place = f"{path}: row {number}"
            context = _value(item, "context", str, place)
            yield place, context, [item] if "question" in item else _value(item, "qas", list, place)
            continue
        article_place = f"{path}: article {number}"
        for count, paragraph in enumerate(_value(item, "paragraphs", list, article_place), 1):
            place = f"{article_place}, paragraph {count}"
            yield place, _value(paragraph, "context", str, place), _value(paragraph, "qas", list, place)


def _json_of(text):
    """The JSON value of a text, or the list of the values of its lines.

    Raises:
        ValueError, RecursionError: the text is not JSON.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg != "Extra data":
            raise
    values, start = [], 0
    for line in text.split("\n"):
        if line.strip():
            try:
                values.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise json.JSONDecodeError(error.msg, text, start + error.pos) from None
        start += len(line) + 1
    return values


def _lines_of_ids(text):
    """dict id -> line numbers of this id in a file, in ascending order."""
    line_numbers, line, position = {}, 1, 0
    for match in _ID.finditer(text):
        line += text.count("\n", position, match.start())
        position = match.start()
        line_numbers.setdefault(json.loads(match[1]), []).append(line)
    return line_numbers


def _value(item, key, kind, place):
    if not isinstance(item, dict) or type(item.get(key)) is not kind:
        raise UserError(f"{place}: {key!r} is {_shown(item, key)}; expected {_KINDS[kind]}, as SQuAD's files have it")
    return _with_whole_characters(item[key]) if kind is str else item[key]


def _with_whole_characters(text):
    """The text with ? for each half of a surrogate pair, which UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _shown(item, key):
    return repr(item[key])[:40] if isinstance(item, dict) and key in item else "missing"


def _answers(question, context, place, has_null):
    """(texts of the answers, (start, end) of the first one in the context); ((), None) without an answer."""
    is_impossible = question.get("is_impossible", False)
    answers = question.get("answers")
    answers = _paired(answers, place) if isinstance(answers, dict) else _value(question, "answers", list, place)
    texts = tuple(_value(answer, "text", str, place) for answer in answers)
    if is_impossible and texts:
        raise UserError(f"{place}: is_impossible, but has the answer {texts[0]!r}; remove one of them")
    if not texts and not has_null:
        raise UserError(f"{place}: has no answer; --task=squad2 is for questions without an answer")
    if not texts and question.get("is_impossible") is False:
        raise UserError(f"{place}: has no answer, but is_impossible is false; give an answer, or set it to true")
    spans = [
        _span(context, text, _value(answer, "answer_start", int, place), place)
        for text, answer in zip(texts, answers, strict=True)
    ]
    return texts, spans[0] if spans else None


def _paired(answers, place):
    """The answers in SQuAD's form, from Hugging Face's form of a dict with two lists."""
    texts, starts = _value(answers, "text", list, place), _value(answers, "answer_start", list, place)
    if len(texts) != len(starts):
        raise UserError(f"{place}: has {len(texts)} answers, but {len(starts)} answer_start; give one for each answer")
    return [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]


def _span(context, text, start, place):
    """(start, end) of an answer in its context. The white space may differ."""
    if 0 <= start and context.startswith(text, start) and text.strip():
        return start, start + len(text)
    characters = r"\s*".join(re.escape(character) for character in text if not character.isspace())
    if not characters:
        raise UserError(f"{place}: has an empty answer; a question without an answer has an empty list of answers")
    match = re.compile(rf"\s*({characters})").match(context, start) if start >= 0 else None
    if match:
        return match.span(1)
    text_at_start = context[start : start + len(text)] if 0 <= start < len(context) else ""
    elsewhere = context.find(text)
    hint = f"it is at {elsewhere}" if elsewhere >= 0 else "it is not in the context"
    raise UserError(
        f"{place}: answer {text[:60]!r} is not at answer_start {start} of its context, which has "
        f"{text_at_start[:60]!r} there ({hint}); count Unicode characters from 0"
    )


def _files(version, *dev):
    names = {"train": ("train",), "dev": ("dev", "validation"), "test": ("test",)}
    files = {
        split: (
            f"{split}-{version}.json",
            f"{split}-{version}*.json",
            *(f"{name}{ending}" for name in names[split] for ending in (".json", ".jsonl")),
        )
        for split in names
    }
    return {**files, "dev": (*files["dev"], *dev)}


# From run_squad.py, whose other settings are the defaults of FinetuningConfig. The number of epochs is that of Devlin
# et al. 2018, sections 4.2 and 4.3.
_DEFAULTS = {"max_seq_length": 384, "classifier_dropout": 0.0}
TASKS = (
    Task(
        "squad1",
        "SQuAD 1.1 and XQuAD: which part of a text answers a question",
        question_answering,
        question_answering.QUESTION_ANSWERING,
        _reader(False),
        {**_files("v1.1", "xquad.en.json"), "dev_languages": ("xquad.{all}.json",)},
        ("f1", "exact"),
        defaults=_DEFAULTS,
    ),
    Task(
        "squad2",
        "SQuAD 2.0: which part of a text answers a question, if any does",
        question_answering,
        question_answering.QUESTION_ANSWERING,
        _reader(True),
        _files("v2.0"),
        ("f1", "exact", "has_answer_f1", "has_answer_exact", "no_answer_exact"),
        defaults={**_DEFAULTS, "num_train_epochs": 2.0},
        tune=question_answering.tune,
        reads=("null_score_diff_threshold",),
    ),
)

"""Comparisons for question answering: a baseline, a table of outcomes, and the worst mistakes."""

import re
from collections.abc import Sequence

from keras_bert_app.tasks.families import squad_scores
from keras_bert_app.tasks.families.squad_scores import may_have_no_answer
from keras_bert_app.tasks.task import Task

_EXCERPT = 80  # characters of the text on each side of an answer
_LENGTHS = ((1, "1 word"), (2, "2 words"), (5, "3 to 5"), (10, "6 to 10"))  # words of the right answer
_OUTCOMES, _NO_ANSWER = ("exact", "in part", "another"), "no answer"


def baseline(task: Task, train_examples: Sequence, examples: Sequence, labels: tuple) -> tuple[str, list[dict]]:
    """(description, predictions) of a baseline without a model."""
    if may_have_no_answer(task):
        return "no answer to any question", [{"text": "", "not_null": "", "null_odds": 0.0}] * len(examples)
    return (
        "the longest run of names and numbers in the sentence with the most words of the question",
        [{"text": _names_in_likely_sentence(example)} for example in examples],
    )


def _names_in_likely_sentence(example):
    def words(text):
        return set(re.findall(r"\w+", text.lower()))

    asked = words(example.question)
    sentences = re.split(r"(?<=[.!?])\s+|(?<=[。！？])", example.context)
    likely = max(sentences, key=lambda sentence: len(words(sentence) & asked))
    runs = [[]]
    for word in likely.split():
        if (word[0].isupper() or any(map(str.isdigit, word))) and not words(word) & asked:
            runs[-1].append(word)
        else:
            runs.append([])
    return " ".join(max(runs, key=len)) or likely


def answers(
    task: Task, examples: Sequence, predictions: Sequence[dict], labels: tuple
) -> tuple[list[int], list[int], tuple]:
    """The outcomes of answers by the length of the right answer, for the picture.

    Returns:
        (row of each example, column of each example, (names of the rows, names of the columns)).
    """
    rows, columns = (*(name for _, name in _LENGTHS), "more"), _OUTCOMES
    if may_have_no_answer(task):
        rows, columns = (*rows, _NO_ANSWER), (*columns, _NO_ANSWER)
    gold = [_row_of(example.answers) for example in examples]
    given = [
        columns.index(_outcome(task, example, prediction["text"]))
        for example, prediction in zip(examples, predictions, strict=True)
    ]
    return gold, given, (rows, columns)


def _row_of(answers):
    if not answers:
        return len(_LENGTHS) + 1
    # A Chinese or Japanese character counts as a word.
    count = len(re.findall(r"[\u3040-\u9fff]|[^\s\u3040-\u9fff]+", answers[0]))
    return next((row for row, (most, _) in enumerate(_LENGTHS) if count <= most), len(_LENGTHS))


def _outcome(task, example, text):
    if not text and may_have_no_answer(task):
        return _NO_ANSWER
    is_exact, f1 = squad_scores.best_of_or_none(example.answers, text)
    exact, in_part, another = _OUTCOMES
    return another if not example.answers or not f1 else exact if is_exact else in_part


def mistakes(task: Task, examples: Sequence, predictions: Sequence[dict], most: int) -> list[dict]:
    """At most `most` wrong answers as dicts, sorted by probability times (1 - F1), the highest first."""
    wrong = []
    for example, prediction in zip(examples, predictions, strict=True):
        is_exact, f1 = squad_scores.best_of_or_none(example.answers, prediction["text"])
        if not is_exact:
            wrong.append((prediction["probability"] * (1 - f1), example, prediction, f1))
    wrong.sort(key=lambda entry: -entry[0])
    return [
        {
            "place": example.place,
            "sure": round(prediction["probability"], 4),
            "predicted": prediction["text"] or _NO_ANSWER,
            "right": " | ".join(dict.fromkeys(example.answers)) or _NO_ANSWER,
            "f1": round(f1, 4),
            "text": f"{example.question} | {_excerpt(example, prediction)}",
        }
        for _, example, prediction, f1 in wrong[:most]
    ]


def _excerpt(example, prediction):
    """The context around the right answer, or around the predicted answer if the question has no answer."""
    start, end = example.span or (prediction["start"], prediction["start"] + len(prediction["text"]))
    start, end = max(0, start - _EXCERPT), end + _EXCERPT
    return f"{'…' if start else ''}{example.context[start:end]}{'…' if end < len(example.context) else ''}"

"""What answers to questions are seen beside: a baseline, what became of them, the worst mistakes."""

import re

from keras_bert_app.tasks.families import squad_scores
from keras_bert_app.tasks.families.squad_scores import may_have_no_answer

_EXCERPT = 80  # characters of the text that are shown on each side of an answer
_LENGTHS = ((1, "1 word"), (2, "2 words"), (5, "3 to 5"), (10, "6 to 10"))  # of right answers, in the picture
_OUTCOMES, _NO_ANSWER = ("exact", "in part", "another"), "no answer"


def baseline(task, train_examples, examples, labels):
    """(what it does, predictions) of what needs no model."""
    if may_have_no_answer(task):
        return "never an answer", [{"text": "", "not_null": "", "null_odds": 0.0}] * len(examples)
    return (
        "the longest run of names and numbers in the sentence with most words of the question",
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


def answers(task, examples, predictions, labels):
    """(right ones, given ones, (names of the former, of the latter)) to draw: what became of answers, by length."""
    rows, columns = (*(name for _, name in _LENGTHS), "more"), _OUTCOMES
    if may_have_no_answer(task):
        rows, columns = (*rows, _NO_ANSWER), (*columns, _NO_ANSWER)
    gold = [_row_of(example.answers) for example in examples]
    given = [columns.index(_outcome(task, example, one["text"])) for example, one in zip(examples, predictions)]
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


def mistakes(task, examples, predictions, most):
    """The wrong answers of which the model is most sure, those with few right words first, as dicts for people."""
    found = []
    for example, one in zip(examples, predictions):
        is_exact, f1 = squad_scores.best_of_or_none(example.answers, one["text"])
        if not is_exact:
            found.append((one["probability"] * (1 - f1), example, one, f1))
    found.sort(key=lambda entry: -entry[0])
    return [
        {
            "place": example.place,
            "sure": round(one["probability"], 4),
            "predicted": one["text"] or _NO_ANSWER,
            "right": " | ".join(dict.fromkeys(example.answers)) or _NO_ANSWER,
            "f1": round(f1, 4),
            "text": f"{example.question} | {_excerpt(example, one)}",
        }
        for _, example, one, f1 in found[:most]
    ]


def _excerpt(example, one):
    """The context around the right answer, or where there is none, around the one that was given."""
    start, end = example.span or (one["start"], one["start"] + len(one["text"]))
    start, end = max(0, start - _EXCERPT), end + _EXCERPT
    return f"{'…' if start else ''}{example.context[start:end]}{'…' if end < len(example.context) else ''}"

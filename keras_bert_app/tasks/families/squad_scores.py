"""Scores of answers, equal to those of SQuAD's official evaluation scripts.

The scripts are evaluate-v1.1.py and evaluate-v2.0.py. Scores here are shares, not percent.

evaluate-v1.1.py scores XQuAD in every language. It splits words at white space, so that a Chinese answer counts as one
word and has no partial score.
"""

import collections
import re
import string
from collections.abc import Sequence

import numpy as np

from keras_bert_app.tasks.task import Task

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def may_have_no_answer(task: Task) -> bool:
    """Whether the task has questions without an answer."""
    return "no_answer_exact" in task.metrics


def normalized(text: str) -> str:
    """A text in lower case, without ASCII punctuation, English articles, and repeated white space."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def f1(given: str, right: str) -> float:
    """The F1 of the words that two texts share; 0 if they share none."""
    given, right = (collections.Counter(normalized(text).split()) for text in (given, right))
    num_same = (given & right).total()
    if not num_same:
        return 0.0
    precision, recall = num_same / given.total(), num_same / right.total()
    return 2 * precision * recall / (precision + recall)


def best_of(answers: Sequence[str], given: str) -> tuple[float, float]:
    """(exact match, best F1) of an answer, as evaluate-v1.1.py computes them.

    Args:
        answers: sequence of right answers, at least one.
        given: str. The answer to score.
    """
    return (
        float(any(normalized(answer) == normalized(given) for answer in answers)),
        max(f1(given, answer) for answer in answers),
    )


def best_of_or_none(answers: Sequence[str], given: str) -> tuple[float, float]:
    """(exact match, best F1) of an answer, as evaluate-v2.0.py computes them.

    Args:
        answers: sequence of right answers. If it is empty, "" is the only right answer.
        given: str. The answer to score.
    """
    answers = [answer for answer in answers if normalized(answer)] or [""]
    if normalized(given) and answers != [""]:
        return best_of(answers, given)
    is_same = float(any(normalized(answer) == normalized(given) for answer in answers))
    return is_same, is_same


def scores_1_1(answers: Sequence[Sequence[str]], given: Sequence[str]) -> dict[str, float]:
    """The scores over questions that all have an answer.

    Args:
        answers: The right answers to each question.
        given: The answer given to each question.

    Returns:
        dict of the shares exact and f1.
    """
    scores = np.array([best_of(right, text) for right, text in zip(answers, given, strict=True)], np.float64)
    return {"exact": scores[:, 0].mean(), "f1": scores[:, 1].mean()}


def scores_2_0(
    answers: Sequence[Sequence[str]], given: Sequence[str], not_null: Sequence[str], null_odds: Sequence[float]
) -> dict[str, float]:
    """The scores over questions, some of which have no answer.

    Args:
        answers: The right answers to each question; () for a question without an answer.
        given: The answer given to each question; "" for no answer.
        not_null: For each question, the best answer that is not "".
        null_odds: For each question, the score of no answer minus the score of not_null.

    Returns:
        dict of shares: exact and f1 of the given answers; has_answer_exact and has_answer_f1 over the questions with
        an answer; no_answer_exact, the share of "" over the other questions; best_exact and best_f1 with the best
        threshold for null_odds.
    """
    scores = np.array([best_of_or_none(right, text) for right, text in zip(answers, given, strict=True)], np.float64)
    has_answer = np.array([bool(right) for right in answers])
    figures = {
        name: best_threshold(answers, not_null, null_odds, which)[0]
        for which, name in enumerate(("best_exact", "best_f1"))
    }
    figures |= {"exact": scores[:, 0].mean(), "f1": scores[:, 1].mean()}
    if has_answer.any():
        figures |= {"has_answer_exact": scores[has_answer, 0].mean(), "has_answer_f1": scores[has_answer, 1].mean()}
    if not has_answer.all():
        figures["no_answer_exact"] = scores[~has_answer, 0].mean()
    return figures


def best_threshold(
    answers: Sequence[Sequence[str]], not_null: Sequence[str], null_odds: Sequence[float], which: int
) -> tuple[float, float]:
    """The best threshold for null_odds. Questions with odds above the threshold get no answer.

    The share equals that of find_best_thresh in evaluate-v2.0.py. The threshold is the mean of the odds of two
    neighbouring questions, so that rounding of the odds does not matter; the script returns the lower odds. If it is
    best to answer nothing, the threshold is below all odds; the script then returns 0.

    Args:
        answers: See scores_2_0.
        not_null: See scores_2_0.
        null_odds: See scores_2_0.
        which: int. 0 for the exact match, 1 for F1.

    Returns:
        (best share, its threshold).
    """
    scores = np.array(
        [best_of_or_none(right, text)[which] for right, text in zip(answers, not_null, strict=True)], np.float64
    )
    has_answer = np.array([bool(right) for right in answers])
    changes = np.where(has_answer, scores, [-float(bool(text)) for text in not_null])
    order = np.argsort(null_odds, kind="stable")
    # Entry k is the total score when the k questions with the lowest odds are answered.
    totals = np.cumsum(np.concatenate([[np.sum(~has_answer)], changes[order]]))
    num_answered = int(totals.argmax())
    odds = np.asarray(null_odds, np.float64)[order]
    edges = np.concatenate([[odds[0] - 1.0], (odds[1:] + odds[:-1]) / 2.0, [odds[-1] + 1.0]])
    return totals[num_answered] / len(scores), float(edges[num_answered])

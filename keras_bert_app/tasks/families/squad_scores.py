"""Scores of answers, equal to the scores of SQuAD's official evaluation scripts.

The scripts are evaluate-v1.1.py and evaluate-v2.0.py. They give percent. This module gives shares from 0 to 1.

XQuAD is scored as in evaluate-v1.1.py in every language. The script splits texts into words at white space. A Chinese
answer without spaces therefore counts as one word and has no partial score.
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
    """A text in lower case, without ASCII punctuation, English articles or repeated white space."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def f1(given: str, right: str) -> float:
    """The F1 between the words of two texts; 0 if no word is in both texts."""
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
        answers: sequence of right answers. If no right answer has a word after normalization, "" is the only one.
        given: str. The answer to score.
    """
    answers = [answer for answer in answers if normalized(answer)] or [""]
    if normalized(given) and answers != [""]:
        return best_of(answers, given)
    is_same = float(any(normalized(answer) == normalized(given) for answer in answers))
    return is_same, is_same


def scores_1_1(answers: Sequence[Sequence[str]], given: Sequence[str]) -> dict[str, float]:
    """The mean scores of questions, each of which has an answer.

    Args:
        answers: The right answers to each question.
        given: The answer given to each question.

    Returns:
        dict. exact and f1: the mean scores, from 0 to 1.
    """
    scores = np.array([best_of(right, text) for right, text in zip(answers, given, strict=True)], np.float64)
    return {"exact": scores[:, 0].mean(), "f1": scores[:, 1].mean()}


def scores_2_0(
    answers: Sequence[Sequence[str]], given: Sequence[str], not_null: Sequence[str], null_odds: Sequence[float]
) -> dict[str, float]:
    """The mean scores of questions that may have no answer.

    Args:
        answers: The right answers to each question; () for a question without an answer.
        given: The answer given to each question; "" for no answer.
        not_null: For each question, the best answer that is not "".
        null_odds: For each question, the score of no answer minus the score of not_null.

    Returns:
        dict of scores from 0 to 1:
            exact, f1: the mean scores of the given answers.
            has_answer_exact, has_answer_f1: the same over the questions with an answer, if any.
            no_answer_exact: the same over the questions without an answer, if any.
            best_exact, best_f1: the mean scores with the best threshold for null_odds. Each has its own threshold.
    """
    scores = np.array([best_of_or_none(right, text) for right, text in zip(answers, given, strict=True)], np.float64)
    has_answer = np.array([bool(right) for right in answers])
    figures = {
        name: best_threshold(answers, not_null, null_odds, metric_index)[0]
        for metric_index, name in enumerate(("best_exact", "best_f1"))
    }
    figures |= {"exact": scores[:, 0].mean(), "f1": scores[:, 1].mean()}
    if has_answer.any():
        figures |= {"has_answer_exact": scores[has_answer, 0].mean(), "has_answer_f1": scores[has_answer, 1].mean()}
    if not has_answer.all():
        figures["no_answer_exact"] = scores[~has_answer, 0].mean()
    return figures


def best_threshold(
    answers: Sequence[Sequence[str]], not_null: Sequence[str], null_odds: Sequence[float], metric_index: int
) -> tuple[float, float]:
    """The best threshold for null_odds. Questions with odds above the threshold get no answer.

    The best share equals the one that find_best_thresh of evaluate-v2.0.py finds. There is one exception: if no right
    answer to a question has a word after normalization, the script's share is too low.

    The threshold lies in the middle between the odds of two questions, so that rounding of the odds does not matter.
    The script returns the lower odds of these two questions. If no question should get an answer, the threshold is
    below all odds, and the script returns 0.

    Args:
        answers: See scores_2_0.
        not_null: See scores_2_0.
        null_odds: See scores_2_0.
        metric_index: int. 0 for the exact match, 1 for F1.

    Returns:
        (best share, its threshold).
    """
    scores = np.array(
        [best_of_or_none(right, text)[metric_index] for right, text in zip(answers, not_null, strict=True)], np.float64
    )
    has_answer = np.array([bool(right) for right in answers])
    # An answer adds its score to the total. If the question has no answer, any answer costs 1.
    changes = np.where(has_answer, scores, [-float(bool(text)) for text in not_null])
    order = np.argsort(null_odds, kind="stable")
    # totals[k] is the total score if only the k questions with the lowest odds get an answer.
    totals = np.cumsum(np.concatenate([[np.sum(~has_answer)], changes[order]]))
    num_answered = int(totals.argmax())
    odds = np.asarray(null_odds, np.float64)[order]
    edges = np.concatenate([[odds[0] - 1.0], (odds[1:] + odds[:-1]) / 2.0, [odds[-1] + 1.0]])
    return totals[num_answered] / len(scores), float(edges[num_answered])

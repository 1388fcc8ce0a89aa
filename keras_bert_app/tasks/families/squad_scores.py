"""Scores of answers as SQuAD's official evaluate-v1.1.py and evaluate-v2.0.py give them, as shares instead of percent.

XQuAD is scored by evaluate-v1.1.py in every language: words stand between white space, so that of a Chinese answer no
part counts, only all of it.
"""

import collections
import re
import string

import numpy as np

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def may_have_no_answer(task):
    """Whether questions may have no answer."""
    return "best_f1" in task.metrics


def normalized(text):
    """A text in lower case without ASCII punctuation, English articles and superfluous white space."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def f1(given, right):
    """F1 of the words that two texts share; 0 where they share none."""
    given, right = (collections.Counter(normalized(text).split()) for text in (given, right))
    num_same = (given & right).total()
    if not num_same:
        return 0.0
    precision, recall = num_same / given.total(), num_same / right.total()
    return 2 * precision * recall / (precision + recall)


def best_of(answers, given):
    """(whether it is one of the right answers, best F1 with one of them), as evaluate-v1.1.py has them.

    Args:
        answers: sequence of texts, one or more. given: text.
    """
    return (
        float(any(normalized(answer) == normalized(given) for answer in answers)),
        max(f1(given, answer) for answer in answers),
    )


def best_of_or_none(answers, given):
    """The same as evaluate-v2.0.py has them: a question without answers is answered right by "" alone."""
    answers = [answer for answer in answers if normalized(answer)] or [""]
    if normalized(given) and answers != [""]:
        return best_of(answers, given)
    is_same = float(any(normalized(answer) == normalized(given) for answer in answers))
    return is_same, is_same


def scores_1_1(answers, given):
    """dict of the shares exact and f1 over questions.

    Args:
        answers: of each question a sequence of texts. given: a text for each.
    """
    found = np.array([best_of(right, text) for right, text in zip(answers, given)], np.float64)
    return {"exact": found[:, 0].mean(), "f1": found[:, 1].mean()}


def scores_2_0(answers, given, not_null, null_odds):
    """dict of shares over questions some of which have no answer.

    Args:
        answers: of each question a sequence of texts, () where it has none. given: a text for each, "" for no answer.
        not_null: a text for each, the best answer that is one. null_odds: of each, how much more no answer scored.

    Returns:
        dict: exact and f1 of what was given; the same over questions with an answer (has_answer_exact, has_answer_f1)
        and, of those without, the share of "" (no_answer_exact); best_exact and best_f1 are those with the best
        threshold.
    """
    found = np.array([best_of_or_none(right, text) for right, text in zip(answers, given)], np.float64)
    has_answer = np.array([bool(right) for right in answers])
    figures = {
        name: best_threshold(answers, not_null, null_odds, which)[0]
        for which, name in enumerate(("best_exact", "best_f1"))
    }
    figures |= {"exact": found[:, 0].mean(), "f1": found[:, 1].mean()}
    if has_answer.any():
        figures |= {"has_answer_exact": found[has_answer, 0].mean(), "has_answer_f1": found[has_answer, 1].mean()}
    if not has_answer.all():
        figures["no_answer_exact"] = found[~has_answer, 0].mean()
    return figures


def best_threshold(answers, not_null, null_odds, which):
    """(best share that a threshold gives, that threshold): a question whose null odds are above it is not answered.

    Args:
        answers, not_null, null_odds: as scores_2_0 takes them. which: 0 for exact, 1 for F1.

    Returns:
        The share is find_best_thresh's of evaluate-v2.0.py. The threshold lies between the odds of two questions, where
        that script names the lower ones, so that it divides them however the odds are rounded; it is below all odds
        where it is best to answer nothing, for which that script says 0.
    """
    scores = np.array([best_of_or_none(right, text)[which] for right, text in zip(answers, not_null)], np.float64)
    has_answer = np.array([bool(right) for right in answers])
    changes = np.where(has_answer, scores, [-float(bool(text)) for text in not_null])
    order = np.argsort(null_odds, kind="stable")
    # With the first so many questions answered; none of them, to begin with.
    totals = np.cumsum(np.concatenate([[np.sum(~has_answer)], changes[order]]))
    num_answered = int(totals.argmax())
    odds = np.asarray(null_odds, np.float64)[order]
    edges = np.concatenate([[odds[0] - 1.0], (odds[1:] + odds[:-1]) / 2.0, [odds[-1] + 1.0]])
    return totals[num_answered] / len(scores), float(edges[num_answered])

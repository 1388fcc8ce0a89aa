"""The windows over a text, and the parts of it that a model's logits make the best answers (run_squad.py)."""

import unicodedata

import numpy as np


def windows(num_tokens, room, doc_stride):
    """[(first token, number of tokens)] of the windows over a text; at least one, be it empty."""
    found = [(0, min(num_tokens, room))]
    while sum(found[-1]) < num_tokens:
        start = found[-1][0] + min(room, doc_stride)
        found.append((start, min(room, num_tokens - start)))
    return found


def max_context(parts):
    """Of each window bool [its tokens]: whether it is the one in which the token has most context on its poorer side.

    The window's length decides a little too (0.01 of it), and of equal ones the first is taken.
    """
    num_tokens = sum(parts[-1])
    scores = np.full((len(parts), num_tokens), -np.inf)
    for number, (start, length) in enumerate(parts):
        left = np.arange(length)
        scores[number, start : start + length] = np.minimum(left, left[::-1]) + 0.01 * length
    best = scores.argmax(axis=0)
    return [best[start : start + length] == number for number, (start, length) in enumerate(parts)]


def n_best(context, features, units, logits, run, has_null):
    """The best answers to a question, each text once.

    Args:
        context: text that answers are cut from. features, units: its windows. logits: of each, float64 [its tokens, 2].
        run: FinetuningConfig; read are n_best_size and max_answer_length. has_null: whether "" is among them, always;
            no answer scores what it does in the window where it scores least.

    Returns:
        dict text -> (start and end logit [2], first character or -1), the best first; "" alone where no answer is
        possible, else at least one that is an answer.
    """
    null = min((values[0] for values in logits), key=sum)
    scores, spans = _candidates(features, units, logits, run.n_best_size, run.max_answer_length)
    if not len(scores):  # the best places are all in the question: run_squad.py has no answer then, or fails
        scores, spans = _candidates(features, units, logits, None, run.max_answer_length)
    if has_null:
        scores, spans = np.concatenate([scores, [null]]), np.concatenate([spans, [(-1, -1)]])
    kept = {}
    for at in np.argsort(-scores.sum(axis=1), kind="stable"):
        if len(kept) >= run.n_best_size and any(kept):  # no answer alone is none to measure it by
            break
        kept.setdefault(_cut(context, *spans[at]), (scores[at], int(spans[at, 0])))
    if has_null or not kept:
        kept.setdefault("", (null, -1))
    return kept


def _candidates(features, units, logits, n_best_size, max_answer_length):
    """(start and end logits [N, 2], first character and the one after the last [N, 2]) of the possible answers.

    Args:
        n_best_size: so many of the best first and last tokens of each window are tried; None for all.
    """
    scores, spans = [np.zeros((0, 2))], [np.zeros((0, 2), np.int64)]
    for unit, values in zip(units, logits):
        row = slice(*features.row_splits[unit : unit + 2])
        of_tokens, is_best = features.for_decode["spans"][row], features.for_decode["is_max_context"][row]
        starts, ends = (np.argsort(-values[:, which], kind="stable")[:n_best_size] for which in (0, 1))
        lengths = ends - starts[:, None] + 1
        fits = (lengths > 0) & (lengths <= max_answer_length)
        at_start, at_end = np.nonzero(fits & is_best[starts][:, None] & (of_tokens[ends, 0] >= 0))
        starts, ends = starts[at_start], ends[at_end]
        scores.append(np.stack([values[starts, 0], values[ends, 1]], axis=1))
        spans.append(np.stack([of_tokens[starts, 0], of_tokens[ends, 1]], axis=1))
    return np.concatenate(scores), np.concatenate(spans)


def _cut(context, start, end):
    """The characters from start to end, with the accents that follow; "" for a start of -1."""
    if start < 0:
        return ""
    while end < len(context) and unicodedata.category(context[end]) == "Mn":  # an uncased tokenizer left them out
        end += 1
    return context[start:end]

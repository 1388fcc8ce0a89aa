"""Windows over a text, and the best answers in these windows, as in run_squad.py."""

import unicodedata
from collections.abc import Sequence

import numpy as np

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.tasks.features import Features


def windows(num_tokens: int, room: int, doc_stride: int) -> list[tuple[int, int]]:
    """The windows over a text; an empty text has one empty window.

    Args:
        num_tokens: int. Tokens of the text.
        room: int. Most tokens in a window.
        doc_stride: int. Tokens between the starts of two windows, at most `room`.

    Returns:
        list of (first token, number of tokens).
    """
    parts = [(0, min(num_tokens, room))]
    while sum(parts[-1]) < num_tokens:
        start = parts[-1][0] + min(room, doc_stride)
        parts.append((start, min(room, num_tokens - start)))
    return parts


def max_context(parts: Sequence[tuple[int, int]]) -> list[np.ndarray]:
    """Marks each token in the one window that gives the token the most context.

    The score of a window is the number of tokens on the side with less context, plus 0.01 of the window's length
    (run_squad.py, _check_is_max_context). If two windows have the same score, the first one wins.

    Args:
        parts: The result of windows.

    Returns:
        list of bool arrays [tokens of the window], one for each window.
    """
    num_tokens = sum(parts[-1])
    scores = np.full((len(parts), num_tokens), -np.inf)
    for number, (start, length) in enumerate(parts):
        left = np.arange(length)
        scores[number, start : start + length] = np.minimum(left, left[::-1]) + 0.01 * length
    best = scores.argmax(axis=0)
    return [best[start : start + length] == number for number, (start, length) in enumerate(parts)]


def n_best(
    context: str,
    features: Features,
    units: Sequence[int],
    logits: Sequence[np.ndarray],
    run: FinetuningConfig,
    has_null: bool,
) -> dict[str, tuple[np.ndarray, int]]:
    """The best answers to a question, each text once.

    Args:
        context: str. The text that answers are cut from.
        features: Features.
        units: The numbers of the windows of this question.
        logits: float64 [tokens of the row, 2] for each window.
        run: FinetuningConfig. The function reads n_best_size and max_answer_length.
        has_null: bool. Whether "" (no answer) is always among the answers. The score of "" is its lowest score over
            the windows.

    Returns:
        dict text -> (start and end logit [2], first character or -1), the best first. The dict has at least one text
        other than "". If no answer is possible, the dict has only "".
    """
    null = min((values[0] for values in logits), key=sum)
    scores, spans = _candidates(features, units, logits, run.n_best_size, run.max_answer_length)
    if not len(scores):  # no pair of best places is an answer; run_squad.py then has no answer or fails
        scores, spans = _candidates(features, units, logits, None, run.max_answer_length)
    if has_null:
        scores, spans = np.concatenate([scores, [null]]), np.concatenate([spans, [(-1, -1)]])
    kept = {}
    for candidate in np.argsort(-scores.sum(axis=1), kind="stable"):
        if len(kept) >= run.n_best_size and any(kept):  # keep one real answer to compare with no answer
            break
        kept.setdefault(_cut(context, *spans[candidate]), (scores[candidate], int(spans[candidate, 0])))
    if has_null or not kept:
        kept.setdefault("", (null, -1))
    return kept


def _candidates(features, units, logits, n_best_size, max_answer_length):
    """(start and end logits [N, 2], (first character, one after the last) [N, 2]) of answers.

    Args:
        n_best_size: Number of the best first tokens, and last tokens, to try in each window; None for all.
    """
    scores, spans = [np.zeros((0, 2))], [np.zeros((0, 2), np.int64)]
    for unit, values in zip(units, logits, strict=True):
        row = slice(*features.row_splits[unit : unit + 2])
        token_spans, is_best = features.for_decode["spans"][row], features.for_decode["is_max_context"][row]
        starts, ends = (np.argsort(-values[:, end], kind="stable")[:n_best_size] for end in (0, 1))
        lengths = ends - starts[:, None] + 1
        fits = (lengths > 0) & (lengths <= max_answer_length)
        start_numbers, end_numbers = np.nonzero(fits & is_best[starts][:, None] & (token_spans[ends, 0] >= 0))
        starts, ends = starts[start_numbers], ends[end_numbers]
        scores.append(np.stack([values[starts, 0], values[ends, 1]], axis=1))
        spans.append(np.stack([token_spans[starts, 0], token_spans[ends, 1]], axis=1))
    return np.concatenate(scores), np.concatenate(spans)


def _cut(context, start, end):
    """The characters from start to end, with the accents that follow; "" for a start of -1."""
    if start < 0:
        return ""
    while end < len(context) and unicodedata.category(context[end]) == "Mn":  # an uncased tokenizer drops accents
        end += 1
    return context[start:end]

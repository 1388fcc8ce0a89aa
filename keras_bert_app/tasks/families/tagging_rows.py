"""The rows of sentences for tagging: whole sentences, windows, or sentences in their context."""

from collections.abc import Iterator, Sequence

import numpy as np

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.tasks.features import Features, RowBuilder, piece_ids
from keras_bert_app.tasks.readers import conll

_LENGTH_SHARE = 0.01  # google-research/bert run_squad.py, _check_is_max_context


def make_rows(examples: Sequence[conll.Sentence], tokenizer, run: FinetuningConfig) -> Features:
    """The Features of sentences without labels.

    tagging.featurize describes for_decode["words"]. Each word is tagged once: at its first piece, in the row that gives
    this piece the most context.

    A sentence that is longer than a row becomes overlapping windows of whole words. The windows are run.doc_stride
    pieces apart, but at most half a row, so that each word has context on both sides in at least one window. With
    run.document_context, a sentence that fits into a row also gets the words around it, as many as fit. These words
    come from the document of the sentence, with the same number of pieces on both sides if possible.

    Args:
        examples: list of conll.Sentence.
        tokenizer: A tokenizer of pipelines.wordpiece.
        run: FinetuningConfig.
    """
    # pieces has the P pieces of all words. Word w has the pieces from starts[w] to starts[w + 1].
    pieces, starts = _piece_stream(examples, tokenizer)
    bounds = np.cumsum([0] + [len(example.words) for example in examples])
    documents = _document_bounds(examples, bounds)
    rows = _Rows(tokenizer, pieces)
    room = run.max_seq_length - 2
    step = max(1, min(run.doc_stride, room // 2))
    # For each word: the index of its first piece among the tokens of all rows, minus its index in pieces.
    shifts = np.zeros(len(starts) - 1, np.int64)
    num_long = 0
    for number in range(len(examples)):
        first, last = bounds[number], bounds[number + 1]
        start, end = starts[first], starts[last]
        if end - start > room:
            num_long += 1
            shifts[first:last] = _add_windows(rows, number, starts, first, last, room, step)
            continue
        if run.document_context:
            start, end = _with_context(starts, first, last, documents[number], room)
        shifts[first:last] = rows.add(number, start, end)
    notes = (
        [
            f"{num_long:,} of {len(examples):,} sentences are longer than {run.max_seq_length} tokens and become "
            f"windows {step} tokens apart"
        ]
        if num_long
        else []
    )
    # [T]
    words, has_piece = np.full(rows.num_tokens, -1, np.int32), np.flatnonzero(np.diff(starts))
    words[starts[has_piece] + shifts[has_piece]] = has_piece
    features = rows.builder.features(rows.units, notes=notes, for_decode={"words": words})
    features.for_decode["continued_words"] = _continued_words(features, words, np.diff(starts))
    return features


def _continued_words(features, words, lengths):
    """int32 [T]: the number of the word whose first piece is earlier in the row, or -1.

    Args:
        features: Features.
        words: int32 [T]. The number of the word at its first piece, or -1.
        lengths: int [W]. The number of pieces of each word.
    """
    continued, firsts = np.full(len(words), -1, np.int32), np.flatnonzero(words >= 0)
    # The end of each row, without [SEP]. A word of more pieces than a row has lost its last ones.
    ends = features.row_splits[1:] - 1
    ends = ends[np.searchsorted(features.row_splits, firsts, side="right") - 1]
    counts = np.minimum(lengths[words[firsts]], ends - firsts) - 1
    offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    continued[np.repeat(firsts, counts) + 1 + offsets] = np.repeat(words[firsts], counts)
    return continued


class _Rows:
    """Collects rows of consecutive pieces and counts their tokens."""

    def __init__(self, tokenizer, pieces):
        self.builder, self.pieces, self.units, self.num_tokens = RowBuilder(tokenizer), pieces, [], 0

    def add(self, unit: int, start: int, end: int) -> int:
        """Adds a row [CLS] pieces[start:end] [SEP].

        Returns:
            The index of a piece among the tokens of all rows, minus its index in pieces.
        """
        self.builder.add(self.pieces[start:end])
        self.units.append(unit)
        shift = self.num_tokens + 1 - start
        self.num_tokens += end - start + 2
        return shift


def _add_windows(rows, number, starts, first, last, room, step):
    """Adds the windows of a long sentence.

    Returns:
        int64 [words]. The shift of each word in the window that gives it the most context.
    """
    shifts, most = np.zeros(last - first, np.int64), np.full(last - first, -1.0)
    for window_first, window_last in _windows(starts, first, last, room, step):
        start = starts[window_first]
        end = min(starts[window_last], start + room)
        shift, first_pieces = rows.add(number, start, end), starts[window_first:window_last]
        context = np.minimum(first_pieces - start, end - 1 - first_pieces) + _LENGTH_SHARE * (end - start)
        window = slice(window_first - first, window_last - first)
        is_better = context > most[window]
        most[window][is_better] = context[is_better]
        shifts[window][is_better] = shift
    return shifts


def _piece_stream(examples, tokenizer):
    """(pieces int32 [P], starts int64 [W + 1]) of all words; each distinct word is tokenized once."""
    numbers = {}
    words = np.array([numbers.setdefault(word, len(numbers)) for example in examples for word in example.words])
    pieces = piece_ids(tokenizer, list(numbers))
    lengths = np.array([len(word) for word in pieces], np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths[words])])
    # The index of each piece among the pieces of the distinct words, minus its index in the result.
    offsets = np.repeat((np.cumsum(lengths) - lengths)[words] - starts[:-1], lengths[words])
    return np.concatenate(pieces)[np.arange(starts[-1]) + offsets], starts


def _document_bounds(examples, bounds):
    """For each sentence: (first word of its document, word after the last word of its document)."""
    documents = [(example.path, example.document) for example in examples]
    changes = [number for number in range(1, len(documents)) if documents[number] != documents[number - 1]]
    edges = np.array([0, *changes, len(documents)])
    next_edges = np.searchsorted(edges, np.arange(len(documents)), side="right")
    return list(zip(bounds[edges[next_edges - 1]], bounds[edges[next_edges]], strict=True))


def _windows(starts, first, last, room, step) -> Iterator[tuple[int, int]]:
    """Yields (first word, word after the last) of windows. A word that is longer than a row has its own window."""
    while True:
        fits = np.searchsorted(starts, starts[first] + room, side="right") - 1
        end = min(max(fits, first + 1), last)
        yield first, end
        if end == last:
            return
        first = min(max(np.searchsorted(starts, starts[first] + step), first + 1), end)


def _with_context(starts, first, last, document, room):
    """(first piece, piece after the last) of a sentence with whole words around it in the document."""
    spare = room - (starts[last] - starts[first])
    before, after = starts[first] - starts[document[0]], starts[document[1]] - starts[last]
    left = min(before, max(spare // 2, spare - after))
    right = min(after, spare - left)
    return (
        starts[np.searchsorted(starts, starts[first] - left)],
        starts[np.searchsorted(starts, starts[last] + right, side="right") - 1],
    )

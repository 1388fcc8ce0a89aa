"""The rows of sentences whose words are tagged: whole, in windows, or among their neighbours."""

import numpy as np

from keras_bert_app.tasks.features import RowBuilder, piece_ids

_LENGTH_SHARE = 0.01  # google-research/bert run_squad.py, _check_is_max_context


def make_rows(examples, tokenizer, run):
    """Features of sentences, without labels, with for_decode["words"] as tagging.featurize has it.

    Each word is tagged at its first piece, once, in the row where that has most context.

    A sentence that is longer than a row goes in overlapping windows of whole words, run.doc_stride pieces apart, but
    half a row at most: so each word has context on either side in one of them. With run.document_context others have
    as many of the words around them in the document as fit, equally many pieces on both sides where there are.

    Args:
        examples: list of conll.Sentence. run: FinetuningConfig.
    """
    # All pieces of all words, one after the other: P of them; word w has those from starts[w] to starts[w + 1].
    pieces, starts = _piece_stream(examples, tokenizer)
    bounds = np.cumsum([0] + [len(example.words) for example in examples])
    documents = _document_bounds(examples, bounds)
    builder, units = RowBuilder(tokenizer), []
    room = run.max_seq_length - 2
    step = max(1, min(run.doc_stride, room // 2))
    # What to add to a piece's number for its place among the tokens of the rows: [CLS] and [SEP] come in.
    shifts = np.zeros(len(starts) - 1, np.int64)
    num_tokens, num_long = 0, 0

    def add(unit, start, end):
        nonlocal num_tokens
        builder.add(pieces[start:end])
        units.append(unit)
        shift = num_tokens + 1 - start
        num_tokens += end - start + 2
        return shift

    for number in range(len(examples)):
        first, last = bounds[number], bounds[number + 1]
        start, end = starts[first], starts[last]
        if end - start <= room:
            if run.document_context:
                start, end = _with_context(starts, first, last, documents[number], room)
            shifts[first:last] = add(number, start, end)
            continue
        num_long += 1
        most = np.full(last - first, -1.0)
        for window_first, window_last in _windows(starts, first, last, room, step):
            start = starts[window_first]
            end = min(starts[window_last], start + room)
            shift, own = add(number, start, end), starts[window_first:window_last]
            context = np.minimum(own - start, end - 1 - own) + _LENGTH_SHARE * (end - start)
            here = slice(window_first - first, window_last - first)
            is_better = context > most[here]
            most[here][is_better] = context[is_better]
            shifts[window_first:window_last][is_better] = shift
    notes = (
        [
            f"{num_long:,} of {len(examples):,} sentences are longer than {run.max_seq_length} tokens; they go in "
            f"windows {step} tokens apart"
        ]
        if num_long
        else []
    )
    # [T]
    words, has_piece = np.full(num_tokens, -1, np.int32), np.flatnonzero(np.diff(starts))
    words[starts[has_piece] + shifts[has_piece]] = has_piece
    return builder.features(units, notes=notes, for_decode={"words": words})


def _piece_stream(examples, tokenizer):
    """(pieces int32 [P], starts int64 [W + 1]) of all words; each different word is cut into pieces once."""
    numbers = {}
    words = np.array([numbers.setdefault(word, len(numbers)) for example in examples for word in example.words])
    pieces = piece_ids(tokenizer, list(numbers))
    lengths = np.array([len(word) for word in pieces], np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths[words])])
    # Where the pieces of each word stand among those of the different words.
    offsets = np.repeat((np.cumsum(lengths) - lengths)[words] - starts[:-1], lengths[words])
    return np.concatenate(pieces)[np.arange(starts[-1]) + offsets], starts


def _document_bounds(examples, bounds):
    """For each sentence the first word of its document, and the word after its last."""
    documents = [(example.path, example.document) for example in examples]
    changes = [at for at in range(1, len(documents)) if documents[at] != documents[at - 1]]
    edges = np.array([0, *changes, len(documents)])
    of_sentence = np.searchsorted(edges, np.arange(len(documents)), side="right")
    return list(zip(bounds[edges[of_sentence - 1]], bounds[edges[of_sentence]]))


def _windows(starts, first, last, room, step):
    """Yields (first word, word after the last) of a sentence's windows; one that is longer than a row has its own."""
    while True:
        fits = np.searchsorted(starts, starts[first] + room, side="right") - 1
        end = min(max(fits, first + 1), last)
        yield first, end
        if end == last:
            return
        first = min(max(np.searchsorted(starts, starts[first] + step), first + 1), end)


def _with_context(starts, first, last, document, room):
    """(first piece, piece after the last) of a sentence and of whole words around it in the document."""
    spare = room - (starts[last] - starts[first])
    before, after = starts[first] - starts[document[0]], starts[document[1]] - starts[last]
    left = min(before, max(spare // 2, spare - after))
    right = min(after, spare - left)
    return (
        starts[np.searchsorted(starts, starts[first] - left)],
        starts[np.searchsorted(starts, starts[last] + right, side="right") - 1],
    )

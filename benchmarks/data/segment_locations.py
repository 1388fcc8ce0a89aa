"""Finds the places in a corpus from which the segments of pre-training examples come, by the ids of their pieces."""

import typing

import numpy as np

_KEY_LENGTHS = (2, 4, 8, 16, 32)  # the key of a segment has the longest length that fits
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio, as in Fibonacci hashing


class Corpus(typing.NamedTuple):
    """Pieces of all documents, in the order of the shards. M sentences, D documents, T pieces.

    Attributes:
        tokens: int32 array [T]. Ids of the pieces.
        sentence_starts: int array [M + 1]. First piece of each sentence.
        document_starts: int array [D + 1]. First piece of each document.
        shards: int array [D]. Shard of each document.
    """

    tokens: np.ndarray
    sentence_starts: np.ndarray
    document_starts: np.ndarray
    shards: np.ndarray


class Locations(typing.NamedTuple):
    """Places of N segments.

    Attributes:
        start: int array [N]. First piece of the segment in the corpus; the first place if several match.
        is_located: bool array [N]. Whether exactly one place has the segment's key, and all pieces match there.
        is_wrong: bool array [N]. Whether the search proved that the segment is not a run of one document's pieces.
            Always False for a segment of one piece, and for a key that several places have.
    """

    start: np.ndarray
    is_located: np.ndarray
    is_wrong: np.ndarray


def read_corpus(shards: list[str], tokenizer) -> Corpus:
    """Reads text shards. Leaves out sentences without a piece and documents without a sentence.

    Args:
        shards: list of str. Paths of TFRecord files.
        tokenizer: BertTokenizer.
    """
    import tensorflow as tf

    tokens, sentence_lengths, document_lengths, shard_numbers = [], [], [], []
    for number, shard in enumerate(shards):
        for documents in tf.data.TFRecordDataset(shard).batch(4096):
            sentences = tf.strings.split(documents, "\n")
            pieces = tokenizer.tokenize(sentences.flat_values)
            per_document = tf.reduce_sum(sentences.with_flat_values(pieces.row_lengths()), axis=1).numpy()
            tokens.append(pieces.flat_values.numpy())
            sentence_lengths.append(pieces.row_lengths().numpy())
            document_lengths.append(per_document[per_document > 0])
            shard_numbers.append(np.full(len(document_lengths[-1]), number))
    sentence_lengths = np.concatenate(sentence_lengths)
    return Corpus(
        np.concatenate(tokens),
        _starts(sentence_lengths[sentence_lengths > 0]),
        _starts(np.concatenate(document_lengths)),
        np.concatenate(shard_numbers),
    )


def locate(corpus: Corpus, rows: np.ndarray, first: np.ndarray, lengths: np.ndarray) -> Locations:
    """Finds segments in the corpus.

    Args:
        corpus: Corpus.
        rows: int32 array [N, S]. Examples without masks.
        first: int array [N]. First position of the segment in its row.
        lengths: int array [N]. Length of the segment.
    """
    num_rows, seq_length = rows.shape
    start, is_located = np.zeros(num_rows, np.int64), np.zeros(num_rows, bool)
    is_wrong = np.zeros(num_rows, bool)
    level = np.searchsorted(_KEY_LENGTHS, lengths, side="right") - 1
    for number, key_length in enumerate(_KEY_LENGTHS):
        chosen = np.flatnonzero(level == number)
        columns = first[chosen, None] + np.arange(key_length)
        wanted = _keys(rows[chosen[:, None], columns].T)
        keys, places = _index(corpus, key_length)
        low, high = (np.searchsorted(keys, wanted, side=side) for side in ("left", "right"))
        is_wrong[chosen] = low == high
        matching = chosen[low < high]
        start[matching] = places[low[low < high]]
        is_located[chosen] = high == low + 1
    # Keys cover only the first pieces, so compare all pieces of every located segment.
    column = np.arange(seq_length)
    for part in np.array_split(np.flatnonzero(is_located), max(1, num_rows // 8192)):
        inside = column < lengths[part, None]
        in_row = rows[part[:, None], np.minimum(first[part, None] + column, seq_length - 1)]
        in_corpus = corpus.tokens[np.minimum(start[part, None] + column, len(corpus.tokens) - 1)]
        ends = corpus.document_starts[document_at(corpus, start[part]) + 1]
        is_wrong[part] = ((in_row != in_corpus) & inside).any(1) | (start[part] + lengths[part] > ends)
    return Locations(start, is_located & ~is_wrong, is_wrong)


def document_at(corpus: Corpus, places: np.ndarray) -> np.ndarray:
    """The documents of pieces, int array [N].

    Args:
        corpus: Corpus.
        places: int array [N]. Indices of pieces in the corpus.
    """
    return np.searchsorted(corpus.document_starts, places, side="right") - 1


def sentence_at(corpus: Corpus, places: np.ndarray) -> np.ndarray:
    """The sentences of pieces, int array [N].

    Args:
        corpus: Corpus.
        places: int array [N]. Indices of pieces in the corpus.
    """
    return np.searchsorted(corpus.sentence_starts, places, side="right") - 1


def _starts(lengths):
    return np.concatenate([[0], np.cumsum(lengths)])


def _keys(columns):
    """Hashes of n runs of pieces, uint64 [n], from a column [n] for each place in the run."""
    keys = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        keys = (keys + column.astype(np.uint64) + np.uint64(1)) * _FACTOR
        keys ^= keys >> np.uint64(29)
    return keys


def _index(corpus, key_length):
    """(sorted keys, their places in the corpus) of every run of pieces within one document."""
    count = max(0, len(corpus.tokens) - key_length + 1)
    places = np.arange(count)
    ends = np.repeat(corpus.document_starts[1:], np.diff(corpus.document_starts))[:count]
    keys = _keys([corpus.tokens[shift : shift + count] for shift in range(key_length)])
    keys, places = keys[places + key_length <= ends], places[places + key_length <= ends]
    order = np.argsort(keys, kind="stable")
    return keys[order], places[order]

"""The words of a text after BERT's normalization, with their counts, in bounded memory."""

import collections
import dataclasses
import functools
import hashlib
import heapq
from collections.abc import Iterable, Iterator, Sequence

MAX_CHARACTERS_PER_WORD = 200  # as in Google's WordpieceTokenizer; a longer word becomes [UNK]
MAX_DISTINCT_WORDS = 2_000_000  # about 350 MB
_BATCH_BYTES = 1 << 20


@dataclasses.dataclass
class WordCounts:
    """Words and their numbers of occurrences.

    Attributes:
        counts: Counter of word (str) to occurrences. A word over 200 characters is cut to its first 201.
        num_words: occurrences of all words, dropped ones included.
        num_dropped: occurrences of rare words that were dropped to bound memory.
    """

    counts: collections.Counter
    num_words: int = 0
    num_dropped: int = 0


@dataclasses.dataclass
class SampleCounts:
    """The size of a sample and of the whole text; filled while the sample is drawn."""

    documents: int = 0
    bytes: int = 0
    all_documents: int = 0
    all_bytes: int = 0


def split_words(texts, do_lower_case: bool):
    """Splits texts into words, punctuation marks and CJK characters.

    Args:
        texts: string [N].
        do_lower_case: whether to lower-case and strip accents.

    Returns:
        RaggedTensor string [N, (words)]. A word over 200 characters is cut to its first 201, which is also [UNK].
    """
    return _word_splitter(do_lower_case)(texts)


@functools.cache
def _word_splitter(do_lower_case):
    import tensorflow as tf

    from pipelines.wordpiece import normalize

    def split(texts):
        words = tf.strings.split(normalize.space_out(texts, do_lower_case))
        return words.with_flat_values(
            tf.strings.substr(words.flat_values, 0, MAX_CHARACTERS_PER_WORD + 1, unit="UTF8_CHAR")
        )

    return tf.function(split, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)


def count_words(
    text_batches: Iterable, do_lower_case: bool, max_distinct_words: int = MAX_DISTINCT_WORDS
) -> WordCounts:
    """Counts the words of a text; see bounded_counts.

    Args:
        text_batches: iterable of string tensors [n] or lists of strings.
        do_lower_case: whether to lower-case and strip accents.
        max_distinct_words: the most distinct words in memory.

    Returns:
        WordCounts.
    """
    return bounded_counts(word_batches(text_batches, do_lower_case), max_distinct_words)


def bounded_counts(batches: Iterable[list[bytes]], max_distinct_words: int = MAX_DISTINCT_WORDS) -> WordCounts:
    """Counts words in bounded memory.

    If there are more than max_distinct_words distinct words, the function drops rare words. It drops words seen once,
    then words seen at most twice, and so on until half of the room is free. A frequent word loses at most the
    occurrences before it became frequent; num_dropped bounds the loss. The result is the same for the same words in the
    same order.

    Args:
        batches: iterable of lists of words.
        max_distinct_words: the most distinct words in memory.

    Returns:
        WordCounts.
    """
    words, num_words, num_dropped = collections.Counter(), 0, 0
    for batch in batches:
        words.update(batch)
        num_words += len(batch)
        least = 0
        while len(words) > (max_distinct_words // 2 if least else max_distinct_words):
            least += 1
            rare = [word for word, count in words.items() if count <= least]
            num_dropped += sum(words.pop(word) for word in rare)
    return WordCounts(
        collections.Counter({word.decode(): count for word, count in words.items()}), num_words, num_dropped
    )


def word_batches(text_batches: Iterable, do_lower_case: bool) -> Iterator[list[bytes]]:
    """Yields the words of a text in order, some hundred thousand at a time.

    Args:
        text_batches: iterable of string tensors [n] or lists of strings.
        do_lower_case: whether to lower-case and strip accents.

    Yields:
        list of bytes.
    """
    for texts in rebatched(text_batches):
        yield split_words(texts, do_lower_case).flat_values.numpy().tolist()


def rebatched(text_batches: Iterable) -> Iterator:
    """Joins lists of strings into larger batches, which need fewer calls; tensors stay unchanged.

    Args:
        text_batches: iterable of string tensors [n] or lists of strings.

    Yields:
        string tensor or list of strings.
    """
    batch, size = [], 0
    for texts in text_batches:
        if not isinstance(texts, (list, tuple)):
            yield texts
            continue
        batch += texts
        size += sum(map(len, texts))
        if size > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def sample_documents(
    documents: Iterable[Sequence[str]], max_bytes: int, seed: int, counts: SampleCounts
) -> Iterator[list[bytes]]:
    """Draws a sample of the documents of a text.

    The sample has the documents with the smallest hashes of (seed, document number). The same documents and seed give
    the same sample, and a larger sample includes a smaller one. Memory holds the sample only. One document is kept even
    if it alone is larger than max_bytes.

    Args:
        documents: iterable of lists of sentences (str).
        max_bytes: the size of the sample in bytes of UTF-8.
        seed: the seed of the draw.
        counts: SampleCounts, filled here.

    Yields:
        list of sentences (bytes). The documents of the sample in their order.
    """
    heap = []  # (-hash, number, text): the document that is dropped first is on top
    for number, document in enumerate(documents):
        text = "\n".join(document).encode()
        counts.all_documents += 1
        counts.all_bytes += len(text)
        key = int.from_bytes(hashlib.blake2b(f"{seed}:{number}".encode(), digest_size=8).digest(), "big")
        heapq.heappush(heap, (-key, number, text))
        counts.bytes += len(text)
        while counts.bytes > max_bytes and len(heap) > 1:
            counts.bytes -= len(heapq.heappop(heap)[2])
    counts.documents = len(heap)
    for _, text in sorted((number, text) for _, number, text in heap):
        yield text.split(b"\n")

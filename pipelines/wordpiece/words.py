"""The words of a text as BERT's normalization gives them, and how often each stands there, in bounded memory."""

import collections
import dataclasses
import functools
import hashlib
import heapq

MAX_CHARACTERS_PER_WORD = 200  # as in pipelines.wordpiece.tokenizer: a longer word is [UNK]
MAX_DISTINCT_WORDS = 2_000_000  # some 350 MB
_BATCH_BYTES = 1 << 20


@dataclasses.dataclass
class WordCounts:
    """Words and their numbers of occurrences.

    Attributes:
        counts: Counter, word (str) to occurrences. A word over 200 characters stands as its first 201.
        num_words: occurrences of all words, those dropped included.
        num_dropped: occurrences of rare words that were dropped to bound memory.
    """

    counts: collections.Counter
    num_words: int = 0
    num_dropped: int = 0


@dataclasses.dataclass
class SampleCounts:
    """What a sample holds, of how much; filled while it is drawn."""

    documents: int = 0
    bytes: int = 0
    all_documents: int = 0
    all_bytes: int = 0


def split_words(texts, do_lower_case):
    """The words, punctuation marks and CJK characters of texts.

    Args:
        texts: strings [N].

    Returns:
        RaggedTensor string [N, (words)]; of a word over 200 characters only the first 201, [UNK] all the same.
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


def count_words(text_batches, do_lower_case, max_distinct_words=MAX_DISTINCT_WORDS):
    """Counts the words of a text.

    When there are more than max_distinct_words different ones, those seen once so far are dropped, then those seen at
    most twice, and so on until half the room is free. A frequent word loses at most what it had before it became
    frequent; num_dropped bounds the loss. The result is the same for the same text in the same order.

    Args:
        text_batches: iterable of string tensors [n] or lists of strings.

    Returns:
        WordCounts.
    """
    words, num_words, num_dropped = collections.Counter(), 0, 0
    for batch in word_batches(text_batches, do_lower_case):
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


def word_batches(text_batches, do_lower_case):
    """Yields lists of words (bytes), as they stand in the text, some hundred thousand at a time."""
    for texts in _rebatched(text_batches):
        yield split_words(texts, do_lower_case).flat_values.numpy().tolist()


def _rebatched(text_batches):
    """Lists of strings joined into batches that are worth a call; tensors as they are."""
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


def sample_documents(documents, max_bytes, seed, counts):
    """At most so much of a text, drawn by document: those whose hashes of (seed, document number) are the least.

    Stateless: the same documents and seed give the same sample, and a larger sample holds the smaller one. Memory
    holds the sample, never more; one document is kept even if it alone is larger.

    Args:
        documents: iterable of lists of sentences (str). max_bytes: of UTF-8. counts: SampleCounts, filled here.

    Yields:
        lists of sentences (bytes), the documents of the sample in their order.
    """
    heap = []  # (-hash, number, text): the document to give up first is on top
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

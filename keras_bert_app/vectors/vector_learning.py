"""Learns static word vectors with gensim: skip-gram with negative sampling, and fastText's subwords."""

import contextlib
import logging
from collections.abc import Callable, Iterator

import numpy as np
from gensim.models import FastText, Word2Vec
from gensim.models.fasttext import compute_ngrams, ft_ngram_hashes

from keras_bert_app.errors import UserError
from keras_bert_app.vectors.learning_text import LearningText
from keras_bert_app.vectors.static.learning_options import LAST_RATE, LearningOptions
from keras_bert_app.vectors.static.word_vector_files import Subwords, WordVectors

_MOST_BUCKETS = 2_000_000  # fastText's own number
_LOSS_PAIRS = 20_000


def learn(
    text: LearningText,
    options: LearningOptions,
    done: Callable[[int, float], None] = lambda words, work: None,
    report: Callable[[int, float], None] = lambda epoch, loss: None,
) -> WordVectors:
    """Learns the vectors of the words of a text.

    Args:
        text: LearningText.
        options: LearningOptions.
        done: function of the words of a sentence and their work, called before the sentence is trained.
        report: function of the number of finished epochs and the loss. The loss is the mean over a fixed sample of
            pairs of the text, -log s(v u) - sum log s(-v n) (Mikolov et al. 2013, equation 4). Before the training it
            is (1 + negative) log 2.

    Returns:
        WordVectors, the most frequent word first. Words with equal counts have the order of the text.

    Raises:
        UserError: the text has no word, or no word occurs min_count times.
    """
    if not text.counts:
        raise UserError("the text of --input_files or --corpus_dir has no word; give files with text")
    counts = {word: count for word, count in text.counts.most_common() if count >= options.min_count}
    if len(counts) < 2:
        frequent = max(text.counts.values())
        raise UserError(
            f"--min_count={options.min_count}: {len(counts)} of the {len(text.counts):,} different words of the text "
            f"occur so often (the most frequent one {frequent:,} times); expected 2 or more: lower --min_count, or "
            "give more text"
        )
    sentences = text.sentences(done)
    with _quiet_gensim():
        model = _untrained(counts, text, options)
        pairs = _LossPairs(text.sample, model, options)
        report(0, pairs.loss())
        rates = np.linspace(options.learning_rate, LAST_RATE, options.epochs + 1)
        for epoch in range(options.epochs):
            # One call for each epoch, because the loss needs complete vectors. The rates are those of a single call.
            model.train(
                sentences,
                total_examples=text.num_lines,
                total_words=text.num_words,
                epochs=1,
                start_alpha=rates[epoch],
                end_alpha=rates[epoch + 1],
            )
            report(epoch + 1, pairs.loss())
        subwords = _subwords(model, options) if options.method == "fasttext" else None
    return WordVectors(list(model.wv.index_to_key), model.wv.vectors.astype(np.float32), subwords=subwords)


@contextlib.contextmanager
def _quiet_gensim() -> Iterator[None]:
    """Hides gensim's advice about small texts, such as to lower batch_words."""
    logger = logging.getLogger("gensim")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _untrained(counts, text, options):
    """The model of gensim before its first step."""
    arguments = dict(
        vector_size=options.vector_size,
        window=options.window,
        negative=options.negative,
        min_count=options.min_count,
        alpha=options.learning_rate,
        min_alpha=LAST_RATE,
        seed=options.seed,
        workers=options.workers,
        sg=1,
        epochs=options.epochs,
    )
    if options.method == "fasttext":
        shortest, longest = options.subword_lengths
        arguments |= {"min_n": shortest, "max_n": longest, "bucket": _num_buckets(counts, options)}
    model = (FastText if options.method == "fasttext" else Word2Vec)(**arguments)
    model.build_vocab_from_freq(counts, corpus_count=text.num_lines)
    return model


def _num_buckets(counts, options):
    """Rows for the hashes of n-grams: two for each n-gram, which keeps most of them apart."""
    ngrams = set()
    for word in counts:
        ngrams.update(compute_ngrams(word, *options.subword_lengths))
        if 2 * len(ngrams) >= _MOST_BUCKETS:
            return _MOST_BUCKETS
    return max(2 * len(ngrams), 1)


def _subwords(model, options):
    """The Subwords of a trained fastText model: the n-grams of its words, which are the n-grams that were trained."""
    buckets = {}
    for word in model.wv.index_to_key:
        parts = compute_ngrams(word, *options.subword_lengths)
        buckets.update(zip(parts, ft_ngram_hashes(word, *options.subword_lengths, model.wv.bucket), strict=True))
    used = sorted(set(buckets.values()))
    rows = {bucket: row for row, bucket in enumerate(used)}
    ngrams = {part: rows[bucket] for part, bucket in buckets.items()}
    return Subwords(ngrams, model.wv.vectors_ngrams[used].astype(np.float32), options.subword_lengths)


class _LossPairs:
    """A fixed sample of pairs of a word and a word of its context, with negative words for each pair."""

    def __init__(self, sample, model, options):
        generator = np.random.Generator(np.random.Philox(key=options.seed))
        ids, pairs = model.wv.key_to_index, []
        for words in sample:
            rows = [ids[word] for word in words if word in ids]
            for place in generator.permutation(len(rows))[: 1 + _LOSS_PAIRS // max(len(sample), 1)]:
                low, high = max(0, place - options.window), min(len(rows), place + options.window + 1)
                if high - low > 1:
                    other = int(generator.integers(low, high - 1))
                    pairs.append((rows[place], rows[other + (other >= place)]))
        self.model = model
        self.words, self.contexts = np.array(pairs, np.int64).reshape(-1, 2).T
        # Mikolov et al. 2013, section 2.2: negative words are drawn by their counts to the power 3/4.
        shares = np.array([model.wv.get_vecattr(word, "count") for word in model.wv.index_to_key], np.float64) ** 0.75
        self.negatives = generator.choice(len(shares), (len(pairs), options.negative), p=shares / shares.sum())

    def loss(self) -> float:
        """The mean loss of the pairs; NaN without pairs."""
        if not len(self.words):
            return float("nan")
        vectors, outputs = self.model.wv.vectors[self.words], self.model.syn1neg
        right = np.einsum("nd,nd->n", vectors, outputs[self.contexts])
        wrong = np.einsum("nd,nkd->nk", vectors, outputs[self.negatives])
        return float(np.mean(np.logaddexp(0, -right) + np.logaddexp(0, wrong).sum(axis=1)))

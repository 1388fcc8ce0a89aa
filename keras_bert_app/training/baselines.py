"""Baselines that predict held-out text without a model: the most frequent piece, and counts of pieces and of pairs."""

import dataclasses
import functools
from collections.abc import Iterable, Mapping

import numpy as np

_DISCOUNT = 0.75  # Jurafsky and Martin, Speech and Language Processing, section 3.7: the usual value


class MaskedLmBaselines:
    """The most frequent piece, and the more frequent label of pairs.

    Args:
        vocab_size: int. Pieces in the vocabulary.
    """

    def __init__(self, vocab_size: int):
        self._label_counts, self._random_pairs = np.zeros(vocab_size, np.int64), 0

    def add(self, batch: Mapping) -> None:
        """Counts the labels of a batch.

        Args:
            batch: dict of tensors [B, ...].
        """
        is_label = batch["masked_lm_weights"].numpy() > 0
        labels = batch["masked_lm_ids"].numpy()[is_label]
        self._label_counts += np.bincount(labels, minlength=len(self._label_counts))
        self._random_pairs += int((batch["next_sentence_labels"] * batch["input_mask"][:, 0]).numpy().sum())

    def figures(self, sums: Mapping[str, float]) -> dict[str, float]:
        """The figures of all batches.

        Args:
            sums: dict with the sums of the objective.

        Returns:
            dict with eval_unigram_accuracy, the accuracy of always predicting the piece that is most frequent among the
            labels themselves (no unigram model does better), and the number of predictions. With pairs also
            eval_majority_share, the accuracy of always predicting the more frequent label, and the number of pairs.
        """
        figures = {
            "eval_unigram_accuracy": float(self._label_counts.max() / max(self._label_counts.sum(), 1)),
            "eval_masked_lm_count": sums["masked_lm_count"],
        }
        if pairs := sums["next_sentence_count"]:
            figures["eval_majority_share"] = max(self._random_pairs, pairs - self._random_pairs) / pairs
            figures["eval_next_sentence_count"] = pairs
        return figures


@dataclasses.dataclass(frozen=True)
class NgramCounts:
    """How often pieces, and pairs of pieces, occur in a text.

    Attributes:
        unigrams: int64 [V]. The number of each piece.
        pairs: int64 [N]. The pairs that occur, in increasing order: V * (first piece) + second piece.
        pair_counts: int64 [N]. The number of each pair.
    """

    unigrams: np.ndarray
    pairs: np.ndarray
    pair_counts: np.ndarray

    @classmethod
    def of_rows(cls, rows: Iterable[tuple[np.ndarray, np.ndarray]], vocab_size: int) -> "NgramCounts":
        """Counts the pieces of rows, without the first place of each row.

        Args:
            rows: (ids, mask), int [B, S] each.
            vocab_size: int. V.
        """
        unigrams, pairs = np.zeros(vocab_size, np.int64), []
        for ids, mask in rows:
            first, second = _neighbours(ids, mask)
            unigrams += np.bincount(second, minlength=vocab_size)
            pairs.append(first * vocab_size + second)
        return cls(unigrams, *np.unique(np.concatenate([np.zeros(0, np.int64), *pairs]), return_counts=True))

    def log_probabilities(self, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Computes the logarithms of the probabilities of pieces.

        A unigram has one more than its count. A bigram has its count less 0.75, and the rest of the probability goes to
        the unigrams (absolute discounting, Ney et al. 1994).

        Args:
            first: int [n]. The piece before.
            second: int [n]. The piece.

        Returns:
            (log probability of the unigrams, of the bigrams), float64 [n] each.
        """
        vocab_size = len(self.unigrams)
        unigram = (self.unigrams + 1.0)[second] / (self.unigrams.sum() + vocab_size)
        totals, kinds = (values[first] for values in self._followers)
        wanted = first.astype(np.int64) * vocab_size + second
        places = np.minimum(np.searchsorted(self.pairs, wanted), max(len(self.pairs) - 1, 0))
        is_known = self.pairs[places] == wanted if len(self.pairs) else np.zeros(len(wanted), bool)
        counts = np.where(is_known, self.pair_counts[places] if len(self.pairs) else 0, 0)
        seen = np.maximum(totals, 1.0)
        bigram = np.maximum(counts - _DISCOUNT, 0.0) / seen + _DISCOUNT * kinds / seen * unigram
        return np.log(unigram), np.log(np.where(totals > 0, bigram, unigram))

    @functools.cached_property
    def _followers(self):
        """(number of pieces after each piece, number of kinds of them), [V] each."""
        vocab_size = len(self.unigrams)
        histories = self.pairs // vocab_size
        totals = np.bincount(histories, weights=self.pair_counts, minlength=vocab_size)
        return totals, np.bincount(histories, minlength=vocab_size)


class NgramBaselines:
    """The perplexity of unigrams and bigrams that were counted in the training text.

    Args:
        counts: NgramCounts of the training text, or None for no baseline.
    """

    def __init__(self, counts: NgramCounts | None):
        self._counts, self._sums = counts, np.zeros(2)

    def add(self, batch: Mapping) -> None:
        """Adds the log probabilities of a batch.

        Args:
            batch: dict of tensors [B, ...].
        """
        if self._counts is not None:
            pieces = _neighbours(batch["input_word_ids"].numpy(), batch["input_mask"].numpy())
            self._sums += [each.sum() for each in self._counts.log_probabilities(*pieces)]

    def figures(self, sums: Mapping[str, float]) -> dict[str, float]:
        """The figures of all batches.

        Args:
            sums: dict with the sums of the objective.

        Returns:
            dict with eval_language_model_count, the number of predictions, and the perplexities
            eval_unigram_perplexity and eval_bigram_perplexity.
        """
        count = sums["language_model_count"]
        figures = {"eval_language_model_count": count}
        if self._counts is not None and count:
            names = ("eval_unigram_perplexity", "eval_bigram_perplexity")
            figures |= dict(zip(names, np.exp(-self._sums / count).tolist(), strict=True))
        return figures


def _neighbours(ids, mask):
    """(each piece, the piece after it) of rows, int64 [n] each."""
    is_inside = mask[:, 1:] > 0
    return ids[:, :-1][is_inside].astype(np.int64), ids[:, 1:][is_inside].astype(np.int64)

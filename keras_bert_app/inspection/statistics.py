"""Statistics of pre-training examples.

Dimensions: B rows, S positions, P predictions per row, V vocabulary entries.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.inspection import reading

_MOST_FREQUENT = 20
_ROWS_AT_A_TIME = 4096  # counted in one call, because numpy's calls cost more than their work on one batch
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


class Counter:
    """Counts batches one after the other.

    Args:
        tokenizer: BertTokenizer.
        run: PretrainingConfig, resolved.
        corpora: sequence of str. Names of the corpora. The positions show how many rows come from each of them.
        position: tuple of int. The position before the first batch.
    """

    def __init__(self, tokenizer: Any, run: PretrainingConfig, corpora: Sequence[str], position: tuple):
        self.tokenizer, self.run, self.corpora, self.position = tokenizer, run, list(corpora), position
        seq_length, vocab_size = run.max_seq_length, tokenizer.vocab_size
        self.is_word_start = np.array([not piece.startswith("##") for piece in tokenizer.vocabulary])
        self.pending, self.pending_rows = [], 0
        self.num_batches = self.num_blocks = self.unlabelled_masks = self.cut_words = self.words = 0
        self.num_places = self.num_full_rows = 0
        self.labels = np.zeros(2, np.int64)
        self.kinds = np.zeros(len(reading.KINDS), np.int64)
        self.lengths, self.a_lengths, self.b_lengths, self.run_lengths, self.tokens_at, self.predicted_at = np.zeros(
            [6, seq_length + 1], np.int64
        )
        self.predictions = np.zeros(run.max_predictions_per_seq + 1, np.int64)
        self.pieces, self.label_pieces = np.zeros([2, vocab_size], np.int64)
        self.corpus_rows = np.zeros(len(self.corpora), np.int64)
        self.started = time.monotonic()
        self.seconds_to_first_batch = self.seconds = 0.0

    def add(self, batch: Mapping[str, np.ndarray], position: tuple) -> None:
        """Counts a batch.

        Args:
            batch: dict of arrays.
            position: tuple of int. The position after the batch.
        """
        self.seconds = time.monotonic() - self.started
        self.seconds_to_first_batch = self.seconds_to_first_batch or self.seconds
        self.num_batches += 1
        rows_of_corpora, num_blocks = rows_by_corpus(self.position, position, len(batch["input_mask"]))
        self.num_blocks += num_blocks
        self.corpus_rows += rows_of_corpora
        self.position = position
        self.num_places += batch["input_mask"].size
        self.num_full_rows += int(batch["input_mask"].all(axis=1).sum())
        self.pending.append(self._widened(batch))
        self.pending_rows += len(batch["input_mask"])
        if self.pending_rows >= _ROWS_AT_A_TIME:
            self._count_pending()

    def _widened(self, batch):
        """Pads a batch with zeros to the full width. The first batches of a length ramp are shorter."""
        widths = {
            name: self.run.max_predictions_per_seq if name.startswith("masked_lm") else self.run.max_seq_length
            for name, values in batch.items()
            if values.ndim == 2
        }
        return {
            name: np.pad(values, [[0, 0], [0, widths[name] - values.shape[1]]]) if name in widths else values
            for name, values in batch.items()
        }

    def _count_pending(self):
        if self.pending:
            self._count({name: np.concatenate([batch[name] for batch in self.pending]) for name in self.pending[0]})
        self.pending, self.pending_rows = [], 0

    def _count(self, batch):
        tokenizer, seq_length = self.tokenizer, self.run.max_seq_length
        ids, is_real = batch["input_word_ids"].copy(), batch["input_mask"] > 0
        lengths, a_lengths, b_lengths = reading.segment_lengths(batch, self.run.sentence_objective != "none")
        for counts, values in (
            (self.lengths, lengths),
            (self.a_lengths, a_lengths),
            (self.b_lengths, b_lengths),
            (self.labels, batch["next_sentence_labels"]),
            (self.predictions, (batch["masked_lm_weights"] > 0).sum(axis=1)),
        ):
            counts += np.bincount(values, minlength=len(counts))
        rows, positions, labels, _, kinds = reading.predictions(batch, tokenizer.mask_id)
        self.kinds += np.bincount(kinds, minlength=len(self.kinds))
        self.label_pieces += np.bincount(labels, minlength=len(self.label_pieces))
        # bool [B, S]: predicted positions. int [B, S]: the text before masking.
        is_predicted = np.zeros(ids.shape, bool)
        is_predicted[rows, positions] = True
        self.unlabelled_masks += int(((ids == tokenizer.mask_id) & ~is_predicted).sum())
        ids[rows, positions] = labels
        is_text = is_real & (ids != tokenizer.cls_id) & (ids != tokenizer.sep_id)
        self.pieces += np.bincount(ids[is_text], minlength=len(self.pieces))
        self.tokens_at[:seq_length] += is_text.sum(axis=0)
        self.predicted_at[:seq_length] += is_predicted.sum(axis=0)
        # With False at both ends of each row, a masked run begins where the difference rises and ends where it falls.
        edges = np.diff(np.pad(is_predicted, [[0, 0], [1, 1]]).astype(np.int8).reshape(-1))
        self.run_lengths += np.bincount(np.flatnonzero(edges < 0) - np.flatnonzero(edges > 0), minlength=seq_length + 1)
        self._count_words(ids, is_text, is_predicted)

    def _count_words(self, ids, is_text, is_predicted):
        """Counts the words with a predicted piece, and those of them that also have a piece without prediction."""
        follows_text = np.pad(is_text[:, :-1], [[0, 0], [1, 0]])
        starts = is_text & (self.is_word_start[ids] | ~follows_text)
        word = np.cumsum(starts)[is_text.reshape(-1)] - 1
        num_words = int(starts.sum())
        sizes = np.bincount(word, minlength=num_words)
        predicted = np.bincount(word, weights=is_predicted[is_text], minlength=num_words)
        self.words += int((predicted > 0).sum())
        self.cut_words += int(((predicted > 0) & (predicted < sizes)).sum())

    def result(self) -> dict:
        """Returns all figures as a dict for JSON."""
        self._count_pending()
        rows, seq_length = int(self.lengths.sum()), self.run.max_seq_length
        tokens = int(self.lengths @ np.arange(seq_length + 1))
        text_pieces, num_predictions = int(self.pieces.sum()), int(self.kinds.sum())
        has_pairs = self.run.sentence_objective != "none"
        corpus_shares = self.corpus_rows / max(1, self.corpus_rows.sum())
        return {
            "batches": self.num_batches,
            "examples": rows,
            "max_seq_length": seq_length,
            "max_predictions_per_seq": self.run.max_predictions_per_seq,
            "sentence_objective": self.run.sentence_objective,
            "masking": self.run.masking,
            "tokens": tokens,
            "padding_share": 1 - tokens / self.num_places,
            "full_row_share": self.num_full_rows / rows,
            "tokens_per_row": distribution(self.lengths),
            "a_length": distribution(self.a_lengths),
            **(
                {"b_length": distribution(self.b_lengths), "random_or_swapped_share": int(self.labels[1]) / rows}
                if has_pairs
                else {}
            ),
            "predictions_per_row": distribution(self.predictions),
            "predicted_share_of_tokens": num_predictions / tokens,
            "label_shares": {
                kind: int(count) / max(1, num_predictions)
                for kind, count in zip(reading.KINDS, self.kinds, strict=True)
            },
            "masked_run_length": distribution(self.run_lengths),
            "predicted_words": self.words,
            "predicted_words_cut_share": self.cut_words / max(1, self.words),
            "masks_without_label": self.unlabelled_masks,
            "unknown_share": int(self.pieces[self.tokenizer.unk_id]) / max(1, text_pieces),
            "predicted_share_by_position": [
                int(predicted) / int(tokens_here) if tokens_here else None
                for predicted, tokens_here in zip(
                    self.predicted_at[:seq_length], self.tokens_at[:seq_length], strict=True
                )
            ],
            "most_frequent_labels": self._most_frequent_labels(num_predictions, text_pieces),
            **(
                {"corpora": dict(zip(self.corpora, corpus_shares.tolist(), strict=True))}
                if len(self.corpora) > 1
                else {}
            ),
            "tokens_per_second": tokens / self.seconds,
            "seconds": self.seconds,
            "seconds_to_first_batch": self.seconds_to_first_batch,
            "blocks_finished": self.num_blocks,
        }

    def _most_frequent_labels(self, num_predictions, text_pieces):
        frequent = np.argsort(-self.label_pieces, kind="stable")[:_MOST_FREQUENT]
        return [
            {
                "piece": self.tokenizer.vocabulary[i],
                "count": int(self.label_pieces[i]),
                "share": int(self.label_pieces[i]) / max(1, num_predictions),
                "share_of_text": int(self.pieces[i]) / max(1, text_pieces),
            }
            for i in frequent.tolist()
            if self.label_pieces[i]
        ]


def distribution(counts: np.ndarray) -> dict:
    """Computes the mean, the quantiles and the counts of a distribution over 0, 1, ...

    Args:
        counts: int [N]. How often each value occurred.

    Returns:
        dict with "mean", "quantiles" and "counts".
    """
    total = int(counts.sum())
    if not total:
        return {"mean": 0.0, "quantiles": {}, "counts": {}}
    places = np.searchsorted(np.cumsum(counts), np.array(_QUANTILES) * total, side="left")
    return {
        "mean": float(counts @ np.arange(len(counts)) / total),
        "quantiles": {str(q): int(place) for q, place in zip(_QUANTILES, places, strict=True)},
        "counts": {str(value): int(counts[value]) for value in np.flatnonzero(counts)},
    }


def rows_by_corpus(before: Sequence[int], after: Sequence[int], num_rows: int) -> tuple[np.ndarray, int]:
    """Counts the rows of each corpus between two positions, and the blocks that ended.

    The offset of a corpus within its block grows by its rows. If one corpus began a new block, it gets the rows that
    the others leave. If several began a new block, the rows are unknown, and the function returns zeros.

    Args:
        before: sequence of int. A position of pipelines.examples.dataset (one corpus) or pipelines.examples.mixing.
        after: sequence of int. A later position.
        num_rows: int. The number of rows between the positions.

    Returns:
        (int [corpora], number of blocks that ended).
    """
    before, after = (np.array(position[-(len(position) // 3) * 3 :]).reshape(-1, 3) for position in (before, after))
    has_new_block = (before[:, :2] != after[:, :2]).any(axis=1)
    rows = np.where(has_new_block, 0, after[:, 2] - before[:, 2])
    if has_new_block.sum() == 1:
        rows[has_new_block] = num_rows - rows.sum()
    elif has_new_block.any():
        rows[:] = 0
    return rows, int(has_new_block.sum())

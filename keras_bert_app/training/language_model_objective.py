"""The loss of a causal language model as sums and counts, so that means over several devices are correct."""

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.training.baselines import NgramBaselines, NgramCounts
from keras_bert_app.training.losses import classification_sums


class LanguageModelObjective:
    """Predicts each piece of a row from the pieces before it.

    Args:
        ngrams: function that counts the pieces of the training text, for the baselines of an evaluation.
    """

    # The order of the sums in the vector that a step returns.
    sum_names = ("language_model_loss_sum", "language_model_correct", "language_model_count")

    def __init__(self, ngrams: Callable[[], NgramCounts] | None = None):
        self.ngrams = ngrams

    def counts(self, batch):
        """[number of predictions] of a batch, a float32 scalar.

        Args:
            batch: dict of tensors [B, ...].
        """
        return [tf.reduce_sum(_weights(batch))]

    def outputs(self, model, batch, dropout_seed=None, execution: Execution = PLAIN):
        """The logits of a LanguageModel that loss_sums reads.

        Args:
            model: LanguageModel.
            batch: dict of tensors [B, ...].
            dropout_seed: seed tensor; None for no dropout.
            execution: Execution.
        """
        return model(batch, dropout_seed=dropout_seed, heads_only=True, execution=execution)

    def loss_sums(self, outputs, batch, execution: Execution = PLAIN) -> dict[str, Any]:
        """The sums of sum_names, as dict name -> float32 scalar.

        Args:
            outputs: logits of a LanguageModel.
            batch: the batch of these logits.
            execution: Execution.
        """
        labels = batch["input_word_ids"][:, 1:]
        sums = classification_sums(outputs["lm_logits"], labels, _weights(batch), execution)
        return dict(zip(self.sum_names, sums, strict=True))

    def mean_loss(self, sums, count):
        """The loss that training minimizes, from sums and the count of the global batch.

        Args:
            sums: dict of loss_sums.
            count: float32 scalar.
        """
        return sums["language_model_loss_sum"] / tf.maximum(count, 1.0)

    def metrics(self, sums: dict[str, float]) -> dict[str, float]:
        """Computes the means that metrics.jsonl shows.

        Args:
            sums: dict with the values of sum_names.
        """
        count = max(sums["language_model_count"], 1.0)
        loss = sums["language_model_loss_sum"] / count
        return {
            "loss": loss,
            "language_model_loss": loss,
            "language_model_accuracy": sums["language_model_correct"] / count,
            "perplexity": perplexity(loss),
        }

    def progress(self, figures: dict[str, float]) -> str:
        """The part of the progress line after the loss.

        Args:
            figures: dict that metrics returns.
        """
        return f"perplexity {figures['perplexity']:,.1f}  LM acc {figures['language_model_accuracy']:.3f}"

    def baselines(self, vocab_size: int) -> NgramBaselines:
        """Makes the baselines that predict held-out text without a model. See evaluation.evaluate.

        Args:
            vocab_size: number of pieces in the vocabulary.
        """
        return NgramBaselines(self.ngrams() if self.ngrams else None)


def perplexity(loss: float) -> float:
    """exp(loss), or infinity if the result is too large for a float.

    Args:
        loss: mean of -log(probability).
    """
    return math.exp(loss) if loss < 700.0 else math.inf


def _weights(batch):
    """1.0 for each place whose piece is predicted, from the second place on; float32 [B, S - 1]."""
    return tf.cast(batch["input_mask"][:, 1:], tf.float32)

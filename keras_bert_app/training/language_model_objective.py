"""The losses of language models as sums and counts, so that means over several devices are correct."""

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from keras_bert_app.modeling import carried_states
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.modeling.keras_contract import Uncast
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
        return dict(zip(LanguageModelObjective.sum_names, sums, strict=True))

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


class LstmObjective(LanguageModelObjective):
    """Predicts each piece of a row from the pieces before it, with penalties of the states (AWD-LSTM).

    The rows of a stream go on from the carried states of the model, if it has any.

    Args:
        ngrams: see LanguageModelObjective.
    """

    sum_names = (*LanguageModelObjective.sum_names, "penalty_sum")

    def outputs(self, model, batch, dropout_seed=None, execution: Execution = PLAIN):
        """See LanguageModelObjective.outputs. With carried states also new_states, those after the rows."""
        table = model.carried_states if "continues" in batch else None
        states = None if table is None else Uncast(carried_states.states_of(table, batch, model.config))
        outputs = model(batch, dropout_seed=dropout_seed, heads_only=True, states=states, execution=execution)
        if table is not None:
            outputs["new_states"] = carried_states.new_table(outputs["forward_states"], batch, table.shape)
        return outputs

    def loss_sums(self, outputs, batch, execution: Execution = PLAIN) -> dict[str, Any]:
        sums, penalty = super().loss_sums(outputs, batch, execution), outputs["penalty"]
        return sums | {"penalty_sum": tf.reduce_sum(penalty * _weights(batch)) if penalty is not None else tf.zeros([])}

    def mean_loss(self, sums, count):
        return super().mean_loss(sums, count) + sums["penalty_sum"] / tf.maximum(count, 1.0)

    def metrics(self, sums: dict[str, float]) -> dict[str, float]:
        figures = super().metrics(sums)
        penalty = sums["penalty_sum"] / max(sums["language_model_count"], 1.0)
        return {**figures, "loss": figures["loss"] + penalty}


class BidirectionalObjective(LstmObjective):
    """Predicts each piece from the pieces before it, and from the pieces after it (Peters et al. 2018, section 3.1).

    The backward model does not predict the first piece of a row. The loss is the mean of both directions.

    Args:
        ngrams: see LanguageModelObjective.
    """

    sum_names = (*LstmObjective.sum_names, "backward_loss_sum", "backward_correct", "backward_count")

    def counts(self, batch):
        return [*super().counts(batch), tf.reduce_sum(_weights(batch)[:, 1:])]

    def loss_sums(self, outputs, batch, execution: Execution = PLAIN) -> dict[str, Any]:
        labels, weights = batch["input_word_ids"][:, 1:-1], _weights(batch)[:, 1:]
        backward = classification_sums(outputs["backward_logits"], labels, weights, execution)
        names = ("backward_loss_sum", "backward_correct", "backward_count")
        return super().loss_sums(outputs, batch, execution) | dict(zip(names, backward, strict=True))

    def mean_loss(self, sums, count, backward_count):
        return 0.5 * (super().mean_loss(sums, count) + sums["backward_loss_sum"] / tf.maximum(backward_count, 1.0))

    def metrics(self, sums: dict[str, float]) -> dict[str, float]:
        forward, count = super().metrics(sums), max(sums["backward_count"], 1.0)
        backward = sums["backward_loss_sum"] / count
        return {
            **forward,
            "loss": 0.5 * (forward["loss"] + backward),
            "backward_accuracy": sums["backward_correct"] / count,
            "backward_perplexity": perplexity(backward),
        }

    def progress(self, figures: dict[str, float]) -> str:
        return f"{super().progress(figures)}  backward perplexity {figures['backward_perplexity']:,.1f}"


def perplexity(loss: float) -> float:
    """exp(loss), or infinity if the result is too large for a float.

    Args:
        loss: mean of -log(probability).
    """
    return math.exp(loss) if loss < 700.0 else math.inf


def _weights(batch):
    """1.0 for each place whose piece is predicted, from the second place on; float32 [B, S - 1]."""
    return tf.cast(batch["input_mask"][:, 1:], tf.float32)

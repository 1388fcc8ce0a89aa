"""The pre-training losses as sums and counts, so that means over several devices are correct.

An objective of the trainer has sum_names, counts(batch), outputs(model, batch, dropout_seed, execution),
loss_sums(outputs, batch, execution), mean_loss(sums, *counts), metrics(sums) and progress(figures). An objective of
pre-training also has baselines(vocab_size). If its attribute needs_whole_batch is true, the loss is one of all examples
of the global batch, and outputs has "vectors" [B, ...]. PretrainingObjective is the objective of BERT's pre-training.
The modules language_model_objective and tasks.objectives have the other objectives.
"""

import functools
from typing import Any

import tensorflow as tf

from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.training.baselines import MaskedLmBaselines

MASKED_LM_EPSILON = 1e-5  # google-research/bert run_pretraining.get_masked_lm_output


class PretrainingObjective:
    """Masked LM, with next sentence or sentence order.

    Args:
        sentence_objective: one of pipelines.choices.OBJECTIVES. With "none", rows are not pairs, and the sums of the
            next sentence are 0.
        num_documents: number of documents of the text; None if unknown. One document alone gives no random pairs. With
            "nsp", the weight of its pairs is therefore 0: the model does not learn them, and the run reports none.
    """

    # The order of the sums in the vector that a step returns.
    sum_names = (
        "masked_lm_loss_sum",
        "masked_lm_correct",
        "masked_lm_count",
        "next_sentence_loss_sum",
        "next_sentence_correct",
        "next_sentence_count",
    )

    def __init__(self, sentence_objective: str = "nsp", num_documents: int | None = None):
        self.sentence_objective = sentence_objective
        self.has_pairs = sentence_objective != "none"
        self.lacks_random_pairs = sentence_objective == "nsp" and num_documents == 1

    def counts(self, batch):
        """[number of predictions, number of pairs] of a batch, float32 scalars.

        A row of padding does not count as a pair.

        Args:
            batch: dict of tensors [B, ...].
        """
        pairs = tf.reduce_sum(self._pair_weights(batch)) if self.has_pairs else tf.constant(0.0)
        return [tf.reduce_sum(batch["masked_lm_weights"]), pairs]

    def outputs(self, model, batch, dropout_seed=None, execution: Execution = PLAIN):
        """The logits of a BertPretrainer that loss_sums reads.

        Args:
            model: BertPretrainer.
            batch: dict of tensors [B, ...].
            dropout_seed: seed tensor; None for no dropout.
            execution: Execution.
        """
        return model(batch, dropout_seed=dropout_seed, heads_only=True, execution=execution)

    def loss_sums(self, outputs, batch, execution: Execution = PLAIN) -> dict[str, Any]:
        """The sums of sum_names, as dict name -> float32 scalar.

        Args:
            outputs: logits of a BertPretrainer.
            batch: the batch of these logits.
            execution: Execution.
        """
        mlm = classification_sums(outputs["mlm_logits"], batch["masked_lm_ids"], batch["masked_lm_weights"], execution)
        nsp = [tf.constant(0.0)] * 3
        if self.has_pairs:
            labels, weights = batch["next_sentence_labels"], self._pair_weights(batch)
            nsp = classification_sums(outputs["nsp_logits"], labels, weights, execution)
        return dict(zip(self.sum_names, (*mlm, *nsp), strict=True))

    def _pair_weights(self, batch):
        weights = tf.cast(batch["input_mask"][:, 0], tf.float32)
        return tf.zeros_like(weights) if self.lacks_random_pairs else weights

    def mean_loss(self, sums, masked_lm_count, next_sentence_count):
        """The loss that training minimizes, from sums and the counts of the global batch.

        Args:
            sums: dict of loss_sums.
            masked_lm_count: float32 scalar.
            next_sentence_count: float32 scalar.
        """
        return sums["masked_lm_loss_sum"] / (masked_lm_count + MASKED_LM_EPSILON) + sums[
            "next_sentence_loss_sum"
        ] / tf.maximum(next_sentence_count, 1.0)

    def metrics(self, sums: dict[str, float]) -> dict[str, float]:
        """Computes the means that metrics.jsonl shows. Without pairs, it leaves out the figures of pairs.

        Args:
            sums: dict with the values of sum_names.
        """
        predictions = max(sums["masked_lm_count"], 1.0)
        masked_lm_loss = sums["masked_lm_loss_sum"] / predictions
        figures = {
            "loss": masked_lm_loss,
            "masked_lm_loss": masked_lm_loss,
            "masked_lm_accuracy": sums["masked_lm_correct"] / predictions,
        }
        if pairs := sums["next_sentence_count"]:
            next_sentence_loss = sums["next_sentence_loss_sum"] / pairs
            figures |= {
                "loss": masked_lm_loss + next_sentence_loss,
                "next_sentence_loss": next_sentence_loss,
                "next_sentence_accuracy": sums["next_sentence_correct"] / pairs,
            }
        return figures

    def progress(self, figures: dict[str, float]) -> str:
        """The part of the progress line after the loss.

        Args:
            figures: dict that metrics returns.
        """
        pairs = (
            f"  {self.sentence_objective.upper()} acc {figures['next_sentence_accuracy']:.3f}"
            if "next_sentence_accuracy" in figures
            else ""
        )
        return f"MLM acc {figures['masked_lm_accuracy']:.3f}{pairs}"

    def baselines(self, vocab_size: int) -> MaskedLmBaselines:
        """Makes the baselines that predict held-out text without a model. See evaluation.evaluate.

        Args:
            vocab_size: number of pieces in the vocabulary.
        """
        return MaskedLmBaselines(vocab_size)


def classification_sums(logits, labels, weights, execution: Execution = PLAIN, label_smoothing: float = 0.0):
    """(sum of the cross-entropies, right answers, count), each weighted, float32 scalars.

    Args:
        logits: float32 [..., n].
        labels: int32 [...], from 0 to n - 1, even if the weight is 0.
        weights: float32 [...].
        execution: Execution.
        label_smoothing: float. See cross_entropies.
    """
    # The logits get the shape [N, n] again, which they had as the result of a matrix product. On a TPU, another shape
    # may need a copy.
    num_classes = logits.shape[-1] or tf.shape(logits)[-1]  # the number of choices may differ by batch
    logits, labels, weights = tf.reshape(logits, [-1, num_classes]), tf.reshape(labels, [-1]), tf.reshape(weights, [-1])
    losses = cross_entropies(logits, labels, execution, label_smoothing)
    correct = tf.cast(tf.equal(tf.argmax(logits, axis=-1, output_type=tf.int32), labels), tf.float32)
    return tf.reduce_sum(weights * losses), tf.reduce_sum(weights * correct), tf.reduce_sum(weights)


def cross_entropies(logits, labels, execution: Execution = PLAIN, label_smoothing: float = 0.0):
    """-log softmax(logits)[label], float32 [...].

    Args:
        logits: float32 [..., n].
        labels: int32 [...].
        execution: Execution.
        label_smoothing: float. The share e of the probability that all n classes get alike (Szegedy et al. 2016,
            section 7): (1 - e) (-log softmax(logits)[label]) + e (mean of -log softmax(logits)).
    """
    if execution.compiles_parts or execution.is_for_gpu:
        return _fused_cross_entropies(execution, label_smoothing)(logits, labels)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    return losses + smoothing_losses(logits, labels, label_smoothing) if label_smoothing else losses


@functools.cache
def _fused_cross_entropies(execution, label_smoothing):
    def cross_entropies(logits, labels):
        losses, log_sums = execution.fused(_losses_and_log_sums, logits, labels, label_smoothing=label_smoothing)

        def gradient(upstream):
            arguments = logits, labels, log_sums, upstream
            return execution.fused(_gradient_of_logits, *arguments, label_smoothing=label_smoothing), None

        return losses, gradient

    return execution.own_gradient(cross_entropies)


def _losses_and_log_sums(logits, labels, label_smoothing, execution):
    del execution  # the same in every execution
    most = tf.reduce_max(logits, axis=-1, keepdims=True)
    log_sums = tf.math.log(tf.reduce_sum(tf.exp(logits - most), axis=-1)) + most[..., 0]
    losses = log_sums - tf.gather(logits, labels, batch_dims=labels.shape.rank)
    return losses + smoothing_losses(logits, labels, label_smoothing) if label_smoothing else losses, log_sums


def smoothing_losses(logits, labels, label_smoothing: float):
    """The part of the losses that label smoothing adds, float32 [...].

    The normalizer of -log softmax(logits) is the same for all classes, so it cancels.

    Args:
        logits: float32 [..., n].
        labels: int32 [...].
        label_smoothing: float. See cross_entropies.
    """
    label_logits = tf.gather(logits, labels, batch_dims=labels.shape.rank)
    return label_smoothing * (label_logits - tf.reduce_mean(logits, axis=-1))


def _gradient_of_logits(logits, labels, log_sums, upstream, label_smoothing, execution):
    """Computes the gradient in one pass over the logits, without another array of their size."""
    del execution  # the same in every execution
    num_classes = tf.shape(logits)[-1]
    is_label = tf.cast(tf.equal(tf.range(num_classes), labels[..., None]), logits.dtype)
    target = (1.0 - label_smoothing) * is_label + label_smoothing / tf.cast(num_classes, logits.dtype)
    return (tf.exp(logits - log_sums[..., None]) - target) * upstream[..., None]

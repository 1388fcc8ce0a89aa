"""The pre-training losses as sums and counts, so that means over several devices come out right.

An objective of the trainer has sum_names, counts(batch), outputs(model, batch, dropout_seed), loss_sums(outputs, batch), mean_loss(sums, *counts),
metrics(sums) and progress(figures); PretrainingObjective is that of pre-training, tasks.objectives has the others.
"""

import tensorflow as tf

from keras_bert_app.modeling import backend

MASKED_LM_EPSILON = 1e-5  # google-research/bert run_pretraining.get_masked_lm_output


class PretrainingObjective:
    """Masked LM, with next sentence or sentence order.

    Args:
        sentence_objective: of pipelines.choices.OBJECTIVES; with "none" the rows are no pairs, and none counts for the
            next sentence.
    """

    # The vector of sums that a step returns, in this order.
    sum_names = (
        "masked_lm_loss_sum",
        "masked_lm_correct",
        "masked_lm_count",
        "next_sentence_loss_sum",
        "next_sentence_correct",
        "next_sentence_count",
    )

    def __init__(self, sentence_objective="nsp"):
        self.sentence_objective = sentence_objective
        self.has_pairs = sentence_objective != "none"

    def counts(self, batch):
        """[predictions, pairs] of a batch, float32 scalars. A row of padding only (it fills up a last batch) is no pair."""
        pairs = tf.reduce_sum(_pair_weights(batch)) if self.has_pairs else tf.constant(0.0)
        return [tf.reduce_sum(batch["masked_lm_weights"]), pairs]

    def outputs(self, model, batch, dropout_seed=None):
        """What a BertPretrainer computes for loss_sums."""
        return model(batch, dropout_seed=dropout_seed, heads_only=True)

    def loss_sums(self, outputs, batch):
        """The sums of sum_names, each a float32 scalar, from a BertPretrainer's logits and its batch."""
        mlm = classification_sums(outputs["mlm_logits"], batch["masked_lm_ids"], batch["masked_lm_weights"])
        nsp = [tf.constant(0.0)] * 3
        if self.has_pairs:
            nsp = classification_sums(outputs["nsp_logits"], batch["next_sentence_labels"], _pair_weights(batch))
        return dict(zip(self.sum_names, (*mlm, *nsp)))

    def mean_loss(self, sums, masked_lm_count, next_sentence_count):
        """The loss that is minimized, from sums and the counts of the global batch."""
        return sums["masked_lm_loss_sum"] / (masked_lm_count + MASKED_LM_EPSILON) + sums[
            "next_sentence_loss_sum"
        ] / tf.maximum(next_sentence_count, 1.0)

    def metrics(self, sums):
        """Means by the names of metrics.jsonl, from a dict of summed sums; those of no pairs are left out."""
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

    def progress(self, figures):
        """What the line of progress says beside the loss."""
        pairs = (
            f"  {self.sentence_objective.upper()} acc {figures['next_sentence_accuracy']:.3f}"
            if "next_sentence_accuracy" in figures
            else ""
        )
        return f"MLM acc {figures['masked_lm_accuracy']:.3f}{pairs}"


def classification_sums(logits, labels, weights):
    """(sum of the cross-entropies, right answers, count), each weighted.

    Args:
        logits: float32 [..., n]. labels: int32 [...], of 0 to n - 1 also where the weight is 0. weights: float32 [...].
    """
    # As rows, which is what the product gave: on a TPU another shape of as many logits may be a copy of them.
    num_classes = logits.shape[-1] or tf.shape(logits)[-1]  # of choices they are as many as a batch has
    logits, labels, weights = tf.reshape(logits, [-1, num_classes]), tf.reshape(labels, [-1]), tf.reshape(weights, [-1])
    losses = cross_entropies(logits, labels)
    correct = tf.cast(tf.equal(tf.argmax(logits, axis=-1, output_type=tf.int32), labels), tf.float32)
    return tf.reduce_sum(weights * losses), tf.reduce_sum(weights * correct), tf.reduce_sum(weights)


def cross_entropies(logits, labels):
    """-log softmax(logits)[label], float32 [...]. Args: logits: float32 [..., n]. labels: int32 [...]."""
    if not backend.compiles_parts():
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    return _compiled_cross_entropies(logits, labels)


@backend.own_gradient
def _compiled_cross_entropies(logits, labels):
    losses, log_sums = backend.fused(_losses_and_log_sums, logits, labels)
    return losses, lambda upstream: (backend.fused(_gradient_of_logits, logits, labels, log_sums, upstream), None)


def _losses_and_log_sums(logits, labels):
    most = tf.reduce_max(logits, axis=-1, keepdims=True)
    log_sums = tf.math.log(tf.reduce_sum(tf.exp(logits - most), axis=-1)) + most[..., 0]
    return log_sums - tf.gather(logits, labels, batch_dims=labels.shape.rank), log_sums


def _gradient_of_logits(logits, labels, log_sums, upstream):
    """With the sums known it is one pass over the logits, and nothing of their size beside it."""
    is_label = tf.equal(tf.range(tf.shape(logits)[-1]), labels[..., None])
    return (tf.exp(logits - log_sums[..., None]) - tf.cast(is_label, logits.dtype)) * upstream[..., None]


def _pair_weights(batch):
    return tf.cast(batch["input_mask"][:, 0], tf.float32)

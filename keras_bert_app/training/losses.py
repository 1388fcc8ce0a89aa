"""The pre-training losses as sums and counts, so that means over several devices come out right."""

import tensorflow as tf

MASKED_LM_EPSILON = 1e-5  # google-research/bert run_pretraining.get_masked_lm_output

# The vector of sums that a step returns, in this order.
SUMS = ("masked_lm_loss_sum", "masked_lm_correct", "masked_lm_count",
        "next_sentence_loss_sum", "next_sentence_correct", "next_sentence_count")


def counts(batch, with_pairs=True):
    """(predictions, pairs) of a batch, float32 scalars. A row of padding only (it fills up a last batch) is no pair."""
    pairs = tf.reduce_sum(_pair_weights(batch)) if with_pairs else tf.constant(0.0)
    return tf.reduce_sum(batch["masked_lm_weights"]), pairs


def loss_sums(outputs, batch, with_pairs=True):
    """The sums of SUMS, each a float32 scalar, from a BertPretrainer's outputs and its batch.

    Args:
        with_pairs: False when the rows are no pairs (sentence_objective "none"): no row counts for the next sentence.
    """
    mlm = _classification_sums(outputs["mlm_logits"], batch["masked_lm_ids"], batch["masked_lm_weights"])
    nsp = [tf.constant(0.0)] * 3
    if with_pairs:
        nsp = _classification_sums(outputs["nsp_logits"], batch["next_sentence_labels"], _pair_weights(batch))
    return dict(zip(SUMS, (*mlm, *nsp)))


def mean_loss(sums, masked_lm_count, next_sentence_count):
    """The loss that is minimized, from sums and the counts of the global batch."""
    return (sums["masked_lm_loss_sum"] / (masked_lm_count + MASKED_LM_EPSILON)
            + sums["next_sentence_loss_sum"] / tf.maximum(next_sentence_count, 1.0))


def metrics(sums):
    """Means by the names of metrics.jsonl, from a dict of summed SUMS; without pairs those of the next sentence are left out."""
    predictions = max(sums["masked_lm_count"], 1.0)
    masked_lm_loss = sums["masked_lm_loss_sum"] / predictions
    figures = {"loss": masked_lm_loss, "masked_lm_loss": masked_lm_loss,
               "masked_lm_accuracy": sums["masked_lm_correct"] / predictions}
    if pairs := sums["next_sentence_count"]:
        next_sentence_loss = sums["next_sentence_loss_sum"] / pairs
        figures |= {"loss": masked_lm_loss + next_sentence_loss, "next_sentence_loss": next_sentence_loss,
                    "next_sentence_accuracy": sums["next_sentence_correct"] / pairs}
    return figures


def _pair_weights(batch):
    return tf.cast(batch["input_mask"][:, 0], tf.float32)


def _classification_sums(logits, labels, weights):
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    correct = tf.cast(tf.equal(tf.argmax(logits, axis=-1, output_type=tf.int32), labels), tf.float32)
    return tf.reduce_sum(weights * losses), tf.reduce_sum(weights * correct), tf.reduce_sum(weights)

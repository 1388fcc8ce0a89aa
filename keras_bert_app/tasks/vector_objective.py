"""The training objective of sentence vectors: one loss of all vectors of the global batch."""

from collections.abc import Sequence

import tensorflow as tf

from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.tasks import vector_losses

CONTRASTIVE, COSENT, COSINE, TRIPLET, SIMCSE = "contrastive", "cosent", "cosine", "triplet", "simcse"
DISTILL = "distill"
TSDAE = "tsdae"  # the loss of tasks.denoising_objective
_MEANINGS = {
    CONTRASTIVE: "each anchor finds its positive among all texts of the batch",
    SIMCSE: "each text finds itself after other dropout among all texts of the batch",
    COSENT: "the cosines of two texts have the order of their scores",
    COSINE: "the cosine of two texts is their score",
    DISTILL: "the texts of a row have the vector that the teacher gives the first one (squared distances)",
    TRIPLET: "the farthest text of a label is nearer than the nearest text of another label",
}


class VectorObjective:
    """A loss of tasks.vector_losses, over the vectors of all replicas and of all parts of their rows.

    Every replica gathers the vectors of all replicas and computes the whole loss. Their sum is the loss times the
    number of replicas, so each replica divides it by this number.

    Args:
        loss: str. CONTRASTIVE or SIMCSE (each example has its anchor first, then its positive, then its negatives),
            COSENT or COSINE (two texts and "scores"), TRIPLET (one text and "labels"), or DISTILL (one or two texts and
            "teacher_vectors"; further texts do not count).
        temperature: float. Divides the cosines; not for COSINE, TRIPLET and DISTILL.
        is_symmetric: bool. Whether each text also looks for its anchor, for CONTRASTIVE and SIMCSE.
        margin: float. The margin of TRIPLET.
        sizes: the first so many numbers of the vectors are vectors, too, and all have the same weight as the whole
            vectors (Kusupati et al. 2022, Matryoshka representations).
    """

    sum_names = ("loss_sum", "count", "hits", "examples")
    needs_whole_batch = True

    def __init__(
        self, loss: str, temperature: float, is_symmetric: bool = False, margin: float = 0.5, sizes: Sequence[int] = ()
    ):
        self.loss, self.temperature, self.is_symmetric, self.margin = loss, temperature, is_symmetric, margin
        self.sizes = tuple(sizes)

    @property
    def description(self) -> str:
        """A line for the log: what the loss says."""
        value = f"margin {self.margin:g}" if self.loss == TRIPLET else f"temperature {self.temperature:g}"
        value = "" if self.loss in (COSINE, DISTILL) else f", {value}"
        sizes = f", also for the first {', '.join(map(str, self.sizes))} numbers" if self.sizes else ""
        both = ", in both directions" if self.is_symmetric else ""
        return f"loss {self.loss}: {_MEANINGS[self.loss]}{both}{value}{sizes}"

    def counts(self, batch):
        """[this replica's share of the one loss of the batch], a float32 scalar."""
        return [tf.constant(1.0 / tf.distribute.get_replica_context().num_replicas_in_sync)]

    def outputs(self, model, batch, dropout_seed=None, execution: Execution = PLAIN):
        """The outputs of a VectorModel for loss_sums."""
        return model(batch, dropout_seed=dropout_seed, execution=execution)

    def loss_sums(self, outputs, batch, execution: Execution = PLAIN):
        """dict of the sums of sum_names, float32 scalars, from the outputs of a model and their batch."""
        values = {"vectors": outputs["vectors"], "has_text": tf.cast(batch["input_mask"][:, :, 0], tf.float32)}
        names = ("example_weights", "scores", "labels", "text_numbers", "teacher_vectors")
        values |= {name: batch[name] for name in names if name in batch}
        size = outputs["vectors"].shape[-1]
        context = tf.distribute.get_replica_context()
        share = 1.0 / context.num_replicas_in_sync
        if context.num_replicas_in_sync > 1:
            # One by one, because the gradient of a gathered structure is wrong in TensorFlow 2.21.
            values = {name: context.all_gather(value, axis=0) for name, value in values.items()}
        vectors, sizes = values.pop("vectors"), (size, *(each for each in self.sizes if each < size))
        losses = [self._loss(tf.math.l2_normalize(vectors[:, :, :size], axis=-1), **values) for size in sizes]
        loss, hits, examples = (sum(column) / len(sizes) for column in zip(*losses, strict=True))
        return dict(
            zip(self.sum_names, (loss * share, tf.constant(share), hits * share, examples * share), strict=True)
        )

    def _loss(
        self, vectors, has_text, example_weights, scores=None, labels=None, text_numbers=None, teacher_vectors=None
    ):
        """(loss of the batch, number of hits, number of examples that can have one)."""
        weights, first = example_weights, vectors[:, 0]
        num_examples = tf.reduce_sum(weights)
        if self.loss == DISTILL:
            total = vector_losses.distillation(vectors[:, :2], teacher_vectors, weights[:, None] * has_text[:, :2])
            return total / tf.maximum(num_examples, 1.0), tf.constant(0.0), num_examples
        if self.loss == TRIPLET:
            total, count = vector_losses.batch_hard_triplets(first, labels, weights, self.margin)
            return total / tf.maximum(count, 1.0), tf.constant(0.0), count
        if self.loss in (COSENT, COSINE):
            cosines = tf.reduce_sum(first * vectors[:, 1], axis=-1)
            if self.loss == COSENT:
                return vector_losses.cosent(cosines, scores, weights, self.temperature), tf.constant(0.0), num_examples
            errors = weights * tf.square(cosines - scores)
            return tf.reduce_sum(errors) / tf.maximum(num_examples, 1.0), tf.constant(0.0), num_examples
        others = vectors[:, 1:]
        # The positives of all examples come first, then their negatives.
        candidates = tf.reshape(tf.transpose(others, [1, 0, 2]), [-1, tf.shape(vectors)[-1]])
        own = tf.range(tf.shape(vectors)[0])
        is_excluded = (tf.reshape(tf.transpose(has_text[:, 1:] * weights[:, None]), [-1]) == 0)[None, :]
        if text_numbers is not None and self.loss == CONTRASTIVE:
            is_excluded |= _equal_texts(text_numbers[:, : tf.shape(has_text)[1]], own)
        loss, hits = vector_losses.info_nce(first, candidates, own, weights, self.temperature, is_excluded)
        if self.is_symmetric:
            back, _ = vector_losses.info_nce(
                others[:, 0], first, own, weights, self.temperature, (weights == 0)[None, :]
            )
            loss = 0.5 * (loss + back)
        return loss / tf.maximum(num_examples, 1.0), hits, num_examples

    def mean_loss(self, sums, count):
        """The loss to minimize, from the sums and the count of the global batch."""
        return sums["loss_sum"] / tf.maximum(count, 1e-6)

    def metrics(self, sums):
        """dict of means under their names in metrics.jsonl, from a dict of sums."""
        figures = {"loss": sums["loss_sum"] / max(sums["count"], 1e-6)}
        if self.loss in (CONTRASTIVE, SIMCSE):
            figures["accuracy"] = sums["hits"] / max(sums["examples"], 1.0)
        return figures

    def progress(self, figures):
        """The part of the progress line for this objective: how often the positive is the nearest of the batch."""
        return f"nearest {figures['accuracy']:.3f}" if "accuracy" in figures else ""


def _equal_texts(numbers, own):
    """Whether a candidate is the same text as the anchor or as its positive, bool [B, C]; its positive is not.

    Args:
        numbers: int [B, G]. Equal texts have equal numbers.
        own: int [B]. The number of each anchor's own candidate.
    """
    candidates = tf.reshape(tf.transpose(numbers[:, 1:]), [-1])
    is_equal = (candidates[None, :] == numbers[:, :1]) | (candidates[None, :] == numbers[:, 1:2])
    return is_equal & (tf.range(tf.size(candidates))[None, :] != own[:, None])

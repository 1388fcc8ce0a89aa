"""Losses of sentence vectors, as functions of the vectors of a whole batch.

Dimensions: B examples, C candidates, D numbers of a vector. Vectors have length 1, so that a product is a cosine.
"""

import tensorflow as tf

EXCLUDED = -1e9  # added to the logit of a candidate that does not count


def info_nce(anchors, candidates, positives, weights, temperature: float, is_excluded=None):
    """Cross-entropy of each anchor's own candidate among all (van den Oord et al. 2018, InfoNCE, equation 4).

    With a temperature of 0.05 this is MultipleNegativesRankingLoss of sentence-transformers, whose scale is 20.

    Args:
        anchors: float32 [B, D].
        candidates: float32 [C, D].
        positives: int32 [B]. The number of each anchor's own candidate.
        weights: float32 [B]. 0 for an anchor that does not count.
        temperature: float. Divides the cosines.
        is_excluded: bool [B, C]. Candidates that do not count for an anchor, such as padding. None: all count.

    Returns:
        (sum of the losses, number of anchors whose own candidate is the nearest), float32 scalars.
    """
    logits = tf.matmul(anchors, candidates, transpose_b=True) / temperature
    if is_excluded is not None:
        logits += EXCLUDED * tf.cast(is_excluded, tf.float32)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(positives, logits)
    is_nearest = tf.cast(tf.argmax(logits, axis=1, output_type=tf.int32) == positives, tf.float32)
    return tf.reduce_sum(weights * losses), tf.reduce_sum(weights * is_nearest)


def cosent(cosines, scores, weights, temperature: float):
    """log(1 + sum of exp((cosine_j - cosine_i) / temperature)) over all pairs i, j with score_i > score_j (Su 2022).

    Args:
        cosines: float32 [B].
        scores: float32 [B]. Only their order counts.
        weights: float32 [B]. 0 for an example that does not count.
        temperature: float.

    Returns:
        The loss of the batch, a float32 scalar.
    """
    differences = (cosines[None, :] - cosines[:, None]) / temperature  # [i, j]
    counts = (scores[:, None] > scores[None, :]) & (weights[:, None] * weights[None, :] > 0)
    logits = tf.where(counts, differences, EXCLUDED)
    return tf.reduce_logsumexp(tf.concat([[0.0], tf.reshape(logits, [-1])], axis=0))


def batch_hard_triplets(vectors, labels, weights, margin: float):
    """max(0, farthest of the same label - nearest of another label + margin) (Hermans et al. 2017, equation 5).

    Distances are Euclidean. An example without another one of its label, or without one of another label, does not
    count.

    Args:
        vectors: float32 [B, D].
        labels: int32 [B].
        weights: float32 [B]. 0 for an example that does not count.
        margin: float.

    Returns:
        (sum of the losses, number of examples that count), float32 scalars.
    """
    distances = euclidean(vectors)
    is_counted = weights > 0
    both = is_counted[:, None] & is_counted[None, :]
    is_same = (labels[:, None] == labels[None, :]) & both
    is_positive = is_same & ~tf.eye(tf.shape(vectors)[0], dtype=tf.bool)
    is_negative = ~is_same & both
    farthest = tf.reduce_max(tf.where(is_positive, distances, 0.0), axis=1)
    nearest = tf.reduce_min(tf.where(is_negative, distances, -EXCLUDED), axis=1)
    counts = tf.cast(tf.reduce_any(is_positive, axis=1) & tf.reduce_any(is_negative, axis=1), tf.float32)
    losses = tf.maximum(0.0, farthest - nearest + margin)
    return tf.reduce_sum(tf.where(counts > 0, losses, 0.0)), tf.reduce_sum(counts)


def distillation(vectors, teacher_vectors, weights):
    """Sum of the squared distances of a row's vectors from the teacher's vector.

    This is equation 1 of Reimers and Gurevych 2020, "Making Monolingual Sentence Embeddings Multilingual", times B.
    MSELoss of sentence-transformers is the mean over the numbers of all vectors, which is this sum / (B x G x D).

    Args:
        vectors: float32 [B, G, D]. The vectors of a text and perhaps of its translation.
        teacher_vectors: float32 [B, D]. The teacher's vector of the first text.
        weights: float32 [B, G]. 0 for a text that does not count.

    Returns:
        float32 scalar.
    """
    distances = tf.reduce_sum(tf.square(vectors - teacher_vectors[:, None]), axis=-1)
    return tf.reduce_sum(tf.where(weights > 0, weights * distances, 0.0))


def euclidean(vectors):
    """Distances between all vectors [B, D], float32 [B, B]. Equal vectors have the distance 0 and no gradient."""
    squares = tf.reduce_sum(tf.square(vectors), axis=1)
    squared = squares[:, None] + squares[None, :] - 2.0 * tf.matmul(vectors, vectors, transpose_b=True)
    is_apart = squared > 1e-12
    return tf.where(is_apart, tf.sqrt(tf.where(is_apart, squared, 1.0)), 0.0)

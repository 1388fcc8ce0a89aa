"""What each kind of head is trained for, as sums and counts (training.losses says what an objective has)."""

import tensorflow as tf

from keras_bert_app.training.losses import classification_sums


class _Objective:
    """Base: one loss, averaged over a count.

    Args:
        consistency_weight: where a batch went through the model twice (logits and logits_again, of other dropout), the loss is the mean of
            both and so many times half the sum of the two Kullback-Leibler divergences between their answers (Liang et al. 2021, R-Drop).
    """

    sum_names = ("loss_sum", "correct", "count")

    def __init__(self, consistency_weight=0.0):
        self.consistency_weight = consistency_weight

    def outputs(self, model, batch, dropout_seed=None):
        return model(batch, dropout_seed=dropout_seed)

    def loss_sums(self, outputs, batch):
        logits, again = outputs["logits"], outputs.get("logits_again")
        sums = self._sums(*self._of_logits(logits, batch))
        if again is None:
            return sums
        sums = {
            name: 0.5 * (first + second) for (name, first), second in zip(sums.items(), self._of_logits(again, batch))
        }
        sums["loss_sum"] += self.consistency_weight * 0.5 * self._divergence(logits, again, batch)
        return sums

    def mean_loss(self, sums, count):
        return sums["loss_sum"] / tf.maximum(count, 1.0)

    def metrics(self, sums):
        count = max(sums["count"], 1.0)
        return {"loss": sums["loss_sum"] / count, "accuracy": sums["correct"] / count}

    def progress(self, figures):
        return f"acc {figures['accuracy']:.3f}"

    def _sums(self, *values):
        return dict(zip(self.sum_names, values))


class Classification(_Objective):
    """Cross-entropy over classes, or over the choices of an example; labels int32 [B].

    Args:
        teacher_weight: share of a teacher's answers (teacher_logits [B, n] in the batch) in the loss: the cross-entropy
            with its probabilities at a temperature, times temperature squared (Hinton et al. 2015). 0: no teacher.
    """

    def __init__(self, teacher_weight=0.0, temperature=1.0, consistency_weight=0.0):
        super().__init__(consistency_weight)
        self.teacher_weight, self.temperature = teacher_weight, temperature

    def counts(self, batch):
        return [tf.reduce_sum(batch["example_weights"])]

    def _of_logits(self, logits, batch):
        weights = batch["example_weights"]
        loss, correct, count = classification_sums(logits, batch["labels"], weights)
        if self.teacher_weight:
            answers = tf.nn.softmax(batch["teacher_logits"] / self.temperature)
            soft = tf.nn.softmax_cross_entropy_with_logits(answers, logits / self.temperature) * self.temperature**2
            loss = (1.0 - self.teacher_weight) * loss + self.teacher_weight * tf.reduce_sum(weights * soft)
        return loss, correct, count

    def _divergence(self, logits, again, batch):
        return tf.reduce_sum(batch["example_weights"] * _divergences(logits, again))


class Regression(_Objective):
    """Squared error of one number; labels float32 [B]. Of two answers to one text it is their squared difference.

    Args:
        teacher_weight: share in the loss of the squared error from a teacher's number (teacher_logits [B, 1] in the batch).
        scale: the unit in which errors are measured, as of the model's head.
    """

    sum_names = ("loss_sum", "count")

    def __init__(self, teacher_weight=0.0, consistency_weight=0.0, scale=1.0):
        super().__init__(consistency_weight)
        self.teacher_weight, self.scale = teacher_weight, scale

    def counts(self, batch):
        return [tf.reduce_sum(batch["example_weights"])]

    def _of_logits(self, logits, batch):
        weights = batch["example_weights"]
        errors = tf.square((logits[:, 0] - batch["labels"]) / self.scale)
        if self.teacher_weight:
            soft = tf.square((logits[:, 0] - batch["teacher_logits"][:, 0]) / self.scale)
            errors = (1.0 - self.teacher_weight) * errors + self.teacher_weight * soft
        return tf.reduce_sum(weights * errors), tf.reduce_sum(weights)

    def _divergence(self, logits, again, batch):
        return 2.0 * tf.reduce_sum(batch["example_weights"] * tf.square((logits[:, 0] - again[:, 0]) / self.scale))

    def metrics(self, sums):
        return {"loss": sums["loss_sum"] / max(sums["count"], 1.0)}

    def progress(self, figures):
        # What a teacher and another pass add is no error.
        return (
            "" if self.teacher_weight or self.consistency_weight else f"rmse {figures['loss'] ** 0.5 * self.scale:.3f}"
        )


class MultiLabel(_Objective):
    """Sigmoid cross-entropy, a mean over all labels; labels float32 [B, n] of 0 and 1.

    Args:
        teacher_weight, temperature: as of Classification, with the sigmoid of each label's logit.
    """

    def __init__(self, teacher_weight=0.0, temperature=1.0, consistency_weight=0.0):
        super().__init__(consistency_weight)
        self.teacher_weight, self.temperature = teacher_weight, temperature

    def counts(self, batch):
        return [tf.reduce_sum(batch["example_weights"]) * batch["labels"].shape[1]]

    def _of_logits(self, logits, batch):
        labels, weights = batch["labels"], batch["example_weights"][:, None]
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
        if self.teacher_weight:
            answers = tf.sigmoid(batch["teacher_logits"] / self.temperature)
            soft = tf.nn.sigmoid_cross_entropy_with_logits(answers, logits / self.temperature) * self.temperature**2
            losses = (1.0 - self.teacher_weight) * losses + self.teacher_weight * soft
        correct = tf.cast((logits > 0) == (labels > 0.5), tf.float32)
        return tf.reduce_sum(weights * losses), tf.reduce_sum(weights * correct), *self.counts(batch)

    def _divergence(self, logits, again, batch):
        # The two divergences of a yes or no, added up.
        return tf.reduce_sum(
            batch["example_weights"][:, None] * (tf.sigmoid(logits) - tf.sigmoid(again)) * (logits - again)
        )


class Tagging(_Objective):
    """Cross-entropy over the classes of each labelled token; token_labels int32 [B, S], -1 for none."""

    def counts(self, batch):
        return [tf.reduce_sum(tf.cast(batch["token_labels"] >= 0, tf.float32))]

    def _of_logits(self, logits, batch):
        labels = batch["token_labels"]
        weights = tf.cast(labels >= 0, tf.float32)
        return classification_sums(logits, tf.maximum(labels, 0), weights)

    def _divergence(self, logits, again, batch):
        return tf.reduce_sum(tf.cast(batch["token_labels"] >= 0, tf.float32) * _divergences(logits, again))


class QuestionAnswering(_Objective):
    """Cross-entropy of an answer's first and last token over the places of the row; labels int32 [B, 2].

    Google's run_squad takes all places of the padded row into the softmax; here padding is left out, so that scores do
    not hang on the padding. correct counts windows whose first and last token are both right.
    """

    def counts(self, batch):
        return [tf.reduce_sum(batch["example_weights"])]

    def _of_logits(self, logits, batch):
        weights = batch["example_weights"]
        loss, is_right = 0.0, tf.ones_like(weights)
        for of_places, labels in zip(self._by_end(logits, batch), tf.unstack(batch["labels"], axis=1)):
            loss += 0.5 * tf.nn.sparse_softmax_cross_entropy_with_logits(labels, of_places)
            is_right *= tf.cast(tf.argmax(of_places, axis=-1, output_type=tf.int32) == labels, tf.float32)
        return tf.reduce_sum(weights * loss), tf.reduce_sum(weights * is_right), tf.reduce_sum(weights)

    def _divergence(self, logits, again, batch):
        found = sum(_divergences(*ends) for ends in zip(self._by_end(logits, batch), self._by_end(again, batch)))
        return 0.5 * tf.reduce_sum(batch["example_weights"] * found)

    def _by_end(self, logits, batch):
        """Logits [B, S] of an answer's first and of its last token, from [B, S, 2]."""
        padding = (1.0 - tf.cast(batch["input_mask"], tf.float32)) * -1e4
        return [of_places + padding for of_places in tf.unstack(logits, axis=2)]


def _divergences(logits, again):
    """The two Kullback-Leibler divergences between the answers, added up, float32 [...] of logits [..., n].

    They are the sum of (p - q)(log p - log q), from which the logarithms of the sums drop out.
    """
    return tf.reduce_sum((tf.nn.softmax(logits) - tf.nn.softmax(again)) * (logits - again), axis=-1)

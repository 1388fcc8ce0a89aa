"""What each kind of head is trained for, as sums and counts (training.losses says what an objective has)."""

import tensorflow as tf

from keras_bert_app.training.losses import classification_sums

# Kinds of tasks whose objectives can learn a teacher's answers too.
TAUGHT = ("classification", "regression", "multi_label")


class _Objective:
    """Base: one loss, averaged over a count."""

    sum_names = ("loss_sum", "correct", "count")

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

    def __init__(self, teacher_weight=0.0, temperature=1.0):
        self.teacher_weight, self.temperature = teacher_weight, temperature

    def counts(self, batch):
        return [tf.reduce_sum(batch["example_weights"])]

    def loss_sums(self, outputs, batch):
        logits, weights = outputs["logits"], batch["example_weights"]
        loss, correct, count = classification_sums(logits, batch["labels"], weights)
        if self.teacher_weight:
            answers = tf.nn.softmax(batch["teacher_logits"] / self.temperature)
            soft = tf.nn.softmax_cross_entropy_with_logits(answers, logits / self.temperature) * self.temperature ** 2
            loss = (1.0 - self.teacher_weight) * loss + self.teacher_weight * tf.reduce_sum(weights * soft)
        return self._sums(loss, correct, count)


class Regression(_Objective):
    """Squared error of one number; labels float32 [B].

    Args:
        teacher_weight: share in the loss of the squared error from a teacher's number (teacher_logits [B, 1] in the batch).
    """

    sum_names = ("loss_sum", "count")

    def __init__(self, teacher_weight=0.0):
        self.teacher_weight = teacher_weight

    def counts(self, batch):
        return [tf.reduce_sum(batch["example_weights"])]

    def loss_sums(self, outputs, batch):
        weights = batch["example_weights"]
        errors = tf.square(outputs["logits"][:, 0] - batch["labels"])
        if self.teacher_weight:
            soft = tf.square(outputs["logits"][:, 0] - batch["teacher_logits"][:, 0])
            errors = (1.0 - self.teacher_weight) * errors + self.teacher_weight * soft
        return self._sums(tf.reduce_sum(weights * errors), tf.reduce_sum(weights))

    def metrics(self, sums):
        return {"loss": sums["loss_sum"] / max(sums["count"], 1.0)}

    def progress(self, figures):
        return f"rmse {figures['loss'] ** 0.5:.3f}"


class MultiLabel(_Objective):
    """Sigmoid cross-entropy, a mean over all labels; labels float32 [B, n] of 0 and 1.

    Args:
        teacher_weight, temperature: as of Classification, with the sigmoid of each label's logit.
    """

    def __init__(self, teacher_weight=0.0, temperature=1.0):
        self.teacher_weight, self.temperature = teacher_weight, temperature

    def counts(self, batch):
        return [tf.reduce_sum(batch["example_weights"]) * batch["labels"].shape[1]]

    def loss_sums(self, outputs, batch):
        labels, weights = batch["labels"], batch["example_weights"][:, None]
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, outputs["logits"])
        if self.teacher_weight:
            answers = tf.sigmoid(batch["teacher_logits"] / self.temperature)
            soft = tf.nn.sigmoid_cross_entropy_with_logits(answers, outputs["logits"] / self.temperature) * self.temperature ** 2
            losses = (1.0 - self.teacher_weight) * losses + self.teacher_weight * soft
        correct = tf.cast((outputs["logits"] > 0) == (labels > 0.5), tf.float32)
        return self._sums(tf.reduce_sum(weights * losses), tf.reduce_sum(weights * correct), *self.counts(batch))


class Tagging(_Objective):
    """Cross-entropy over the classes of each labelled token; token_labels int32 [B, S], -1 for none."""

    def counts(self, batch):
        return [tf.reduce_sum(tf.cast(batch["token_labels"] >= 0, tf.float32))]

    def loss_sums(self, outputs, batch):
        labels = batch["token_labels"]
        weights = tf.cast(labels >= 0, tf.float32)
        return self._sums(*classification_sums(outputs["logits"], tf.maximum(labels, 0), weights))


class QuestionAnswering(_Objective):
    """Cross-entropy of an answer's first and last token over the places of the row; labels int32 [B, 2].

    Google's run_squad takes all places of the padded row into the softmax; here padding is left out, so that scores do
    not hang on the padding. correct counts windows whose first and last token are both right.
    """

    def counts(self, batch):
        return [tf.reduce_sum(batch["example_weights"])]

    def loss_sums(self, outputs, batch):
        weights = batch["example_weights"]
        padding = (1.0 - tf.cast(batch["input_mask"], tf.float32)) * -1e4
        loss, is_right = 0.0, tf.ones_like(weights)
        for which in (0, 1):
            logits, labels = outputs["logits"][:, :, which] + padding, batch["labels"][:, which]
            loss += 0.5 * tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            is_right *= tf.cast(tf.argmax(logits, axis=-1, output_type=tf.int32) == labels, tf.float32)
        return self._sums(tf.reduce_sum(weights * loss), tf.reduce_sum(weights * is_right), tf.reduce_sum(weights))

"""Training objectives for each kind of head, with the interface that training.losses describes."""

import math

import tensorflow as tf

from keras_bert_app.config.bert_config import INPUTS
from keras_bert_app.modeling.crf import EXCLUDED, log_partition
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.training.language_model_objective import LanguageModelObjective
from keras_bert_app.training.losses import classification_sums, smoothing_losses


class Objective:
    """Base class: one loss, averaged over a count.

    A batch may pass through the model twice with different dropout. The passes give logits and logits_again. The loss
    is then the mean of both losses plus consistency_weight times a divergence. The divergence is half the sum of the
    two Kullback-Leibler divergences between the answers (Liang et al. 2021, R-Drop).

    Args:
        consistency_weight: float. Weight of the divergences.
    """

    sum_names = ("loss_sum", "correct", "count")

    def __init__(self, consistency_weight: float = 0.0):
        self.consistency_weight = consistency_weight

    def outputs(self, model, batch, dropout_seed=None, execution: Execution = PLAIN):
        """The outputs of a BertTaskModel for loss_sums."""
        return model(batch, dropout_seed=dropout_seed, execution=execution)

    def loss_sums(self, outputs, batch, execution: Execution = PLAIN):
        """dict of the sums of sum_names, float32 scalars, from the outputs of a model and their batch."""
        logits, again = outputs["logits"], outputs.get("logits_again")
        sums = self._sums(*self._sums_of_logits(logits, batch, execution))
        if again is None:
            return sums
        sums = {
            name: 0.5 * (first + second)
            for (name, first), second in zip(sums.items(), self._sums_of_logits(again, batch, execution), strict=True)
        }
        sums["loss_sum"] += self.consistency_weight * 0.5 * self._divergence(logits, again, batch)
        return sums

    def mean_loss(self, sums, count):
        """The loss to minimize, from the sums and the count of the global batch."""
        return sums["loss_sum"] / tf.maximum(count, 1.0)

    def metrics(self, sums):
        """dict of means under their names in metrics.jsonl, from a dict of sums."""
        count = max(sums["count"], 1.0)
        return {"loss": sums["loss_sum"] / count, "accuracy": sums["correct"] / count}

    def progress(self, figures):
        """The part of the progress line for this objective."""
        return f"acc {figures['accuracy']:.3f}"

    def _sums(self, *values):
        return dict(zip(self.sum_names, values, strict=True))


class Classification(Objective):
    """Cross-entropy over classes, or over the choices of an example; labels int32 [B].

    The teacher's part of the loss is the cross-entropy with the teacher's probabilities at a temperature, times the
    squared temperature (Hinton et al. 2015). A batch then has teacher_logits [B, n].

    Args:
        teacher_weight: float. Share of the teacher's part in the loss; 0 for no teacher.
        temperature: float. Divides the logits of teacher and student.
        consistency_weight: float. See Objective.
    """

    def __init__(self, teacher_weight: float = 0.0, temperature: float = 1.0, consistency_weight: float = 0.0):
        super().__init__(consistency_weight)
        self.teacher_weight, self.temperature = teacher_weight, temperature

    def counts(self, batch):
        """[number of examples], a float32 scalar."""
        return [tf.reduce_sum(batch["example_weights"])]

    def _sums_of_logits(self, logits, batch, execution):
        weights = batch["example_weights"]
        loss, correct, count = classification_sums(logits, batch["labels"], weights, execution)
        if self.teacher_weight:
            answers = tf.nn.softmax(batch["teacher_logits"] / self.temperature)
            soft = tf.nn.softmax_cross_entropy_with_logits(answers, logits / self.temperature) * self.temperature**2
            loss = (1.0 - self.teacher_weight) * loss + self.teacher_weight * tf.reduce_sum(weights * soft)
        return loss, correct, count

    def _divergence(self, logits, again, batch):
        return tf.reduce_sum(batch["example_weights"] * divergences(logits, again))


class Regression(Objective):
    """Squared error of one number; labels float32 [B].

    The divergence between two answers to one text is the square of (difference / scale).

    Args:
        teacher_weight: float. Share of the teacher's part in the loss. This part is the squared difference from the
            teacher's number (teacher_logits [B, 1] in the batch).
        consistency_weight: float. See Objective.
        scale: float. Unit of the errors, the same as in the model's head.
    """

    sum_names = ("loss_sum", "count")

    def __init__(self, teacher_weight: float = 0.0, consistency_weight: float = 0.0, scale: float = 1.0):
        super().__init__(consistency_weight)
        self.teacher_weight, self.scale = teacher_weight, scale

    def counts(self, batch):
        """[number of examples], a float32 scalar."""
        return [tf.reduce_sum(batch["example_weights"])]

    def _sums_of_logits(self, logits, batch, execution):
        weights = batch["example_weights"]
        errors = tf.square((logits[:, 0] - batch["labels"]) / self.scale)
        if self.teacher_weight:
            soft = tf.square((logits[:, 0] - batch["teacher_logits"][:, 0]) / self.scale)
            errors = (1.0 - self.teacher_weight) * errors + self.teacher_weight * soft
        return tf.reduce_sum(weights * errors), tf.reduce_sum(weights)

    def _divergence(self, logits, again, batch):
        return 2.0 * tf.reduce_sum(batch["example_weights"] * tf.square((logits[:, 0] - again[:, 0]) / self.scale))

    def metrics(self, sums):
        """dict with the mean loss."""
        return {"loss": sums["loss_sum"] / max(sums["count"], 1.0)}

    def progress(self, figures):
        """The root mean squared error in the unit of the labels, if the loss is this error alone."""
        # With a teacher or a second pass, the loss is more than the error of the labels.
        return (
            "" if self.teacher_weight or self.consistency_weight else f"rmse {figures['loss'] ** 0.5 * self.scale:.3f}"
        )


class MultiLabel(Objective):
    """Sigmoid cross-entropy, a mean over all labels; labels float32 [B, n], 0 or 1.

    The teacher's part is the same as for Classification, with the sigmoid of each label's logit.

    Args:
        teacher_weight: float. Share of the teacher's part in the loss; 0 for no teacher.
        temperature: float. Divides the logits of teacher and student.
        consistency_weight: float. See Objective.
    """

    def __init__(self, teacher_weight: float = 0.0, temperature: float = 1.0, consistency_weight: float = 0.0):
        super().__init__(consistency_weight)
        self.teacher_weight, self.temperature = teacher_weight, temperature

    def counts(self, batch):
        """[number of labels of all examples], a float32 scalar."""
        return [tf.reduce_sum(batch["example_weights"]) * batch["labels"].shape[1]]

    def _sums_of_logits(self, logits, batch, execution):
        labels, weights = batch["labels"], batch["example_weights"][:, None]
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
        if self.teacher_weight:
            answers = tf.sigmoid(batch["teacher_logits"] / self.temperature)
            soft = tf.nn.sigmoid_cross_entropy_with_logits(answers, logits / self.temperature) * self.temperature**2
            losses = (1.0 - self.teacher_weight) * losses + self.teacher_weight * soft
        correct = tf.cast((logits > 0) == (labels > 0.5), tf.float32)
        return tf.reduce_sum(weights * losses), tf.reduce_sum(weights * correct), *self.counts(batch)

    def _divergence(self, logits, again, batch):
        # The sum of the two divergences of a Bernoulli variable.
        return tf.reduce_sum(
            batch["example_weights"][:, None] * (tf.sigmoid(logits) - tf.sigmoid(again)) * (logits - again)
        )


class Tagging(Objective):
    """Cross-entropy over the classes of each labelled token; token_labels int32 [B, S], -1 for none."""

    def counts(self, batch):
        """[number of labelled tokens], a float32 scalar."""
        return [tf.reduce_sum(tf.cast(batch["token_labels"] >= 0, tf.float32))]

    def _sums_of_logits(self, logits, batch, execution):
        labels = batch["token_labels"]
        weights = tf.cast(labels >= 0, tf.float32)
        return classification_sums(logits, tf.maximum(labels, 0), weights, execution)

    def _divergence(self, logits, again, batch):
        return tf.reduce_sum(tf.cast(batch["token_labels"] >= 0, tf.float32) * divergences(logits, again))


class TagSequences(Tagging):
    """The negative logarithm of the probability of the labelled tags in a conditional random field, for each tag.

    The field also has tags at places without a label (token_labels -1 between [CLS] and [SEP]). The probability is the
    sum over all tags of these places.
    """

    def loss_sums(self, outputs, batch, execution: Execution = PLAIN):
        """dict of the sums of sum_names, float32 scalars, from the outputs of a model and their batch."""
        labels, logits = batch["token_labels"], outputs["logits"]
        is_other = tf.not_equal(tf.range(logits.shape[-1]), labels[:, :, None]) & (labels >= 0)[:, :, None]
        scores = {name: outputs[name] for name in ("chain", "transitions", "first_tags", "last_tags")}
        emissions = outputs["emissions"]
        of_all, of_labels = (
            log_partition(each, **scores, execution=execution)
            for each in (emissions, emissions + EXCLUDED * tf.cast(is_other, tf.float32))
        )
        weights = tf.cast(labels >= 0, tf.float32)
        is_right = tf.cast(tf.equal(tf.argmax(logits, axis=-1, output_type=tf.int32), labels), tf.float32)
        return self._sums(tf.reduce_sum(of_all - of_labels), tf.reduce_sum(weights * is_right), tf.reduce_sum(weights))


class QuestionAnswering(Objective):
    """Cross-entropy of the first and the last token of an answer; labels int32 [B, 2].

    The softmax is over the tokens of a row. Google's run_squad.py takes it over all places of the padded row. This
    class leaves out the padding, so that scores do not depend on the padded length. The sum "correct" counts windows
    whose first and last token are both right.
    """

    def counts(self, batch):
        """[number of windows], a float32 scalar."""
        return [tf.reduce_sum(batch["example_weights"])]

    def _sums_of_logits(self, logits, batch, execution):
        weights = batch["example_weights"]
        loss, is_right = 0.0, tf.ones_like(weights)
        # [B, S] and [B]
        for end_logits, labels in zip(self._by_end(logits, batch), tf.unstack(batch["labels"], axis=1), strict=True):
            loss += 0.5 * tf.nn.sparse_softmax_cross_entropy_with_logits(labels, end_logits)
            is_right *= tf.cast(tf.argmax(end_logits, axis=-1, output_type=tf.int32) == labels, tf.float32)
        return tf.reduce_sum(weights * loss), tf.reduce_sum(weights * is_right), tf.reduce_sum(weights)

    def _divergence(self, logits, again, batch):
        pairs = zip(self._by_end(logits, batch), self._by_end(again, batch), strict=True)
        return 0.5 * tf.reduce_sum(batch["example_weights"] * sum(divergences(*ends) for ends in pairs))

    def _by_end(self, logits, batch):
        """Logits [B, S] of the first token of an answer, and of its last token, from [B, S, 2]."""
        padding = (1.0 - tf.cast(batch["input_mask"], tf.float32)) * -1e4
        return [end_logits + padding for end_logits in tf.unstack(logits, axis=2)]


class WithLanguageModel:
    """The loss of a task, plus the loss of the next piece of every row (Radford et al. 2018, GPT, equation 5).

    Args:
        objective: the objective of the task.
        weight: float. The weight of the second loss, a mean over the pieces.
    """

    def __init__(self, objective, weight: float):
        self.objective, self.weight = objective, weight
        self.language_model = LanguageModelObjective()
        self.sum_names = (*objective.sum_names, *self.language_model.sum_names)

    def counts(self, batch):
        """The counts of the task, and the number of pieces that are predicted."""
        return [*self.objective.counts(batch), *self.language_model.counts(_rows(batch))]

    def outputs(self, model, batch, dropout_seed=None, execution: Execution = PLAIN):
        """The outputs of a BertTaskModel that has_language_model."""
        return self.objective.outputs(model, batch, dropout_seed, execution)

    def loss_sums(self, outputs, batch, execution: Execution = PLAIN):
        """dict of the sums of sum_names, float32 scalars, from the outputs of a model and their batch."""
        return {
            **self.objective.loss_sums(outputs, batch, execution),
            **self.language_model.loss_sums(outputs, _rows(batch), execution),
        }

    def mean_loss(self, sums, *counts):
        """The loss to minimize, from the sums and the counts of the global batch."""
        *task_counts, num_pieces = counts
        of_pieces = self.language_model.mean_loss(sums, num_pieces)
        return self.objective.mean_loss(sums, *task_counts) + self.weight * of_pieces

    def metrics(self, sums):
        """The metrics of the task, and those of the next piece under their names of pre-training."""
        return {**self.language_model.metrics(sums), **self.objective.metrics(sums)}

    def progress(self, figures):
        """The part of the progress line for the task, and the perplexity of the pieces."""
        return f"{self.objective.progress(figures)}  {self.language_model.progress(figures)}"


def _rows(batch):
    """The rows [N, S] of a batch whose examples may have several rows."""
    return {name: tf.reshape(batch[name], [-1, tf.shape(batch[name])[-1]]) for name in INPUTS}


class TextToText(Objective):
    """Cross-entropy over the pieces of target texts; target_word_ids int32 [B, T + 1], [CLS] first and 0 for padding.

    Label smoothing gives a share of the probability to all pieces alike (Szegedy et al. 2016, section 7). The sum
    "nll_sum" has no smoothing. The perplexity follows from it.

    Args:
        label_smoothing: float. The share.
    """

    sum_names = ("loss_sum", "correct", "count", "nll_sum")

    def __init__(self, label_smoothing: float = 0.0):
        super().__init__()
        self.label_smoothing = label_smoothing

    def counts(self, batch):
        """[number of pieces of the targets], a float32 scalar."""
        return [tf.reduce_sum(self._weights(batch))]

    def _weights(self, batch):
        return tf.cast(batch["target_word_ids"][:, 1:] > 0, tf.float32)

    def _sums_of_logits(self, logits, batch, execution):
        labels, weights = batch["target_word_ids"][:, 1:], self._weights(batch)
        sums = classification_sums(logits, labels, weights, execution, self.label_smoothing)
        if not self.label_smoothing:
            return *sums, sums[0]
        # Nothing is trained on nll_sum. So the gradient needs no second pass over the logits.
        smoothing = smoothing_losses(tf.stop_gradient(logits), labels, self.label_smoothing)
        return *sums, sums[0] - tf.reduce_sum(weights * smoothing)

    def metrics(self, sums):
        """dict with the mean loss, the share of right pieces, and the perplexity."""
        perplexity = math.exp(min(sums["nll_sum"] / max(sums["count"], 1.0), 700.0))
        return {**super().metrics(sums), "perplexity": perplexity}

    def progress(self, figures):
        """The share of right pieces, and the perplexity."""
        return f"acc {figures['accuracy']:.3f}  perplexity {figures['perplexity']:.1f}"


def divergences(logits, again):
    """The sum of both Kullback-Leibler divergences, float32 [...], from two logits [..., n].

    This is the sum of (p - q)(log p - log q), in which the normalizers of the logarithms cancel.
    """
    return tf.reduce_sum((tf.nn.softmax(logits) - tf.nn.softmax(again)) * (logits - again), axis=-1)

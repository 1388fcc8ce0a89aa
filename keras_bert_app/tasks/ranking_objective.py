"""The training objective of rerankers: losses of the logits of a query with its documents.

Dimensions: B pairs or lists, G documents of a list.
"""

import tensorflow as tf

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.modeling.task_head import Head
from keras_bert_app.tasks.objectives import Objective, divergences

BINARY, GRADED, LISTWISE = "binary", "graded", "listwise"
_ABSENT = -1e9  # the logit of a document that a list does not have


def cross_entropies(logits, shares):
    """Sigmoid cross-entropy of each logit (BinaryCrossEntropyLoss of sentence-transformers), float32 [B].

    Args:
        logits: float32 [B].
        shares: float32 [B], from 0 to 1. 1: the document answers the query.
    """
    return tf.nn.sigmoid_cross_entropy_with_logits(shares, logits)


def list_net(logits, shares, has_document):
    """Cross-entropy of the documents of each list (Cao et al. 2007, ListNet, equation 4 with top-one probabilities).

    With shares of softmax(labels) this is ListNetLoss of sentence-transformers.

    Args:
        logits: float32 [B, G].
        shares: float32 [B, G]. The probability that each document should have; 0 for an absent one.
        has_document: bool [B, G]. False for the padding of a list.

    Returns:
        float32 [B].
    """
    return -tf.reduce_sum(shares * tf.nn.log_softmax(tf.where(has_document, logits, _ABSENT)), axis=1)


def answers(logits, head: Head, loss: str):
    """The scores of documents from the logits of a model, float32 of the same shape.

    They are the logits, except after GRADED: offset + scale * sigmoid, a grade in the units of the training file.

    Args:
        logits: float32. scale * output + offset of the head.
        head: Head of the model.
        loss: str. BINARY, GRADED or LISTWISE.
    """
    return head.offset + head.scale * tf.sigmoid((logits - head.offset) / head.scale) if loss == GRADED else logits


class RankingObjective(Objective):
    """Cross-entropy over single pairs (BINARY, GRADED) or over the documents of a list (LISTWISE).

    A batch of pairs has rows [B, S] and labels [B]. A batch of lists has rows [B, G, S] and labels [B, at least G],
    grades of which at least one is positive. The relevant documents of a list share the probability in proportion to
    their grades.

    Args:
        loss: str. BINARY, GRADED or LISTWISE.
        head: Head of the model. For GRADED, its offset is the lowest grade, and its scale the distance to the highest.
        list_size: int. Most documents of a list, for the description.
        consistency_weight: float. See Objective.
    """

    def __init__(self, loss: str, head: Head, list_size: int = 16, consistency_weight: float = 0.0):
        super().__init__(consistency_weight)
        self.loss, self.list_size = loss, list_size
        self.scale, self.offset = (head.scale, head.offset) if loss == GRADED else (1.0, 0.0)

    @property
    def description(self) -> str:
        """A line for the log: what the loss says."""
        lowest, highest = self.offset, self.offset + self.scale
        meanings = {
            BINARY: "whether a document answers its query",
            GRADED: f"how well a document answers its query, from {lowest:g} to {highest:g}",
            LISTWISE: f"the relevant documents (label above 0) of a query among at most {self.list_size} documents",
        }
        return f"loss {self.loss}: {meanings[self.loss]}"

    def counts(self, batch):
        """[number of pairs or of lists], a float32 scalar."""
        return [tf.reduce_sum(batch["example_weights"])]

    def outputs(self, model, batch, dropout_seed=None, execution: Execution = PLAIN):
        """The outputs of a BertTaskModel for loss_sums. The documents of a list go through the model as rows."""
        if self.loss != LISTWISE:
            return super().outputs(model, batch, dropout_seed, execution)
        config: BertConfig = model.config
        group_size = tf.shape(batch["input_mask"])[1]
        # [B, G, S] -> [B x G, S]
        rows = {name: tf.reshape(batch[name], [-1, tf.shape(batch[name])[-1]]) for name in config.input_names}
        outputs = super().outputs(model, rows, dropout_seed, execution)
        lists = {
            name: tf.reshape(values, [-1, group_size]) for name, values in outputs.items() if name.startswith("logits")
        }
        return {**outputs, **lists}

    def _sums_of_logits(self, logits, batch, execution):
        weights = batch["example_weights"]
        if self.loss == LISTWISE:
            logits, labels, has_document = self._lists(logits, batch)
            shares = labels / tf.maximum(tf.reduce_sum(labels, axis=1, keepdims=True), 1e-6)
            losses = list_net(logits, shares, has_document)
            is_right = tf.gather(labels, tf.argmax(logits, axis=1), axis=1, batch_dims=1) > 0
        else:
            logits, shares = self._outputs(logits), (batch["labels"] - self.offset) / self.scale
            losses = cross_entropies(logits, shares)
            is_right = (logits > 0) == (shares > 0.5)
        return (
            tf.reduce_sum(weights * losses),
            tf.reduce_sum(weights * tf.cast(is_right, tf.float32)),
            tf.reduce_sum(weights),
        )

    def _outputs(self, logits):
        """The numbers below the scale and the offset of the head, float32 [B]."""
        return (logits[:, 0] - self.offset) / self.scale

    def _lists(self, logits, batch):
        """(logits, grades, whether there is a document), each [B, G]. An absent document has the grade 0."""
        has_document = batch["input_mask"][:, :, 0] > 0
        labels = tf.where(has_document, batch["labels"][:, : tf.shape(logits)[1]], 0.0)
        return tf.where(has_document, logits, _ABSENT), labels, has_document

    def _divergence(self, logits, again, batch):
        weights = batch["example_weights"]
        if self.loss == LISTWISE:
            return tf.reduce_sum(weights * divergences(self._lists(logits, batch)[0], self._lists(again, batch)[0]))
        logits, again = self._outputs(logits), self._outputs(again)
        return tf.reduce_sum(weights * (tf.sigmoid(logits) - tf.sigmoid(again)) * (logits - again))

    def metrics(self, sums):
        """dict of means under their names in metrics.jsonl, from a dict of sums. Grades are not right or wrong."""
        figures = super().metrics(sums)
        return {"loss": figures["loss"]} if self.loss == GRADED else figures

    def progress(self, figures):
        """The part of the progress line: right pairs, or lists whose first document is relevant."""
        if self.loss == GRADED:
            return ""
        return f"first {figures['accuracy']:.3f}" if self.loss == LISTWISE else super().progress(figures)

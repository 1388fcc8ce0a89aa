"""SavedModels for tasks with one text or a pair. The answer is a class, a number, or a set of labels."""

from collections.abc import Sequence

import tensorflow as tf

from keras_bert_app.export import rows
from keras_bert_app.export.specs import about_run, checked_ids, ids_specs, takes_rows, text_spec, variables
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.tasks.families.sequences import CLASSIFICATION, MULTI_LABEL, THRESHOLD
from keras_bert_app.tasks.features import head_length
from pipelines.ragged import row_ids

_TEXTS = {
    "text": "It was a pleasure from the first page to the last.",
    "text_a": "A woman reads a book in the park.",
    "text_b": "Someone is reading outside.",
}


class SequenceModule(tf.Module):
    """Signatures that give the answers of a task for raw texts, for pairs of texts, or for rows of ids.

    Args:
        finetuned: tasks.scoring.FinetunedRun. The run that answers.
        inputs: ("text",) or ("text_a", "text_b").
        execution: Execution. The way to trace the signature over ids. LiteRT needs a value other than the default.
    """

    def __init__(self, finetuned, inputs: Sequence[str], execution: Execution = PLAIN):
        super().__init__(name=finetuned.task.kind)
        self.model_variables = variables(finetuned.model)
        self.about = about_run(finetuned, {"serving_default": {name: [_TEXTS[name]] for name in inputs}})
        self.labels = tf.constant(finetuned.labels or [""])
        run, model, tokenizer = finetuned.run, finetuned.model, finetuned.tokenizer
        has_groups = bool(model.head.windows)

        def answers(texts):
            encoded, truncated = _rows([tokenizer.tokenize_with_columns(text) for text in texts], tokenizer, run)
            return {**self._answers(model(encoded)["logits"]), "truncated": truncated}

        if len(inputs) == 1:

            @tf.function(input_signature=[text_spec()], autograph=False)
            def serve(text):
                return answers([text])
        else:

            @tf.function(input_signature=[text_spec("text_a"), text_spec("text_b")], autograph=False)
            def serve(text_a, text_b):
                return answers([text_a, text_b])

        @takes_rows(ids_specs(model.config, has_groups))
        def ids(*inputs):
            encoded = checked_ids(model.config, inputs, execution)
            return self._answers(model(encoded, execution=execution)["logits"])

        self.exported = {"serving_default": serve, "ids": ids}

    def _answers(self, logits):
        if self.about.kind not in (CLASSIFICATION, MULTI_LABEL):
            return {"score": logits[:, 0]}
        labels = tf.tile(self.labels[None], [tf.shape(logits)[0], 1])
        if self.about.kind == MULTI_LABEL:
            probabilities = tf.sigmoid(logits)
            return {"labels": labels, "probabilities": probabilities, "is_chosen": probabilities > THRESHOLD}
        probabilities = tf.nn.softmax(logits)
        return {
            "labels": labels,
            "probabilities": probabilities,
            "label": tf.gather(self.labels, tf.argmax(probabilities, axis=1)),
            "probability": tf.reduce_max(probabilities, axis=1),
        }


def _rows(pieces, tokenizer, run):
    """Makes the rows of texts in graph, as sequences.featurize does.

    Args:
        pieces: list of one or two RaggedTensors int32 [B, (pieces)], or [B, (pieces), 1 + C] with columns.
        tokenizer: BertTokenizer. The tokenizer of the model.
        run: FinetuningConfig. It has the length of rows and the settings for long texts.

    Returns:
        (inputs of the encoder; bool [B], whether a part of a text is in no row).
    """
    if len(pieces) == 2:
        return rows.of_pairs(tokenizer, *pieces, run.max_seq_length)
    tokens, (start, length), room = pieces[0].flat_values, rows.spans(pieces[0]), run.max_seq_length - 2
    truncated = length > room
    if run.long_documents == "head":
        return rows.pack(tokenizer, tokens, (start, tf.minimum(length, room))), truncated
    if run.long_documents == "head_tail":
        # [T] The places of the kept tokens. Places of the tail are shifted by the number of tokens left out.
        kept = tf.ragged.range(tf.minimum(length, room))
        row_of_token = row_ids(kept.row_splits)
        skipped = tf.gather(tf.where(truncated, length - room, 0), row_of_token)
        places = kept.flat_values + tf.where(kept.flat_values >= head_length(room), skipped, 0)
        return rows.pack(
            tokenizer, tf.gather(tokens, tf.gather(start, row_of_token) + places), rows.spans(kept)
        ), truncated
    size = tf.fill(tf.shape(length), room)
    example, offset, window, counts = rows.windows(
        length, size, tf.fill(tf.shape(length), min(run.doc_stride, room)), run.max_windows
    )
    encoded = rows.pack(tokenizer, tokens, (tf.gather(start, example) + offset, window))
    last_end = (counts - 1) * min(run.doc_stride, room) + room
    return rows.grouped(encoded, counts), last_end < length

"""SavedModels for tasks whose answers are texts. The search for the texts is part of the graph."""

import tensorflow as tf

from keras_bert_app.export import rows
from keras_bert_app.export.specs import about_run, checked_ids, ids_specs, takes_rows, text_spec, variables
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.tasks.families import text_to_text
from pipelines.wordpiece.detokenizing import texts_of_ids

_EXAMPLE = {"text": ["A man reads a book."]}


class TextToTextModule(tf.Module):
    """Signatures that write texts from raw texts, or target ids from rows of ids.

    The signature alignments tells what the decoder looked at when it wrote each piece of the best text. A decoder
    without attention to the encoder has no such signature.

    Args:
        finetuned: tasks.scoring.FinetunedRun. The run that answers. Its settings decide the number K of texts and the
            largest length of a text.
        execution: Execution. The way to trace the signature over ids.
    """

    def __init__(self, finetuned, execution: Execution = PLAIN):
        super().__init__(name=finetuned.task.kind)
        self.model_variables = variables(finetuned.model)
        run, model, tokenizer = finetuned.run, finetuned.model, finetuned.tokenizer
        writer = text_to_text.target_tokenizer(tokenizer)
        options = text_to_text.decoding_options(run)
        room = run.max_seq_length - 2

        def decoded_texts(text):
            """Returns (inputs of the encoder, Decoded, whether each text lost its end, bool [B])."""
            pieces = tokenizer.tokenize(text)
            start, length = rows.spans(pieces)
            encoded = rows.pack(tokenizer, pieces.flat_values, (start, tf.minimum(length, room)))
            return encoded, model.decoded(encoded, options), length > room

        @tf.function(input_signature=[text_spec()], autograph=False)
        def serve(text):
            _, decoded, truncated = decoded_texts(text)
            texts = texts_of_ids(tf.reshape(decoded.ids, [-1, options.max_length]), writer)
            return {
                "texts": tf.reshape(texts, [-1, options.num_beams]),
                "scores": decoded.scores,
                "truncated": truncated,
            }

        @takes_rows(ids_specs(model.config))
        def ids(*inputs):
            encoded = checked_ids(model.config, inputs, execution)
            decoded = model.decoded(encoded, options, execution)
            return {"target_word_ids": decoded.ids, "scores": decoded.scores}

        @tf.function(input_signature=[text_spec()], autograph=False)
        def alignments(text):
            encoded, decoded, truncated = decoded_texts(text)
            outputs = _alignments(model, encoded, decoded.ids[:, 0], tokenizer, writer)
            return {**outputs, "truncated": truncated}

        self.exported, examples = {"serving_default": serve, "ids": ids}, {"serving_default": _EXAMPLE}
        if model.has_attention:
            self.exported["alignments"] = alignments
            examples["alignments"] = _EXAMPLE
        self.about = about_run(finetuned, examples)


def _alignments(model, encoded, ids, tokenizer, writer):
    """Computes the outputs of the signature alignments for written ids [B, T]."""
    is_source, is_target = encoded["input_mask"] > 0, ids > 0
    # ids has room for the longest possible text. The model reads only as many places as the texts have.
    source_length, target_length = _longest(is_source), _longest(is_target)
    ids, is_target = ids[:, :target_length], is_target[:, :target_length]
    return {
        "texts": texts_of_ids(ids, writer),
        "source_pieces": _pieces(encoded["input_word_ids"], is_source, tokenizer)[:, :source_length],
        "target_pieces": _pieces(ids, is_target, writer),
        "attention": model.alignments(encoded, ids)[:, :, :source_length],
    }


def _longest(is_piece):
    """Counts the pieces of the longest row of is_piece, bool [B, L]. A batch without rows has 1."""
    return tf.reduce_max(tf.concat([tf.reduce_sum(tf.cast(is_piece, tf.int32), axis=1), [1]], axis=0))


def _pieces(ids, is_piece, tokenizer):
    return tf.where(is_piece, tokenizer.pieces(ids), "")

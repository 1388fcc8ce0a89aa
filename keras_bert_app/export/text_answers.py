"""SavedModels for tasks whose answers are texts. The search for the texts is part of the graph."""

import tensorflow as tf

from keras_bert_app.export import rows
from keras_bert_app.export.specs import FROM_IDS, about_run, checked_ids, text_spec, variables
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.tasks.families import text_to_text
from pipelines.wordpiece.detokenizing import texts_of_ids


class TextToTextModule(tf.Module):
    """Signatures that write texts from raw texts, or target ids from rows of ids.

    Args:
        finetuned: tasks.scoring.FinetunedRun. The run that answers. Its settings decide the number K of texts and the
            largest length of a text.
        execution: Execution. The way to trace the signature over ids.
    """

    def __init__(self, finetuned, execution: Execution = PLAIN):
        super().__init__(name=finetuned.task.kind)
        self.model_variables = variables(finetuned.model)
        self.about = about_run(finetuned, {"serving_default": {"text": ["A man reads a book."]}})
        run, model, tokenizer = finetuned.run, finetuned.model, finetuned.tokenizer
        vocabulary = tf.constant(text_to_text.target_tokenizer(tokenizer).vocabulary)
        options = text_to_text.decoding_options(run)
        room = run.max_seq_length - 2

        @tf.function(input_signature=[text_spec()], autograph=False)
        def serve(text):
            pieces = tokenizer.tokenize(text)
            start, length = rows.spans(pieces)
            encoded = rows.pack(tokenizer, pieces.flat_values, (start, tf.minimum(length, room)))
            decoded = model.decoded(encoded, options)
            texts = texts_of_ids(tf.reshape(decoded.ids, [-1, options.max_length]), vocabulary, model.head.end_id)
            return {
                "texts": tf.reshape(texts, [-1, options.num_beams]),
                "scores": decoded.scores,
                "truncated": length > room,
            }

        @tf.function(input_signature=FROM_IDS, autograph=False)
        def ids(input_word_ids, input_mask, input_type_ids):
            encoded = checked_ids(model.config, input_word_ids, input_mask, input_type_ids, execution)
            decoded = model.decoded(encoded, options, execution)
            return {"target_word_ids": decoded.ids, "scores": decoded.scores}

        self.exported = {"serving_default": serve, "ids": ids}

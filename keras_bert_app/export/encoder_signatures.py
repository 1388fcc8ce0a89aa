"""The encoder over ids as a SavedModel, with TF-Hub's interface for text encoders."""

import tensorflow as tf

from keras_bert_app.export.signatures import there
from keras_bert_app.export.specs import FROM_IDS, About


class EncoderModule(tf.Module):
    """The encoder over ids, in core TensorFlow ops only: it loads where tensorflow-text's kernels are missing.

    Loaded, it can be called with a dict of input_word_ids, input_mask and input_type_ids, int32 [B, S], and gives
    sequence_output [B, S, H], pooled_output [B, H] and encoder_outputs, a list of every layer's [B, S, H]; its
    trainable_variables get gradients, so that it can be trained on. It runs without dropout.

    Args:
        encoder: BertEncoder. example_ids: list of ids, a row that shows how it is called.
    """

    # TF-Hub's interface wants attributes under these names, where tf.Module has properties, which are not saved.
    variables = trainable_variables = None

    def __init__(self, encoder, example_ids=(0,)):
        super().__init__(name="encoder_ids")
        self.variables = self.trainable_variables = [variable.value for variable in encoder.weights]

        @tf.function(autograph=False, input_signature=[{spec.name: spec for spec in FROM_IDS}])
        def call(inputs):
            return there(encoder(inputs), "sequence_output", "pooled_output", "encoder_outputs")

        @tf.function(autograph=False, input_signature=FROM_IDS)
        def serve(input_word_ids, input_mask, input_type_ids):
            outputs = call(
                {"input_word_ids": input_word_ids, "input_mask": input_mask, "input_type_ids": input_type_ids}
            )
            layers = {f"encoder_outputs_{i}": layer for i, layer in enumerate(outputs["encoder_outputs"])}
            return {**there(outputs, "sequence_output", "pooled_output"), **layers}

        self.__call__ = call
        self.exported = {"serving_default": serve}
        example = list(example_ids)
        examples = {
            "serving_default": {
                "input_word_ids": [example],
                "input_mask": [[1] * len(example)],
                "input_type_ids": [[0] * len(example)],
            }
        }
        self.about = About("encoder", examples, max_seq_length=encoder.config.max_position_embeddings)

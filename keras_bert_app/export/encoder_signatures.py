"""The encoder over ids as a SavedModel, with TF-Hub's interface for text encoders."""

from collections.abc import Sequence

import tensorflow as tf

from keras_bert_app.export.specs import About, available_outputs, checked_ids, example_row, ids_specs, takes_rows
from keras_bert_app.modeling.execution import PLAIN, Execution


class EncoderModule(tf.Module):
    """A module that runs the encoder on rows of ids.

    The module has only core TensorFlow ops, so a program can load it without the kernels of tensorflow-text.

    The loaded object is a function of a dict of input_word_ids, input_mask and input_type_ids, int32 [B, S], and of
    the inputs of channels and positions if the model has them. It returns sequence_output [B, S, H], pooled_output
    [B, H] and encoder_outputs, a list with one [B, S, H] for each layer. The function applies no dropout. Gradients
    reach the trainable_variables, so a training program can use the object.

    Args:
        encoder: BertEncoder. The encoder to export.
        example_ids: list of int. The row of ids in the example of a request.
        execution: Execution. The way to trace the signatures. LiteRT needs a value other than the default.
    """

    # TF-Hub's interface needs attributes of these names. TensorFlow does not save the properties of tf.Module.
    variables = trainable_variables = None

    def __init__(self, encoder, example_ids: Sequence[int] = (0,), execution: Execution = PLAIN):
        super().__init__(name="encoder_ids")
        self.variables = [variable.value for variable in encoder.weights]
        self.trainable_variables = [variable.value for variable in encoder.trainable_weights]

        specs, names = ids_specs(encoder.config), encoder.config.input_names

        @tf.function(autograph=False, input_signature=[{spec.name: spec for spec in specs}])
        def call(inputs):
            rows = [inputs[name] for name in names]
            outputs = encoder(checked_ids(encoder.config, rows, execution), execution=execution)
            return available_outputs(outputs, "sequence_output", "pooled_output", "encoder_outputs")

        @takes_rows(specs)
        def serve(*rows):
            outputs = call(dict(zip(names, rows, strict=True)))
            layers = {f"encoder_outputs_{i}": layer for i, layer in enumerate(outputs["encoder_outputs"])}
            return {**available_outputs(outputs, "sequence_output", "pooled_output"), **layers}

        self.__call__ = call
        self.exported = {"serving_default": serve}
        examples = {"serving_default": example_row(encoder.config, example_ids)}
        self.about = About("encoder", examples, max_seq_length=encoder.config.max_position_embeddings)

"""The ids form of an export as a LiteRT model (TensorFlow Lite), for phones and other small machines."""

import re

import numpy as np
import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.modeling import backend
from keras_bert_app.serving.litert_model import MODEL_FILE, LiteRTModel

# float32 products in another order; measured 2e-6 at most. Of outputs that are large, so much of them.
_TOLERANCE = 1e-4
_BATCH, _LENGTH = 2, 7  # of the check; neither is that of any example


def files(make_module, signature="serving_default"):
    """The file to lay beside an export, dict name -> bytes; see convert."""
    return {MODEL_FILE: convert(make_module, signature)}


def convert(make_module, signature="serving_default"):
    """A signature of a module as LiteRT, bytes, checked against it on rows of ids.

    The model has the signature's names and takes batches of any size and length; builtin ops alone, so that every LiteRT
    runtime has them.

    Args:
        make_module: function that gives a tf.Module with `exported`, each time a new one: what is converted is traced by itself.
        signature: name of one over ids.

    Raises:
        UserError: an op has no place in LiteRT, or the converted model answers something else.
    """
    function, to_convert = make_module().exported[signature], make_module()
    with backend.products_apart():
        concrete = to_convert.exported[signature].get_concrete_function()
    try:
        model = tf.lite.TFLiteConverter.from_concrete_functions([concrete], to_convert).convert()
    except Exception as error:  # the converter has an exception of its own for each of its stages
        # Of pages of what it has tried: the ops that it has nothing for.
        names = sorted(set(re.findall(r"error: '(tf\.\w+)' op", str(error)))) or [type(error).__name__]
        raise UserError(f"--litert: this model cannot be converted ({', '.join(names)}); leave the flag out") from None
    inputs = {spec.name: _example(spec) for spec in function.input_signature}
    expected = function(**{name: tf.constant(values) for name, values in inputs.items()})
    found = LiteRTModel(model)(**inputs)
    for name, values in expected.items():
        values = values.numpy()
        if values.dtype.kind == "f":
            is_same = np.abs(found[name] - values).max() <= _TOLERANCE * max(1.0, np.abs(values).max())
        else:
            is_same = np.array_equal(found[name], values)
        if not is_same:
            raise UserError(f"--litert: {name} is another once converted; leave the flag out")
    return model


def _example(spec):
    """int32 values of a signature's input: ids of some pieces, rows that end in padding, two segments."""
    shape = (_BATCH, *[3] * (spec.shape.rank - 2), _LENGTH)
    column = np.broadcast_to(np.arange(_LENGTH), shape)
    return {"input_word_ids": column * 3 % 5, "input_mask": column < _LENGTH - 2, "input_type_ids": column > 3}[
        spec.name
    ].astype(np.int32)

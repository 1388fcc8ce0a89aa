"""Converts the signature over ids to LiteRT (TensorFlow Lite), for small machines such as phones."""

import re
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.serving.litert_model import MODEL_FILE, LiteRTModel

# LiteRT stores the kernels of query, key and value as constants. With one product LiteRT would have to cut each result
# into three parts, which takes time.
_SEPARATE = Execution(has_separate_projections=True)
# LiteRT sums float32 products in another order. The largest measured difference is 2e-6. The tolerance grows with
# outputs above 1.
_TOLERANCE = 1e-4
_BATCH, _LENGTH = 2, 7  # The shape of the inputs that the check uses. No example has this shape.


def files(make_module: Callable[[Execution], tf.Module], signature: str = "serving_default") -> dict[str, bytes]:
    """Converts a signature to the file that an export holds.

    Args:
        make_module: see convert.
        signature: see convert.

    Returns:
        dict from file name to bytes.
    """
    return {MODEL_FILE: convert(make_module, signature)}


def convert(make_module: Callable[[Execution], tf.Module], signature: str = "serving_default") -> bytes:
    """Converts a signature of a module to LiteRT and compares both on rows of ids.

    The LiteRT model has the names of the signature and takes batches of any size and length. It has only builtin ops,
    so every LiteRT runtime can run it.

    Args:
        make_module: function of an Execution. It returns a new tf.Module with `exported`. One module is converted, and
            a second one gives the outputs to compare with.
        signature: str. The name of a signature over ids.

    Returns:
        bytes: the content of a .tflite file.

    Raises:
        UserError: LiteRT lacks an op of the model, cannot run the converted model, or it gives other outputs.
    """
    function, to_convert = make_module(PLAIN).exported[signature], make_module(_SEPARATE)
    concrete = to_convert.exported[signature].get_concrete_function()
    try:
        model = tf.lite.TFLiteConverter.from_concrete_functions([concrete], to_convert).convert()
    except Exception as error:  # Each stage of the converter has its own exception.
        # The message of the converter is pages long. Show the ops that LiteRT lacks.
        names = sorted(set(re.findall(r"error: '(tf\.\w+)' op", str(error)))) or [type(error).__name__]
        raise UserError(f"--litert: this model cannot be converted ({', '.join(names)}); leave the flag out") from None
    inputs = {spec.name: _example(spec) for spec in function.input_signature}
    expected = function(**{name: tf.constant(values) for name, values in inputs.items()})
    try:
        converted = LiteRTModel(model)(**inputs)
    except UserError:  # LiteRT cannot size the lists of an LSTM's loop
        raise UserError(
            "--litert: LiteRT cannot run the converted model, such as one with an LSTM or a CRF; leave the flag out"
        ) from None
    for name, values in expected.items():
        values = values.numpy()
        if values.dtype.kind == "f":
            is_same = np.abs(converted[name] - values).max() <= _TOLERANCE * max(1.0, np.abs(values).max())
        else:
            is_same = np.array_equal(converted[name], values)
        if not is_same:
            raise UserError(f"--litert: the converted model gives other values for {name}; leave the flag out")
    return model


def _example(spec):
    """Makes values for an input of a signature: a few ids, rows that end in padding, two segments, small numbers."""
    open_sizes = spec.shape.as_list().count(None)
    shape = (_BATCH, *[3] * (open_sizes - 2), _LENGTH)
    column = np.broadcast_to(np.arange(_LENGTH), shape)
    if spec.dtype.is_floating:
        return np.repeat(column[..., None] / _LENGTH, spec.shape[-1], axis=-1).astype(np.float32)
    values = {"input_word_ids": column * 3 % 5, "input_mask": column < _LENGTH - 2, "input_type_ids": column > 3}
    return values.get(spec.name, column % 2).astype(np.int32)

"""The signatures of a loaded model: their inputs, their outputs, and the function that runs them."""

import collections

import numpy as np
import tensorflow as tf

# A tensor of a signature. name: its name in requests. dtype: numpy dtype, object for strings. shape: tuple with None
# for sizes that may vary, or None for any rank.
TensorSpec = collections.namedtuple("TensorSpec", "name dtype shape")


class Signature:
    """One signature of one loaded version.

    Args:
        session: tf.compat.v1.Session. The session with the model's graph and variables.
        name: str. The name of the signature.
        definition: SignatureDef. Its inputs and outputs.

    Attributes:
        inputs: list of TensorSpec.
        outputs: list of TensorSpec.
        can_be_merged: bool. Whether the leading axis of every input and output is the batch axis. If so, the server can
            concatenate requests along it.
    """

    def __init__(self, session: tf.compat.v1.Session, name: str, definition):
        self.name = name
        self.inputs = [_spec(alias, info) for alias, info in sorted(definition.inputs.items())]
        self.outputs = [_spec(alias, info) for alias, info in sorted(definition.outputs.items())]
        self.can_be_merged = all(spec.shape and spec.shape[0] is None for spec in self.inputs) and all(
            spec.shape is None or spec.shape and spec.shape[0] is None for spec in self.outputs
        )
        self._call = session.make_callable(
            [definition.outputs[spec.name].name for spec in self.outputs],
            [definition.inputs[spec.name].name for spec in self.inputs],
            accept_options=True,
        )

    def run(self, arrays: list[np.ndarray], options=None) -> list[np.ndarray]:
        """Runs the signature.

        The session refuses arrays of a wrong rank before a kernel reads them. This matters, because the kernels of
        tensorflow-text end the process when they get a scalar.

        Args:
            arrays: list of np.ndarray in the order of `inputs`.
            options: tf.compat.v1.RunOptions. Its timeout_in_ms ends a run between two ops.

        Returns:
            list of np.ndarray in the order of `outputs`.

        Raises:
            tf.errors.OpError: the model failed.
            ValueError: the arrays do not have the signature's shapes.
        """
        return self._call(*arrays, options=options)


def can_be_served(definition) -> bool:
    """Returns whether requests can name a signature.

    Such a signature has inputs and outputs, and all of them are plain tensors.

    Args:
        definition: SignatureDef. The signature.
    """
    if not definition.inputs or not definition.outputs:
        return False
    tensors = [*definition.inputs.values(), *definition.outputs.values()]
    return all(info.WhichOneof("encoding") == "name" for info in tensors)


def _spec(alias, info):
    dtype = tf.dtypes.as_dtype(info.dtype)
    shape = (
        None
        if info.tensor_shape.unknown_rank
        else tuple(None if dimension.size < 0 else dimension.size for dimension in info.tensor_shape.dim)
    )
    return TensorSpec(alias, np.dtype(object) if dtype == tf.string else np.dtype(dtype.as_numpy_dtype), shape)

"""The mean of several checkpoints of a run (Vaswani et al. 2017, section 6.1)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_bert_app.errors import UserError
from keras_bert_app.runs import checkpoints


def load_mean(directories: Sequence[str], model: Any) -> None:
    """Gives a model the mean of its weights in several checkpoints.

    Args:
        directories: the checkpoints. Their number is N.
        model: a Keras model.

    Raises:
        UserError: a checkpoint is damaged or has other weights.
    """
    sums = {}
    for directory in directories:
        tensors, _ = checkpoints.read_tensors(directory)
        if sums and tensors.keys() != sums.keys():
            raise UserError(f"checkpoint {directory}: has other weights than {directories[0]}; start another --workdir")
        for path, tensor in tensors.items():
            sums[path] = sums.get(path, 0.0) + tensor.astype(np.float64)
    for path, variable in checkpoints.model_variables(model).items():
        variable.assign((sums[path] / len(directories)).astype(variable.dtype.as_numpy_dtype))

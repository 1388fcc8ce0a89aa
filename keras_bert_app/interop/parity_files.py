"""Reads and writes parity.npz, a batch and the outputs that an implementation computed from it.

The module needs numpy only. The file lies beside a model. It has int32 arrays inputs/NAME, float32 arrays outputs/NAME,
and made_by, a line that names the implementation.
"""

import os
import zipfile

import numpy as np

from keras_bert_app.config import bert_config
from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.errors import UserError
from pipelines import storage

NAME = "parity.npz"
INPUTS = (*bert_config.INPUTS, "masked_lm_positions")
_MAX_BYTES = 1 << 28  # BERT-large with a multilingual vocabulary needs about 25 MB.


def write(
    path: str | os.PathLike,
    inputs: dict[str, np.ndarray],
    outputs: dict[str, np.ndarray] | None = None,
    made_by: str = "",
) -> None:
    """Writes a batch and its outputs to a file, completely or not at all.

    Args:
        path: str or os.PathLike. Local file to write.
        inputs: dict of int32 arrays. The batch, by the names in INPUTS.
        outputs: dict of float32 arrays or None. The outputs, by name.
        made_by: str. Name and version of the implementation that computed the outputs.
    """
    with storage.whole_file(path) as file:
        np.savez(
            file,
            made_by=made_by,
            **{f"inputs/{name}": values for name, values in inputs.items()},
            **{f"outputs/{name}": values for name, values in (outputs or {}).items()},
        )


def read(path: str | os.PathLike, config: BertConfig) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], str]:
    """Reads a file, and checks that its inputs are valid for a configuration.

    Args:
        path: str or os.PathLike. Local file.
        config: BertConfig. Configuration of the model that the file belongs to.

    Returns:
        Tuple (inputs, outputs, made_by): dict of int32 arrays, dict of float32 arrays, str.

    Raises:
        UserError: The file is damaged, too large, or belongs to another model.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > _MAX_BYTES:
            raise ValueError(f"{size:,} bytes unpacked; expected at most {_MAX_BYTES:,}")
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        made_by = " ".join(str(arrays["made_by"]).split())[:80]
        inputs, outputs = (
            {name.removeprefix(side): values for name, values in arrays.items() if name.startswith(side)}
            for side in ("inputs/", "outputs/")
        )
        if any(values.dtype != np.float32 or not values.size for values in outputs.values()):
            raise ValueError("an output is empty, or not float32")
    except Exception as error:  # numpy and zipfile raise errors of many classes for damaged files.
        raise UserError(
            f"{path}: is not a valid {NAME} ({type(error).__name__}: {str(error)[:80]}); "
            "delete it, or restore the file that was written for this model"
        ) from None
    if not _fits(inputs, config):
        raise UserError(
            f"{path}: its inputs do not fit this configuration; delete it, or restore the file "
            "that was written for these weights"
        )
    return inputs, outputs, made_by


def _fits(inputs, config):
    if inputs.keys() != set(INPUTS) or any(
        values.ndim != 2 or values.dtype != np.int32 or not values.size for values in inputs.values()
    ):
        return False
    ids, mask, types, positions = (inputs[name] for name in INPUTS)
    limits = (config.vocab_size, 2, config.type_vocab_size, ids.shape[1])
    return (
        ids.shape == mask.shape == types.shape
        and len(positions) == len(ids)
        and ids.shape[1] <= config.max_position_embeddings
        and all(
            0 <= values.min() and values.max() < limit
            for values, limit in zip((ids, mask, types, positions), limits, strict=True)
        )
    )

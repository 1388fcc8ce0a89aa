"""parity.npz: a batch and what an implementation computed from it, kept beside a model. numpy only.

Arrays inputs/NAME int32 and outputs/NAME float32, and made_by, a line that says who computed them.
"""

import os
import zipfile

import numpy as np

from keras_bert_app.errors import UserError

NAME = "parity.npz"
INPUTS = ("input_word_ids", "input_mask", "input_type_ids", "masked_lm_positions")
_MAX_BYTES = 1 << 28  # BERT-large with a multilingual vocabulary: some 25 MB


def write(path, inputs, outputs=None, made_by=""):
    """Writes dicts of arrays by name; under a temporary name first, so that no half file is ever read."""
    with open(f"{path}.writing", "wb") as file:
        np.savez(
            file,
            made_by=made_by,
            **{f"inputs/{name}": values for name, values in inputs.items()},
            **{f"outputs/{name}": values for name, values in (outputs or {}).items()},
        )
    os.replace(f"{path}.writing", path)


def read(path, config):
    """(inputs, outputs, made_by) of a file whose inputs a model of this configuration can take.

    Raises:
        UserError: it is damaged, too large, or of another model.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > _MAX_BYTES:
            raise ValueError(f"{size:,} bytes unpacked; expected at most {_MAX_BYTES:,}")
        with np.load(path, allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files}
        made_by = " ".join(str(found["made_by"]).split())[:80]
        inputs, outputs = (
            {name.removeprefix(side): values for name, values in found.items() if name.startswith(side)}
            for side in ("inputs/", "outputs/")
        )
        if any(values.dtype != np.float32 or not values.size for values in outputs.values()):
            raise ValueError("an output is empty, or not float32")
    except Exception as error:  # whatever numpy and zipfile raise of damaged files, in many classes
        raise UserError(
            f"{path}: is no {NAME} as it was written ({type(error).__name__}: {str(error)[:80]}); "
            "delete it, or put back the one that belongs there"
        ) from None
    if not _fits(inputs, config):
        raise UserError(
            f"{path}: its inputs are none that this configuration can take; delete it, or put back the one "
            "that belongs to these weights"
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
            0 <= values.min() and values.max() < limit for values, limit in zip((ids, mask, types, positions), limits)
        )
    )

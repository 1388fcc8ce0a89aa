"""HDF5 files of plain arrays, as Keras saves weights, read without following where a file may point.

HDF5 can link to other files, keep data in them, load filters by name, and declare arrays far larger than the file.
Keras does none of this when it saves; so every array must lie whole and unpacked in the file itself, and all of them
together must fit into it. That is checked for each array before any is read.
"""

import math
import os

import h5py
import ml_dtypes
import numpy as np

from keras_bert_app.errors import UserError

_MAX_ENTRIES = 10_000  # BERT-large with two optimizer slots has a third of it
_MAX_DEPTH = 30  # of groups; Keras makes seven for an attention kernel
_MAX_NAME_LENGTH = 500
_PLAIN_LAYOUTS = (h5py.h5d.CONTIGUOUS, h5py.h5d.COMPACT)


def read_tensors(path, is_wanted):
    """The arrays of a local file.

    Args:
        path: of the file. is_wanted: function of an array's name, such as "layers/dense/vars/0": whether to read it.

    Returns:
        (dict name -> float32 array of what is wanted; dict name -> shape of the rest). float64, float16 and bfloat16
        are cast.

    Raises:
        UserError: the file is damaged, or uses what could make reading it unsafe; or an array that is wanted holds no
            floating-point numbers.
    """
    path = str(path)
    try:
        with h5py.File(path, "r") as file:
            datasets = _datasets(file)
            declared = sum(_checked_size(name, dataset) for name, dataset in datasets.items())
            if declared > os.path.getsize(path):
                raise ValueError(f"its arrays take {declared:,} bytes, the file has {os.path.getsize(path):,}")
            # Types first, so that a file which is refused is refused before memory is taken.
            wanted = {name: _stored_type(path, name, dataset) for name, dataset in datasets.items() if is_wanted(name)}
            tensors = {name: np.asarray(datasets[name][()].view(dtype), np.float32) for name, dtype in wanted.items()}
            return tensors, {name: dataset.shape for name, dataset in datasets.items() if name not in tensors}
    except UserError:
        raise
    except Exception as error:  # on a damaged file h5py raises errors of many classes
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise UserError(
            f"{path}: is not an HDF5 file as Keras saves weights: {reason}; it is damaged or was made to "
            "look like one, fetch it again"
        ) from None


def _datasets(file):
    """dict name -> h5py.Dataset of a whole file, by hard links only. Raises ValueError."""
    found, groups = {}, [("", file, 0)]
    entries = 0
    while groups:
        prefix, group, depth = groups.pop()
        for name in group:
            entries += 1
            # Groups may hold each other in circles.
            if entries > _MAX_ENTRIES or depth > _MAX_DEPTH:
                raise ValueError(f"over {_MAX_ENTRIES:,} entries, or nested over {_MAX_DEPTH} deep")
            path = f"{prefix}{name}"
            if len(path) > _MAX_NAME_LENGTH or not path.isprintable():
                raise ValueError(f"the name {path[:50]!r} is too long, or has characters that cannot be printed")
            if type(group.get(name, getlink=True)) is not h5py.HardLink:
                raise ValueError(f"{path} is a link, which may lead to another file")
            child = group[name]
            if isinstance(child, h5py.Group):
                groups.append((f"{path}/", child, depth + 1))
            elif isinstance(child, h5py.Dataset):
                found[path] = child
            else:
                raise ValueError(f"{path} is neither a group nor an array")
    return found


def _checked_size(name, dataset):
    """The bytes that an array takes in its file. Raises ValueError."""
    properties = dataset.id.get_create_plist()
    if properties.get_layout() not in _PLAIN_LAYOUTS or properties.get_external_count():
        raise ValueError(f"{name} lies in pieces, compressed, or in another file")
    declared, stored = math.prod(dataset.shape) * dataset.dtype.itemsize, dataset.id.get_storage_size()
    if declared != stored:
        raise ValueError(f"{name}, {dataset.dtype} {list(dataset.shape)}, takes {declared:,} bytes, not {stored:,}")
    return declared


def _stored_type(path, name, dataset):
    """The floating-point type of an array; Keras writes bfloat16 as two bytes without a type."""
    if dataset.dtype.kind == "f":
        return dataset.dtype
    if dataset.dtype.kind == "V" and dataset.dtype.itemsize == 2 and dataset.dtype.names is None:
        return np.dtype(ml_dtypes.bfloat16)
    raise UserError(
        f"{path}: {name} is of type {dataset.dtype}; expected floating-point numbers, as a model has that "
        "is not quantized"
    )

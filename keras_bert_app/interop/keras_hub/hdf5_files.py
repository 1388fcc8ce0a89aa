"""Reads HDF5 files of plain arrays, as Keras saves weights, from unknown sources.

An HDF5 file can link to other files, store data in them, load filters by name, and declare arrays far larger than the
file. Keras uses none of this when it saves weights. This module therefore requires that the file itself holds
every array without compression, and that all arrays fit into the file. It checks all arrays before it reads any.
"""

import math
import os
from collections.abc import Callable

import h5py
import ml_dtypes
import numpy as np

from keras_bert_app.errors import UserError, first_line

_MAX_ENTRIES = 10_000  # BERT-large with two optimizer slots has about 3,300.
_MAX_DEPTH = 30  # Nested groups. Keras makes seven for an attention kernel.
_MAX_NAME_LENGTH = 500
_PLAIN_LAYOUTS = (h5py.h5d.CONTIGUOUS, h5py.h5d.COMPACT)


def read_tensors(
    path: str | os.PathLike, is_wanted: Callable[[str], bool]
) -> tuple[dict[str, np.ndarray], dict[str, tuple[int, ...]]]:
    """Reads the arrays of a local file.

    Args:
        path: str or os.PathLike. Local file.
        is_wanted: function of a str. Gets the name of an array, such as "layers/dense/vars/0". Returns True to read it.

    Returns:
        Tuple (dict name -> float32 array, dict name -> shape). The first has the wanted arrays, converted from float64,
        float16 or bfloat16. The second has the shapes of all others.

    Raises:
        UserError: The file is damaged or uses an unsafe feature of HDF5, or a wanted array is not of a float type.
    """
    path = str(path)
    try:
        with h5py.File(path, "r") as file:
            datasets = _datasets(file)
            declared = sum(_checked_size(name, dataset) for name, dataset in datasets.items())
            if declared > os.path.getsize(path):
                raise ValueError(f"its arrays take {declared:,} bytes, the file has {os.path.getsize(path):,}")
            # The code checks all types before it reads the first array, so a refused file needs no memory.
            wanted = {name: _stored_type(path, name, dataset) for name, dataset in datasets.items() if is_wanted(name)}
            tensors = {name: np.asarray(datasets[name][()].view(dtype), np.float32) for name, dtype in wanted.items()}
            return tensors, {name: dataset.shape for name, dataset in datasets.items() if name not in tensors}
    except UserError:
        raise
    except Exception as error:  # For damaged files h5py raises errors of many classes.
        reason = first_line(error)
        raise UserError(
            f"{path}: is not an HDF5 file as Keras saves weights: {reason}; it is damaged or was made to "
            "look like one, fetch it again"
        ) from None


def _datasets(file):
    """Lists the arrays of a file as dict name -> h5py.Dataset. Raises ValueError for anything but hard links."""
    datasets, groups = {}, [("", file, 0)]
    num_entries = 0
    while groups:
        prefix, group, depth = groups.pop()
        for name in group:
            num_entries += 1
            # Groups may contain each other, so the search needs limits.
            if num_entries > _MAX_ENTRIES or depth > _MAX_DEPTH:
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
                datasets[path] = child
            else:
                raise ValueError(f"{path} is neither a group nor an array")
    return datasets


def _checked_size(name, dataset):
    """Returns the size of an array in bytes. Raises ValueError if the file does not store plain data."""
    properties = dataset.id.get_create_plist()
    if properties.get_layout() not in _PLAIN_LAYOUTS or properties.get_external_count():
        raise ValueError(f"{name} is stored in pieces, compressed, or in another file")
    declared, stored = math.prod(dataset.shape) * dataset.dtype.itemsize, dataset.id.get_storage_size()
    if declared != stored:
        raise ValueError(f"{name}, {dataset.dtype} {list(dataset.shape)}, takes {declared:,} bytes, not {stored:,}")
    return declared


def _stored_type(path, name, dataset):
    """Returns the floating-point type of an array. Keras writes bfloat16 as two bytes without a type."""
    if dataset.dtype.kind == "f":
        return dataset.dtype
    if dataset.dtype.kind == "V" and dataset.dtype.itemsize == 2 and dataset.dtype.names is None:
        return np.dtype(ml_dtypes.bfloat16)
    raise UserError(
        f"{path}: {name} is of type {dataset.dtype}; expected floating-point numbers; "
        "take a model that is not quantized"
    )

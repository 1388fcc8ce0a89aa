"""Reads and writes the safetensors format with numpy.

A file has a JSON header of names, types and byte ranges, and then the bytes. The reader trusts no file. It checks the
header against the size of the file, and each tensor's shape and type against its byte range. It makes
all checks before it reads the first tensor, so a refused file needs only the memory of its header. The reader does not
map files into memory, because the process dies if another program cuts a mapped file. Remote files cannot be mapped.

Format: https://github.com/huggingface/safetensors, section "Format".
"""

import json
import math
import os
import struct
import typing

import ml_dtypes
import numpy as np

from keras_bert_app.errors import UserError
from pipelines import storage

_MAX_HEADER_BYTES = 100_000_000  # The limit of the format.
# A tensor has about 6 commas, so the limit is 300 times the largest BERT. Without it a header of 100 MB could become
# gigabytes of Python objects.
_MAX_HEADER_COMMAS = 1_000_000
_MAX_NAME_LENGTH = 500
_FLOATS = {"F64": np.dtype("<f8"), "F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype(ml_dtypes.bfloat16)}
# Item sizes of all types in bytes. A file may have a buffer of another type, which is checked but never read.
_ITEM_SIZES = {name: dtype.itemsize for name, dtype in _FLOATS.items()} | {
    "BOOL": 1,
    "U8": 1,
    "I8": 1,
    "F8_E5M2": 1,
    "F8_E4M3": 1,
    "F8_E8M0": 1,
    "I16": 2,
    "U16": 2,
    "I32": 4,
    "U32": 4,
    "I64": 8,
    "U64": 8,
    "C64": 8,
}


class Entry(typing.NamedTuple):
    """Position of a tensor in a file.

    Attributes:
        path: str. The file.
        name: str. Name of the tensor.
        dtype: str. Type as the format names it, such as "F32".
        shape: tuple of int.
        offset: int. Position in bytes from the start of the file.
        size: int. Size in bytes.
    """

    path: str
    name: str
    dtype: str
    shape: tuple
    offset: int
    size: int


def read_header(path: str | os.PathLike) -> dict[str, Entry]:
    """Reads and checks the header of a file.

    Args:
        path: str or os.PathLike. Local or remote file.

    Returns:
        dict name -> Entry. All tensors of the file.

    Raises:
        UserError: The file breaks a rule of the format.
    """
    path = str(path)
    file_size = storage.size_of(path)
    if file_size < 8:
        raise _refusal(path, f"it has {file_size} bytes; the length of the header alone takes 8")
    (header_size,) = struct.unpack("<Q", storage.read_range(path, 0, 8))
    if header_size > _MAX_HEADER_BYTES:
        raise _refusal(path, f"a header of {header_size:,} bytes; at most {_MAX_HEADER_BYTES:,} are allowed")
    if header_size > file_size - 8:
        raise _refusal(path, f"a header of {header_size:,} bytes in a file of {file_size:,}")
    try:
        fields = _parse(storage.read_range(path, 8, header_size))
        _check_metadata(fields.pop("__metadata__", {}))
        entries = {name: _entry(path, 8 + header_size, name, field) for name, field in fields.items()}
    except ValueError as error:
        raise _refusal(path, error) from None
    end = 8 + header_size
    for entry in sorted(entries.values(), key=lambda entry: (entry.offset, entry.size)):
        if entry.offset != end:
            what = "overlaps the bytes before it" if entry.offset < end else "leaves a hole before it"
            raise _refusal(path, f"tensor {entry.name!r} {what}")
        end += entry.size
    if end != file_size:
        raise _refusal(path, f"its tensors end at byte {end:,}, the file at {file_size:,}")
    return entries


def read_tensor(entry: Entry) -> np.ndarray:
    """Reads a tensor. Converts float64, float16 and bfloat16 to float32.

    Args:
        entry: Entry. Position of the tensor, from read_header.

    Returns:
        float32 array of the shape in the header.

    Raises:
        UserError: The tensor has another type, such as integers or quantized weights, or the file has become shorter.
    """
    if entry.dtype not in _FLOATS:
        raise UserError(
            f"{entry.path}: tensor {entry.name!r} is of type {entry.dtype}; expected one of {', '.join(_FLOATS)}"
        )
    dtype = _FLOATS[entry.dtype]
    if storage.is_remote(entry.path):
        data = bytearray(storage.read_range(entry.path, entry.offset, entry.size))
        values = np.frombuffer(data, dtype, len(data) // dtype.itemsize)
    else:
        values = np.fromfile(entry.path, dtype, entry.size // dtype.itemsize, offset=entry.offset)
    if values.nbytes != entry.size:
        raise _refusal(entry.path, f"it ends within tensor {entry.name!r}")
    return values.astype(np.float32, copy=False).reshape(entry.shape)


def write(path: str | os.PathLike, tensors: dict[str, np.ndarray]) -> None:
    """Writes a file like the library for PyTorch: sorted by name, with the metadata {"format": "pt"}.

    Args:
        path: str or os.PathLike. Local file to write.
        tensors: dict name -> float32 array.
    """
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name in sorted(tensors):
        start, end = end, end + tensors[name].size * 4
        header[name] = {"dtype": "F32", "shape": list(tensors[name].shape), "data_offsets": [start, end]}
    encoded = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    encoded += b" " * (-len(encoded) % 8)  # Padding aligns the tensors to 8 bytes.
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(encoded)) + encoded)
        for name in sorted(tensors):
            np.ascontiguousarray(tensors[name], "<f4").tofile(file)


def _parse(header):
    """Parses the header. Raises ValueError, also for invalid JSON and UTF-8."""
    if not header.startswith(b"{"):
        raise ValueError("the header does not begin with {")
    if header.count(b",") > _MAX_HEADER_COMMAS:
        raise ValueError(f"a header of over {_MAX_HEADER_COMMAS:,} values")
    try:
        return json.loads(header.decode("utf-8"), object_pairs_hook=_without_duplicates)
    except RecursionError:
        raise ValueError("a header nested without end") from None


def _without_duplicates(pairs):
    values = {}
    for name, value in pairs:
        if name in values:
            raise ValueError(f"{name[:50]!r} appears twice")
        values[name] = value
    return values


def _check_metadata(metadata):
    if metadata is None:  # The safetensors library also accepts null.
        return
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError("__metadata__ is not a map of strings")


def _entry(path, data_start, name, field):
    """Builds an Entry, and checks that its byte range fits its shape and type. Raises ValueError."""
    if len(name) > _MAX_NAME_LENGTH or not name.isprintable():
        raise ValueError(f"the tensor name {name[:50]!r} is too long, or has characters that cannot be printed")
    if not isinstance(field, dict) or not {"dtype", "shape", "data_offsets"} <= field.keys():
        raise ValueError(f"tensor {name!r} lacks dtype, shape or data_offsets")
    dtype, shape, offsets = field["dtype"], field["shape"], field["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _ITEM_SIZES:
        raise ValueError(f"tensor {name!r} is of the unknown type {str(dtype)[:50]!r}")
    if not _are_sizes(shape) or not _are_sizes(offsets) or len(offsets) != 2:
        raise ValueError(
            f"tensor {name!r} has shape {str(shape)[:100]} and data_offsets {str(offsets)[:100]}; "
            "expected lists of whole numbers from 0"
        )
    # numpy cannot make an array of such a shape, even if one dimension is 0.
    if math.prod(length or 1 for length in shape) * _ITEM_SIZES[dtype] >= 1 << 63:
        raise ValueError(f"tensor {name!r} has shape {str(shape)[:100]}, more than can be addressed")
    start, end = offsets
    size = math.prod(shape) * _ITEM_SIZES[dtype]
    if size != end - start:
        raise ValueError(f"tensor {name!r} is {dtype} {shape}, which is {size:,} bytes, but has {end - start:,}")
    return Entry(path, name, dtype, tuple(shape), data_start + start, size)


def _are_sizes(values):
    """Checks for a list of at most 8 whole numbers from 0 that fit into 8 bytes."""
    return (
        isinstance(values, list)
        and len(values) <= 8
        and all(type(value) is int and 0 <= value < 1 << 63 for value in values)
    )


def _refusal(path, what):
    return UserError(
        f"{path}: is not a safetensors file as that format defines it: {what}; it is damaged or was made "
        "to look like one, fetch it again"
    )

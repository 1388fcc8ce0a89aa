"""The safetensors format, read and written with numpy: a JSON header of names, types and byte ranges, then the bytes.

Nothing of a file is believed before it is checked: the header against the file's size, and each tensor's shape and
type against its byte range. Only then is a tensor read, so that a file that is refused costs no more memory than its
header. Tensors are read range by range, not memory-mapped: a mapped file that is cut short by somebody else kills the
process, and a bucket cannot be mapped.

Format: https://github.com/huggingface/safetensors, section "Format".
"""

import json
import math
import struct
import typing

import ml_dtypes
import numpy as np

from keras_bert_app.errors import UserError
from keras_bert_app.interop import bounded_files

_MAX_HEADER_BYTES = 100_000_000  # the format's own limit
# A tensor has about 6 commas, so this is 300 times the largest BERT; a header of 100 MB without it could become
# gigabytes of Python objects.
_MAX_HEADER_COMMAS = 1_000_000
_MAX_NAME_LENGTH = 500
_FLOATS = {"F64": np.dtype("<f8"), "F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype(ml_dtypes.bfloat16)}
# The format's other types, in bytes: measured, so that a file with a buffer of one is readable, but never read.
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
    """Where a tensor lies: dtype as the format names it, offset and size in bytes from the start of the file."""

    path: str
    name: str
    dtype: str
    shape: tuple
    offset: int
    size: int


def read_header(path):
    """dict name -> Entry of every tensor of a file, local or anything tf.io.gfile opens.

    Raises:
        UserError: the file breaks a rule of the format; no tensor has been read then.
    """
    path = str(path)
    file_size = bounded_files.size_of(path)
    if file_size < 8:
        raise _refusal(path, f"it has {file_size} bytes; the length of the header alone takes 8")
    (header_size,) = struct.unpack("<Q", bounded_files.read_range(path, 0, 8))
    if header_size > _MAX_HEADER_BYTES:
        raise _refusal(path, f"a header of {header_size:,} bytes; at most {_MAX_HEADER_BYTES:,} are allowed")
    if header_size > file_size - 8:
        raise _refusal(path, f"a header of {header_size:,} bytes in a file of {file_size:,}")
    try:
        fields = _parse(bounded_files.read_range(path, 8, header_size))
        _check_metadata(fields.pop("__metadata__", {}))
        entries = {name: _entry(path, 8 + header_size, name, field) for name, field in fields.items()}
    except ValueError as error:
        raise _refusal(path, error) from None
    end = 8 + header_size
    for entry in sorted(entries.values(), key=lambda entry: (entry.offset, entry.size)):
        if entry.offset != end:
            what = "overlaps what is before it" if entry.offset < end else "leaves a hole before it"
            raise _refusal(path, f"tensor {entry.name!r} {what}")
        end += entry.size
    if end != file_size:
        raise _refusal(path, f"its tensors end at byte {end:,}, the file at {file_size:,}")
    return entries


def read_tensor(entry):
    """A tensor as a float32 array of its shape; float64, float16 and bfloat16 are cast.

    Raises:
        UserError: another type (integers, quantized weights), or a file that has become shorter.
    """
    if entry.dtype not in _FLOATS:
        raise UserError(
            f"{entry.path}: tensor {entry.name!r} is of type {entry.dtype}; expected one of {', '.join(_FLOATS)}"
        )
    dtype = _FLOATS[entry.dtype]
    if "://" in entry.path:
        data = bytearray(bounded_files.read_range(entry.path, entry.offset, entry.size))
        values = np.frombuffer(data, dtype, len(data) // dtype.itemsize)
    else:
        values = np.fromfile(entry.path, dtype, entry.size // dtype.itemsize, offset=entry.offset)
    if values.nbytes != entry.size:
        raise _refusal(entry.path, f"it ends within tensor {entry.name!r}")
    return values.astype(np.float32, copy=False).reshape(entry.shape)


def write(path, tensors):
    """Writes a dict name -> float32 array as PyTorch's users expect it: sorted by name, metadata {"format": "pt"}."""
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name in sorted(tensors):
        start, end = end, end + tensors[name].size * 4
        header[name] = {"dtype": "F32", "shape": list(tensors[name].shape), "data_offsets": [start, end]}
    encoded = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    encoded += b" " * (-len(encoded) % 8)  # so that the tensors are aligned
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(encoded)) + encoded)
        for name in sorted(tensors):
            np.ascontiguousarray(tensors[name], "<f4").tofile(file)


def _parse(header):
    """The header as a dict. Raises ValueError, which JSON and UTF-8 faults are too."""
    if not header.startswith(b"{"):
        raise ValueError("the header does not begin with {")
    if header.count(b",") > _MAX_HEADER_COMMAS:
        raise ValueError(f"a header of over {_MAX_HEADER_COMMAS:,} values")
    try:
        return json.loads(header.decode("utf-8"), object_pairs_hook=_without_duplicates)
    except RecursionError:
        raise ValueError("a header nested without end") from None


def _without_duplicates(pairs):
    found = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name[:50]!r} is there twice")
        found[name] = value
    return found


def _check_metadata(metadata):
    if metadata is None:  # the library itself takes null for none
        return
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError("__metadata__ is not a map of strings")


def _entry(path, data_start, name, field):
    """A tensor's Entry, its byte range the one that its shape and type need. Raises ValueError."""
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
    # numpy makes no array of such a shape, not even an empty one.
    if math.prod(length or 1 for length in shape) * _ITEM_SIZES[dtype] >= 1 << 63:
        raise ValueError(f"tensor {name!r} has shape {str(shape)[:100]}, more than can be addressed")
    start, end = offsets
    size = math.prod(shape) * _ITEM_SIZES[dtype]
    if size != end - start:
        raise ValueError(f"tensor {name!r} is {dtype} {shape}, which is {size:,} bytes, but has {end - start:,}")
    return Entry(path, name, dtype, tuple(shape), data_start + start, size)


def _are_sizes(values):
    """Whether it is a list of few whole numbers that fit into 8 bytes."""
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

"""Reads TensorFlow checkpoints, PREFIX.index and PREFIX.data-SSSSS-of-NNNNN, from unknown sources.

TensorFlow's own reader trusts the index. A negative or too large dimension or an unknown type in it ends the process.
This module therefore checks the index against the sizes of the data files first. Then TensorFlow reads the tensors and
verifies their checksums. The index has the messages of tensorflow/core/protobuf/tensor_bundle.proto.
"""

import contextlib
import dataclasses
import itertools
import math
import os
import re
from collections.abc import Iterator

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import tensor_bundle_pb2

from keras_bert_app.errors import UserError, first_line
from keras_bert_app.files import check_in_folder
from keras_bert_app.runs.sorted_tables import read_varint, table_entries
from pipelines import storage

_MAX_INDEX_BYTES = 1 << 24  # The index of BERT-large with its optimizer slots has 100 KB.
_MAX_SHARDS = 10_000
_MAX_STATE_BYTES = 1 << 16  # The largest part of the file `checkpoint` that is read.
_MAX_RANK = 254  # The limit of TensorShape.
_MAX_ELEMENTS = 1 << 60
_LENGTH_CHECKSUM_SIZE = 4  # A string tensor has this checksum between its lengths and its bytes.
_NUMERIC = {
    dtype.as_datatype_enum: dtype
    for dtype in (
        tf.float16,
        tf.bfloat16,
        tf.float32,
        tf.float64,
        tf.bool,
        tf.int8,
        tf.int16,
        tf.int32,
        tf.int64,
        tf.uint8,
        tf.uint16,
        tf.uint32,
        tf.uint64,
    )
}


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A checkpoint with a valid index and data files of the right sizes. No tensor has been read yet.

    Attributes:
        prefix: str. Path without ".index".
        shapes: dict name -> tuple of int.
        dtypes: dict name -> tf.DType.
    """

    prefix: str
    shapes: dict
    dtypes: dict
    _entries: dict
    _reader: object
    _links: contextlib.ExitStack  # keeps the links alive that the reader needs for a prefix with wildcards

    def tensor(self, name: str):
        """Reads one tensor.

        Args:
            name: str. Name of the tensor.

        Returns:
            A float32 array for any floating type, an array of the same type for integers, or bytes for a single string.

        Raises:
            UserError: The checksum of the data is wrong, or a string has another length than it declares.
        """
        if self.dtypes[name] == tf.string:
            self._check_string(name)
        try:
            value = self._reader.get_tensor(name)
        except (tf.errors.OpError, ValueError, RuntimeError) as error:
            raise _damaged(self.prefix, f"{name} cannot be read: {first_line(error)}") from None
        return np.asarray(value, np.float32) if self.dtypes[name].is_floating else value

    def _check_string(self, name):
        entry = self._entries[name]
        path = _data_file(self.prefix, entry.shard_id, self._entries[""].num_shards)
        start = storage.read_range(path, entry.offset, min(entry.size, 10))
        try:
            length, prefix_size = read_varint(start, 0)
        except (IndexError, ValueError):
            length, prefix_size = -1, 0
        if self.shapes[name] or prefix_size + _LENGTH_CHECKSUM_SIZE + length != entry.size:
            raise _damaged(self.prefix, f"{name} is not a single string of the size that it says")


def open_checkpoint(prefix: str, folder: str = "") -> Checkpoint:
    """Opens a checkpoint, and checks its index against the sizes of the data files.

    Args:
        prefix: str. Local or remote path without ".index".
        folder: str. The directory that links must not lead out of; "" for the directory of the prefix.

    Returns:
        Checkpoint. No tensor has been read yet.

    Raises:
        UserError: A file is missing, cut short or damaged, or the index contradicts the data files.
    """
    entries = {}
    try:
        for name, value in _index_entries(prefix, folder):
            message = tensor_bundle_pb2.BundleEntryProto if name else tensor_bundle_pb2.BundleHeaderProto
            entries[name] = message.FromString(value)
        header = entries[""]
    except (DecodeError, KeyError):
        raise _damaged(prefix, "its index does not hold the messages of a checkpoint") from None
    shard_sizes = _shard_sizes(prefix, header.num_shards, folder)
    shapes, dtypes, ranges = {}, {}, []
    for name, entry in entries.items():
        if name:
            shapes[name], dtypes[name] = _checked_shape(prefix, name, entry, shard_sizes)
            ranges.append((entry.shard_id, entry.offset, entry.size, name))
    ranges.sort()
    for (shard, offset, size, name), (next_shard, next_offset, _, next_name) in itertools.pairwise(ranges):
        if shard == next_shard and next_offset < offset + size:
            raise _damaged(prefix, f"{name} and {next_name} share bytes")
    links = contextlib.ExitStack()
    try:
        # tf.train.load_checkpoint mistakes a prefix in some object stores for a directory.
        reader = tf.compat.v1.train.NewCheckpointReader(_literal_prefix(prefix, header.num_shards, links))
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise _damaged(prefix, f"TensorFlow cannot open it: {first_line(error)}") from None
    return Checkpoint(prefix, shapes, dtypes, entries, reader, links)


def _literal_prefix(prefix, num_shards, links):
    """A prefix of the same files that TensorFlow does not mistake for a pattern. `links` keeps it alive."""
    if not storage.has_wildcards(prefix):
        return prefix
    endings = [".index", *(_data_file("", shard, num_shards) for shard in range(num_shards))]
    directory = links.enter_context(storage.linked({f"checkpoint{ending}": prefix + ending for ending in endings}))
    return os.path.join(directory, "checkpoint")


def tensor_names(prefix: str) -> list[str]:
    """Lists the names of a checkpoint's tensors. It reads only the index.

    Args:
        prefix: str. Local or remote path without ".index".

    Returns:
        list of str. The names, sorted.

    Raises:
        UserError: The index is missing, cut short or damaged.
    """
    return [name for name, _ in _index_entries(prefix) if name]


def find_prefix(path: str | os.PathLike) -> str | None:
    """Finds the prefix of the checkpoint that a path stands for.

    Args:
        path: str or os.PathLike. A prefix, or a directory with one checkpoint or the checkpoints of one run. For a run,
            the file `checkpoint` names the newest one. If this file is missing or wrong, the highest step counts.

    Returns:
        str or None. None if the path has no checkpoint.

    Raises:
        UserError: The directory has several checkpoints that do not belong to one run.
    """
    path = os.fspath(path)
    if storage.exists(f"{path}.index"):
        return path
    if not storage.is_directory(path):
        return None
    names = [name.removesuffix(".index") for name in storage.list_directory(path) if name.endswith(".index")]
    newest = _named_by_state_file(path)
    if newest not in names:
        steps = {name: re.fullmatch(r"(.*-)([0-9]+)", name) for name in names}
        if len(names) > 1 and (None in steps.values() or len({match[1] for match in steps.values()}) > 1):
            raise UserError(
                f"{path}: holds several checkpoints ({', '.join(names[:8])}); give the path of one, such "
                f"as {os.path.join(path, names[0])}"
            )
        newest = max(names, key=lambda name: int(steps[name][2]) if steps[name] else 0, default=None)
    return newest and os.path.join(path, newest)


def _index_entries(prefix: str, folder: str = "") -> Iterator[tuple[str, bytes]]:
    """Generates (name, bytes of the message) for each entry of PREFIX.index. The header has the name ""."""
    path = f"{prefix}.index"
    check_in_folder(path, folder or os.path.dirname(path) or ".")
    try:
        size = tf.io.gfile.stat(path).length
        if size > _MAX_INDEX_BYTES:
            raise _damaged(prefix, f"its index has {size:,} bytes; expected at most {_MAX_INDEX_BYTES:,}")
        with tf.io.gfile.GFile(path, "rb") as file:
            data = file.read()
    except tf.errors.OpError as error:
        raise UserError(f"{path}: cannot be read ({type(error).__name__}); expected a checkpoint's index") from None
    try:
        for key, value in table_entries(data):
            # The key of a tensor's slice begins with NUL and is not text. _checked_shape refuses it.
            name = key.decode("utf-8", "replace" if key.startswith(b"\0") else "strict")
            if not name.startswith("\0") and not name.isprintable():
                raise ValueError(f"the name {name[:50]!r} has characters that cannot be printed")
            yield name, value
    except ValueError as error:  # Includes UnicodeDecodeError.
        raise _damaged(prefix, f"its index cannot be read: {error}") from None


def _shard_sizes(prefix, num_shards, folder):
    if not 1 <= num_shards <= _MAX_SHARDS:
        raise _damaged(prefix, f"its index declares {num_shards} data files")
    sizes = []
    for shard in range(num_shards):
        path = _data_file(prefix, shard, num_shards)
        check_in_folder(path, folder or os.path.dirname(path) or ".")
        try:
            sizes.append(tf.io.gfile.stat(path).length)
        except tf.errors.OpError:
            raise UserError(f"{path}: is missing; the index counts {num_shards} such file(s): copy them all") from None
    return sizes


def _data_file(prefix, shard, num_shards):
    return f"{prefix}.data-{shard:05d}-of-{num_shards:05d}"


def _checked_shape(prefix, name, entry, shard_sizes):
    """Checks an entry against the size of its data file. Returns (shape, tf.DType)."""
    if entry.slices or name.startswith("\0"):
        raise UserError(f"{prefix}: has tensors saved in slices; save it again without a partitioner")
    shape = tuple(dim.size for dim in entry.shape.dim)
    dtype = tf.string if entry.dtype == tf.string.as_datatype_enum else _NUMERIC.get(entry.dtype)
    if dtype is None:
        raise _damaged(prefix, f"{name} has no type that a weight can have ({entry.dtype})")
    if (
        entry.shape.unknown_rank
        or min(shape, default=0) < 0
        or len(shape) > _MAX_RANK
        or math.prod(max(size, 1) for size in shape) > _MAX_ELEMENTS
    ):
        raise _damaged(prefix, f"{name} has the shape {str(list(shape[:8]))[:-1]}{', ...' * (len(shape) > 8)}]")
    elements = math.prod(shape)
    # Each string takes at least one byte.
    if elements > entry.size if dtype == tf.string else elements * dtype.size != entry.size:
        raise _damaged(
            prefix, f"{name}, {dtype.name} {list(shape)}, is not of the {entry.size:,} bytes that its index says"
        )
    if not 0 <= entry.shard_id < len(shard_sizes):
        raise _damaged(prefix, f"its index puts {name} into data file {entry.shard_id} of {len(shard_sizes)}")
    if min(entry.offset, entry.size) < 0 or entry.offset + entry.size > shard_sizes[entry.shard_id]:
        path = _data_file(prefix, entry.shard_id, len(shard_sizes))
        raise _damaged(
            prefix,
            f"{name} would end at byte {entry.offset + entry.size:,} of {path}, which has "
            f"{shard_sizes[entry.shard_id]:,}",
        )
    return shape, dtype


def _named_by_state_file(directory):
    """The name of the newest checkpoint in the file `checkpoint`, or None.

    The function drops the directory, because the file may come from another machine.
    """
    path = os.path.join(directory, "checkpoint")
    if not storage.is_file(path):
        return None
    try:
        content = storage.read_range(path, 0, _MAX_STATE_BYTES)
    except (OSError, tf.errors.OpError):
        return None
    match = re.search(rb'^model_checkpoint_path: "([^"]*)"', content, re.MULTILINE)
    return match and os.path.basename(os.fsdecode(match[1]))


def _damaged(prefix, what):
    return UserError(f"{prefix}: is not an intact checkpoint: {what}; copy or download it again")

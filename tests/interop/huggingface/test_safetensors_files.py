"""Tests that files of the safetensors library are read, and that files that break a rule of the format are refused."""

import json
import struct
import tracemalloc

import ml_dtypes
import numpy as np
import pytest

from keras_bert_app.errors import UserError
from keras_bert_app.interop.huggingface import safetensors_files

MODELS = ("pretraining", "masked_lm_untied", "encoder", "question_answering")


def file_of(directory, header, data=b"", header_size=None):
    """Writes a file with any header and data. The header is an object or bytes."""
    encoded = header if isinstance(header, bytes) else json.dumps(header).encode()
    path = directory / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(encoded) if header_size is None else header_size) + encoded + data)
    return path


def entry(shape, start, end, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def read_all(path):
    return {name: safetensors_files.read_tensor(stored) for name, stored in safetensors_files.read_header(path).items()}


@pytest.mark.parametrize("model", MODELS)
def test_a_file_is_written_byte_for_byte_as_the_library_itself_writes_it(model, golden, tmp_path):
    source = golden / "huggingface_files" / model / "model.safetensors"
    tensors = read_all(source)
    safetensors_files.write(tmp_path / "again.safetensors", dict(reversed(tensors.items())))
    assert (tmp_path / "again.safetensors").read_bytes() == source.read_bytes()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_is_read_as_float32_of_the_same_value(dtype, golden):
    exact = read_all(golden / "huggingface_files" / "encoder" / "model.safetensors")
    half_precision = read_all(golden / "huggingface_files" / f"encoder_{np.dtype(dtype).name}" / "model.safetensors")
    assert half_precision.keys() == exact.keys()
    for name, values in exact.items():
        assert half_precision[name].dtype == np.float32
        np.testing.assert_array_equal(half_precision[name], values.astype(dtype).astype(np.float32))


def test_float64_is_cast_and_scalars_and_empty_tensors_have_their_shapes(tmp_path):
    values = np.array([1 / 3, 2.0, -5e-9])
    path = file_of(
        tmp_path,
        {"a": entry([3], 0, 24, "F64"), "s": entry([], 24, 28), "e": entry([0, 7], 28, 28)},
        values.tobytes() + np.float32(4.5).tobytes(),
    )
    tensors = read_all(path)
    np.testing.assert_array_equal(tensors["a"], values.astype(np.float32))
    assert tensors["s"] == np.float32(4.5) and tensors["s"].shape == () and tensors["e"].shape == (0, 7)


def test_a_buffer_of_integers_is_listed_but_not_read_as_weights(tmp_path):
    path = file_of(tmp_path, {"ids": entry([2], 0, 16, "I64")}, bytes(16))
    (stored,) = safetensors_files.read_header(path).values()
    assert stored.shape == (2,)
    with pytest.raises(UserError, match="'ids' is of type I64; expected one of F64, F32, F16, BF16"):
        safetensors_files.read_tensor(stored)


@pytest.mark.parametrize("scheme", ["", "file://"])
@pytest.mark.parametrize("num_lost", [1, 4, 16])
def test_a_file_that_was_cut_after_its_header_was_read_is_refused(scheme, num_lost, tmp_path):
    path = file_of(tmp_path, {"a": entry([4], 0, 16)}, bytes(16))
    (stored,) = safetensors_files.read_header(f"{scheme}{path}").values()
    path.write_bytes(path.read_bytes()[:-num_lost])
    with pytest.raises(UserError, match="it ends within tensor 'a'"):
        safetensors_files.read_tensor(stored)


def test_a_header_may_be_padded_with_blanks_and_carry_metadata(tmp_path):
    for metadata in ({"format": "pt"}, {}, None):
        header = json.dumps({"__metadata__": metadata, "a": entry([1], 0, 4)}).encode() + b"   "
        assert read_all(file_of(tmp_path, header, bytes(4))) == {"a": 0.0}


HUGE = 2**40
HOSTILE = {
    "no tensors but bytes": ({}, b"x", "its tensors end at byte 10, the file at 11"),
    "not UTF-8": (b'{"\xff": 1}', b"", "utf-8"),
    "no JSON": (b"{nonsense", b"", "Expecting property name"),
    "a list": (b"[]", b"", "does not begin with {"),
    "blanks first": (b" {}", b"", "does not begin with {"),
    "nested too deeply": (b'{"a":' + b"[" * 200_000, b"", "nested without end"),
    "millions of values": (b'{"a":[' + b"0," * 1_000_001 + b"0]}", b"", "over 1,000,000 values"),
    "a tensor twice": (b'{"a":1,"a":1}', b"", "'a' appears twice"),
    "a field twice": (b'{"a":{"dtype":"F32","dtype":"F64"}}', b"", "'dtype' appears twice"),
    "metadata of numbers": ({"__metadata__": {"format": 1}}, b"", "__metadata__ is not a map of strings"),
    "a name with an escape sequence": ({"\x1b[2Ja": entry([1], 0, 4)}, bytes(4), "cannot be printed"),
    "a name of two lines": ({"a\nb": entry([1], 0, 4)}, bytes(4), "cannot be printed"),
    "half a character in a name": (b'{"\\ud800":{}}', b"", "cannot be printed"),
    "a name of a megabyte": ({"a" * 1_000_000: entry([1], 0, 4)}, bytes(4), "is too long"),
    "no shape": ({"a": {"dtype": "F32", "data_offsets": [0, 4]}}, bytes(4), "lacks dtype, shape or data_offsets"),
    "no object": ({"a": 3}, b"", "lacks dtype"),
    "unknown type": ({"a": entry([1], 0, 4, "F31")}, bytes(4), "unknown type 'F31'"),
    "type is a list": ({"a": entry([1], 0, 4, ["F32"])}, bytes(4), "unknown type"),
    "negative dimension": ({"a": entry([-1], 0, 4)}, bytes(4), "whole numbers from 0"),
    "two negative dimensions": ({"a": entry([-1, -1], 0, 4)}, bytes(4), "whole numbers from 0"),
    "fraction": ({"a": entry([1.0], 0, 4)}, bytes(4), "whole numbers from 0"),
    "true for 1": ({"a": entry([True], 0, 4)}, bytes(4), "whole numbers from 0"),
    "shape is a number": ({"a": entry(1, 0, 4)}, bytes(4), "whole numbers from 0"),
    "dimension of 2^63": ({"a": entry([2**63], 0, 4)}, bytes(4), "whole numbers from 0"),
    "dimension of 4,000 digits": (
        b'{"a":{"dtype":"F32","shape":[' + b"9" * 4000 + b'],"data_offsets":[0,4]}}',
        bytes(4),
        "whole numbers from 0",
    ),
    "dimension of 5,000 digits": (
        b'{"a":{"dtype":"F32","shape":[' + b"9" * 5000 + b'],"data_offsets":[0,4]}}',
        bytes(4),
        "integer string conversion",
    ),
    "a huge tensor of 4 bytes": ({"a": entry([HUGE, 4], 0, 4)}, bytes(4), "but has 4"),
    "product that wraps around to 0": ({"a": entry([2**32, 2**32], 0, 0)}, b"", "more than can be addressed"),
    "empty but huge": ({"a": entry([0, 2**62, 2**62], 0, 0)}, b"", "more than can be addressed"),
    "a hundred dimensions": ({"a": entry([1] * 100, 0, 4)}, bytes(4), "whole numbers from 0"),
    "one offset": ({"a": {**entry([1], 0, 4), "data_offsets": [0]}}, bytes(4), "data_offsets"),
    "end before start": ({"a": entry([1], 4, 0)}, bytes(4), "which is 4 bytes, but has -4"),
    "shape larger than its range": ({"a": entry([2], 0, 4)}, bytes(4), r"F32 \[2\], which is 8 bytes, but has 4"),
    "shape smaller than its range": ({"a": entry([1], 0, 8)}, bytes(8), "which is 4 bytes, but has 8"),
    "the same bytes for two": ({"a": entry([1], 0, 4), "b": entry([1], 0, 4)}, bytes(4), "'b' overlaps"),
    "overlap": ({"a": entry([2], 0, 8), "b": entry([2], 4, 12)}, bytes(12), "'b' overlaps"),
    "hole": ({"a": entry([1], 0, 4), "b": entry([1], 8, 12)}, bytes(12), "'b' leaves a hole"),
    "hole at the start": ({"a": entry([1], 4, 8)}, bytes(8), "'a' leaves a hole"),
    "out of the file": ({"a": entry([HUGE], 0, 4 * HUGE)}, bytes(4), "its tensors end at byte 4,398"),
    "bytes of no tensor at the end": ({"a": entry([1], 0, 4)}, bytes(5), "the file at"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_file_that_breaks_a_rule_is_refused_in_one_line_with_little_memory(case, tmp_path):
    header, data, message = HOSTILE[case]
    path = file_of(tmp_path, header, data)
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match=message) as refusal:
            safetensors_files.read_header(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert str(refusal.value).isprintable() and len(str(refusal.value)) < 1000
    assert peak < 100_000 + 8 * path.stat().st_size


@pytest.mark.parametrize("size, message", [(0, "it has 0 bytes"), (7, "it has 7 bytes")])
def test_a_file_without_room_for_a_header_is_refused(size, message, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(bytes(size))
    with pytest.raises(UserError, match=message):
        safetensors_files.read_header(path)


@pytest.mark.parametrize(
    "header_size, message",
    [
        (100_000_001, "a header of 100,000,001 bytes; at most 100,000,000"),
        (2**64 - 1, "at most 100,000,000"),
        (99_999_999, "a header of 99,999,999 bytes in a file of"),
    ],
)
def test_a_header_that_is_too_large_or_longer_than_the_file_is_not_read(header_size, message, tmp_path):
    path = file_of(tmp_path, b"{}", header_size=header_size)
    if header_size == 100_000_001:
        with open(path, "r+b") as file:
            file.truncate(header_size + 8)  # The file is sparse, and as large as the header declares.
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match=message):
            safetensors_files.read_header(path)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_every_file_cut_short_or_with_a_byte_added_is_refused(golden, tmp_path):
    whole = (golden / "huggingface_files" / "encoder" / "model.safetensors").read_bytes()
    path = tmp_path / "model.safetensors"
    for contents in (*(whole[:size] for size in range(0, len(whole), 401)), whole[:-1], whole + b"\0"):
        path.write_bytes(contents)
        with pytest.raises(UserError, match="is not a safetensors file"):
            safetensors_files.read_header(path)


def test_a_remote_file_is_read_like_a_local_file(golden):
    source = golden / "huggingface_files" / "encoder" / "model.safetensors"
    remote = read_all(f"file://{source}")  # tf.io.gfile opens file:// paths in the same way as gs:// paths.
    for name, values in read_all(source).items():
        np.testing.assert_array_equal(remote[name], values)

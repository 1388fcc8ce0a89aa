"""Tests that a faulty TensorFlow checkpoint is refused in one line, before the reader allocates memory or crashes."""

import shutil
import struct

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import tensor_bundle_pb2

from keras_bert_app.errors import UserError
from keras_bert_app.interop.google_tf1 import google_layout
from keras_bert_app.runs import tf_checkpoints

FLOAT, STRING, RESOURCE = 1, 7, 20
NAME = "bert/embeddings/word_embeddings"


@pytest.fixture
def google(golden, tmp_path):
    """Returns the prefix of a valid checkpoint that Google's code wrote."""
    return str(shutil.copytree(golden / "google_tf1_tiny", tmp_path / "google") / "model.ckpt-3")


def varint(number):
    if number < 0x80:
        return bytes([number])
    return bytes([number & 0x7F | 0x80]) + varint(number >> 7)


def block(entries):
    """Builds a block of a sorted table without its trailer, with one restart point and no shared prefixes."""
    rows = [varint(0) + varint(len(key)) + varint(len(value)) + key + value for key, value in entries]
    return b"".join(rows) + struct.pack("<II", 0, 1)


def masked_crc32c(data):
    """Computes the checksum of a block (LevelDB's util/crc32c.h)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def write_index(prefix, *tensors, num_shards=1, data_size=64):
    """Writes a data file and an index with the given tensors (name, type, shape, offset, size)."""
    entries = [(b"", tensor_bundle_pb2.BundleHeaderProto(num_shards=num_shards).SerializeToString())]
    for name, dtype, shape, offset, size in tensors:
        entry = tensor_bundle_pb2.BundleEntryProto(dtype=dtype, offset=offset, size=size)
        for length in shape:
            entry.shape.dim.add(size=length)
        entries.append((name.encode(), entry.SerializeToString()))
    write_table(prefix, block(entries), data_size)


def write_table(prefix, data_block, data_size=64, copies=1, compression=0):
    """Writes a table with one data block, which the index names `copies` times. The checksums are correct."""
    handle = varint(0) + varint(len(data_block))
    index_block = block([(b"\xff" * (count + 1), handle) for count in range(copies)])
    trailer, index_trailer = (
        bytes([compression]) + struct.pack("<I", masked_crc32c(content + bytes([compression])))
        for content in (data_block, index_block)
    )
    index_at = len(data_block) + 5
    footer = varint(0) * 2 + varint(index_at) + varint(len(index_block))
    with open(f"{prefix}.index", "wb") as file:
        file.write(
            data_block
            + trailer
            + index_block
            + index_trailer
            + footer.ljust(40, b"\0")
            + struct.pack("<Q", 0xDB4775248B80FB57)
        )
    with open(f"{prefix}.data-00000-of-00001", "wb") as file:
        file.write(bytes(data_size))


def refusal(prefix):
    """Opens and reads a checkpoint that must be refused. Returns the message, which is one line."""
    with pytest.raises(UserError) as refused:
        checkpoint = tf_checkpoints.open_checkpoint(prefix)
        for name in checkpoint.shapes:
            checkpoint.tensor(name)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 600
    return str(refused.value)


@pytest.mark.parametrize(
    "tensor, message",
    [
        ((FLOAT, (-4, 4), 0, 64), "the shape"),
        ((FLOAT, (-4, -4), 0, 64), "the shape"),
        ((FLOAT, (1 << 62, 1 << 62), 0, 64), "the shape"),
        ((FLOAT, (1 << 62, 1 << 62, 0), 0, 0), "the shape"),
        ((FLOAT, (1,) * 300, 0, 4), "the shape"),
        ((FLOAT, (1 << 33, 3), 0, 64), "is not of the 64 bytes"),
        ((FLOAT, (1 << 33, 2), 0, 1 << 36), "would end at byte 68,719,476,736 of .* which has 64"),
        ((FLOAT, (4, 4), 1 << 40, 64), "would end at byte"),
        ((FLOAT, (4, 4), -8, 64), "would end at byte"),
        ((0, (4, 4), 0, 64), "no type that a weight can have"),
        ((101, (4, 4), 0, 64), "no type that a weight can have"),
        ((RESOURCE, (), 0, 4), "no type that a weight can have"),
        ((STRING, (1 << 50,), 0, 64), "is not of the 64 bytes"),
    ],
)
def test_an_index_that_declares_an_impossible_tensor_is_refused(tmp_path, tensor, message):
    write_index(tmp_path / "hostile", (NAME, *tensor))
    pytest.raises(UserError, tf_checkpoints.open_checkpoint, str(tmp_path / "hostile")).match(message)
    refusal(str(tmp_path / "hostile"))


def test_a_string_of_another_length_than_it_declares_is_refused(tmp_path):
    write_index(tmp_path / "hostile", (NAME, STRING, (), 0, 64))
    assert "is not a single string of the size that it says" in refusal(str(tmp_path / "hostile"))


def test_tensors_that_share_bytes_are_refused(tmp_path):
    write_index(tmp_path / "hostile", ("a", FLOAT, (4, 4), 0, 64), ("b", FLOAT, (3,), 52, 12))
    assert "a and b share bytes" in refusal(str(tmp_path / "hostile"))


@pytest.mark.parametrize(
    "num_shards, message",
    [
        (0, "declares 0 data files"),
        (-1, "declares -1 data files"),
        (1 << 30, "declares 1073741824 data files"),
        (2, "data-00000-of-00002: is missing"),
    ],
)
def test_a_missing_data_file_and_an_impossible_number_of_data_files_are_refused(tmp_path, num_shards, message):
    write_index(tmp_path / "hostile", (NAME, FLOAT, (4, 4), 0, 64), num_shards=num_shards)
    assert message in refusal(str(tmp_path / "hostile"))


@pytest.mark.parametrize(
    "data_block, copies, message",
    [
        (block([(b"", b"\x08\x01"), (b"a", b"\xff\xff")]), 1, "not hold the messages of a checkpoint"),
        (block([(b"a", b"")]), 1, "not hold the messages of a checkpoint"),
        (block([(b"\xff\xfe", b"")]), 1, "utf-8"),
        (block([(b"b", b""), (b"a", b"")]), 1, "not in order"),
        (block([(b"", b"\x08\x01")]), 3, "not in order"),  # The index names one block three times.
        (block([(b"a" * 1001, b"")]), 1, "longer than its block"),
        (
            b"\x05\x01\x00a" + struct.pack("<II", 0, 1),
            1,
            "longer than its block",
        ),  # The prefix is longer than the previous key.
        (b"\xff" * 16 + struct.pack("<II", 0, 1), 1, "has no end"),
    ],
)
def test_an_index_that_is_no_valid_table_is_refused(tmp_path, data_block, copies, message):
    write_table(tmp_path / "hostile", data_block, copies=copies)
    assert message in refusal(str(tmp_path / "hostile"))


def test_a_compressed_table_is_refused(tmp_path):
    write_table(tmp_path / "hostile", block([(b"", b"\x08\x01")]), compression=1)
    assert "it is compressed" in refusal(str(tmp_path / "hostile"))


def test_a_cut_index_is_refused_wherever_it_is_cut(google):
    with open(f"{google}.index", "rb") as file:
        whole = file.read()
    for size in [*range(60), *range(61, len(whole), 97), len(whole) - 1]:
        with open(f"{google}.index", "wb") as file:
            file.write(whole[:size])
        assert "index cannot be read" in refusal(google), size
    assert google_layout.recognizes(google)  # read() then names the fault.


def test_a_changed_byte_of_the_index_is_refused_wherever_it_is(google):
    with open(f"{google}.index", "rb") as file:
        whole = file.read()
    # The last 200 bytes have unused parts: an empty block and the padding of the footer.
    for place in range(0, len(whole) - 200, 101):
        with open(f"{google}.index", "wb") as file:
            file.write(whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :])
        refusal(google)


def test_a_changed_byte_of_the_data_is_refused(google):
    path = f"{google}.data-00000-of-00001"
    with open(path, "r+b") as file:
        file.seek(1000)
        byte = file.read(1)
        file.seek(1000)
        file.write(bytes([byte[0] ^ 1]))
    tf_checkpoints.open_checkpoint(google)
    assert "cannot be read: " in refusal(google) and "hecksum" in refusal(google)


def test_cut_or_missing_data_is_refused_before_anything_is_read(google):
    path = f"{google}.data-00000-of-00001"
    with open(path, "r+b") as file:
        file.truncate(25_000)
    with pytest.raises(UserError, match="would end at byte .* which has 25,000"):
        tf_checkpoints.open_checkpoint(google)
    shutil.move(path, f"{path}.old")
    with pytest.raises(UserError, match="data-00000-of-00001: is missing; the index counts 1 such"):
        google_layout.read(google)


def test_an_index_of_an_impossible_size_is_refused(tmp_path):
    with open(tmp_path / "large.index", "wb") as file:
        file.truncate(1 << 40)  # A sparse file takes no space on the disk.
    assert "1,099,511,627,776 bytes" in refusal(str(tmp_path / "large"))


def test_integers_and_single_strings_are_read_and_lists_of_strings_are_refused(tmp_path):
    prefix = str(tmp_path / "model")
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=["step", "text", "words", "word"],
        shape_and_slices=[""] * 4,
        tensors=[tf.constant(1 << 40, tf.int64), b"q" * 300, ["a", "b"], ["a"]],
    )
    checkpoint = tf_checkpoints.open_checkpoint(prefix)
    assert checkpoint.tensor("step") == 1 << 40 and checkpoint.tensor("text") == b"q" * 300
    for name in ("words", "word"):
        with pytest.raises(UserError, match=f"{name} is not a single string"):
            checkpoint.tensor(name)
    with open(f"{prefix}.data-00000-of-00001", "r+b") as file:
        file.seek(8)  # The length of the text follows the step.
        file.write(varint(1 << 62))
    with pytest.raises(UserError, match="text is not a single string of the size that it says"):
        checkpoint.tensor("text")


def test_a_checkpoint_saved_in_slices_is_refused(tmp_path):
    tf.raw_ops.SaveV2(
        prefix=str(tmp_path / "model"),
        tensor_names=["table"],
        shape_and_slices=["4 3 0,2:0,3"],
        tensors=[tf.ones([2, 3])],
    )
    assert "has tensors saved in slices; save it again without a partitioner" in refusal(str(tmp_path / "model"))

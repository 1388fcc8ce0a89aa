"""Reads LevelDB's sorted tables, the file format of a TensorFlow checkpoint's index.

A file has these sections, one after the other (LevelDB's table_format.txt, TensorFlow's core/lib/io/format.cc):
- data blocks of (key, value) entries. A key is stored as its difference from the previous key;
- an index block with the positions of the data blocks;
- a footer with the position of the index block.

A trailer follows each block: one byte for the type of compression, and a checksum of four bytes.
"""

import struct
from collections.abc import Iterator

_MAGIC = 0xDB4775248B80FB57
_FOOTER_SIZE = 48
_MAX_ENTRIES = 100_000
_MAX_KEY_SIZE = 1000


def table_entries(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Generates the entries of a table in the order of their keys. It does not verify checksums.

    Args:
        data: bytes. Content of the whole file.

    Yields:
        Tuple (key, value) of bytes.

    Raises:
        ValueError: The data is cut short, damaged or no table, or has more entries or longer keys than any checkpoint.
    """
    try:
        if struct.unpack_from("<Q", data, len(data) - 8)[0] != _MAGIC:
            raise ValueError("it has no footer")
        _, position = _read_handle(data, len(data) - _FOOTER_SIZE)
        index_block, _ = _read_handle(data, position)
        previous, count = None, 0
        for _, handle in _block_entries(data, *index_block):
            for key, value in _block_entries(data, *_read_handle(handle, 0)[0]):
                # Keys that always rise exclude repeated blocks. All entries together are thus not larger than the file.
                if count >= _MAX_ENTRIES or (previous is not None and key <= previous):
                    raise ValueError(f"its names are not in order, or there are more than {_MAX_ENTRIES:,} names")
                yield key, value
                previous, count = key, count + 1
    except (IndexError, struct.error):
        raise ValueError("it is cut short") from None


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Reads a base-128 number of at most ten bytes.

    Args:
        data: bytes. Any data.
        position: int. Position of the first byte of the number.

    Returns:
        Tuple (value, position after the number).

    Raises:
        IndexError: The data ends within the number.
        ValueError: The number has more than ten bytes.
    """
    value = 0
    for shift in range(0, 70, 7):
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return value, position
    raise ValueError("a number in it has no end")


def _read_handle(data, position):
    """Reads the position of a block. Returns ((start, stop) of the block, position after the handle)."""
    start, position = read_varint(data, position)
    size, position = read_varint(data, position)
    return (start, start + size), position


def _block_entries(data, start, stop):
    """Generates the (key, value) entries of the block data[start:stop]."""
    if data[stop] != 0:  # The first byte of the trailer.
        raise ValueError("it is compressed, but TensorFlow writes this file uncompressed")
    key, position = b"", start
    # A block ends with restart points of 4 bytes each and their number. The reader does not need them.
    end = stop - 4 - 4 * struct.unpack_from("<I", data, stop - 4)[0]
    while position < end:
        shared, position = read_varint(data, position)
        unshared, position = read_varint(data, position)
        value_size, position = read_varint(data, position)
        if shared > len(key) or position + unshared + value_size > end or shared + unshared > _MAX_KEY_SIZE:
            raise ValueError("an entry is longer than its block")
        key = key[:shared] + data[position : position + unshared]
        position += unshared + value_size
        yield key, data[position - value_size : position]

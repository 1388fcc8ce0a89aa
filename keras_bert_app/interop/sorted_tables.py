"""The file format of a TensorFlow checkpoint's index: LevelDB's sorted table (table_format.txt, core/lib/io/format.cc).

Blocks of (key, value) entries, then a block that says where those are, then a footer that says where that one is. A key
is stored as what differs from the one before it. Behind each block stand a byte that names its compression and four of
checksum.
"""

import struct

_MAGIC = 0xDB4775248B80FB57
_FOOTER_SIZE = 48
_MAX_ENTRIES = 100_000
_MAX_KEY_SIZE = 1000


def table_entries(data):
    """Generates (key, value), bytes both, in the order of the keys. Checksums are not looked at.

    Args:
        data: bytes of the whole file.

    Raises:
        ValueError: it is cut short, damaged or no such table; or has more entries or longer keys than any checkpoint.
    """
    try:
        if struct.unpack_from("<Q", data, len(data) - 8)[0] != _MAGIC:
            raise ValueError("it has no footer")
        _, position = _handle(data, len(data) - _FOOTER_SIZE)
        index_block, _ = _handle(data, position)
        previous, count = None, 0
        for _, handle in _block(data, *index_block):
            for key, value in _block(data, *_handle(handle, 0)[0]):
                # In order, no block comes twice: what is read is no larger than the file.
                if count >= _MAX_ENTRIES or (previous is not None and key <= previous):
                    raise ValueError(f"its names are not in order, or more than {_MAX_ENTRIES:,}")
                yield key, value
                previous, count = key, count + 1
    except (IndexError, struct.error):
        raise ValueError("it is cut short") from None


def read_varint(data, position):
    """(value, position behind it) of a base-128 number of at most ten bytes.

    Raises:
        IndexError, ValueError: there is none.
    """
    value = 0
    for shift in range(0, 70, 7):
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return value, position
    raise ValueError("a number in it has no end")


def _handle(data, position):
    """((start, stop) of a block, position behind its handle)."""
    start, position = read_varint(data, position)
    size, position = read_varint(data, position)
    return (start, start + size), position


def _block(data, start, stop):
    """Generates (key, value) of the block that stands in data[start:stop]."""
    if data[stop] != 0:  # the first byte of the trailer
        raise ValueError("it is compressed, which TensorFlow's are not")
    key, position = b"", start
    end = stop - 4 - 4 * struct.unpack_from("<I", data, stop - 4)[0]  # restart points and their number stand last
    while position < end:
        shared, position = read_varint(data, position)
        unshared, position = read_varint(data, position)
        value_size, position = read_varint(data, position)
        if shared > len(key) or position + unshared + value_size > end or shared + unshared > _MAX_KEY_SIZE:
            raise ValueError("an entry is longer than its block")
        key = key[:shared] + data[position : position + unshared]
        position += unshared + value_size
        yield key, data[position - value_size : position]

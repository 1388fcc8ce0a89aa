"""An external sort: records under random keys, taken back in the order of their keys."""

import os
import struct
from collections.abc import Iterator

_HEADER = struct.Struct(">16sI")
_BUCKETS = 512
_BUFFERED_BYTES = 1 << 25


class Spool:
    """Records by 16-byte key, of which memory holds a bounded part and a directory the rest.

    Buckets take the keys by their leading bits; one bucket at a time is read and sorted. As keys
    are hashes, so equally spread, a bucket holds about 1/512 of the records.
    """

    def __init__(self, directory: str):
        os.makedirs(directory, exist_ok=True)
        self._directory = directory
        self._buffers = [bytearray() for _ in range(_BUCKETS)]
        self._buffered = 0
        self.records = 0
        self.bytes = 0

    def add(self, key: bytes, record: bytes) -> None:
        bucket = int.from_bytes(key[:2], "big") * _BUCKETS >> 16
        self._buffers[bucket] += _HEADER.pack(key, len(record)) + record
        self._buffered += _HEADER.size + len(record)
        self.records += 1
        self.bytes += len(record)
        if self._buffered > _BUFFERED_BYTES:
            self._flush()

    def sorted(self, drop_duplicates: bool) -> Iterator[tuple[bytes, bytes]]:
        """Yield (key, record) in the order of keys, equal keys in the order they were added.

        Args:
            drop_duplicates: yield only the first record of a key.
        """
        for bucket in range(_BUCKETS):
            records = list(self._read(bucket))
            records.sort(key=lambda item: item[0])
            last = None
            for key, record in records:
                if key != last or not drop_duplicates:
                    yield key, record
                last = key

    def _flush(self):
        for bucket, buffer in enumerate(self._buffers):
            if buffer:
                with open(self._path(bucket), "ab") as file:
                    file.write(buffer)
                self._buffers[bucket] = bytearray()
        self._buffered = 0

    def _read(self, bucket):
        data = b""
        if os.path.exists(self._path(bucket)):
            with open(self._path(bucket), "rb") as file:
                data = file.read()
        data += self._buffers[bucket]
        position = 0
        while position < len(data):
            key, length = _HEADER.unpack_from(data, position)
            position += _HEADER.size
            yield key, data[position:position + length]
            position += length

    def _path(self, bucket):
        return os.path.join(self._directory, f"{bucket:03d}")

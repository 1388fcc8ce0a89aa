"""Reader of request bodies. It limits the bytes of one body, of all bodies, and of decompression."""

import contextlib
import zlib
from collections.abc import AsyncIterator

from aiohttp import web

from keras_bert_app.serving.request_errors import RequestError, one_line, short

# zlib's window argument for each Content-Encoding; None for a body that is not compressed.
_WINDOWS = {"": None, "identity": None, "gzip": 31, "x-gzip": 31, "deflate": 15}
# Compression shrinks JSON of token ids to a thirtieth. A body that shrinks to less than a hundredth may have at most
# _FREE_BYTES bytes.
_MOST_RATIO = 100
_FREE_BYTES = 1 << 20
# Limit for the bytes of all bodies together, as a multiple of the limit for one body.
_LARGEST_BODIES_AT_ONCE = 16


class Bodies:
    """Reads the bodies of the requests of one server.

    Args:
        max_bytes: int. The most bytes of one body, compressed or not.
    """

    def __init__(self, max_bytes: int):
        self._max_bytes, self._num_bytes = max_bytes, 0

    @contextlib.asynccontextmanager
    async def read(self, request: web.Request) -> AsyncIterator[tuple[bytes, int | None]]:
        """Reads a body without decompressing it. Its bytes count for the limit of all bodies until the block ends.

        Args:
            request: web.Request. A request whose body is not decompressed yet.

        Yields:
            (body, window for `decompressed`, or None for a body that is not compressed).

        Raises:
            RequestError: 413 for a body that is too large. 415 for an unknown compression. 503 if other bodies take
                all memory for bodies.
        """
        encoding = request.headers.get("Content-Encoding", "").strip().lower()
        if encoding not in _WINDOWS:
            raise RequestError(415, f"Content-Encoding {short(encoding)} is not known; expected gzip, deflate or none")
        if (request.content_length or 0) > self._max_bytes:
            raise self._too_large()
        parts, size = [], 0
        try:
            async for part in request.content.iter_any():
                size += len(part)
                self._num_bytes += len(part)
                if size > self._max_bytes:
                    raise self._too_large()
                if self._num_bytes > _LARGEST_BODIES_AT_ONCE * self._max_bytes:
                    raise RequestError(503, "the bodies of other requests take all memory for bodies; try again later")
                parts.append(part)
            body = b"".join(parts)
            parts.clear()
            yield body, _WINDOWS[encoding]
        finally:
            self._num_bytes -= size

    def _too_large(self):
        return RequestError(413, f"the body is larger than {self._max_bytes:,} bytes (--max_request_bytes)")

    def decompressed(self, body: bytes, window: int) -> bytes:
        """Decompresses a body up to the allowed size.

        Args:
            body: bytes. The compressed body.
            window: int. The window argument of zlib.

        Returns:
            bytes: the decompressed body.

        Raises:
            RequestError: 400 for a body without the compression that it names, 413 for one that grows too large.
        """
        if window == 15 and body[:1] and body[0] & 0xF != 8:
            window = -15  # deflate without zlib's header, which some clients send
        most = min(self._max_bytes, max(_FREE_BYTES, _MOST_RATIO * len(body)))
        decompressor = zlib.decompressobj(wbits=window)
        try:
            text = decompressor.decompress(body, most + 1)
        except zlib.error as error:
            raise _not_compressed(one_line(error)) from None
        if len(text) > most:
            raise RequestError(
                413,
                f"the decompressed body has more than {most:,} bytes, the limit for {len(body):,} compressed bytes "
                "(--max_request_bytes, or 100 times the compressed size); send it in parts",
            )
        if not decompressor.eof or decompressor.unused_data:
            raise _not_compressed("the compressed data is cut, or other bytes follow it")
        return text


def _not_compressed(reason):
    return RequestError(
        400,
        f"the body cannot be read: {reason}; send JSON, compressed as its Content-Encoding says or not at all",
    )

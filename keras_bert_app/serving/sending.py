"""Sending of answers to clients that may not read them."""

import asyncio
from collections.abc import AsyncIterator

from aiohttp import web


async def send(
    request: web.Request,
    response: web.StreamResponse,
    timeout_seconds: float,
    pieces: AsyncIterator[bytes] | None = None,
) -> None:
    """Sends an answer. Closes the connection of a client that does not read the answer in time.

    Args:
        request: web.Request. The request.
        response: web.StreamResponse. The headers, and the body unless there are pieces.
        timeout_seconds: float. The longest time of all waits for the client together. The time to make the pieces does
            not count.
        pieces: async iterator of bytes. The body, or None.

    Raises:
        Exception: a piece could not be made.
    """
    loop = asyncio.get_running_loop()
    remaining = timeout_seconds
    try:
        async with asyncio.timeout(remaining):
            await response.prepare(request)
        if pieces is not None:
            async for piece in pieces:
                start = loop.time()
                async with asyncio.timeout(remaining):
                    await response.write(piece)
                remaining -= loop.time() - start
        async with asyncio.timeout(remaining):
            await response.write_eof()
    except ConnectionError:
        pass  # the client left
    except TimeoutError:
        _abort(request)
    except Exception:
        _abort(request)  # a part of the answer is sent already
        raise


def _abort(request):
    # A plain close would wait until the client has read the rest of the buffer.
    if request.transport is not None:
        request.transport.abort()

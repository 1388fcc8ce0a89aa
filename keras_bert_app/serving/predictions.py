"""A predict request from its body to the last byte of its answer, with bounded memory."""

import asyncio

from aiohttp import web

from keras_bert_app.serving import decoding, encoding, sending, work
from keras_bert_app.serving.bodies import Bodies
from keras_bert_app.serving.connections import BODY, WORK
from keras_bert_app.serving.request_errors import RequestError, short

# Larger bodies (bytes) and answers (values) need more than about a millisecond of work. A thread does that work, so
# that other requests do not wait.
_LARGE_BODY = 1 << 16
_LARGE_ANSWER = 1 << 12
# The server sends an answer with more values than this in pieces, so that memory never holds its whole text.
_SENT_IN_PIECES = 1 << 16
# The number of threads that parse large bodies and encode large answers. More threads would gain nothing, because they
# share one interpreter.
_LARGE_AT_ONCE = 2
# Limit for the values of all answers that are not yet sent, as a multiple of the limit for one answer.
_LARGEST_ANSWERS_AT_ONCE = 2


class Predictions:
    """Answers predict requests.

    Args:
        batcher: Batcher. It runs the requests.
        options: ServerOptions. The limits for requests.
    """

    def __init__(self, batcher, options):
        self._batcher, self._options = batcher, options
        self._seconds = options.timeout_ms / 1000
        self._bodies = Bodies(options.max_request_bytes)
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)
        self._num_values = 0

    async def answer(self, version, request: web.Request) -> web.StreamResponse:
        """Reads a request, runs it and sends its answer.

        Args:
            version: Version. A loaded version of the model.
            request: web.Request. The request.

        Returns:
            web.StreamResponse: the answer that was sent, in whole or until the client left.

        Raises:
            RequestError: the request does not fit the model, or the server is full.
            TimeoutError: the outputs were not computed in time.
            tf.errors.OpError: the model failed.
        """
        async with asyncio.timeout(self._seconds):
            signature, outputs, is_rows = await self._outputs(version, request)
        values = sum(output.size for output in outputs)
        pieces = encoding.pieces(signature, outputs, is_rows)
        if values <= _SENT_IN_PIECES:
            text = await self._maybe_in_thread(values > _LARGE_ANSWER, b"".join, pieces)
            response = web.Response(body=text, content_type="application/json")
            await sending.send(request, response, self._seconds)
            return response
        if self._num_values + values > _LARGEST_ANSWERS_AT_ONCE * self._options.max_answer_values:
            raise RequestError(503, "answers to other requests take all memory for answers; try again later")
        self._num_values += values
        try:
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await sending.send(request, response, self._seconds, self._one_by_one(pieces))
            return response
        finally:
            self._num_values -= values

    async def _outputs(self, version, request):
        version.acquire()
        try:
            request.protocol.enter(BODY)
            async with self._bodies.read(request) as (body, window):
                request.protocol.enter(WORK)
                is_large = len(body) > _LARGE_BODY or window is not None
                signature, arrays, is_rows, needed = await self._maybe_in_thread(
                    is_large, self._decode, body, window, version.servable
                )
                del body
            return signature, await self._batcher.run(version, signature, arrays, needed), is_rows
        finally:
            version.release()

    def _decode(self, body, window, servable):
        body = body if window is None else self._bodies.decompressed(body, window)
        request = decoding.parse(body)
        name = decoding.signature_name(request)
        if name not in servable.signatures:
            raise RequestError(400, f"no signature {short(name)}; signatures: {', '.join(sorted(servable.signatures))}")
        signature = servable.signatures[name]
        arrays, is_rows = decoding.decode(request, signature)
        needed = work.measure(signature, arrays, servable.description, self._options.max_answer_values)
        return signature, arrays, is_rows, needed

    async def _one_by_one(self, pieces):
        while piece := await self._maybe_in_thread(True, next, pieces, b""):
            yield piece

    async def _maybe_in_thread(self, is_large, function, *arguments):
        if not is_large:
            return function(*arguments)
        async with self._large:
            return await asyncio.to_thread(function, *arguments)

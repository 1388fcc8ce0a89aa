"""The REST interface: TensorFlow Serving's paths and formats, health, metrics, and data for the page."""

import asyncio
import json
import re
import time
import urllib.parse
from collections.abc import Callable

import tensorflow as tf
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from keras_bert_app.serving import decoding, encoding, page
from keras_bert_app.serving.request_errors import RequestError, one_line, short

_WHERE = r"/v1/models/(?P<name>[^/:]+)(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
_POST = re.compile(_WHERE + r":(?P<method>predict|classify|regress)", re.IGNORECASE)
_GET = re.compile(_WHERE + r"(?:/(?P<method>metadata))?", re.IGNORECASE)
# Larger bodies (bytes) and answers (numbers) need more than about a millisecond of work. A thread does that work, so
# that other requests do not wait.
_LARGE_BODY = 1 << 16
_LARGE_ANSWER = 1 << 12
# TensorFlow's error class -> HTTP status, as TensorFlow Serving maps absl's codes. Other errors are 500.
_STATUS_OF_ERROR = (
    (tf.errors.InvalidArgumentError, 400),
    (tf.errors.OutOfRangeError, 400),
    (tf.errors.FailedPreconditionError, 400),
    (tf.errors.ResourceExhaustedError, 429),
    (tf.errors.UnimplementedError, 501),
    (tf.errors.UnavailableError, 503),
    (tf.errors.DeadlineExceededError, 504),
)
# A handler sets these keys for served models only, so that unknown names do not become metrics.
_MODEL, _METHOD = web.RequestKey("model", str), web.RequestKey("method", str)


class Routes:
    """The request handlers of one server.

    Args:
        models: Models. The served models.
        batcher: Batcher. It runs the requests.
        metrics: Metrics. The counters of the server.
        options: ServerOptions. The limits for requests.
        log: function of one line.

    Attributes:
        is_ready: bool. The server sets it when the models are loaded and unsets it when it stops.
    """

    def __init__(self, models, batcher, metrics, options, log: Callable[[str], None]):
        self._models, self._batcher, self._metrics, self._options, self._log = models, batcher, metrics, options, log
        self._num_accepted = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self.is_ready = False

    async def until_idle(self) -> None:
        """Waits until every accepted request has its answer.

        aiohttp's own stop drops bodies still on their way.
        """
        await self._is_idle.wait()

    def application(self) -> web.Application:
        """Builds the aiohttp application with all routes."""
        app = web.Application(client_max_size=self._options.max_request_bytes, middlewares=[self._answer])
        app.router.add_post("/v1/models/{_:.*}", self._post)
        app.router.add_get("/v1/models", self._list)
        app.router.add_get("/v1/models/{_:.*}", self._get)
        app.router.add_get("/healthz", self._ready)
        app.router.add_get("/healthz/ready", self._ready)
        app.router.add_get("/healthz/live", self._live)
        app.router.add_get("/metrics", self._read_metrics)
        app.router.add_get("/monitoring/prometheus/metrics", self._read_metrics)  # TensorFlow Serving's path
        page.add_routes(app.router)
        return app

    @web.middleware
    async def _answer(self, request, handler):
        """Counts and times every request, and turns every failure into {"error": ...}."""
        start = time.perf_counter()
        try:
            response = await handler(request)
        except RequestError as error:
            response = _error(error.status, error.message)
        except web.HTTPRequestEntityTooLarge:
            limit = self._options.max_request_bytes
            response = _error(413, f"the body is larger than {limit:,} bytes (--max_request_bytes)")
        except web.RequestPayloadError as error:
            response = _error(
                400,
                f"the body cannot be read: {one_line(error)}; send JSON, compressed as its Content-Encoding says or "
                "not at all",
            )
        except web.HTTPException as error:
            response = _error(error.status, f"{request.method} {short(request.path)}: {error.reason}; see /v1/models")
        except TimeoutError:
            response = _error(504, f"no answer within {self._options.timeout_ms:,} ms (--rest_api_timeout_in_ms)")
        except tf.errors.OpError as error:
            status = next((status for kind, status in _STATUS_OF_ERROR if isinstance(error, kind)), 500)
            response = _error(status, f"the model failed: {one_line(error)}")
        except Exception as error:
            self._log(f"{request.method} {request.path}: {type(error).__name__}: {error}")
            response = _error(500, f"internal error: {type(error).__name__}")
        seconds = time.perf_counter() - start
        model, method = request.get(_MODEL, ""), request.get(_METHOD, "")
        self._metrics.requests.labels(model, method, response.status).inc()
        self._metrics.seconds.labels(model, method).observe(seconds)
        if self._options.log_requests:
            self._log(f"{request.remote} {request.method} {request.path} {response.status} {seconds * 1000:.1f} ms")
        return response

    async def _post(self, request):
        match = _POST.fullmatch(request.rel_url.raw_path)
        if match is None:
            raise RequestError(
                400,
                f"malformed request: POST {short(request.path)}; expected "
                "/v1/models/NAME[/versions/N|/labels/LABEL]:predict",
            )
        model = self._named(request, match)
        if request[_METHOD] != "predict":
            raise RequestError(501, f":{request[_METHOD]} over tf.Example is not built in this server; ask :predict")
        if not self.is_ready:
            raise RequestError(503, "the server is stopping or not ready yet")
        if self._num_accepted >= self._options.max_queued_requests:
            raise RequestError(
                503,
                f"{self._num_accepted:,} requests are under way, the most that may be "
                "(--max_queued_requests); try again later",
            )
        version = model.find(*_version_or_label(match))
        self._count_under_way(1)
        version.acquire()
        try:
            async with asyncio.timeout(self._options.timeout_ms / 1000):
                return await self._predict(version, request)
        finally:
            version.release()
            self._count_under_way(-1)

    def _count_under_way(self, change):
        self._num_accepted += change
        self._metrics.under_way.set(self._num_accepted)
        (self._is_idle.clear if self._num_accepted else self._is_idle.set)()

    async def _predict(self, version, request):
        body = await request.read()
        signature, arrays, is_rows = await _maybe_in_thread(len(body) > _LARGE_BODY, _decode, body, version.servable)
        outputs = await self._batcher.run(version, signature, arrays)
        is_large = sum(output.size for output in outputs) > _LARGE_ANSWER
        text = await _maybe_in_thread(is_large, encoding.encode, signature, outputs, is_rows)
        return web.Response(body=text, content_type="application/json")

    async def _get(self, request):
        match = _GET.fullmatch(request.rel_url.raw_path)
        if match is None:
            raise RequestError(
                400,
                f"malformed request: GET {short(request.path)}; expected /v1/models/NAME, "
                "/v1/models/NAME/versions/N, either with /metadata, or /v1/models",
            )
        model = self._named(request, match)
        number, label = _version_or_label(match)
        if request[_METHOD] == "metadata":
            version = model.find(number, label)
            spec = {"name": model.config.name, "signature_name": "", "version": str(version.number)}
            return _json({"model_spec": spec, "metadata": {"signature_def": version.servable.metadata}})
        if label is not None:
            number = model.find(label=label).number
        if number is not None and number not in model.versions:
            raise RequestError(
                404,
                f"model {model.config.name!r} has no version {number}; versions: {', '.join(map(str, model.versions))}",
            )
        chosen = sorted(model.versions) if number is None else [number]
        return _json({"model_version_status": [model.versions[number].status() for number in reversed(chosen)]})

    def _named(self, request, match):
        model = self._models.find(urllib.parse.unquote(match["name"]))
        request[_MODEL], request[_METHOD] = model.config.name, (match["method"] or "status").lower()
        return model

    async def _list(self, request):
        """Answers GET /v1/models, which TensorFlow Serving does not have. The page draws its forms from it."""
        return _json({"models": [page.describe(model) for model in self._models.by_name.values()]})

    async def _ready(self, request):
        loaded = {
            name: [version.number for version in model.available()] for name, model in self._models.by_name.items()
        }
        return _json({"live": True, "ready": self.is_ready, "loaded": loaded}, 200 if self.is_ready else 503)

    async def _live(self, request):
        return _json({"live": True})

    async def _read_metrics(self, request):
        return web.Response(body=self._metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})


def _decode(body, servable):
    request = decoding.parse(body)
    name = decoding.signature_name(request)
    if name not in servable.signatures:
        raise RequestError(400, f"no signature {short(name)}; signatures: {', '.join(sorted(servable.signatures))}")
    signature = servable.signatures[name]
    return signature, *decoding.decode(request, signature)


async def _maybe_in_thread(is_large, function, *arguments):
    return await asyncio.to_thread(function, *arguments) if is_large else function(*arguments)


def _version_or_label(match):
    number = match["version"] and int(match["version"][:20])
    return number, match["label"] and urllib.parse.unquote(match["label"])


def _json(value, status=200):
    body = (json.dumps(value, indent=1) + "\n").encode()
    return web.Response(body=body, status=status, content_type="application/json")


def _error(status, message):
    response = _json({"error": message}, status)
    if status == 503:
        response.headers["Retry-After"] = "1"
    return response

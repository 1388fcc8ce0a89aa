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

from keras_bert_app.serving import page, sending
from keras_bert_app.serving.access import Access
from keras_bert_app.serving.connections import WORK
from keras_bert_app.serving.predictions import Predictions
from keras_bert_app.serving.request_errors import RequestError, error_response, one_line, short

_WHERE = r"/v1/models/(?P<name>[^/:]+)(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:]+))?"
_DIGITS_OF_A_VERSION = len(str(2**63 - 1))
_POST = re.compile(_WHERE + r":(?P<method>predict|classify|regress)", re.IGNORECASE)
_GET = re.compile(_WHERE + r"(?:/(?P<method>metadata))?", re.IGNORECASE)
# TensorFlow's error class -> HTTP status, as TensorFlow Serving maps absl's codes. Other errors are 500.
_STATUS_OF_ERROR = (
    (tf.errors.InvalidArgumentError, 400),
    (tf.errors.OutOfRangeError, 400),
    (tf.errors.FailedPreconditionError, 400),
    (tf.errors.ResourceExhaustedError, 429),
    (tf.errors.UnimplementedError, 501),
    (tf.errors.UnavailableError, 503),
    (tf.errors.CancelledError, 503),  # the server stops
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
        log: function that takes one line of text.

    Attributes:
        is_ready: bool. The server sets it when the models are loaded and unsets it when it stops.
    """

    def __init__(self, models, batcher, metrics, options, log: Callable[[str], None]):
        self._models, self._metrics, self._options, self._log = models, metrics, options, log
        self._predictions = Predictions(batcher, options)
        self._access = Access(options.host, options.allowed_hosts)
        self._num_accepted = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self.is_ready = False

    async def until_idle(self) -> None:
        """Waits until the answer to every accepted request is sent.

        aiohttp's own stop drops bodies that are still on their way.
        """
        await self._is_idle.wait()

    @property
    def num_accepted(self) -> int:
        """The number of accepted requests whose answers are not sent yet."""
        return self._num_accepted

    def application(self) -> web.Application:
        """Returns the aiohttp application with all routes."""
        app = web.Application(middlewares=[self._answer])
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
        """Answers, counts and times every request."""
        start = time.perf_counter()
        request.protocol.enter(WORK)
        try:
            response = await self._response(request, handler)
            if request.body_exists and not request.content.at_eof():
                response.force_close()  # the rest of the body is not worth reading
            await sending.send(request, response, self._options.timeout_ms / 1000)
        finally:
            request.protocol.answered()
        seconds = time.perf_counter() - start
        model, method = request.get(_MODEL, ""), request.get(_METHOD, "")
        self._metrics.requests.labels(model, method, response.status).inc()
        self._metrics.seconds.labels(model, method).observe(seconds)
        if self._options.log_requests:
            self._log(f"{request.remote} {request.method} {request.path} {response.status} {seconds * 1000:.1f} ms")
        return response

    async def _response(self, request, handler):
        """Turns every failure into {"error": ...}."""
        try:
            self._access.check(request)
            return await handler(request)
        except RequestError as error:
            return error_response(error.status, error.message)
        except web.RequestPayloadError as error:
            return error_response(400, f"the body cannot be read: {one_line(error)}; send JSON")
        except web.HTTPException as error:
            return error_response(
                error.status, f"{request.method} {short(request.path)}: {error.reason}; see /v1/models"
            )
        except TimeoutError:
            return error_response(504, f"no answer within {self._options.timeout_ms:,} ms (--rest_api_timeout_in_ms)")
        except tf.errors.OpError as error:
            status = next((status for kind, status in _STATUS_OF_ERROR if isinstance(error, kind)), 500)
            return error_response(status, f"the model failed: {one_line(error)}")
        except Exception as error:
            self._log(f"{request.method} {request.path}: {type(error).__name__}: {error}")
            return error_response(500, f"internal error: {type(error).__name__}")

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
            raise RequestError(501, f":{request[_METHOD]} (tf.Example) does not exist in this server; send :predict")
        if not self.is_ready:
            raise RequestError(503, "the server is stopping or not ready yet")
        if self._num_accepted >= self._options.max_queued_requests and not request.protocol.close_slow_body():
            raise RequestError(
                503,
                f"{self._num_accepted:,} requests are under way, which is the limit (--max_queued_requests)"
                "; try again later",
            )
        version = model.find(*_version_or_label(match))
        self._count_under_way(1)
        try:
            return await self._predictions.answer(version, request)
        finally:
            self._count_under_way(-1)

    def _count_under_way(self, change):
        self._num_accepted += change
        self._metrics.under_way.set(self._num_accepted)
        (self._is_idle.clear if self._num_accepted else self._is_idle.set)()

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
        """Answers GET /v1/models, which TensorFlow Serving does not have. The page makes its forms from this answer."""
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


def _version_or_label(match):
    # No version has a longer number, because versions are 64-bit integers.
    number = match["version"] and int((match["version"].lstrip("0") or "0")[: _DIGITS_OF_A_VERSION + 1])
    return number, match["label"] and urllib.parse.unquote(match["label"])


def _json(value, status=200):
    body = (json.dumps(value, indent=1) + "\n").encode()
    return web.Response(body=body, status=status, content_type="application/json")

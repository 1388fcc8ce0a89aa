"""Starting and stopping the server."""

import asyncio
import concurrent.futures
import dataclasses
import errno
import logging
import signal
import socket
from collections.abc import Callable

import tensorflow as tf
from aiohttp import web

from keras_bert_app.errors import UserError
from keras_bert_app.serving.batcher import Batcher
from keras_bert_app.serving.batching_options import BatchingOptions
from keras_bert_app.serving.model_configs import ModelConfig
from keras_bert_app.serving.models import Models
from keras_bert_app.serving.routes import Routes
from keras_bert_app.serving.server_metrics import Metrics

# asyncio (3.11) never answers a connection that it accepts at the moment when the server closes. So accepting ends
# this long before the listening socket closes; connections that came in by then get a 503.
_SETTLING_SECONDS = 0.1


@dataclasses.dataclass(frozen=True)
class ServerOptions:
    """Options of the server that concern neither a single model nor batching.

    Args:
        host: str. The address to listen on.
        port: int. The port to listen on; 0 takes a free one.
        timeout_ms: int. Time limit of a request, from its headers to its answer, in milliseconds.
        max_request_bytes: int. The most bytes of one body.
        max_queued_requests: int. The most requests that are accepted and not yet answered.
        poll_seconds: float. Time between two looks for new versions; 0 looks only at the start.
        allow_unverified: bool. Whether to serve versions without a manifest.json.
        log_requests: bool. Whether to log a line for each request.
    """

    host: str = "127.0.0.1"
    port: int = 8501
    timeout_ms: int = 30_000
    max_request_bytes: int = 16 << 20
    max_queued_requests: int = 512
    poll_seconds: float = 1
    allow_unverified: bool = False
    log_requests: bool = False


def run(
    configs: list[ModelConfig],
    batching: BatchingOptions,
    options: ServerOptions,
    log: Callable[[str], None] = print,
) -> None:
    """Serves until SIGTERM or SIGINT, then finishes the accepted requests.

    Args:
        configs: list of ModelConfig. The models to serve.
        batching: BatchingOptions. How to merge requests.
        options: ServerOptions. Address and limits.
        log: function of one line.

    Raises:
        UserError: the port is taken, or a model cannot be served.
    """

    async def main():
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await serve(configs, batching, options, stop, log)
        log("stopped")

    asyncio.run(main())


async def serve(
    configs: list[ModelConfig],
    batching: BatchingOptions,
    options: ServerOptions,
    stop: asyncio.Event,
    log: Callable[[str], None] = print,
    started: Callable[[int], None] | None = None,
) -> None:
    """Runs the server as a coroutine.

    Args:
        configs: list of ModelConfig. The models to serve.
        batching: BatchingOptions. How to merge requests.
        options: ServerOptions. Address and limits.
        stop: asyncio.Event. It ends the server.
        log: function of one line.
        started: function of the port. The server calls it when it begins to take requests.

    Raises:
        UserError: the port is taken, or a model cannot be served.
    """
    log = _never_failing(log)
    listener = _bind(options.host, options.port)
    port = listener.getsockname()[1]
    metrics = Metrics()
    models = Models(configs, metrics, options.allow_unverified, log)
    threads = concurrent.futures.ThreadPoolExecutor(batching.num_batch_threads, "batch")
    batcher = Batcher(batching, threads, tf.compat.v1.RunOptions(timeout_in_ms=options.timeout_ms), metrics)
    routes = Routes(models, batcher, metrics, options, log)
    runner = _runner(routes.application(), options.timeout_ms)
    polling = None
    try:
        if await _is_stopped_before(stop, models.load()):
            return
        site = await _listen(runner, listener, options)
        routes.is_ready = True
        for model in models.by_name.values():
            versions = ", ".join(str(version.number) for version in model.available())
            log(f"serving {model.config.name} version {versions} from {model.config.base_path}")
        log(f"listening on http://{options.host}:{port}/ (Ctrl-C or SIGTERM stops)")
        if options.poll_seconds:
            polling = asyncio.ensure_future(_poll(models, options.poll_seconds))
        if started is not None:
            started(port)
        await stop.wait()
        routes.is_ready = False
        asyncio.get_running_loop().remove_reader(listener)
        await asyncio.sleep(_SETTLING_SECONDS)
        await site.stop()
        await routes.until_idle()
    finally:
        if polling is not None:
            polling.cancel()
        await runner.cleanup()
        await models.close()
        threads.shutdown()
        listener.close()


def _runner(application, timeout_ms):
    # Cancellation frees the place of a client that leaves. The silent logger hides the stack traces of bytes that are
    # not HTTP; such bytes get a 400.
    return web.AppRunner(
        application,
        access_log=None,
        handler_cancellation=True,
        logger=_silent_logger(),
        shutdown_timeout=timeout_ms / 1000,
    )


async def _listen(runner, listener, options):
    await runner.setup()
    site = web.SockSite(runner, listener, backlog=1024)
    try:
        await site.start()
    except OSError as error:  # another server bound the same port and listened first
        raise _cannot_listen(options.host, options.port, error) from None
    return site


async def _is_stopped_before(stop, coroutine):
    """Runs a coroutine unless the event comes first. Returns whether the event came first."""
    work, stopping = asyncio.ensure_future(coroutine), asyncio.ensure_future(stop.wait())
    await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not work.done():
        work.cancel()
        return True
    await work
    return False


async def _poll(models, seconds):
    while True:
        await asyncio.sleep(seconds)
        await models.refresh()


def _bind(host, port):
    """Binds a socket before the models load, so that a taken port is an error at once."""
    try:
        info = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(info[0], info[1])
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(info[4])
    except (OSError, UnicodeError) as error:  # UnicodeError: the host name is malformed
        raise _cannot_listen(host, port, error) from None
    return listener


def _cannot_listen(host, port, error):
    mend = (
        "give another --rest_api_port"
        if getattr(error, "errno", None) in (errno.EADDRINUSE, errno.EACCES)
        else "give an address of this machine as --rest_api_host"
    )
    return UserError(f"cannot listen on {host}:{port}: {getattr(error, 'strerror', None) or error}; {mend}")


def _never_failing(log):
    """Wraps a log so that a closed pipe or a full disk stops neither answers nor new versions."""

    def write(line):
        try:
            log(line)
        except OSError:
            pass

    return write


def _silent_logger():
    logger = logging.getLogger("keras_bert_app.serving.http")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger

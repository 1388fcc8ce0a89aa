"""Starting and stopping the server."""

import asyncio
import concurrent.futures
import dataclasses
import errno
import logging
import signal
import socket

import tensorflow as tf
from aiohttp import web

from keras_bert_app.errors import UserError
from keras_bert_app.serving.batcher import Batcher
from keras_bert_app.serving.models import Models
from keras_bert_app.serving.routes import Routes
from keras_bert_app.serving.server_metrics import Metrics

# Between the last accept and the closing of the listening socket. asyncio (3.11) loses a connection that it is just
# accepting when the server closes: it stays open and is never answered. So accepting ends first, and what came in by
# then gets its answer, a 503.
_SETTLING_SECONDS = 0.1


@dataclasses.dataclass(frozen=True)
class ServerOptions:
    """What is not about one model or about batching.

    Args:
        host, port: to listen on; port 0 takes a free one. timeout_ms: for one request from its headers to its answer.
        max_request_bytes: of one body. max_queued_requests: accepted and not yet answered, in all. poll_seconds:
            between looks for new versions; 0 looks only at the start. allow_unverified: serve also what has no
            manifest.json. log_requests: a line for each request.
    """

    host: str = "127.0.0.1"
    port: int = 8501
    timeout_ms: int = 30_000
    max_request_bytes: int = 16 << 20
    max_queued_requests: int = 512
    poll_seconds: float = 1
    allow_unverified: bool = False
    log_requests: bool = False


def run(configs, batching, options, log=print):
    """Serves until SIGTERM or SIGINT, then finishes what was accepted.

    Args:
        configs: list of ModelConfig. batching: BatchingOptions. options: ServerOptions. log: called with lines.

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


async def serve(configs, batching, options, stop, log=print, started=None):
    """The server as a coroutine.

    Args:
        stop: asyncio.Event that ends it. started: called with the port when requests are taken.
    """
    log = _never_failing(log)
    listener = _bind(options.host, options.port)
    port = listener.getsockname()[1]
    metrics = Metrics()
    models = Models(configs, metrics, options.allow_unverified, log)
    threads = concurrent.futures.ThreadPoolExecutor(batching.num_batch_threads, "batch")
    batcher = Batcher(batching, threads, tf.compat.v1.RunOptions(timeout_in_ms=options.timeout_ms), metrics)
    routes = Routes(models, batcher, metrics, options, log)
    # A client that leaves frees its place in the queue. What is not HTTP gets a 400, and no stack trace in the log.
    runner = web.AppRunner(
        routes.application(),
        access_log=None,
        handler_cancellation=True,
        logger=_silent_logger(),
        shutdown_timeout=options.timeout_ms / 1000,
    )
    polling = None
    try:
        if await _is_stopped_before(stop, models.load()):
            return
        await runner.setup()
        site = web.SockSite(runner, listener, backlog=1024)
        try:
            await site.start()
        except OSError as error:  # another server bound the port too, and was the first to listen
            raise _cannot_listen(options.host, options.port, error) from None
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


async def _is_stopped_before(stop, coroutine):
    """Runs a coroutine unless the event comes first."""
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
    """A socket that is bound before the models load, so that a taken port is known at once."""
    try:
        info = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(info[0], info[1])
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(info[4])
    except (OSError, UnicodeError) as error:  # the latter of a name that none can have
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
    """A log whose reader may go away or whose disk may be full: answers and new versions do not hang on it."""

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

"""Starting and stopping the server."""

import asyncio
import concurrent.futures
import dataclasses
import errno
import os
import signal
import socket
import threading
from collections.abc import Callable

from aiohttp import web

from keras_bert_app.errors import UserError
from keras_bert_app.serving import op_threads
from keras_bert_app.serving.access import is_loopback
from keras_bert_app.serving.batcher import Batcher
from keras_bert_app.serving.batching_options import BatchingOptions
from keras_bert_app.serving.config_file import ConfigFile
from keras_bert_app.serving.connections import ConnectionLimits, Connections
from keras_bert_app.serving.model_configs import ModelConfig
from keras_bert_app.serving.models import Models
from keras_bert_app.serving.request_errors import readable
from keras_bert_app.serving.routes import Routes
from keras_bert_app.serving.server_metrics import Metrics

# The server stops accepting connections this long before it closes the socket. Earlier connections get a 503.
_SETTLING_SECONDS = 0.1


@dataclasses.dataclass(frozen=True)
class ServerOptions:
    """Options of the server that concern neither a single model nor batching.

    Args:
        host: str. The address to listen on.
        port: int. The port to listen on; 0 takes a free one.
        timeout_ms: int. Time limit of a request, from its headers to its outputs, in milliseconds. The client may take
            the same time again to read the answer.
        grace_seconds: float. The longest time from SIGTERM to the end of the process.
        max_request_bytes: int. The most bytes of one body.
        max_queued_requests: int. The most requests whose answers are not sent yet.
        max_answer_values: int. The most values (numbers and strings) of an answer.
        connections: ConnectionLimits. The number of the connections, and how long they may keep silent.
        allowed_hosts: tuple of str. Names of the server besides localhost and IP addresses; see access.Access.
        poll_seconds: float. Time between two looks for new versions; 0 looks only at the start.
        config_file: str. The models.config with the models, or "".
        config_poll_seconds: float. Time between two looks into config_file; 0 looks only at the start.
        allow_unverified: bool. Whether to serve versions without a manifest.json.
        log_requests: bool. Whether to log a line for each request.
    """

    host: str = "127.0.0.1"
    port: int = 8501
    timeout_ms: int = 30_000
    grace_seconds: float = 30
    max_request_bytes: int = 16 << 20
    max_queued_requests: int = 512
    max_answer_values: int = 1 << 25
    connections: ConnectionLimits = ConnectionLimits()
    allowed_hosts: tuple = ()
    poll_seconds: float = 1
    config_file: str = ""
    config_poll_seconds: float = 1
    allow_unverified: bool = False
    log_requests: bool = False


def run(
    configs: list[ModelConfig],
    batching: BatchingOptions,
    options: ServerOptions,
    log: Callable[[str], None] = print,
) -> None:
    """Serves until SIGTERM or SIGINT, then finishes the accepted requests, within options.grace_seconds.

    Args:
        configs: list of ModelConfig. The models to serve.
        batching: BatchingOptions. How to merge requests.
        options: ServerOptions. Address and limits.
        log: function that takes one line of text.

    Raises:
        UserError: the port is taken, or a model cannot be served.
    """

    async def main():
        stop = asyncio.Event()

        def begin_to_stop():
            stop.set()
            _end_process_after(options.grace_seconds, log)

        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, begin_to_stop)
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
        log: function that takes one line of text.
        started: function of the port. The server calls it when it begins to take requests.

    Raises:
        UserError: the port is taken, or a model cannot be served.
    """
    op_threads.prepare(configs)
    log = _never_failing(log)
    listener = _bind(options.host, options.port)
    port = listener.getsockname()[1]
    metrics = Metrics()
    models = Models(configs, metrics, options.allow_unverified, log)
    threads = concurrent.futures.ThreadPoolExecutor(batching.num_batch_threads, "batch")
    batcher = Batcher(batching, threads, options.timeout_ms / 1000, metrics, options.max_answer_values)
    routes = Routes(models, batcher, metrics, options, log)
    # Cancellation frees the place of a client that leaves.
    runner = web.AppRunner(routes.application(), handler_cancellation=True, shutdown_timeout=_SETTLING_SECONDS)
    polling = []
    try:
        if await _is_stopped_before(stop, models.load()):
            return
        connections = await _listen(runner, listener, options, log)
        routes.is_ready = True
        for model in models.by_name.values():
            versions = ", ".join(str(version.number) for version in model.available())
            log(f"serving {model.config.name} version {versions} from {model.config.base_path}")
        log(f"listening on http://{options.host}:{port}/ (Ctrl-C or SIGTERM stops)")
        if not is_loopback(options.host):
            log(
                f"warning: {options.host} lets other machines in, and there is no password and no TLS; "
                "put a proxy before the server, or leave out --rest_api_host"
            )
        polling = _start_polling(models, configs, options, log)
        if started is not None:
            started(port)
        await stop.wait()
        await _finish(routes, connections, models, options.grace_seconds, log)
    finally:
        for task in polling:
            task.cancel()
        await runner.cleanup()
        await models.close()
        threads.shutdown()
        listener.close()


async def _finish(routes, connections, models, grace_seconds, log):
    """Stops accepting, answers the accepted requests, and cuts off those that take too long."""
    routes.is_ready = False
    connections.stop_accepting()
    await asyncio.sleep(_SETTLING_SECONDS)
    connections.close_listener()
    try:
        # Runs that are cut off need the rest of the time to end.
        async with asyncio.timeout(max(0, grace_seconds - max(1.5, grace_seconds / 10))):
            await routes.until_idle()
    except TimeoutError:
        log(f"{routes.num_accepted:,} requests are cut off (--grace_seconds={grace_seconds:g})")
        connections.abort()
        models.end_runs()


def _end_process_after(seconds, log):
    """Ends the process after a time. Nothing else can end some loads and runs."""

    def end():
        _never_failing(log)("stopped before everything ended (--grace_seconds)")
        os._exit(1)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


async def _listen(runner, listener, options, log):
    await runner.setup()
    limits = options.connections.within_open_files()
    connections = Connections(listener, runner.server, limits, log)
    try:
        connections.start()
    except OSError as error:  # another server bound the same port and listened first
        raise _cannot_listen(options.host, options.port, error) from None
    return connections


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


def _start_polling(models, configs, options, log):
    polls = [(models.refresh, options.poll_seconds)]
    if options.config_file:
        config_file = ConfigFile(options.config_file, configs, models, log)
        polls.append((config_file.refresh, options.config_poll_seconds))
    return [asyncio.ensure_future(_poll(look, seconds)) for look, seconds in polls if seconds]


async def _poll(look, seconds):
    while True:
        await asyncio.sleep(seconds)
        await look()


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
    """Wraps a log so that a closed pipe or a full disk stops neither answers nor new versions.

    A line may contain text from a client, so line ends and terminal codes are escaped.
    """

    def write(line):
        try:
            log(readable(line))
        except OSError:
            pass

    return write

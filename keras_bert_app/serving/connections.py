"""The connections of the server: how many there may be, and how long each may keep silent.

asyncio's own servers accept connections without a limit. They write a stack trace for every connection that finds no
free file descriptor. aiohttp waits for headers as long as a client likes.
"""

import asyncio
import dataclasses
import resource
import time
from collections.abc import Callable

from aiohttp import web

from keras_bert_app.serving.request_errors import error_response, readable

# The open files of the process that are no connections: libraries, models that load, the event loop.
_OTHER_FILES = 96
_FEWEST_CONNECTIONS = 8
# How many connections to accept before other events have their turn.
_ACCEPTED_AT_ONCE = 64
# A connection that waited less than this is not closed to make room: its request may be under way.
_LEAST_WAIT_SECONDS = 0.5
# A connection whose body takes longer than this is closed when no other place is free.
_SLOW_BODY_SECONDS = 5
# Time until the next attempt when no connection can be accepted.
_RETRY_SECONDS = 0.1
_SECONDS_BETWEEN_WARNINGS = 60
# For this time aiohttp receives and drops the rest of a body that nobody reads. An immediate close could destroy the
# answer before the client reads it.
_LINGERING_SECONDS = 1
# The states of a connection. WAITING: no byte of a request yet. HEADERS: a part of the headers is there. BODY:
# a part of the body is missing. WORK: the server computes or sends the answer.
_WAITING, _HEADERS, BODY, WORK = "waiting", "headers", "body", "work"


@dataclasses.dataclass(frozen=True)
class ConnectionLimits:
    """Limits of the connections.

    Args:
        most: int. The most connections at the same time.
        header_seconds: float. Time for all headers of a request, from the connection or from their first byte.
        idle_seconds: float. Time between an answer and the next request on the same connection.
    """

    most: int = 1024
    header_seconds: float = 10
    idle_seconds: float = 60

    def within_open_files(self) -> "ConnectionLimits":
        """Returns these limits, with no more connections than the limit of open files (ulimit -n) allows."""
        most_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if most_files == resource.RLIM_INFINITY:
            return self
        return dataclasses.replace(self, most=min(self.most, max(_FEWEST_CONNECTIONS, most_files - _OTHER_FILES)))


class Connections:
    """Accepts connections on a socket and closes those that keep silent for too long.

    If all places are taken, the connection that waited longest for its client makes room.

    Args:
        listener: socket.socket. A bound socket; `start` makes it listen.
        server: web.Server. It answers the requests.
        limits: ConnectionLimits. The number and the times.
        log: function that takes one line of text.
    """

    def __init__(self, listener, server: web.Server, limits: ConnectionLimits, log: Callable[[str], None]):
        self._listener, self._server, self._limits, self._log = listener, server, limits, log
        self._loop = asyncio.get_running_loop()
        self._open, self._connecting, self._timers = {}, set(), {}
        self._warned = -float("inf")

    def start(self) -> None:
        """Begins to accept.

        Raises:
            OSError: another socket listens on the port.
        """
        self._listener.setblocking(False)
        self._listener.listen(1024)
        self._resume()
        self._sweep()

    def stop_accepting(self) -> None:
        """Stops accepting connections. Open connections stay."""
        self._loop.remove_reader(self._listener)
        if "accept" in self._timers:
            self._timers.pop("accept").cancel()

    def close_listener(self) -> None:
        """Refuses new connections from now on."""
        self._listener.close()

    def abort(self) -> None:
        """Closes all connections at once, even those that wait for an answer or do not read it."""
        for transport in list(self._open.values()):
            transport.abort()

    def opened(self, connection: "Connection", transport) -> None:
        """Counts a connection.

        Args:
            connection: Connection. The new connection.
            transport: asyncio.Transport of the connection.
        """
        self._open[connection] = transport

    def closed(self, connection: "Connection") -> None:
        """Removes a connection from the count.

        Args:
            connection: Connection. A connection that ended.
        """
        self._open.pop(connection, None)

    def _resume(self):
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self):
        for _ in range(_ACCEPTED_AT_ONCE):
            if len(self._open) >= self._limits.most:
                self._warn(f"all {self._limits.most:,} connections are in use (--max_connections, ulimit -n)")
                if not self._make_room():
                    return self._pause()
            try:
                accepted, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return None
            except OSError as error:  # no file descriptor or no memory is free
                self._warn(f"no connection can be accepted: {error.strerror}")
                self._make_room()
                return self._pause()
            accepted.setblocking(False)
            connection = Connection(self, self._server, self._loop)
            self._open[connection] = None
            task = self._loop.create_task(self._connect(connection, accepted))
            self._connecting.add(task)  # the event loop keeps only weak references
            task.add_done_callback(self._connecting.discard)
        return None

    async def _connect(self, connection, accepted):
        try:
            await self._loop.connect_accepted_socket(lambda: connection, accepted)
        except OSError:
            self.closed(connection)
            accepted.close()

    def _pause(self):
        self._loop.remove_reader(self._listener)
        self._timers["accept"] = self._loop.call_later(_RETRY_SECONDS, self._resume)

    def _make_room(self):
        return self.close_slowest((_WAITING, _HEADERS)) or self.close_slowest((BODY,))

    def close_slowest(self, states: tuple, least_seconds: float = _LEAST_WAIT_SECONDS) -> bool:
        """Closes the connection that waited longest for its client. Returns whether there was one.

        Args:
            states: tuple of str. The states of the connections that may be closed.
            least_seconds: float. The least time that the connection was in its state.
        """
        latest = time.monotonic() - least_seconds
        waiting = [
            connection
            for connection, transport in self._open.items()
            if transport and connection.state in states and connection.since <= latest
        ]
        if waiting:
            self._open.pop(min(waiting, key=lambda connection: connection.since)).abort()
        return bool(waiting)

    def _sweep(self):
        """Closes the connections whose time is over, and repeats this four times within the shortest time limit."""
        now = time.monotonic()
        for connection, transport in list(self._open.items()):
            waited = now - connection.since
            if transport is None:
                continue
            if connection.state == _HEADERS and waited > self._limits.header_seconds:
                connection.answer_late_headers()
                transport.abort()
            elif connection.state == _WAITING and waited > (
                self._limits.idle_seconds if connection.has_answered else self._limits.header_seconds
            ):
                transport.abort()
        interval = min(self._limits.header_seconds, self._limits.idle_seconds) / 4
        self._timers["sweep"] = self._loop.call_later(interval, self._sweep)

    def _warn(self, line):
        now = time.monotonic()
        if now - self._warned > _SECONDS_BETWEEN_WARNINGS:
            self._warned = now
            self._log(f"{line}; the server closes silent connections first")


class Connection(web.RequestHandler):
    """One connection. It adds the state of the connection and errors in JSON to aiohttp's protocol.

    Args:
        owner: Connections. It counts the connection.
        server: web.Server. It answers the requests.
        loop: the event loop.

    Attributes:
        state: str. One of the four states above.
        since: float. When this state began, by time.monotonic().
        has_answered: bool. Whether the connection has answered a request.
    """

    def __init__(self, owner: Connections, server: web.Server, loop):
        # Without aiohttp's decompression, an unread body costs no more than the bytes that the client sends.
        super().__init__(
            server,
            loop=loop,
            access_log=None,
            logger=_SilentLogger(),
            lingering_time=_LINGERING_SECONDS,
            auto_decompress=False,
        )
        self._owner, self.has_answered = owner, False
        self.enter(_WAITING)

    def enter(self, state: str) -> None:
        """Notes a new state of the connection.

        Args:
            state: str. One of the four states. Other modules enter BODY and WORK only.
        """
        self.state, self.since = state, time.monotonic()

    def answered(self) -> None:
        """Notes that the answer to a request is sent."""
        self.has_answered = True
        self.enter(_WAITING)

    def close_slow_body(self) -> bool:
        """Closes the slowest connection whose body takes too long. Returns whether there was one."""
        return self._owner.close_slowest((BODY,), _SLOW_BODY_SECONDS)

    def answer_late_headers(self) -> None:
        """Sends 408 to a client whose headers are not complete."""
        body = error_response(408, "the headers of the request did not come in time").body
        self.transport.write(
            b"HTTP/1.1 408 Request Timeout\r\nContent-Type: application/json\r\nConnection: close\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        )

    def connection_made(self, transport):
        super().connection_made(transport)
        self.enter(_WAITING)
        self._owner.opened(self, transport)

    def connection_lost(self, exc):
        self._owner.closed(self)
        super().connection_lost(exc)

    def data_received(self, data):
        if data and self.state == _WAITING:
            self.enter(_HEADERS)
        super().data_received(data)

    async def finish_response(self, request, resp, start_time):
        """Sends errors that no route has seen, such as an unknown Expect header, in the form of other errors."""
        if isinstance(resp, web.HTTPException):
            resp = error_response(resp.status, f"{resp.reason}: the request has headers that this server does not know")
            resp.force_close()
        return await super().finish_response(request, resp, start_time)

    def handle_error(self, request, status=500, exc=None, message=None):
        """Answers bytes that are not HTTP with an error in the form of other errors."""
        if request.writer.output_size > 0:
            raise ConnectionError("a part of the answer is sent already")
        reason = readable(" ".join((message or "internal error").replace("^", "").split()))[:200]
        response = error_response(status, f"the request is not HTTP that can be read: {reason}")
        response.force_close()
        return response


class _SilentLogger:
    """A logger that hides the stack traces of bytes that are not HTTP; such bytes get a 400."""

    def debug(self, *arguments, **options):
        pass

    info = warning = error = exception = critical = debug

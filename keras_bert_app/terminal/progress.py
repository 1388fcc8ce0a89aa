"""Progress lines: how much is done, how fast, and how much time is left."""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TextIO

from keras_bert_app.terminal.durations import duration

_SECONDS_ON_A_TERMINAL, _SECONDS_ELSEWHERE = 0.2, 5.0


@contextlib.contextmanager
def shown_while(show: Callable[[float], None]) -> Iterator[None]:
    """Calls a function five times a second, in a thread, during a block that prints nothing itself.

    Args:
        show: function that takes the seconds since the block began.
    """
    began, is_over = time.monotonic(), threading.Event()

    def show_until_over():
        while not is_over.wait(_SECONDS_ON_A_TERMINAL):
            show(time.monotonic() - began)

    thread = threading.Thread(target=show_until_over, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


class LiveLine:
    """A line about work in progress.

    A terminal always shows the newest line at the same place. Other streams get a new line every few seconds.

    Args:
        stream: TextIO. The output; standard output by default.
        seconds_elsewhere: float. The time between two lines if the stream is no terminal; None for no lines.
    """

    def __init__(self, stream: TextIO | None = None, seconds_elsewhere: float | None = _SECONDS_ELSEWHERE):
        self.stream = stream or sys.stdout
        self.is_terminal = self.stream.isatty()
        self.interval = _SECONDS_ON_A_TERMINAL if self.is_terminal else seconds_elsewhere
        self.shown = time.monotonic()

    def show(self, text: Callable[[], str]) -> None:
        """Shows a line if enough time has passed since the last one.

        Args:
            text: function that makes the line. The method calls it only if a line is due.
        """
        now = time.monotonic()
        if self.interval is None or now - self.shown < self.interval:
            return
        self.shown = now
        self._write(f"\r{text()}\x1b[K" if self.is_terminal else f"{text()}\n")

    def say(self, text: str) -> None:
        """Prints a line that stays. On a terminal it replaces the live line.

        Args:
            text: str. The line.
        """
        self._write(f"\r{text}\x1b[K\n" if self.is_terminal else f"{text}\n")

    def clear(self) -> None:
        """Removes the live line from the terminal."""
        if self.is_terminal:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()


class Progress:
    """Progress through a known amount of work. The clock starts when the object is made.

    Args:
        unit: str. The name of the units, such as "texts".
        total: int. The number of units.
        work: float. The cost of all units together, in any measure. The estimate of the remaining time uses the cost.
        stream: TextIO. The output.

    Attributes:
        note: str. The end of the line, such as the newest loss. The caller may change it.
    """

    def __init__(self, unit: str, total: int, work: float, stream: TextIO):
        self.unit, self.total, self.work = unit, total, work
        self.count = self.worked = 0
        self.note = ""
        self.line = LiveLine(stream)
        self.started = time.monotonic()

    def done(self, count: int, work: float) -> None:
        """Adds finished units.

        Args:
            count: int. The number of units.
            work: float. Their cost together, in the measure of the total.
        """
        self.count, self.worked = self.count + count, self.worked + work
        self.line.show(self._text)

    def _text(self) -> str:
        seconds = time.monotonic() - self.started
        left = seconds * (self.work - self.worked) / max(self.worked, 1)
        return counted(self.count, self.total, self.unit, seconds, left) + self.note

    def end(self) -> float:
        """Removes the line from the terminal.

        Returns:
            float: seconds since the beginning.
        """
        self.line.clear()
        return time.monotonic() - self.started


def counted(count: int, total: int, unit: str, seconds: float, left: float) -> str:
    """Formats a progress line.

    Examples are "120/4,000 texts  60 texts/s  ETA 1:05" and "1/9 texts  4.0 s each  ETA 0:32".

    Args:
        count: int. Finished units.
        total: int. All units.
        unit: str. The name of the units. The speed repeats the name if it is one word.
        seconds: float. Seconds since the beginning.
        left: float. Estimated seconds for the rest.

    Returns:
        str: the line.
    """
    rate = count / max(seconds, 1e-9)
    if rate >= 1:
        speed = f"{rate:,.{0 if rate >= 10 else 1}f}{'' if ' ' in unit else ' ' + unit}/s"
    else:
        speed = f"{1 / max(rate, 1e-9):,.1f} s each"
    return f"{count:,}/{total:,} {unit}  {speed}  ETA {duration(left)}"


class ReadingProgress:
    """Progress through text files. Call the object with the numbers of documents and bytes read so far.

    Args:
        what: str. The work, such as "reading".
        total_bytes: int. The size of all files, for the remaining time; None if unknown.
        stream: TextIO. The output; standard output by default.
    """

    def __init__(self, what: str, total_bytes: int | None = None, stream: TextIO | None = None):
        self.what, self.total_bytes = what, total_bytes
        self.line, self.started, self.first_bytes = LiveLine(stream), 0.0, None

    def __call__(self, documents: int, num_bytes: int) -> None:
        # A resumed run begins with the bytes that an earlier run has read. Reading them took no time in this run.
        if self.first_bytes is None:
            self.first_bytes, self.started = num_bytes, time.monotonic()
        self.line.show(lambda: self._text(documents, num_bytes))

    def _text(self, documents: int, num_bytes: int) -> str:
        speed = (num_bytes - self.first_bytes) / max(time.monotonic() - self.started, 1e-9)
        text = f"{self.what}: {documents:,} documents, {num_bytes / 1e6:,.0f} MB"
        if speed:
            text += f", {speed / 1e6:,.1f} MB/s"
        if self.total_bytes and speed:
            left = max(0.0, self.total_bytes - num_bytes) / speed
            text += f"  {num_bytes / self.total_bytes:.0%}  ETA {duration(left)}"
        return text


def reported(items: Iterable[Any], total: int, unit: str, log: Callable[[str], None]) -> Iterator[Any]:
    """Yields the items, and passes a progress line to `log` every ten seconds.

    Args:
        items: iterable. Each item takes about the same time.
        total: int. The number of items.
        unit: str. The name of the items with the work on them, such as "sentences encoded".
        log: function that takes a line.
    """
    started = shown = time.monotonic()
    for count, item in enumerate(items, 1):
        yield item
        now = time.monotonic()
        if now - shown >= 2 * _SECONDS_ELSEWHERE:
            shown = now
            log(counted(count, total, unit, now - started, (now - started) * (total - count) / count))

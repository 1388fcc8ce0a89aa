"""How far long work is: how much is done, how fast, and how long it still takes."""

import time

from keras_bert_app.training.reporting import duration

_SECONDS_ON_A_TERMINAL, _SECONDS_ELSEWHERE, _SECONDS_IN_A_LOG = 0.2, 5.0, 10.0


class Progress:
    """Rewrites a line on a terminal; elsewhere a new line every five seconds. The clock starts at once.

    Args:
        unit: what is counted, such as "texts". total: how many there are. work: what they cost together, in any unit.
        stream: where to.
    """

    def __init__(self, unit, total, work, stream):
        self.unit, self.total, self.work, self.stream = unit, total, work, stream
        self.is_terminal = stream.isatty()
        self.count = self.worked = 0
        self.started = self.shown = time.monotonic()

    def done(self, count, work):
        """So many more units are done, which cost so much."""
        self.count, self.worked = self.count + count, self.worked + work
        now = time.monotonic()
        if now - self.shown < (_SECONDS_ON_A_TERMINAL if self.is_terminal else _SECONDS_ELSEWHERE):
            return
        self.shown = now
        left = (now - self.started) * (self.work - self.worked) / max(self.worked, 1)
        line = (f"{self.count:,}/{self.total:,} {self.unit}  {self.count / (now - self.started):,.0f} {self.unit}/s  "
                f"ETA {duration(left)}")
        self.stream.write(f"\r{line}\x1b[K" if self.is_terminal else f"{line}\n")
        self.stream.flush()

    def end(self):
        """Takes the line from the terminal. Returns: seconds since the beginning."""
        if self.is_terminal:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
        return time.monotonic() - self.started


def reported(items, total, unit, log):
    """Yields the items; every ten seconds `log` is called with how many are done, how fast, and the time that is left.

    Args:
        items: iterable of `total` items that cost about the same. unit: what they are, such as "sentences", with what is done to them.
    """
    started = shown = time.monotonic()
    for count, item in enumerate(items, 1):
        yield item
        now = time.monotonic()
        if now - shown >= _SECONDS_IN_A_LOG:
            shown, rate = now, count / (now - started)
            speed = f"{rate:,.1f}/s" if rate >= 1 else f"{1 / rate:,.1f} s each"
            log(f"{count:,}/{total:,} {unit}  {speed}  ETA {duration((total - count) / rate)}")

"""A line of progress: how much is done, how fast, and how long it still takes."""

import time

from keras_bert_app.training.reporting import duration

_SECONDS_ON_A_TERMINAL, _SECONDS_ELSEWHERE = 0.2, 5.0


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

"""SIGINT and SIGTERM as requests, after which a run finishes its step, saves and ends."""

import signal


class Signals:
    """Notes SIGINT and SIGTERM within the block, where they have no other effect. Later signals change nothing.

    Attributes:
        received: the number of the first signal; 0 before.
    """

    def __enter__(self):
        self.received = 0
        self.previous = {}
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                self.previous[number] = signal.signal(number, self._note)
        except ValueError:
            pass  # only the main thread can handle signals; in another thread its owner does
        return self

    def _note(self, number, frame):
        self.received = self.received or number

    def __exit__(self, *exception):
        for number, handler in self.previous.items():
            signal.signal(number, handler)

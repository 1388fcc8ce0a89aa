"""Handles SIGINT and SIGTERM as requests: the run finishes its step, saves and ends."""

import signal


class Signals:
    """Notes SIGINT and SIGTERM within the block, where they have no other effect.

    Only the first signal counts. Later signals change nothing.

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
            # Python lets only the main thread set handlers. In another thread, the program that started the thread
            # handles the signals.
            pass
        return self

    def _note(self, number, frame):
        self.received = self.received or number

    def __exit__(self, *exception):
        for number, handler in self.previous.items():
            signal.signal(number, handler)

"""SIGINT and SIGTERM as requests: a run finishes its step, saves and says so."""

import signal


class Signals:
    """While active, SIGINT and SIGTERM are noted instead of acted on; a second one changes nothing.

    Attributes:
        received: the number of the first one, 0 before.
    """

    def __enter__(self):
        self.received = 0
        self.previous = {}
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                self.previous[number] = signal.signal(number, self._note)
        except ValueError:
            pass  # not the main thread: whoever runs us there handles signals
        return self

    def _note(self, number, frame):
        self.received = self.received or number

    def __exit__(self, *exception):
        for number, handler in self.previous.items():
            signal.signal(number, handler)

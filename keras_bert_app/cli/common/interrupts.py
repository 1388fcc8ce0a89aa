"""Ctrl-C that always ends a command. TensorFlow loses some KeyboardInterrupts and turns others into errors."""

import signal
import threading

_SECONDS = 5.0


class Interrupts:
    """Raises KeyboardInterrupt at SIGINT within the block, and again every few seconds while the block goes on.

    Attributes:
        came: whether SIGINT came. An exception after it stands for the interrupt.
    """

    def __init__(self):
        self.came = False
        self._previous = None

    def __enter__(self) -> "Interrupts":
        is_main = threading.current_thread() is threading.main_thread()
        # A process that ignores SIGINT, or handles it itself, keeps its handler.
        if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._previous = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGALRM)]
            for number, _ in self._previous:
                signal.signal(number, self._interrupt)
        return self

    def __exit__(self, *exception):
        if self._previous:
            signal.setitimer(signal.ITIMER_REAL, 0)
            for number, handler in self._previous:
                signal.signal(number, handler)

    def _interrupt(self, number, frame):
        self.came = True
        signal.setitimer(signal.ITIMER_REAL, _SECONDS)
        raise KeyboardInterrupt

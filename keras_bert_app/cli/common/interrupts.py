"""Ctrl-C that always ends a command. TensorFlow loses some KeyboardInterrupts and turns others into errors."""

import signal
import sys
import threading

_SECONDS = 5.0


class Interrupts:
    """Raises KeyboardInterrupt at SIGINT within the block, and again every few seconds while the block goes on.

    C++ code that loses the exception prints it. After SIGINT nothing is printed, because the command says how it ended.

    Attributes:
        came: whether SIGINT came. An exception after it stands for the interrupt.
    """

    def __init__(self):
        self.came = False
        self._previous = None
        self._hooks = None

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
        if self._hooks:
            sys.excepthook, sys.unraisablehook = self._hooks

    def _interrupt(self, number, frame):
        self.came = True
        if not self._hooks:
            self._hooks = sys.excepthook, sys.unraisablehook
            sys.excepthook = sys.unraisablehook = lambda *exception: None
        signal.setitimer(signal.ITIMER_REAL, _SECONDS)
        raise KeyboardInterrupt

"""Ctrl-C ends a command, also where other code swallows the exception or raises another one."""

import contextlib
import ctypes
import os
import signal
import sys
import time

import pytest

from keras_bert_app.cli.common import app, interrupts
from keras_bert_app.errors import UserError


@pytest.fixture(autouse=True)
def python_handler(monkeypatch):
    """Python's own handler of SIGINT, which the processes of pytest-xdist do not have."""
    monkeypatch.setattr(interrupts, "_SECONDS", 0.05)
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    signal.signal(signal.SIGINT, previous)


def interrupted():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(1)


def test_an_interrupt_that_is_swallowed_comes_again():
    with pytest.raises(KeyboardInterrupt), interrupts.Interrupts() as seen:
        with contextlib.suppress(KeyboardInterrupt):
            interrupted()
        time.sleep(5)
        pytest.fail("no second interrupt came")
    assert seen.came


@pytest.mark.parametrize("error", [RuntimeError, UserError, OSError])
def test_an_error_after_an_interrupt_ends_the_command_as_interrupted(error, capsys):
    def main(arguments):
        with contextlib.suppress(KeyboardInterrupt):
            interrupted()
        raise error("a C++ function returned with an exception set")

    with pytest.raises(SystemExit) as end:
        app._guarded(main, [], contextlib.nullcontext())
    assert end.value.code == 130 and capsys.readouterr().err == "interrupted\n"


def test_cpp_code_that_loses_an_interrupt_prints_nothing(capsys):
    def print_in_c():
        ctypes.pythonapi.PyRun_SimpleString(b"raise SystemError('a function returned with an exception set')")

    def main(arguments):
        with contextlib.suppress(KeyboardInterrupt):
            interrupted()
        print_in_c()
        raise KeyboardInterrupt

    hooks = sys.excepthook, sys.unraisablehook
    with pytest.raises(SystemExit) as end:
        app._guarded(main, [], contextlib.nullcontext())
    assert end.value.code == 130 and capsys.readouterr().err == "interrupted\n"
    assert (sys.excepthook, sys.unraisablehook) == hooks
    print_in_c()
    assert "SystemError: a function returned" in capsys.readouterr().err


def test_an_error_without_an_interrupt_is_raised():
    def main(arguments):
        raise RuntimeError("a fault")

    with pytest.raises(RuntimeError, match="a fault"):
        app._guarded(main, [], contextlib.nullcontext())


def test_a_process_that_ignores_sigint_goes_on():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interrupts.Interrupts() as seen:
        os.kill(os.getpid(), signal.SIGINT)
    assert not seen.came and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    signal.signal(signal.SIGINT, signal.default_int_handler)

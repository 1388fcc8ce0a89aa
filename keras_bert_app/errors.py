"""Exceptions that end a command, and the hint for a misspelled name."""

import difflib
import re
from collections.abc import Iterable


class UserError(ValueError):
    """A fault in a flag, a configuration or a run directory.

    The message is one line that names the remedy.
    """


class NotFinite(UserError):
    """The run ended because a loss or a gradient was not finite."""


class DeviceLost(Exception):
    """The run lost its devices, through no fault of the user.

    The same command resumes the run from the last checkpoint.
    """


class Interrupted(Exception):
    """SIGINT (Ctrl-C) or SIGTERM stopped a training. The same call or command continues it.

    Args:
        number: int. The number of the signal.
        step: int. The last step of the run.
        has_saved: bool. Whether this process saved a checkpoint. Only the chief saves.
    """

    def __init__(self, number: int, step: int, has_saved: bool):
        super().__init__(number, step, has_saved)
        self.number, self.step, self.has_saved = number, step, has_saved

    def __str__(self):
        return f"signal {self.number} stopped the training after step {self.step:,}; the same call continues it"


def failed_check(error: Exception) -> str:
    """Returns the words of a check of inputs in the graph of a model; "" for other errors.

    Args:
        error: Exception. The function compares the name of its class, so it does not load TensorFlow.
    """
    match = re.search(r"^assertion failed: \[(.*expected .*)\]$", str(error), re.MULTILINE)
    return match[1].replace("] [", " ") if match and type(error).__name__ == "InvalidArgumentError" else ""


def first_line(error: Exception) -> str:
    """Returns the first line of another library's error, at most 200 characters, or the name of its class.

    Args:
        error: Exception.
    """
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns a hint for an unknown name.

    Args:
        name: str. The unknown name.
        known: iterable of str. The known names.

    Returns:
        str: "did you mean 'X'?" if a known name is similar, else the list of known names.
    """
    close = difflib.get_close_matches(str(name), list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(map(str, known))}"

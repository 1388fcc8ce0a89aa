"""Exceptions that end a command, and the hint for a misspelled name."""

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """A fault in a flag, a configuration or a run directory. Its message is one line that names the remedy."""


class NotFinite(UserError):
    """A loss or a gradient that is not finite ended the run."""


class DeviceLost(Exception):
    """The run lost its devices through no fault of the user. The same command resumes from the last checkpoint."""


class Interrupted(Exception):
    """A signal stopped the run.

    Args:
        number: the number of the signal.
        step: the last step of the run.
        has_saved: whether this process saved a checkpoint. Only the chief saves.
    """

    def __init__(self, number: int, step: int, has_saved: bool):
        super().__init__(number, step, has_saved)
        self.number, self.step, self.has_saved = number, step, has_saved


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for an unknown name: "did you mean X?" if a known name is similar, else the list of known names."""
    close = difflib.get_close_matches(str(name), list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(map(str, known))}"

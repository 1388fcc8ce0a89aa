"""Exceptions that end a command, and the hint for a misspelled name."""

import difflib


class UserError(ValueError):
    """A fault in a flag, a configuration or a run directory; its message is one line that says how to mend it."""


class NotFinite(UserError):
    """A loss or a gradient that is not finite ended the run."""


class DeviceLost(Exception):
    """The devices of a run went away through no fault of the user's; the run goes on from its last checkpoint."""


class Interrupted(Exception):
    """A run that was asked to stop by a signal.

    Args:
        number: the signal's. step: after which it stopped. has_saved: whether this process saved (the chief does).
    """

    def __init__(self, number, step, has_saved):
        super().__init__(number, step, has_saved)
        self.number, self.step, self.has_saved = number, step, has_saved


def nearest(name, known):
    """ "did you mean X?" when a known name is close, else the list of what is known."""
    close = difflib.get_close_matches(str(name), list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(map(str, known))}"

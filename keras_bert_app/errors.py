"""The one exception that says: what the user asked for cannot be done as asked."""


class UserError(ValueError):
    """A fault in a flag, a configuration or a run directory; its message is one line that says how to mend it."""

"""The one exception that says: the text, vocabulary or corpus handed to us is not usable."""


class DataError(ValueError):
    """A fault in the user's data; its message is one line that says how to mend it."""

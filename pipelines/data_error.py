"""The exception for text, vocabularies and corpora that cannot be used."""


class DataError(ValueError):
    """A fault in the user's data; its message is one line that says how to mend it."""

"""The exception for unusable text, vocabularies and corpora, and its wording for Python callers."""

import functools
import re
from collections.abc import Callable

_FLAG = re.compile(r"(?<![\w-])--(?=[a-z])(\w+)(=(?:true|false)\b)?")


class DataError(ValueError):
    """A fault in the user's data; its message is one line that says how to mend it."""


def in_arguments(message: str) -> str:
    """Rewords the message of a command for Python: "--swap_pairs=true" becomes "swap_pairs=True".

    Commands in backquotes stay as they are.

    Args:
        message: str. One line.

    Returns:
        str. One line.
    """

    def argument(flag):
        return flag[1] + (flag[2] or "").title()

    parts = message.split("`")
    parts[::2] = [re.sub(r"\bflag(s?)\b", r"argument\1", _FLAG.sub(argument, part)) for part in parts[::2]]
    return "`".join(parts)


def for_python(function: Callable, errors: type[Exception] | tuple[type[Exception], ...]) -> Callable:
    """Wraps a function, so that its errors name arguments and not the flags of a command.

    Args:
        function: a function that commands call too.
        errors: the exceptions that name flags.

    Returns:
        The function with other error messages.
    """

    @functools.wraps(function)
    def call(*arguments, **keywords):
        try:
            return function(*arguments, **keywords)
        except errors as error:
            error.args = (in_arguments(str(error)),)
            raise

    return call

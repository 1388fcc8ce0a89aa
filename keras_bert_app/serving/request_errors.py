"""The error that the server sends as an answer, and the format of its message."""

import json

from aiohttp import web


class RequestError(Exception):
    """A request that the server answers with {"error": message}.

    Args:
        status: int. HTTP status. 400: the client can correct the request. 403: the request comes from a page or names
            a host that is not allowed. 404: the model or the version is unknown. 413: the body is too large. 415: the
            format of the body is unknown. 500: the model failed. 501: the server has no such function. 503: the queue
            is full, or the server stops. 504: the time limit has passed.
        message: str. One line that says what the request gave and what the server expected.
    """

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status, self.message = status, message


def short(value) -> str:
    """Formats a JSON value for a message.

    Args:
        value: any JSON value.

    Returns:
        str of at most 60 characters.
    """
    text = repr(value) if isinstance(value, (str, int, float, bool, type(None))) else f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def one_line(error: BaseException) -> str:
    """Finds the line of an exception's message that names the failure.

    TensorFlow may print the place where the op was created above this line.

    Args:
        error: BaseException. The exception.

    Returns:
        str: one line.
    """
    lines = [line for line in str(error).splitlines() if line.strip()]
    reasons = [line for line in lines if not line.startswith((" ", "\t", "Graph execution error", "Detected at node"))]
    return (reasons or lines or [type(error).__name__])[0]


def readable(text: str) -> str:
    """Escapes characters that a terminal would act on, such as line ends and ESC.

    Args:
        text: str. A text that may come from a client.

    Returns:
        str of printable characters only, in one line.
    """
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def error_response(status: int, message: str) -> web.Response:
    """Makes the answer {"error": message}.

    Args:
        status: int. HTTP status.
        message: str. One line.

    Returns:
        web.Response. With status 503 it asks the client to try again after a second.
    """
    body = (json.dumps({"error": message}, indent=1) + "\n").encode()
    headers = {"Retry-After": "1"} if status == 503 else None
    return web.Response(body=body, status=status, content_type="application/json", headers=headers)

"""The error that a request gets as its answer, and the forms of its message."""


class RequestError(Exception):
    """A request that the server answers with {"error": message}.

    Args:
        status: int. HTTP status from TensorFlow Serving's table: 400 if the client can correct the request, 404 for an
            unknown model or version, 413, 501, 503 for a full queue or a stopping server, 504 past the time limit, 500
            for a failure inside the model.
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

    TensorFlow may print above this line where the op was created.

    Args:
        error: BaseException. The exception.

    Returns:
        str: one line.
    """
    lines = [line for line in str(error).splitlines() if line.strip()]
    reasons = [line for line in lines if not line.startswith((" ", "\t", "Graph execution error", "Detected at node"))]
    return (reasons or lines or [type(error).__name__])[0]

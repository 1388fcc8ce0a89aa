"""What a request gets instead of an answer."""


class RequestError(Exception):
    """A request that is answered with {"error": message}.

    Args:
        status: HTTP status, by TensorFlow Serving's table: 400 for what the client can mend, 404 for what is not here,
            413, 501, 503 for a full queue or a stopping server, 504 past the time limit, 500 for what failed inside the
            model.
        message: one line: what was given and what was expected.
    """

    def __init__(self, status, message):
        super().__init__(message)
        self.status, self.message = status, message


def short(value):
    """A JSON value as it is shown in a message: at most 60 characters."""
    text = repr(value) if isinstance(value, (str, int, float, bool, type(None))) else f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def one_line(error):
    """The line of an exception's message that says what failed; above it TensorFlow may tell where the op was made."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    said = [line for line in lines if not line.startswith((" ", "\t", "Graph execution error", "Detected at node"))]
    return (said or lines or [type(error).__name__])[0]

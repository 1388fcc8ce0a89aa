"""Asks a served model over HTTP. Needs only Python's standard library.

python saved_models/client.py docs_bert "The [MASK] of the list." "A [MASK] of integers."
"""

import http.client
import json
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

_TIMEOUT_SECONDS = 120  # longer than the server may take to compute and to send an answer


def predict(
    model: str,
    inputs: dict,
    signature: str = "serving_default",
    url: str = "http://127.0.0.1:8501",
    attempts: int = 5,
) -> dict:
    """Asks a signature about a batch.

    Args:
        model: str. The name of the served model.
        inputs: dict from input name to a list with a value for each example.
        signature: str. The name of the signature.
        url: str. The address of the server.
        attempts: int. How often to ask a server that is full (503).

    Returns:
        dict from output name to a list with a value for each example.

    Raises:
        RuntimeError: the server refuses the request, cannot be reached, or is not the server of `serve`. The message
            has one line.
    """
    # A request with rows gets rows, each with the names of its outputs. If the signature has a single output, the rows
    # are bare values, and only the model's metadata has the name of the output.
    rows = [dict(zip(inputs, values, strict=True)) for values in zip(*inputs.values(), strict=True)]
    body = json.dumps({"signature_name": signature, "instances": rows}).encode()
    model_url = f"{url}/v1/models/{urllib.parse.quote(model, safe='', errors='replace')}"
    for attempt in range(attempts):
        status, answer, seconds = _ask(f"{model_url}:predict", body)
        if status != 503 or attempt == attempts - 1:
            break
        time.sleep(seconds)
    if status != 200:
        raise RuntimeError(f"{status}: {answer['error']}")
    try:
        predictions = answer["predictions"]
        if isinstance(predictions[0], dict):
            return {name: [row[name] for row in predictions] for name in predictions[0]}
        _, answer, _ = _ask(f"{model_url}/metadata")
        (name,) = answer["metadata"]["signature_def"]["signature_def"][signature]["outputs"]
        return {name: predictions}
    except (LookupError, TypeError, ValueError):
        raise RuntimeError(f"{url} gave no predictions; is this the server of `serve`?") from None


def _ask(url, body=None):
    """Returns (status, JSON object of the answer, seconds to wait before a new try). A failure has the key "error"."""
    try:
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
            return response.status, json.load(response), 0
    except urllib.error.HTTPError as error:
        text, seconds = error.read(), error.headers.get("Retry-After", "")
        try:
            reason = str(json.loads(text)["error"])
        except (ValueError, KeyError, TypeError):
            reason = f"{url} gave no JSON; is this the server of `serve`?"
        return error.code, {"error": reason}, int(seconds) if seconds.isdecimal() else 1
    except json.JSONDecodeError:
        raise RuntimeError(f"{url} gave no JSON; is this the server of `serve`?") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise RuntimeError(f"{url} cannot be asked ({reason}); start `python -m keras_bert_app.cli.serve`") from None


def main(arguments: list[str]) -> None:
    """Prints a line of JSON for each text.

    Args:
        arguments: list of str. The name of the model, then the texts.
    """
    if len(arguments) < 2:
        sys.exit(__doc__)
    model, *texts = arguments
    try:
        answers = predict(model, {"text": texts})
    except RuntimeError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    for text, *values in zip(texts, *answers.values(), strict=True):
        line = json.dumps({"text": text, **dict(zip(answers, values, strict=True))}, ensure_ascii=False)
        sys.stdout.buffer.write(line.encode("utf-8", errors="replace") + b"\n")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (KeyboardInterrupt, BrokenPipeError):
        sys.exit(1)

"""Asks a served model over HTTP; needs Python's standard library alone.

python saved_models/client.py docs_bert "The [MASK] of the list." "A [MASK] of integers."
"""

import json
import sys
import time
import urllib.error
import urllib.parse
import urllib.request


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
        RuntimeError: the server refused; the message is its one-line reason.
    """
    # The answer to rows names every output. If the signature has a single output, the answer has bare values instead,
    # and the model's metadata has the name.
    rows = [dict(zip(inputs, values, strict=True)) for values in zip(*inputs.values(), strict=True)]
    body = json.dumps({"signature_name": signature, "instances": rows}).encode()
    model_url = f"{url}/v1/models/{urllib.parse.quote(model)}"
    for attempt in range(attempts):
        try:
            with urllib.request.urlopen(f"{model_url}:predict", body) as response:
                predictions = json.load(response)["predictions"]
            if isinstance(predictions[0], dict):
                return {name: [row[name] for row in predictions] for name in predictions[0]}
            with urllib.request.urlopen(f"{model_url}/metadata") as response:
                signatures = json.load(response)["metadata"]["signature_def"]["signature_def"]
            (name,) = signatures[signature]["outputs"]
            return {name: predictions}
        except urllib.error.HTTPError as error:
            reason = json.load(error)["error"]
            if error.code != 503 or attempt == attempts - 1:
                raise RuntimeError(f"{error.code}: {reason}") from None
            time.sleep(float(error.headers.get("Retry-After", 1)))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    answers = predict(sys.argv[1], {"text": sys.argv[2:]})
    for text, *values in zip(sys.argv[2:], *answers.values(), strict=True):
        print(json.dumps({"text": text, **dict(zip(answers, values, strict=True))}, ensure_ascii=False))

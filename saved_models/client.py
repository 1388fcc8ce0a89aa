"""Asks a served model over HTTP; needs Python's standard library alone.

python saved_models/client.py docs_bert "The [MASK] of the list." "A [MASK] of integers."
"""

import json
import sys
import time
import urllib.error
import urllib.parse
import urllib.request


def predict(model, inputs, signature="serving_default", url="http://127.0.0.1:8501", attempts=5):
    """The outputs of a signature for a batch.

    Args:
        model: name of the served model. inputs: dict from input name to a list with a value for each example. url: of
            the server. attempts: how often a server that is full (503) is asked.

    Returns:
        dict from output name to a list with a value for each example.

    Raises:
        RuntimeError: the server's one-line reason why there is no answer.
    """
    # As rows, so that the answer has a name for every output; of a signature with one output alone it gives bare values, whose name
    # stands in the model's metadata.
    rows = [dict(zip(inputs, values)) for values in zip(*inputs.values(), strict=True)]
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
    for text, *values in zip(sys.argv[2:], *answers.values()):
        print(json.dumps({"text": text, **dict(zip(answers, values))}, ensure_ascii=False))

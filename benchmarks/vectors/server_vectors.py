"""Vectors of another embeddings server, which serves a folder of `convert --to=sentence_transformers`, beside ours.

SERVER_ENV/bin/infinity_emb v2 --model-id pairs_st --engine torch --device cpu --port 7997
python -m benchmarks.vectors.server_vectors --url=http://localhost:7997/embeddings --model=runs/pairs

SERVER_ENV has benchmarks/requirements-embeddings-server.txt. Any server takes part that answers OpenAI's request for
embeddings: {"input": [texts]}. Such servers give vectors of length 1, so the model must do so too. No side puts a
prompt before the texts. One text is longer than the model reads. The exit code is 1 if a number differs by more than
1e-5.
"""

import json
import sys
import urllib.error
import urllib.request

import numpy as np
from absl import flags

from keras_bert_app.cli.common import app
from keras_bert_app.errors import UserError

_URL = flags.DEFINE_string("url", "", "Where the server answers, such as http://localhost:7997/embeddings.")
_MODEL = flags.DEFINE_string("model", "", "The model or export that the folder was made of.")
_SERVED = flags.DEFINE_string("served_model_name", "", "The model's name on the server, if it wants one.")
_TEXTS = (
    "A cat sat on the mat.",
    "WHERE is Émile's naïve café?",
    "3,5 kg – 中文, русский & 100% [of] it!",
    "a",
    "The end of this text is cut off. " * 100,
)
_SECONDS = 120


def main(arguments):
    del arguments
    url, model = app.required("url", "model")
    theirs = served_vectors(url)
    with app.quiet_start():
        from keras_bert_app import load_embedder
        from keras_bert_app.interop import parity
    ours = load_embedder(model, print).encode(_TEXTS, prompt="")
    lines, is_same = parity.compare({"vectors": ours}, {"vectors": theirs})
    print(f"vectors of {len(_TEXTS)} texts compared with those of {url}", *lines, sep="\n")
    sys.exit(0 if is_same else 1)


def served_vectors(url: str) -> np.ndarray:
    """The vectors that a server gives the texts, float32 [N, D].

    Args:
        url: str. Where it answers.

    Raises:
        UserError: the server does not answer, or its answer has no vectors.
    """
    content = {"input": list(_TEXTS), **({"model": _SERVED.value} if _SERVED.value else {})}
    try:
        request = urllib.request.Request(url, json.dumps(content).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=_SECONDS) as response:
            rows = sorted(json.load(response)["data"], key=lambda row: row["index"])
            return np.array([row["embedding"] for row in rows], np.float32)
    except (urllib.error.HTTPError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"--url={url}: gives no embeddings ({error}); give the place of an embeddings server") from None
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise UserError(f"--url={url}: does not answer ({reason}); start the server first") from None


if __name__ == "__main__":
    app.run(main, __doc__)

"""Computes and times sentence vectors with ONNX Runtime and with torch, for serving_latency.

reference_answers runs this script in an environment with benchmarks/requirements-serving.txt. Pooling is the mean over
all tokens of the last layer, normalised, as sentence-transformers defines it for all-MiniLM-L6-v2. torch exports the
ONNX model. The package tokenizers splits the texts, and the times include this. A request has one of two forms:

- directory and threads: the script loads the model. The answer has peers, the names of the contenders.
- peer, texts, calls and is_shown: the script calls the contender once without a clock, and then times `calls` more
  calls. The answer has seconds, one value for each timed call. If is_shown is true, it also has vectors.
"""

import os
import tempfile
import time

import numpy as np
import onnxruntime
import torch
import transformers
from tokenizers import Tokenizer

PACKAGES = ("torch", "transformers", "tokenizers", "onnxruntime")
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_functions = {}  # contender -> function from texts to vectors


class SentenceVectors(torch.nn.Module):
    """Computes sentence vectors [B, H] from token ids [B, S].

    Args:
        encoder: BertModel of transformers.
    """

    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids, attention_mask, token_type_ids):
        states = self.encoder(
            input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
        ).last_hidden_state
        mask = attention_mask[:, :, None].to(states.dtype)
        return torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1))


def load(directory, threads):
    """Loads the model for both contenders. Returns a dict of contender -> function from texts to vectors.

    Args:
        directory: str. The model's directory.
        threads: int. Threads of each contender.
    """
    torch.set_num_threads(threads)
    encoder = transformers.AutoModel.from_pretrained(directory, attn_implementation="sdpa").eval()
    model = SentenceVectors(encoder).eval()
    tokenizer = Tokenizer.from_file(os.path.join(directory, "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.enable_padding()

    def tokenized(texts):
        rows = tokenizer.encode_batch(texts)
        return [
            np.array([getattr(row, name) for row in rows], np.int64) for name in ("ids", "attention_mask", "type_ids")
        ]

    path = os.path.join(tempfile.mkdtemp(), "model.onnx")
    example = tuple(torch.tensor(part) for part in tokenized(["a text", "another text here"]))
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", max=512)
    torch.onnx.export(
        model,
        example,
        path,
        input_names=list(_INPUTS),
        output_names=["vectors"],
        dynamo=True,
        verbose=False,
        dynamic_shapes=({0: batch, 1: length},) * 3,
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def by_onnx_runtime(texts):
        return session.run(None, dict(zip(_INPUTS, tokenized(texts), strict=True)))[0]

    def by_torch(texts):
        with torch.inference_mode():
            return model(*map(torch.from_numpy, tokenized(texts))).numpy()

    return {"onnxruntime": by_onnx_runtime, "torch": by_torch}


def answer(request):
    """The answer to a request; see the module's docstring."""
    if "directory" in request:
        _functions.update(load(request["directory"], request["threads"]))
        return {"peers": list(_functions)}
    function, texts = _functions[request["peer"]], request["texts"]
    vectors, seconds = function(texts), []
    for _ in range(request["calls"]):
        started = time.perf_counter()
        function(texts)
        seconds.append(time.perf_counter() - started)
    return {"seconds": seconds, "vectors": vectors.tolist() if request.get("is_shown") else None}

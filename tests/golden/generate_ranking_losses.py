"""Golden losses of rerankers, and their gradients.

Reference: sentence-transformers 6.2.0 (torch 2.13.0 CPU). See README.md beside
this file for the environment.

    python tests/golden/generate_ranking_losses.py

Writes ranking_losses.npz beside this file:
  metadata    versions and seed, JSON as uint8
  logits      float32 [6, 5]: the logit of each document of six queries
  counts      int64 [6]: how many documents each query has; the rest is padding
  binary, graded       float32 [6, 5]: 0 or 1, and shares from 0 to 1
  NAME_loss, NAME_gradient   for each loss NAME: its value, and its gradient
              for the logits, float32 [6, 5]. binary and graded:
              BinaryCrossEntropyLoss over all documents. listwise:
              ListNetLoss with the labels `graded`. shares: ListNetLoss with
              log(binary), so that the relevant documents of a query share
              its probability.
"""

import json
import os
from importlib.metadata import version

import numpy as np
import torch
from sentence_transformers.cross_encoder import CrossEncoder, losses

OUTPUT_DIR = os.path.dirname(os.path.abspath(__file__))
SEED = 20070620
VERSIONS = {"sentence-transformers": "6.2.0", "torch": "2.13.0"}


class GivenLogits(CrossEncoder):
    """A cross-encoder whose texts are the numbers of logits."""

    num_labels, device = 1, torch.device("cpu")

    def __init__(self, logits):
        torch.nn.Module.__init__(self)
        self.logits = logits

    def preprocess(self, pairs, prompt=None, task=None):
        return {"numbers": torch.tensor([int(document) for _, document in pairs])}

    def forward(self, features):
        return {"scores": self.logits.reshape(-1)[features["numbers"]]}


def main():
    found = {name: version(name).partition("+")[0] for name in VERSIONS}
    assert found == VERSIONS, f"expected {VERSIONS}, found {found}"
    generator = np.random.default_rng(SEED)
    logits = generator.normal(0.0, 2.0, (6, 5)).astype(np.float32)
    counts = np.array([5, 3, 4, 2, 5, 4])
    is_document = np.arange(5) < counts[:, None]
    binary = (generator.random((6, 5)) < 0.4).astype(np.float32)
    binary[:, 0] = 1.0
    binary *= is_document
    graded = (generator.integers(0, 5, (6, 5)) / 4.0).astype(np.float32) * is_document
    lists = [[str(5 * row + place) for place in range(count)] for row, count in enumerate(counts)]
    queries = ["query"] * 6

    def of_pairs(model, labels):
        texts = [text for documents in lists for text in documents]
        loss = losses.BinaryCrossEntropyLoss(model)
        return loss([["query"] * len(texts), texts], torch.tensor(labels[is_document]))

    def of_lists(model, labels):
        given = [torch.tensor(row[:count]) for row, count in zip(labels, counts, strict=True)]
        return losses.ListNetLoss(model)([queries, lists], given)

    with np.errstate(divide="ignore"):
        logarithms = np.log(binary)
    cases = {
        "binary": (of_pairs, binary),
        "graded": (of_pairs, graded),
        "listwise": (of_lists, graded),
        "shares": (of_lists, logarithms),
    }
    arrays = {"logits": logits, "counts": counts, "binary": binary, "graded": graded}
    for name, (loss_of, labels) in cases.items():
        given = torch.tensor(logits, requires_grad=True)
        value = loss_of(GivenLogits(given), labels)
        value.backward()
        arrays[f"{name}_loss"] = np.float32(value.item())
        arrays[f"{name}_gradient"] = given.grad.numpy()
    metadata = json.dumps({"versions": VERSIONS, "seed": SEED})
    arrays["metadata"] = np.frombuffer(metadata.encode(), np.uint8)
    np.savez(os.path.join(OUTPUT_DIR, "ranking_losses.npz"), **arrays)


if __name__ == "__main__":
    main()

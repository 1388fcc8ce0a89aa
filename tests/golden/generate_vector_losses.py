"""Golden losses of sentence vectors, and their gradients.

Reference: sentence-transformers 6.2.0 (torch 2.13.0 CPU). See README.md beside
this file for the environment.

    python tests/golden/generate_vector_losses.py

Writes vector_losses.npz beside this file:
  metadata    versions and seed, JSON as uint8
  vectors     float32 [8, 3, 16]: the anchor, its positive and a negative of
              each example, of any length
  scores      float32 [8]; labels int64 [8]
  NAME_loss, NAME_gradient   for each loss NAME: its value, and its gradient
              for the vectors, float32 [8, 3, 16]
"""

import json
import os
from importlib.metadata import version

import numpy as np
import torch
from sentence_transformers.sentence_transformer import losses

OUTPUT_DIR = os.path.dirname(os.path.abspath(__file__))
SEED = 20190827
VERSIONS = {"sentence-transformers": "6.2.0", "torch": "2.13.0"}
MARGIN = 0.5


def main():
    found = {name: version(name).partition("+")[0] for name in VERSIONS}
    assert found == VERSIONS, f"expected {VERSIONS}, found {found}"
    generator = np.random.default_rng(SEED)
    vectors = generator.normal(size=(8, 3, 16)).astype(np.float32)
    scores = generator.integers(0, 5, 8).astype(np.float32) / 4.0
    labels = np.array([0, 1, 2, 0, 1, 2, 0, 1])
    nothing = torch.zeros(8)

    def columns(count):
        return lambda given: [given[:, column] for column in range(count)]

    def unit(given):
        return [torch.nn.functional.normalize(given[:, 0], dim=-1)]

    def units(given):
        return [torch.nn.functional.normalize(given[:, column], dim=-1) for column in range(2)]

    teacher = torch.nn.functional.normalize(torch.tensor(vectors[:, 2]), dim=-1)
    triplets = losses.BatchHardTripletLoss(None, margin=MARGIN)
    cases = {
        "contrastive": (losses.MultipleNegativesRankingLoss(None), columns(3), nothing),
        "symmetric": (losses.MultipleNegativesSymmetricRankingLoss(None), columns(2), nothing),
        "cosent": (losses.CoSENTLoss(None), columns(2), torch.tensor(scores)),
        "cosine": (losses.CosineSimilarityLoss(None), columns(2), torch.tensor(scores)),
        "triplet": (triplets, unit, torch.tensor(labels)),
        # Two texts of length 1 learn the third vector as the teacher's, of length 1.
        "distill": (losses.MSELoss(None), units, [teacher, teacher]),
    }
    arrays = {"vectors": vectors, "scores": scores, "labels": labels}
    for name, (loss, embeddings, targets) in cases.items():
        given = torch.tensor(vectors, requires_grad=True)
        value = loss.compute_loss_from_embeddings(embeddings(given), targets)
        value.backward()
        arrays[f"{name}_loss"] = np.float32(value.item())
        arrays[f"{name}_gradient"] = given.grad.numpy()
    metadata = json.dumps({"versions": VERSIONS, "seed": SEED, "margin": MARGIN})
    arrays["metadata"] = np.frombuffer(metadata.encode(), np.uint8)
    np.savez(os.path.join(OUTPUT_DIR, "vector_losses.npz"), **arrays)


if __name__ == "__main__":
    main()

"""Small models with random weights in this project's layout."""

import os
from collections.abc import Sequence

import numpy as np

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.weight_shapes import shapes
from keras_bert_app.interop import load
from keras_bert_app.interop.weights import Weights
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES


def write_random_model(
    directory: str | os.PathLike, pieces: Sequence[str], spread: float = 0.5, seed: int = 0, **changes
) -> str:
    """Writes a model of one layer. Returns the directory.

    Args:
        directory: str. The new folder.
        pieces: list of str. The vocabulary without the special pieces.
        spread: float. The deviation of all weights.
        seed: int. Seed of the weights.
        **changes: fields of BertConfig.
    """
    pieces = (*SPECIAL_PIECES, *pieces)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
    config = BertConfig(**{"vocab_size": len(pieces), "max_position_embeddings": 16, **sizes, **changes})
    generator = np.random.default_rng(seed)
    tensors = {path: generator.normal(0.0, spread, shape).astype(np.float32) for path, shape in shapes(config).items()}
    vocabulary = "".join(f"{piece}\n" for piece in pieces).encode()
    load.write_weights(Weights(config, tensors, vocabulary=vocabulary, origin="random"), "workdir", str(directory))
    return str(directory)

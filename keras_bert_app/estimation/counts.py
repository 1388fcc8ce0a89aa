"""Exact counts of parameters, and of the FLOP of matrix products in a step and in the optimizer."""

import math
from collections.abc import Sequence

from keras_bert_app.config.bert_config import PARTS, BertConfig
from keras_bert_app.config.training_config import MUON_ITERATIONS, is_hidden_matrix
from keras_bert_app.config.weight_shapes import part_of, shapes


def weight_shapes(config: BertConfig, parts: Sequence[str] = PARTS) -> dict[str, dict[str, tuple[int, ...]]]:
    """The shape of every weight of BertPretrainer(config, parts=parts).

    Args:
        config: BertConfig.
        parts: sequence of str. Parts of the model, from bert_config.PARTS.

    Returns:
        dict part -> dict path -> shape. The part "encoder" is split into "embeddings" and "layers".
    """
    by_part = {}
    for path, shape in shapes(config, parts).items():
        part = part_of(path)
        if part == "encoder":
            part = "embeddings" if path.startswith("encoder/embeddings/") else "layers"
        by_part.setdefault(part, {})[path] = shape
    return by_part


def parameters(config: BertConfig, parts: Sequence[str] = PARTS) -> dict[str, int]:
    """The number of weights of each part. Word embeddings that the masked-LM head shares count once.

    Args:
        config: BertConfig.
        parts: sequence of str. Parts of the model.

    Returns:
        dict part -> number of weights.
    """
    return {part: sum(map(math.prod, each.values())) for part, each in weight_shapes(config, parts).items()}


def flop_per_token(config: BertConfig, length: int, num_predictions: int) -> float:
    """FLOP of a training step for each of its B x S positions.

    With I = 4H the result is
    3((L - 1)(24H^2 + 4SH) + 4H^2 + ((P + 1)/S)(20H^2 + 4SH) + (P/S)2(H^2 + HV)).

    The last layer computes its output at [CLS] and at the predictions only, but keys and values at all positions.
    The count includes the matrix products of the layers and of the masked-LM head. A multiplication and an addition
    count as two FLOP. The backward pass takes twice the FLOP of the forward pass. The count leaves out operations that
    are small where H is large: pooler, next-sentence head, segments, normalization, activations and dropout. The
    optimizer works per step, not per token; see optimizer_flop.

    Args:
        config: BertConfig.
        length: int. S.
        num_predictions: int. P, the number of prediction slots of a row, used or unused.

    Returns:
        float: FLOP per position.
    """
    hidden, inner = config.hidden_size, config.intermediate_size
    forward = num_predictions / length * 2 * hidden * (hidden + config.vocab_size)
    for layer, num_heads in enumerate(config.head_counts, start=1):
        width = num_heads * config.head_size
        attending = 1.0 if layer < config.num_hidden_layers else (num_predictions + 1) / length
        forward += 4 * hidden * width + attending * (4 * hidden * (width + inner) + 4 * length * width)
    return 3 * forward


def optimizer_flop(config: BertConfig, optimizer: str, parts: Sequence[str] = PARTS) -> int:
    """FLOP of the optimizer's matrix products for one step on one device. Only Muon has matrix products.

    An iteration of Muon on a matrix X of m x n, with m <= n, takes three products: X X^T (2m^2 n), its square (2m^3),
    and their sum times X (2m^2 n).

    Args:
        config: BertConfig.
        optimizer: str. A value of --optimizer.
        parts: sequence of str. Parts of the model.

    Returns:
        int: FLOP per step; 0 for all optimizers but Muon.
    """
    if optimizer != "muon":
        return 0
    flop = 0
    for shapes_of_part in weight_shapes(config, parts).values():
        for path, shape in shapes_of_part.items():
            if is_hidden_matrix(path, shape):
                matrices = 3 if path.endswith("query_key_value/kernel") else 1
                small, large = sorted((shape[0], shape[1] // matrices))
                flop += matrices * MUON_ITERATIONS * (4 * small**2 * large + 2 * small**3)
    return flop

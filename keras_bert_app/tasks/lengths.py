"""The lengths to which batches are padded: close to the texts, but few if compilation is slow."""

import numpy as np

from keras_bert_app.config.bert_config import BertConfig

MULTIPLE = 4  # lengths are multiples of this number, unless every shape is equally fast
# The cost of one more length, by the part that XLA compiles. The unit is one place of a batch. A batch has B x S
# places, for tokens and padding. The cost is the number of places that two cores compute with MiniLM's layers while
# XLA compiles (docs/decisions.md, "Fine-tuning and weights"). The cost on a TPU is an estimate: its program compiles
# for half a minute, and a place takes microseconds. A GPU's program compiles for 10 to 30 seconds.
_COSTS = {"plain": 1 << 7, "none": 1 << 7, "parts": 1 << 13, "step": 1 << 17}
_COST_ON_TPU = 1 << 22
_COST_ON_GPU = 1 << 24
_MINILM_WEIGHTS = 6 * 12 * 384**2
_FEWEST_WEIGHTS = 100_000  # assumed for a model without layers


def cost(compiled: str, config: BertConfig, device: str = "CPU") -> int:
    """The cost of one more length, in places of a batch that the model computes in the same time.

    Args:
        compiled: str. The part that XLA compiles, a mode of modeling.execution.Execution.
        config: BertConfig. Its matrices decide how long a place takes.
        device: str. "CPU", "GPU" or "TPU". A TPU compiles every program whole.
    """
    weights = config.num_hidden_layers * config.hidden_size * (4 * config.hidden_size + 2 * config.intermediate_size)
    places = _COSTS[compiled]
    if device == "TPU":
        places = _COST_ON_TPU
    elif device == "GPU" and compiled == "step":
        places = _COST_ON_GPU
    return round(places * _MINILM_WEIGHTS / max(weights, _FEWEST_WEIGHTS))


def rounded(length: int, most: int, multiple: int = MULTIPLE) -> int:
    """The smallest padded length for a row.

    Args:
        length: int. Tokens in the row.
        most: int. Upper limit of the padded length.
        multiple: int. The padded length is a multiple of this number, or `most`.
    """
    return min(-(-int(length) // multiple) * multiple, most)


def fitted(
    longest: np.ndarray, rows: np.ndarray, length_cost: float, most: int, multiple: int = MULTIPLE
) -> tuple[int, ...]:
    """The lengths with the lowest total cost: the places of all batches plus the cost of each length.

    Args:
        longest: int [N]. Longest row of each batch.
        rows: int [N]. Number of rows of each batch.
        length_cost: float. Cost of one length, in places.
        most: int. Upper limit of the lengths.
        multiple: int. Lengths are multiples of this number, or `most`.

    Returns:
        tuple of ints, ascending. The longest row fits into the last length.
    """
    sizes, batch_sizes = np.unique([rounded(length, most, multiple) for length in longest], return_inverse=True)
    rows_before = np.concatenate([[0], np.cumsum(np.bincount(batch_sizes, weights=rows))])
    # For the batches up to each size: the lowest cost, and the index of the previous length in that solution.
    lowest, previous = np.zeros(len(sizes) + 1), []
    for number, size in enumerate(sizes, start=1):
        costs = lowest[:number] + size * (rows_before[number] - rows_before[:number]) + length_cost
        previous.append(int(np.argmin(costs)))
        lowest[number] = costs[previous[-1]]
    chosen, number = [], len(sizes)
    while number:
        chosen.append(int(sizes[number - 1]))
        number = previous[number - 1]
    return tuple(reversed(chosen))


def padded(longest: int, lengths: tuple[int, ...]) -> int:
    """The smallest length into which a row fits; the last length if the row fits into none.

    Args:
        longest: int. Tokens of the row.
        lengths: The result of fitted.
    """
    return next((length for length in lengths if length >= longest), lengths[-1])

"""The lengths that batches are padded to: fitted to the texts, and few where each of them costs a compilation."""

import numpy as np

MULTIPLE = 4  # of which lengths are, but where any shape will do
# What one more length costs, by what XLA compiles: places (of a batch, B x S) that two cores compute meanwhile, as measured with
# MiniLM's layers (BUILD.md, "Fine-tuning"). A TPU's was not measured; its program takes half a minute where a place takes microseconds.
_COSTS = {"": 1 << 7, "none": 1 << 7, "parts": 1 << 13, "step": 1 << 17}
_COST_ON_TPU = 1 << 22
_MINILM_WEIGHTS = 6 * 12 * 384**2
_FEWEST_WEIGHTS = 100_000  # of a model without layers


def cost(compiled, config, on_tpu=False):
    """Places of a batch that a model would compute in the time that one more length takes to be made ready.

    Args:
        compiled: what XLA compiles, as backend.compiled takes it. config: BertConfig, of whose matrices a place's time is made.
    """
    weights = config.num_hidden_layers * config.hidden_size * (4 * config.hidden_size + 2 * config.intermediate_size)
    return round((_COST_ON_TPU if on_tpu else _COSTS[compiled]) * _MINILM_WEIGHTS / max(weights, _FEWEST_WEIGHTS))


def rounded(length, most, multiple=MULTIPLE):
    """The least length that a row of `length` may be padded to, where no row is longer than `most`."""
    return min(-(-int(length) // multiple) * multiple, most)


def fitted(longest, rows, length_cost, most, multiple=MULTIPLE):
    """The lengths with which batches take the fewest places, what each length costs added.

    Args:
        longest: int [N], each batch's longest row. rows: int [N], how many rows it has. length_cost: places. most: the longest that
            a row may be. multiple: of which they are, but for `most`.

    Returns:
        tuple of ints, ascending; the last one has room for the longest row.
    """
    sizes, of_batch = np.unique([rounded(length, most, multiple) for length in longest], return_inverse=True)
    rows_before = np.concatenate([[0], np.cumsum(np.bincount(of_batch, weights=rows))])
    # Of the batches up to a size: the least cost, and the size before the last that it takes.
    least, before = np.zeros(len(sizes) + 1), []
    for number, size in enumerate(sizes, start=1):
        costs = least[:number] + size * (rows_before[number] - rows_before[:number]) + length_cost
        before.append(int(np.argmin(costs)))
        least[number] = costs[before[-1]]
    found, number = [], len(sizes)
    while number:
        found.append(int(sizes[number - 1]))
        number = before[number - 1]
    return tuple(reversed(found))


def padded(longest, lengths):
    """The least of the lengths that has room for a row; the last one's, where none has."""
    return next((length for length in lengths if length >= longest), lengths[-1])

"""A conditional random field over the tags of a row (Lafferty et al. 2001; Lample et al. 2016, section 2.2).

The score of a sequence of tags y is the sum of its emissions e[t, y_t], of the transitions A[y_t, y_t+1], and of the
scores of its first tag and of its last tag. The places of a row that have tags form a chain. The chain leaves out
[CLS], [SEP] and padding.
"""

import functools
from typing import Any

import keras

from keras_bert_app.modeling import backend
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.modeling.keras_contract import Configured, registered

# Takes a tag out of the sums and maxima. exp(-1e4) is 0, and a sum with it keeps the digits of the other scores.
EXCLUDED = -1e4


@registered
class Crf(Configured, keras.layers.Layer):
    """The scores of transitions between tags, of first tags and of last tags.

    Args:
        num_tags: int. n.

    Call arguments:
        emissions: float32 [B, S, n].
        input_mask: [B, S], 1 or 0.

    Returns:
        dict:
            logits: float32 [B, S, n]. The score of the best sequence that has this tag at this place, minus the score
                of the best sequence. So the best sequence (Viterbi 1967) has the largest logit at every place. At
                [CLS], [SEP] and padding they are the emissions. They have no gradient.
            emissions, chain, transitions, first_tags, last_tags: the arguments of `log_partition`.
    """

    CONFIGURED = ("num_tags",)

    def __init__(self, num_tags: int, **kwargs):
        super().__init__(**{**kwargs, "dtype": "float32"})
        self.num_tags = num_tags

    def build(self, input_shape=None):
        shapes = {"transitions": (self.num_tags,) * 2, "first_tags": (self.num_tags,), "last_tags": (self.num_tags,)}
        # With zeros the first answers are those of the emissions alone.
        self.transitions, self.first_tags, self.last_tags = (
            self.add_weight(shape=shape, initializer="zeros", name=name, autocast=False)
            for name, shape in shapes.items()
        )

    def call(self, emissions, input_mask):
        chain = places_of_chain(input_mask)
        scores = {
            "emissions": emissions,
            "chain": chain,
            "transitions": backend.tensor(self.transitions),
            "first_tags": backend.tensor(self.first_tags),
            "last_tags": backend.tensor(self.last_tags),
        }
        return {"logits": keras.ops.stop_gradient(_best_scores(**scores)), **scores}


def places_of_chain(input_mask) -> Any:
    """Marks the places between [CLS] and [SEP].

    Args:
        input_mask: [B, S], 1 or 0.

    Returns:
        float32 [B, S], 1 or 0.
    """
    ops = keras.ops
    mask = ops.cast(input_mask, "float32")
    has_next = ops.concatenate([mask[:, 1:], ops.zeros_like(mask[:, :1])], axis=1)
    has_previous = ops.concatenate([ops.zeros_like(mask[:, :1]), mask[:, :-1]], axis=1)
    return mask * has_next * has_previous


def log_partition(emissions, chain, transitions, first_tags, last_tags, execution: Execution = PLAIN) -> Any:
    """Computes the logarithm of the sum of exp(score) over all sequences of tags.

    Args:
        emissions: float32 [B, S, n].
        chain: float32 [B, S], 1 at the places that have tags. These places may have gaps.
        transitions: float32 [n, n], from the row's tag to the column's tag.
        first_tags: float32 [n].
        last_tags: float32 [n].
        execution: Execution. How ops are executed.

    Returns:
        float32 [B]. 0 for a row without a chain.
    """
    return _log_partition(execution)(emissions, chain, transitions, first_tags, last_tags)


@functools.cache
def _log_partition(execution):
    """Makes the function of log_partition. Its gradient is the expected number of uses of each score."""
    ops = keras.ops

    def log_partition(emissions, chain, transitions, first_tags, last_tags):
        is_first, is_next, is_last = _kinds_of_places(chain)
        before = _scores_up_to(emissions, is_first, is_next, transitions, first_tags, ops.logsumexp)
        has_chain = ops.max(chain, axis=1)
        total = has_chain * ops.logsumexp(before[-1] + last_tags, axis=-1)

        def gradient(upstream):
            after = _scores_after(emissions, is_next, transitions, last_tags, ops.logsumexp)
            weights = (upstream * has_chain)[:, None]
            log_shares = ops.transpose(before + after, (1, 0, 2)) - total[:, None, None]
            # [B, S, n] The probability of each tag.
            shares = weights[:, :, None] * ops.exp(ops.where(chain[:, :, None] > 0, log_shares, EXCLUDED))
            return (
                shares,
                ops.zeros_like(chain),
                _expected_transitions(before, after, emissions, transitions, is_next, total, weights),
                ops.sum(shares * is_first[:, :, None], axis=(0, 1)),
                ops.sum(shares * is_last[:, :, None], axis=(0, 1)),
            )

        return total, gradient

    return execution.own_gradient(log_partition)


def _best_scores(emissions, chain, transitions, first_tags, last_tags):
    """The logits of Crf."""
    ops = keras.ops
    is_first, is_next, _ = _kinds_of_places(chain)
    before = _scores_up_to(emissions, is_first, is_next, transitions, first_tags, ops.max)
    after = _scores_after(emissions, is_next, transitions, last_tags, ops.max)
    best = ops.transpose(before + after, (1, 0, 2))
    best = best - ops.max(best, axis=-1, keepdims=True)
    return ops.where(chain[:, :, None] > 0, best, emissions)


def _kinds_of_places(chain):
    """(first places of a chain, all others of the chain, last places of a chain), float32 [B, S]."""
    ops = keras.ops
    count = ops.cumsum(chain, axis=1)
    is_first = chain * ops.cast(count == 1, "float32")
    return is_first, chain - is_first, chain * ops.cast(count == count[:, -1:], "float32")


def _scores_up_to(emissions, is_first, is_next, transitions, first_tags, reduce):
    """Reduces the scores of all beginnings that end with a tag, float32 [S, B, n]. A gap repeats the place before."""
    ops = keras.ops
    emissions, is_first, is_next = _by_place(emissions, is_first, is_next)

    def step(state, place):
        (before,) = state
        moved = reduce(before[:, :, None] + transitions, axis=1) + emissions[place]
        begun = first_tags + emissions[place]
        here = ops.where(is_next[place] > 0, moved, before)
        return (ops.where(is_first[place] > 0, begun, here),)

    return backend.scan(step, (ops.zeros_like(emissions[0]),), ops.shape(emissions)[0])[0]


def _scores_after(emissions, is_next, transitions, last_tags, reduce):
    """Reduces the scores of all endings that follow a tag, float32 [S, B, n]."""
    ops = keras.ops
    emissions, is_next = (_with_next_place(each) for each in _by_place(emissions, is_next))

    def step(state, place):
        (after,) = state
        moved = reduce(transitions + (emissions[place] + after)[:, None, :], axis=2)
        return (ops.where(is_next[place] > 0, moved, after),)

    at_the_end = ops.zeros_like(emissions[0]) + last_tags
    return backend.scan(step, (at_the_end,), ops.shape(emissions)[0], reverse=True)[0]


def _expected_transitions(before, after, emissions, transitions, is_next, total, weights):
    """The expected number of uses of each transition, float32 [n, n], weighted by row."""
    ops = keras.ops
    emissions, is_next = _by_place(emissions, is_next)
    from_tag = ops.concatenate([ops.zeros_like(before[:1]), before[:-1]], axis=0)
    most = ops.max(from_tag, axis=-1, keepdims=True)
    to_tag = ops.where(is_next > 0, emissions + after + most - total[:, None], EXCLUDED)
    # The product of both is at most exp(-transition). Only a transition below -80 needs the limit, and exp of it is 0.
    from_tag, to_tag = ops.exp(from_tag - most), weights * ops.exp(ops.minimum(to_tag, 80.0))
    num_tags = transitions.shape[0]
    counts = ops.matmul(ops.transpose(ops.reshape(from_tag, (-1, num_tags))), ops.reshape(to_tag, (-1, num_tags)))
    return ops.exp(transitions) * counts


def _by_place(*values):
    """[B, S] or [B, S, n] -> [S, B, 1] or [S, B, n]."""
    ops = keras.ops
    return [
        ops.transpose(each, (1, 0, 2)) if len(each.shape) == 3 else ops.transpose(each)[:, :, None] for each in values
    ]


def _with_next_place(values):
    """Moves values [S, ...] by one place, so that each place has the values of the next place; zeros at the end."""
    return keras.ops.concatenate([values[1:], keras.ops.zeros_like(values[:1])], axis=0)

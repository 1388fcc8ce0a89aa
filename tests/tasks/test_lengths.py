"""The lengths to which batches are padded: the lowest sum of padded places and of the cost of compilations."""

import itertools

import numpy as np
import pytest

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.tasks import lengths


def total(longest, rows, chosen, cost):
    return sum(lengths.padded(size, chosen) * count for size, count in zip(longest, rows, strict=True)) + cost * len(
        chosen
    )


@pytest.mark.parametrize("cost", [0, 30, 200, 1000, 10**6])
def test_no_other_choice_of_lengths_costs_less(cost):
    generator = np.random.default_rng(cost)
    for _ in range(20):
        longest, rows = generator.integers(1, 37, 12), generator.integers(1, 9, 12)
        chosen = lengths.fitted(longest, rows, cost, 36)
        choices = [
            (*some, chosen[-1]) for count in range(9) for some in itertools.combinations(range(4, chosen[-1], 4), count)
        ]
        assert total(longest, rows, chosen, cost) == min(total(longest, rows, choice, cost) for choice in choices)


def test_lengths_ascend_have_room_for_the_longest_row_and_stay_within_the_limit():
    longest = np.arange(1, 62)
    chosen = lengths.fitted(longest, np.full(61, 7), 0, 61)
    assert chosen == (*range(4, 61, 4), 61)
    assert lengths.fitted(longest, np.full(61, 7), 10**9, 61) == (61,)
    assert lengths.fitted([30], [1], 0, 61) == (32,)
    assert all(lengths.padded(size, chosen) >= size for size in longest)
    assert [lengths.rounded(size, 10) for size in (1, 4, 5, 9, 10)] == [4, 4, 8, 10, 10]


def test_a_length_costs_more_if_more_is_compiled_or_the_model_is_smaller():
    small, large = BertConfig.of_size("tiny"), BertConfig.of_size("base")
    assert lengths.cost("none", large) < lengths.cost("parts", large) < lengths.cost("step", large)
    assert lengths.cost("step", large) < lengths.cost("step", large, device="TPU")
    assert lengths.cost("parts", large) < lengths.cost("parts", small)

"""Examples are divided into parts of nearly equal size that share no text."""

import collections

from keras_bert_app.tasks.readers import disjoint_parts


def test_members_that_a_chain_of_shared_keys_connects_are_one_group():
    keys = [{"a"}, {"b"}, {"c"}, set(), {"c", "b"}, set(), {"d"}, {"d", "a", "e"}]
    assert disjoint_parts.groups(keys) == [0, 1, 1, 3, 1, 5, 0, 0]
    assert disjoint_parts.groups([]) == []


def test_groups_stay_whole_and_parts_are_of_nearly_the_same_size():
    first_of_group = [0, 1, 2, 1, 4, 1, 6, 2, 8, 9]  # one group of 3, one of 2, and five of 1
    parts = disjoint_parts.balanced(first_of_group, 3)
    assert parts == [2, 0, 1, 0, 2, 0, 1, 1, 2, 0]
    assert sorted(collections.Counter(parts).values()) == [3, 3, 4]

"""Parts of examples that share no text.

Examples with a common text form a group, and groups stay whole.
"""

import collections
from collections.abc import Collection, Hashable, Sequence


def groups(keys: Sequence[Collection[Hashable]]) -> list[int]:
    """Groups the members that share a key, directly or through other members.

    Args:
        keys: the keys of each member, such as the texts of each example.

    Returns:
        list of int: for each member, the number of the first member of its group.
    """
    parents, first_with = list(range(len(keys))), {}
    for number, keys_of_member in enumerate(keys):
        for key in keys_of_member:
            one, other = _root(parents, number), _root(parents, first_with.setdefault(key, number))
            parents[max(one, other)] = min(one, other)
    return [_root(parents, number) for number in range(len(keys))]


def _root(parents, number):
    while parents[number] != number:
        parents[number] = parents[parents[number]]
        number = parents[number]
    return number


def balanced(first_of_group: Sequence[int], num_parts: int) -> list[int]:
    """Distributes whole groups over parts of nearly the same size.

    The largest group comes first. Each group goes to the part with the fewest members.

    Args:
        first_of_group: the result of groups.
        num_parts: the number of parts.

    Returns:
        list of int: the part of each member, from 0 to num_parts - 1.
    """
    sizes, part_of, filled = collections.Counter(first_of_group), {}, [0] * num_parts
    for first in sorted(sizes, key=lambda first: (-sizes[first], first)):
        part_of[first] = filled.index(min(filled))
        filled[part_of[first]] += sizes[first]
    return [part_of[first] for first in first_of_group]

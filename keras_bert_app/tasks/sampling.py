"""Random parts of labelled examples: fewer training examples, or a held-out part for development."""

import collections
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

# The second number in the key of a random generator. Batches use the number of the epoch, which is much smaller.
_DRAW, _HELD_OUT = 1 << 62, (1 << 62) + 1
Classes = Callable[[Any], tuple[str, ...]]


def drawn(examples: Sequence, most: int, seed: int, classes: Classes) -> list:
    """At most `most` examples in their order. Each class keeps its share.

    Every class keeps at least one example if `most` allows it.

    Args:
        examples: the examples.
        most: how many examples to keep; 0 for all.
        seed: the same seed draws the same examples.
        classes: function example -> names of its classes; () if it has none.
    """
    if not most or most >= len(examples):
        return list(examples)
    generator = np.random.Generator(np.random.Philox(key=[seed, _DRAW]))
    chosen = _stratified([classes(example) for example in examples], most, generator)
    return [examples[number] for number in sorted(chosen)]


def drawn_groups(examples: Sequence, most: int, seed: int, sources: Sequence) -> list:
    """At most `most` examples in their order: all examples of some sources. The list is empty if no source is so small.

    Args:
        examples: the examples.
        most: how many examples to keep; 0 for all.
        seed: the same seed draws the same sources.
        sources: the source of each example, such as its query.
    """
    if not most or most >= len(examples):
        return list(examples)
    sizes = list(collections.Counter(sources).items())
    generator = np.random.Generator(np.random.Philox(key=[seed, _DRAW]))
    chosen, rest = set(), most
    for number in generator.permutation(len(sizes)).tolist():
        source, size = sizes[number]
        if size <= rest:
            chosen.add(source)
            rest -= size
    return [example for example, source in zip(examples, sources, strict=True) if source in chosen]


def held_out(examples: Sequence, share: float, classes: Classes, sources: Sequence) -> list[bool]:
    """Whether each example is held out of the training for development.

    The draw is the same for every seed, so that runs of several seeds are scored on the same examples. Examples of
    one source stay together. Every class keeps a training example.

    Args:
        examples: the examples.
        share: the share of the sources to hold out. The function holds out at least one source if the classes allow it.
        classes: function example -> names of its classes; () if it has none.
        sources: the source of each example, such as its text.
    """
    by_source = collections.defaultdict(list)
    for number, source in enumerate(sources):
        by_source[source].append(number)
    members = list(by_source.values())
    keys = [tuple(sorted({name for number in group for name in classes(examples[number])})) for group in members]
    generator = np.random.Generator(np.random.Philox(key=[0, _HELD_OUT]))
    in_training = collections.Counter(name for key in keys for name in key)
    # The only source of a class stays in training.
    free = [number for number, key in enumerate(keys) if all(in_training[name] > 1 for name in key)]
    count = max(1, round(share * len(members)))
    chosen = [free[number] for number in _stratified([keys[number] for number in free], count, generator)]
    in_training.subtract(name for number in chosen for name in keys[number])
    is_held_out = [False] * len(examples)
    for group in chosen:
        if any(in_training[name] < 1 for name in keys[group]):
            in_training.update(keys[group])
            continue
        for number in members[group]:
            is_held_out[number] = True
    return is_held_out


def content(*texts: str | None) -> tuple[str, ...]:
    """The texts without differences of case and white space. Texts of the same content are one source."""
    return tuple(" ".join(text.split()).casefold() for text in texts if text)


def missing(names: Sequence[str], examples: Sequence, classes: Classes) -> list[str]:
    """The names of the classes that no example has.

    Args:
        names: all names.
        examples: the examples.
        classes: function example -> names of its classes.
    """
    present = {name for example in examples for name in classes(example)}
    return [name for name in names if name not in present]


def _stratified(keys, count, generator):
    """The numbers of `count` members. Each distinct key keeps its share, and each name occurs if possible."""
    strata = collections.defaultdict(list)
    for number in generator.permutation(len(keys)).tolist():
        strata[keys[number]].append(number)
    sizes = np.array([len(members) for members in strata.values()])
    count = min(count, len(keys))
    exact = sizes * count / max(1, len(keys))
    quotas = np.floor(exact).astype(int)
    rest = count - quotas.sum()
    quotas[np.argsort(quotas - exact, kind="stable")[:rest]] += 1  # the largest remainders
    chosen = [number for members, quota in zip(strata.values(), quotas, strict=True) for number in members[:quota]]
    others = [number for members, quota in zip(strata.values(), quotas, strict=True) for number in members[quota:]]
    return _with_every_name(keys, chosen, others)


def _with_every_name(keys, chosen, others):
    """Exchanges some chosen members for other members, so that fewer names are missing."""
    chosen, totals = dict.fromkeys(chosen), collections.Counter()
    for key in keys:
        totals.update(key or (None,))
    counts = collections.Counter(name for number in chosen for name in keys[number] or (None,))
    by_name = {}
    for number in others:
        for name in keys[number] or (None,):
            by_name.setdefault(name, number)
    leavers = iter(sorted(chosen, key=lambda number: -min(counts[name] for name in keys[number] or (None,))))
    for name in sorted(set(by_name) - set(counts), key=lambda name: totals[name]):
        if counts[name]:  # an earlier exchange has added this name
            continue
        leaver = next(
            (number for number in leavers if all(counts[label] > 1 for label in keys[number] or (None,))), None
        )
        if leaver is None:
            break
        del chosen[leaver]
        counts.subtract(keys[leaver] or (None,))
        chosen[by_name[name]] = None
        counts.update(keys[by_name[name]] or (None,))
    return list(chosen)

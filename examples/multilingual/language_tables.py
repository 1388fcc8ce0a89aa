"""The tables of the languages: right tags, and nearest translations."""

import collections

import numpy as np

from examples.comparisons import difference, over_examples, spread


def tagging_table(right, columns, shares):
    """Yields the share of right tags of each kind, and what pre-training on both languages adds to English only.

    Args:
        right: kind -> bool [seeds, columns, words]. Whether a tag is right. The first kind is not trained, and
            the second one has read English only.
        columns: list of dicts with "name", and for each word "sentences" (its sentence's number) and "tags".
        shares: kind -> share of Chinese in its pre-training.
    """
    head = ["share of right tags", "Chinese in pre-training", *(column["name"] for column in columns)]
    yield f"\n| {' | '.join(head)} |\n|{'---|' * len(head)}"
    counts = [collections.Counter(column["tags"]) for column in columns]
    constant = [f"{max(tags.values()) / tags.total():.3f}" for tags in counts]
    yield f"| the most frequent tag of these words | | {' | '.join(constant)} |"
    for kind, seeds in right.items():
        share = f"{shares[kind]:.3f}" if kind in shares else ""
        cells = [spread([np.mean(row) for row in rows], 3) for rows in zip(*seeds, strict=True)]
        yield f"| {kind} | {share} | {' | '.join(cells)} |"
    _, first, *others = right
    for kind in others:
        pairs = zip(zip(*right[kind], strict=True), zip(*right[first], strict=True), columns, strict=True)
        cells = [gain(one, other, "sentences", column["sentences"]) for one, other, column in pairs]
        yield f"| {kind}, minus {first} | | {' | '.join(cells)} |"


def agreement_table(name, hits, without_model):
    """Yields for each layer how often the nearest paragraph is the translation.

    Args:
        name: name of the file with the translations.
        hits: kind -> bool [seeds, layers, paragraphs].
        without_model: bool [paragraphs]. The same by shared pieces.
    """
    _, first, *others = hits
    layers = range(hits[first].shape[1])
    head = [f"{name}: the nearest is the translation", *(f"layer {layer}" for layer in layers)]
    yield f"\n| {' | '.join(head)} |\n|{'---|' * len(head)}"
    yield f"| chance |{f' {1 / len(without_model):.3f} |' * len(layers)}"
    yield f"| shared pieces, without a model |{f' {np.mean(without_model):.3f} |' * len(layers)}"
    for kind, rows in hits.items():
        yield f"| {kind} | {' | '.join(spread(layer, 3) for layer in rows.mean(axis=2).T)} |"
    for kind in others:
        cells = [gain(hits[kind][:, layer], hits[first][:, layer], "paragraphs") for layer in layers]
        yield f"| {kind}, minus {first} | {' | '.join(cells)} |"


def gain(one, other, unit, groups=None):
    """The difference of two kinds, with its intervals over seeds and over examples. one, other: [seeds, examples]."""
    low, high = over_examples(one, other, groups)
    means = (np.mean(kind, axis=1) for kind in (one, other))
    return f"{difference(*means, 3)}; over {unit} {low:+.3f} to {high:+.3f}"

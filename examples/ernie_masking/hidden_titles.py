"""Titles of an encyclopedia in its articles: where they are hidden, and how many of them are filled in."""

import collections

import numpy as np

from examples.common import sample

LONGEST = 10  # characters of a title
_MOST = 5


def occurrences(text, names):
    """Yields (start, name) of the longest names in a text, from the left."""
    start = 0
    while start < len(text):
        lengths = range(min(LONGEST, len(text) - start), 1, -1)
        name = next((text[start : start + n] for n in lengths if text[start : start + n] in names), "")
        if name:
            yield start, name
        start += len(name) or 1


def drawn_mentions(held_out, training, titles, words, most):
    """[(number of the article, text before, title, text after)] in articles that training lacks.

    A text is cut into words and titles, as for the masking of both. So hardly any title is a part of a longer word.
    Three articles of training have the title, and the text around the place does not have it again. An article gives
    each title once, and each title comes at most _MOST times, because many articles are lists of one form.
    """
    units = titles | words
    counts = collections.Counter()
    for _, text in training:
        counts.update({name for _, name in occurrences(text, units)})
    candidates, taken = [], collections.Counter()
    for number, (own_title, text) in enumerate(held_out):
        of_article = {own_title}
        for line in text.splitlines():
            for start, name in occurrences(line, units):
                before, after = line[max(0, start - 50) : start], line[start + len(name) :][:50]
                is_new = name in titles and name not in of_article and taken[name] < _MOST
                if is_new and counts[name] >= 3 and name not in before + after:
                    candidates.append((number, before, name, after))
                    of_article.add(name)
                    taken[name] += 1
    drawn = sample(candidates, most)
    names, numbers = {name for _, _, name, _ in drawn}, {number for number, *_ in drawn}
    print(f"{len(drawn):,} hidden titles, {len(names):,} different ones, in {len(numbers):,} articles")
    return drawn


def constant(mentions):
    """The share of mentions that the most frequent title of each length gets right."""
    by_length = collections.defaultdict(collections.Counter)
    for _, _, name, _ in mentions:
        by_length[len(name)][name] += 1
    best = {length: counts.most_common(1)[0][0] for length, counts in by_length.items()}
    return float(np.mean([best[len(name)] == name for _, _, name, _ in mentions]))

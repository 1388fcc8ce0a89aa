"""Entities of an encyclopedia: titles of articles, where texts mention them, and vectors of the graph of mentions."""

import collections
import html
import re

import numpy as np

_WORD = re.compile(r"\w+(?:['’.-]\w+)*")
_LONGEST, _FEWEST = 5, 5  # most words of a title; fewest words of a line that is no heading


def lines_of(text):
    """The lines of an article, without headings."""
    return [line for line in html.unescape(text).splitlines() if len(_WORD.findall(line)) >= _FEWEST]


def short_names(articles):
    """The articles with the names that texts use: without what follows a comma, if no other title begins so.

    For example, "Toruń, Poland" becomes "Toruń".
    """
    names = [title.partition(",")[0] for title, _ in articles]
    counts = collections.Counter(names)
    return [(name if counts[name] == 1 else own, lines) for name, (own, lines) in zip(names, articles, strict=True)]


def mentions(text, names):
    """[(start, end, name)] of the longest names in a text, from the left."""
    words, found, number = [match.span() for match in _WORD.finditer(text)], [], 0
    while number < len(words):
        start = words[number][0]
        for last in range(min(number + _LONGEST, len(words)) - 1, number - 1, -1):
            name = text[start : words[last][1]]
            if name in names:
                found.append((start, words[last][1], name))
                number = last
                break
        number += 1
    return found


def graph(articles, least=2):
    """(entities, edges): titles that `least` other articles mention, and (article's number, entity's number).

    Left out are titles that mostly mean another thing: those with a bracket, such as "You (song)", and words that the
    texts have in lower case, too, such as "War".
    """
    words = {word for _, lines in articles for line in lines for word in _WORD.findall(line)}
    titles = {title for title, _ in articles if title[:1].isupper() and "(" not in title}
    titles = {title for title in titles if title.lower() not in words}
    titles = {title for title in titles if len(_WORD.findall(title)) <= _LONGEST}
    of_article = [{name for line in lines for _, _, name in mentions(line, titles)} - {own} for own, lines in articles]
    counts = {}
    for names in of_article:
        for name in names:
            counts[name] = counts.get(name, 0) + 1
    entities = sorted(name for name, count in counts.items() if count >= least)
    index = {name: number for number, name in enumerate(entities)}
    edges = [(n, index[name]) for n, names in enumerate(of_article) for name in sorted(names) if name in index]
    return entities, np.array(edges)


def transe(edges, articles, entities, size, epochs, seed, rate=0.01, margin=1.0):
    """(vectors of the entities, [E, size]; vector of the relation, [size]), float32.

    An article's vector plus the relation is near to what the article mentions. TransE (Bordes et al. 2013) with one
    relation, which is no longer than 1. An entity that has an article of its own has one vector as both.
    """
    draw = np.random.default_rng(seed)
    titles = list(dict.fromkeys([*entities, *(title for title, _ in articles)]))
    index = {title: number for number, title in enumerate(titles)}
    heads = np.array([index[articles[number][0]] for number, _ in edges])
    tails = edges[:, 1]
    vectors = draw.uniform(-6 / size**0.5, 6 / size**0.5, (len(titles), size)).astype(np.float32)
    relation = draw.uniform(-6 / size**0.5, 6 / size**0.5, size).astype(np.float32)
    relation /= np.linalg.norm(relation)
    for _ in range(epochs):
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
        for batch in np.array_split(draw.permutation(len(edges)), max(1, len(edges) // 256)):
            head, tail, other = heads[batch], tails[batch], draw.integers(0, len(entities), len(batch))
            right, wrong = (vectors[head] + relation - vectors[end] for end in (tail, other))
            distances = [np.linalg.norm(each, axis=1, keepdims=True) for each in (right, wrong)]
            is_active = distances[0] + margin > distances[1]
            right, wrong = (is_active * each / (d + 1e-9) for each, d in zip((right, wrong), distances, strict=True))
            for numbers, step in ((head, wrong - right), (tail, right), (other, -wrong)):
                np.add.at(vectors, numbers, rate * step)
            relation += rate * (wrong - right).sum(axis=0)
            relation /= max(1.0, np.linalg.norm(relation))
    return vectors[: len(entities)], relation

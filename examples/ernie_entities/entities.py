"""Entities of an encyclopedia: names, where texts mention them, and vectors of the graph of mentions."""

import calendar
import collections
import html
import re

import numpy as np

_WORD = re.compile(r"\w+(?:['’.-]\w+)*")
_NAME = re.compile(r"[A-Z][\w’-]+(?: (?:of )?[A-Z][\w’-]+)*")
_FEWEST = 5  # words of a line that is no heading
_DATES = {*calendar.month_name, *calendar.day_name}
_NO_NAME = re.compile(r"(In|At|On|And|But|For|From|By|With|As|After|Since|The) .*|Mr|Mrs|Dr|St|Sr|Jr|Ph|PhD")


def lines_of(text):
    """The lines of an article, without headings."""
    return [line for line in html.unescape(text).splitlines() if len(_WORD.findall(line)) >= _FEWEST]


def mentions(text, names):
    """[(start, end, name)] of the names in a text. A name is a whole row of capitalized words, also with "of"."""
    return [(*match.span(), match.group()) for match in _NAME.finditer(text) if match.group() in names]


def names_in(lines):
    """The names in the lines of an article, a set."""
    return {match.group() for line in lines for match in _NAME.finditer(line)}


def graph(articles, least=10):
    """(entities, edges): names that `least` articles mention, and (article's number, entity's number).

    An article's own title does not count in it. Left out are names of months and days, and words that the texts have
    in lower case, too, such as "War", and rows of words that begin as a sentence does, such as "In France".
    """
    lower = {word for _, lines in articles for line in lines for word in _WORD.findall(line) if word[0].islower()}
    of_article = [names_in(lines) - {title} for title, lines in articles]
    counts = collections.Counter(name for names in of_article for name in names)
    entities = sorted(
        name
        for name, count in counts.items()
        if count >= least and name.lower() not in lower
        if _DATES.isdisjoint(name.split()) and not _NO_NAME.fullmatch(name)
    )
    return entities, edges_of(of_article, entities)


def edges_of(of_article, entities):
    """int [edges, 2]: (article's number, entity's number), from the names of each article."""
    index = {name: number for number, name in enumerate(entities)}
    edges = [(n, index[name]) for n, names in enumerate(of_article) for name in sorted(names) if name in index]
    return np.array(edges, int).reshape(-1, 2)


def transe(edges, num_entities, size, seed, epochs=30, rate=0.05, margin=1.0):
    """(vectors of the entities, [E, size]; vector of the relation, [size]), float32.

    An article's vector plus the relation is nearer to what the article mentions than to another entity, drawn by its
    number of mentions. TransE (Bordes et al. 2013) with one relation, which is no longer than 1. An article that
    mentions only one entity has no part in it.
    """
    draw = np.random.default_rng(seed)
    edges = edges[np.bincount(edges[:, 0])[edges[:, 0]] > 1]
    articles, heads = np.unique(edges[:, 0], return_inverse=True)
    heads, tails = heads + num_entities, edges[:, 1]
    vectors, relation = (
        draw.uniform(-6 / size**0.5, 6 / size**0.5, shape).astype(np.float32)
        for shape in ((num_entities + len(articles), size), size)
    )
    relation /= np.linalg.norm(relation)
    for _ in range(epochs):
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
        for batch in np.array_split(draw.permutation(len(edges)), max(1, len(edges) // 512)):
            head, tail, other = heads[batch], tails[batch], draw.choice(tails, len(batch))
            right, wrong = (vectors[head] + relation - vectors[end] for end in (tail, other))
            distances = [np.linalg.norm(each, axis=1, keepdims=True) for each in (right, wrong)]
            is_active = distances[0] + margin > distances[1]
            right, wrong = (is_active * each / (d + 1e-9) for each, d in zip((right, wrong), distances, strict=True))
            for numbers, step in ((head, wrong - right), (tail, right), (other, -wrong)):
                np.add.at(vectors, numbers, rate * step)
            relation += rate * (wrong - right).mean(axis=0)
            relation /= max(1.0, np.linalg.norm(relation))
    return vectors[:num_entities], relation


def nearer_share(vectors, training, held_out, most=20_000):
    """How often two entities of a held-out article are nearer (cosine) than one of them and a third; chance is 0.5.

    Args:
        vectors: [E, size]. The entities.
        training: edges. The third entity is drawn by its number of mentions there.
        held_out: edges of articles that did not train the vectors.
    """
    draw = np.random.default_rng(0)
    groups = np.split(held_out[:, 1], np.flatnonzero(np.diff(held_out[:, 0])) + 1)
    pairs = draw.permutation([(a, b) for group in groups for a in group for b in group if a != b])[:most]
    third = draw.choice(training[:, 1], len(pairs))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    right, wrong = ((unit[pairs[:, 0]] * unit[end]).sum(axis=1) for end in (pairs[:, 1], third))
    return float(np.mean((right > wrong)[third != pairs[:, 0]]))

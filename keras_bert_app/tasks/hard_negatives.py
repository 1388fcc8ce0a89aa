"""Hard negatives of pairs of texts: the positives of other anchors that a model takes for near ones."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from keras_bert_app.tasks import sampling
from keras_bert_app.vectors.static.exact_nearest import exact_cosines, nearest

NONE = -1  # fills the places of negatives that were not found
_ANCHORS_AT_A_TIME = 256


@dataclasses.dataclass(frozen=True)
class MiningOptions:
    """Which candidates become negatives.

    Attributes:
        num_negatives: int. The most new negatives of a pair.
        range_min: int. The number of nearest candidates that are skipped: they may be answers that nobody marked.
        range_max: int. Candidates after this rank are skipped.
        margin: float. The cosine of a negative is at least this much below the cosine of the anchor and its positive
            (absolute_margin of mine_hard_negatives in sentence-transformers).
        sampling: str. "top": the nearest ones of the range; "random": any of them.
        seed: int. The seed of "random".
    """

    num_negatives: int = 3
    range_min: int = 10
    range_max: int = 50
    margin: float = 0.05
    sampling: str = "top"
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class PairTexts:
    """The different texts of U pairs by number. Texts of the same content (sampling.content) have one number.

    A text that is both an anchor and a candidate stands in both lists, because the roles may have different prompts.

    Attributes:
        candidates: list of C str. The positives of all anchors, then further texts.
        anchor_texts: list of A str.
        anchors: int32 [U]. The number of each pair's anchor.
        positives: int32 [U]. The number of its positive among the candidates.
        own_negatives: list of U sets. Numbers of the candidates that are negatives of the pair already.
        excluded: list of A sets. For each anchor the numbers of the candidates that have its text, or that of a text
            that stands in a pair with it, on any side.
    """

    candidates: list[str]
    anchor_texts: list[str]
    anchors: np.ndarray
    positives: np.ndarray
    own_negatives: list[set[int]]
    excluded: list[set[int]]


class Mined(NamedTuple):
    """The new negatives of U pairs.

    Attributes:
        numbers: int32 [U, num_negatives]. Numbers in PairTexts.candidates, the nearest first, then NONE.
        cosines: float32 [U, num_negatives]. The cosines with the anchor, 0 for NONE.
        positive_cosines: float32 [U]. The cosines of each anchor and its positive.
    """

    numbers: np.ndarray
    cosines: np.ndarray
    positive_cosines: np.ndarray


def pair_texts(pairs: Iterable[Sequence[str]], further: Iterable[str] = ()) -> PairTexts:
    """Numbers the texts of pairs.

    Args:
        pairs: iterable of (anchor, its positive, its negatives...).
        further: iterable of str. More candidates. Texts without a word are left out.
    """
    pairs, candidates, anchors, content = list(pairs), _Numbered(), _Numbered(), sampling.content
    positives = [candidates.number(pair[1]) for pair in pairs]
    for text in further:
        if text.strip():
            candidates.number(text)
    numbers, partners = [anchors.number(pair[0]) for pair in pairs], {}
    for anchor, positive, *_ in pairs:
        partners.setdefault(content(anchor), set()).add(content(positive))
        partners.setdefault(content(positive), set()).add(content(anchor))
    return PairTexts(
        candidates.texts,
        anchors.texts,
        np.array(numbers, np.int32),
        np.array(positives, np.int32),
        [candidates.known(map(content, pair[2:])) for pair in pairs],
        [candidates.known([key, *partners[key]]) for key in anchors.numbers],
    )


class _Numbered:
    """Texts by number. Texts of the same content have one number."""

    def __init__(self):
        self.numbers, self.texts = {}, []

    def number(self, text):
        number = self.numbers.setdefault(sampling.content(text), len(self.texts))
        if number == len(self.texts):
            self.texts.append(text)
        return number

    def known(self, keys):
        return {self.numbers[key] for key in keys if key in self.numbers}


def mine(
    pairs: PairTexts,
    anchors: np.ndarray,
    candidates: np.ndarray,
    options: MiningOptions,
    done: Callable[[int, float], None] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Mined | None:
    """Finds new negatives for each pair.

    A candidate never has the text of the anchor, of a text that stands in a pair with the anchor, or of a negative
    that the pair has already. Ranks count the candidates without the first two kinds.

    Args:
        pairs: PairTexts.
        anchors: [A, D], the vectors of anchor_texts, in memory or in a file. The vectors may have any length.
        candidates: [C, D], the vectors of candidates, likewise.
        options: MiningOptions.
        done: function of a number of anchors, twice, called after each block of anchors.
        should_stop: function that is called before each block. True ends the mining.

    Returns:
        Mined, or None if should_stop ended the mining.
    """
    shape = (len(pairs.anchors), options.num_negatives)
    mined = Mined(np.full(shape, NONE, np.int32), np.zeros(shape, np.float32), np.zeros(shape[:1], np.float32))
    rows_of = [[] for _ in pairs.anchor_texts]
    for row, anchor in enumerate(pairs.anchors.tolist()):
        rows_of[anchor].append(row)
    for start in range(0, len(rows_of), _ANCHORS_AT_A_TIME):
        if should_stop():
            return None
        queries = np.asarray(anchors[start : start + _ANCHORS_AT_A_TIME], np.float32)
        block = range(start, start + len(queries))
        # Excluded candidates take places among the nearest, and count for no rank.
        most = options.range_max + max(len(pairs.excluded[anchor]) for anchor in block)
        found = nearest(queries, candidates, most)
        for anchor, query, cosines, numbers in zip(block, queries, *found, strict=True):
            is_other = ~np.isin(numbers, list(pairs.excluded[anchor]))
            in_range = slice(options.range_min, options.range_max)
            cosines, numbers = cosines[is_other][in_range], numbers[is_other][in_range]
            rows = rows_of[anchor]
            own_texts = exact_cosines(query, np.asarray(candidates[pairs.positives[rows]], np.float32))
            for row, positive_cosine in zip(rows, own_texts, strict=True):
                mined.positive_cosines[row] = positive_cosine
                is_far = cosines <= positive_cosine - np.float32(options.margin)
                places = np.flatnonzero(is_far & ~np.isin(numbers, list(pairs.own_negatives[row])))
                places = _chosen(places, options, row)
                mined.numbers[row, : len(places)] = numbers[places]
                mined.cosines[row, : len(places)] = cosines[places]
        if done:
            done(len(block), len(block))
    return mined


def _chosen(places, options, row):
    """At most num_negatives of the places, ascending."""
    if options.sampling == "random" and len(places) > options.num_negatives:
        generator = np.random.Generator(np.random.Philox(key=[options.seed, row]))
        places = np.sort(generator.choice(places, options.num_negatives, replace=False))
    return places[: options.num_negatives]

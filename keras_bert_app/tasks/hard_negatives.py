"""Hard negatives of pairs of texts: the own texts of other anchors that a model takes for near ones."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from keras_bert_app.tasks import sampling
from keras_bert_app.vectors.static.exact_nearest import exact_cosines, nearest

SAMPLINGS = ("top", "random")
NONE = -1  # in place of the number of a negative
_ANCHORS_AT_A_TIME = 256


@dataclasses.dataclass(frozen=True)
class MiningOptions:
    """Which candidates become negatives.

    Attributes:
        num_negatives: int. The most new negatives of a pair.
        range_min: int. So many of the nearest candidates are skipped, because they may be answers that nobody marked.
        range_max: int. Candidates after this rank are skipped.
        margin: float. The cosine of a negative is at least this much below the cosine of the anchor and its own text
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

    Attributes:
        texts: list of str. The candidates come first: the own texts of all anchors, then further texts.
        num_candidates: int.
        anchors: int32 [U]. The number of each pair's anchor.
        positives: int32 [U]. The number of its own text.
        own_negatives: list of U sets. Numbers of the negatives that the pair has already.
        partners: dict number -> set of the numbers that stand in a pair with it, on any side.
    """

    texts: list[str]
    num_candidates: int
    anchors: np.ndarray
    positives: np.ndarray
    own_negatives: list[set[int]]
    partners: dict[int, set[int]]


class Mined(NamedTuple):
    """The new negatives of U pairs.

    Attributes:
        numbers: int32 [U, num_negatives]. Numbers in PairTexts.texts, the nearest first, then NONE.
        cosines: float32 [U, num_negatives]. The cosines with the anchor, 0 for NONE.
        positive_cosines: float32 [U]. The cosines of each anchor and its own text.
    """

    numbers: np.ndarray
    cosines: np.ndarray
    positive_cosines: np.ndarray


def pair_texts(pairs: Iterable[Sequence[str]], further: Iterable[str] = ()) -> PairTexts:
    """Numbers the texts of pairs.

    Args:
        pairs: iterable of (anchor, its own text, its negatives...).
        further: iterable of str. More candidates. Texts without a word are left out.
    """
    pairs, known, texts = list(pairs), {}, []

    def number_of(text):
        number = known.setdefault(sampling.content(text), len(texts))
        if number == len(texts):
            texts.append(text)
        return number

    positives = [number_of(pair[1]) for pair in pairs]
    for text in further:
        if text.strip():
            number_of(text)
    num_candidates = len(texts)
    anchors = [number_of(pair[0]) for pair in pairs]
    partners = {}
    for anchor, positive in zip(anchors, positives, strict=True):
        partners.setdefault(anchor, set()).add(positive)
        partners.setdefault(positive, set()).add(anchor)
    own = [{known[key] for text in pair[2:] if (key := sampling.content(text)) in known} for pair in pairs]
    numbers = np.array(anchors, np.int32), np.array(positives, np.int32)
    return PairTexts(texts, num_candidates, *numbers, own, partners)


def mine(
    pairs: PairTexts, vectors: np.ndarray, options: MiningOptions, done: Callable[[int, float], None] | None = None
) -> Mined:
    """Finds new negatives for each pair.

    A candidate never has the text of the anchor, of a text that stands in a pair with the anchor, or of a negative
    that the pair has already. Ranks count the candidates without the first two kinds.

    Args:
        pairs: PairTexts.
        vectors: [number of texts, D], in memory or in a file. The vectors may have any length.
        options: MiningOptions.
        done: function of a number of anchors, twice, called after each block of anchors.
    """
    shape = (len(pairs.anchors), options.num_negatives)
    mined = Mined(np.full(shape, NONE, np.int32), np.zeros(shape, np.float32), np.zeros(shape[:1], np.float32))
    rows_of = {}
    for row, anchor in enumerate(pairs.anchors.tolist()):
        rows_of.setdefault(anchor, []).append(row)
    anchors = sorted(rows_of)
    for start in range(0, len(anchors), _ANCHORS_AT_A_TIME):
        block = anchors[start : start + _ANCHORS_AT_A_TIME]
        # The anchor itself and its partners take places among the nearest that count for no rank.
        most = options.range_max + 1 + max(len(pairs.partners[anchor]) for anchor in block)
        queries = np.asarray(vectors[block], np.float32)
        found = nearest(queries, vectors[: pairs.num_candidates], most)
        for anchor, query, cosines, numbers in zip(block, queries, *found, strict=True):
            is_other = ~np.isin(numbers, [anchor, *pairs.partners[anchor]])
            in_range = slice(options.range_min, options.range_max)
            cosines, numbers = cosines[is_other][in_range], numbers[is_other][in_range]
            rows = rows_of[anchor]
            own_texts = exact_cosines(query, np.asarray(vectors[pairs.positives[rows]], np.float32))
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

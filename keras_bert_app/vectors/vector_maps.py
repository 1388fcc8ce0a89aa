"""Maps of the vectors of texts, and numbers that say how well a model spreads texts and joins pairs.

Alignment is the mean squared distance of the two texts of a pair, and uniformity says how evenly the vectors cover the
sphere. Both are of vectors of length 1, and smaller is better. See Wang and Isola 2020, Understanding Contrastive
Representation Learning through Alignment and Uniformity on the Hypersphere, equations 1 and 2 with alpha = 2 and t = 2.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert_app.drawing import planes
from keras_bert_app.errors import UserError
from keras_bert_app.vectors.nearest import nearest
from keras_bert_app.vectors.word_search import WORDS

NUM_NEAREST = 10
_MOST_CHARACTERS = 500  # of a text on the page
_FEWEST_OF_CLUSTER = 10  # texts of a cluster on average
_BINS, _BIN_GRID = 40, 20  # bins of the histogram; its ends are multiples of 1 / 20
_ROWS_AT_A_TIME = 1024
_SEED = 0


@dataclasses.dataclass(frozen=True)
class ModelVectors:
    """The vectors of one model, all of length 1 (or 0).

    Attributes:
        name: str. The model, as the user knows it.
        texts: float32 [N, D]. Vectors of the texts of the map.
        pair_texts: float32 [M, D]. Vectors of the texts of the pairs; [0, D] without pairs.
    """

    name: str
    texts: np.ndarray
    pair_texts: np.ndarray


def sampled_rows(count: int, most: int) -> np.ndarray:
    """Draws rows, always the same ones, in ascending order.

    Args:
        count: int. The number of rows to draw from.
        most: int. How many rows to draw. All rows if there are no more.

    Returns:
        int64 [min(count, most)].
    """
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(_SEED).choice(count, most, replace=False))


def of_length_1(vectors: np.ndarray, numbers: Sequence[int], name: str) -> np.ndarray:
    """Gives vectors length 1. A vector of zeros stays.

    Args:
        vectors: float [N, D].
        numbers: N int. The numbers of the vectors in messages, from 1.
        name: str. The source of the vectors in messages.

    Returns:
        float32 [N, D].

    Raises:
        UserError: a vector holds an infinite number or NaN.
    """
    vectors = np.asarray(vectors, np.float32)
    is_finite = np.isfinite(vectors).all(axis=1)
    if not is_finite.all():
        raise UserError(
            f"{name}: vector {numbers[int(np.argmin(is_finite))]:,} holds numbers that are not finite; embed the texts "
            "with another model, or train this one again"
        )
    largest = np.abs(vectors).max(axis=1, keepdims=True)
    vectors = vectors / np.where(largest > 0, largest, 1)  # so that no square leaves the range of float32
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(norms > 0, norms, 1)


def alignment(one: np.ndarray, other: np.ndarray) -> float:
    """Computes the mean of ||x - y||^2 over pairs (x, y): equation 1 of Wang and Isola with alpha = 2.

    Args:
        one: float [P, D], of length 1. The first vectors of the pairs.
        other: float [P, D], of length 1. The second vectors.

    Returns:
        float from 0, for equal vectors, to 4.
    """
    return float(np.mean(np.sum((one.astype(np.float64) - other) ** 2, axis=1)))


def uniformity(vectors: np.ndarray) -> float:
    """Computes log of the mean of exp(-2 ||x - y||^2) over all pairs of rows: equation 2 of Wang and Isola with t = 2.

    Args:
        vectors: float [N, D], of length 1. N is 2 or more.

    Returns:
        float from -8 to 0. It is 0 if all vectors are equal. On a sphere of many dimensions even vectors give -4.
    """
    total, squares = 0.0, np.sum(vectors.astype(np.float64) ** 2, axis=1)
    for start in range(0, len(vectors), _ROWS_AT_A_TIME):
        block = slice(start, start + _ROWS_AT_A_TIME)
        distances = squares[block, None] + squares - 2 * (vectors[block] @ vectors.T).astype(np.float64)
        values = np.exp(-2 * np.maximum(distances, 0))
        total += np.triu(values, k=start + 1).sum()
    return float(np.log(total / (len(vectors) * (len(vectors) - 1) / 2)))


def neighbours(vectors: np.ndarray, count: int = NUM_NEAREST) -> tuple[np.ndarray, np.ndarray]:
    """Finds the nearest other vectors of each vector.

    Args:
        vectors: float32 [N, D]. N is 2 or more.
        count: int. The number k of vectors to find; N - 1 if there are fewer.

    Returns:
        (cosines float32 [N, k], descending; rows int64 [N, k]).
    """
    count = min(count, len(vectors) - 1)
    cosines, rows = nearest(vectors, vectors, count + 1)
    is_other = rows != np.arange(len(vectors))[:, None]
    # Among more than k equal vectors the vector itself may be missing. Then the last one goes.
    is_other[is_other.all(axis=1), -1] = False
    return cosines[is_other].reshape(-1, count), rows[is_other].reshape(-1, count)


def clusters(vectors: np.ndarray) -> np.ndarray:
    """Clusters vectors by k-means, into a cluster for each colour of the map or fewer for few vectors.

    Args:
        vectors: float32 [N, D], of length 1.

    Returns:
        int [N]. The clusters, from 0 for the largest.
    """
    from sklearn.cluster import KMeans

    num_distinct = len(np.unique(np.round(vectors, 5), axis=0))
    count = max(1, min(len(planes.COLORS), num_distinct, len(vectors) // _FEWEST_OF_CLUSTER))
    labels = KMeans(count, n_init=4, random_state=_SEED).fit_predict(vectors)
    sizes = np.bincount(labels, minlength=count)
    return np.argsort(np.argsort(-sizes, kind="stable"))[labels]


def measures(models: Sequence[ModelVectors], series: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """Computes the numbers of each model.

    Args:
        models: ModelVectors.
        series: dict name -> int [P, 2]. Pairs of rows of pair_texts. The first series has the positives. Empty without
            pairs.

    Returns:
        list of dicts, one for each model: name; uniformity of the texts; alignment of the positives, None without
        pairs; and cosines, a dict from each series to float32 [P].
    """
    found = []
    for model in models:
        cosines, aligned = {}, None
        for name, pairs in series.items():
            one, other = (model.pair_texts[column] for column in pairs.T)
            cosines[name] = np.clip(np.sum(one * other, axis=1), -1, 1)  # rounding may leave this range
            aligned = alignment(one, other) if aligned is None else aligned
        found.append(
            {"name": model.name, "uniformity": uniformity(model.texts), "alignment": aligned, "cosines": cosines}
        )
    return found


def histograms(measured: Sequence[Mapping[str, Any]]) -> dict[str, list]:
    """Counts the cosines of each series in bins that all models share.

    Args:
        measured: the result of `measures`, with pairs.

    Returns:
        dict with edges, a list of floats, and models, a list of dict series -> list of the share of each bin.
    """
    values = np.concatenate([cosines for model in measured for cosines in model["cosines"].values()])
    low, high = np.floor(values.min() * _BIN_GRID) / _BIN_GRID, np.ceil(values.max() * _BIN_GRID) / _BIN_GRID
    edges = np.linspace(low, max(high, low + 1 / _BIN_GRID), _BINS + 1)
    return {
        "edges": np.round(edges, 6).tolist(),
        "models": [
            {
                name: np.round(np.histogram(cosines, edges)[0] / len(cosines), 6).tolist()
                for name, cosines in model["cosines"].items()
            }
            for model in measured
        ],
    }


def described(
    texts: Sequence[str],
    numbers: Sequence[int],
    models: Sequence[ModelVectors],
    measured: Sequence[Mapping[str, Any]],
    projection: str,
) -> dict[str, Any]:
    """Describes texts for drawing.vector_map_page.

    The colours of all maps are the clusters of the last model.

    Args:
        texts: N str.
        numbers: N int. The numbers of the texts in the corpus, from 1.
        models: ModelVectors. The last one is the model to look at; the others are what came before.
        measured: the result of `measures`.
        projection: str. "tsne" or "pca".

    Returns:
        dict with these keys:
        texts, numbers: lists of the texts, cut after 500 characters, and of their numbers.
        clusters: list of int, one for each text. typical: list of lists of str, the words of each cluster. middles:
            list of int, the central text of each cluster.
        views: list of dicts, one for each model: name, points (list of [x, y]), nearest (list of lists of rows) and
            cosines (list of lists of floats).
        measures: list of dicts, one for each model: name, uniformity, alignment or None, and means, a dict from the
            name of a series to its mean cosine.
        histograms: the result of `histograms`, or None without pairs.
    """
    last = models[-1].texts
    labels = clusters(last)
    words = [set(re.findall(WORDS, text.lower())) for text in texts]
    typical, middles = planes.described_clusters(words, last, labels)
    return {
        "texts": [_cut(text) for text in texts],
        "numbers": [int(number) for number in numbers],
        "clusters": labels.tolist(),
        "typical": typical,
        "middles": middles,
        "views": [_view(model, projection) for model in models],
        "measures": [
            {
                **{key: _rounded(model[key]) for key in ("name", "uniformity", "alignment")},
                "means": {name: _rounded(float(cosines.mean())) for name, cosines in model["cosines"].items()},
            }
            for model in measured
        ],
        "histograms": histograms(measured) if measured[0]["cosines"] else None,
    }


def _view(model, projection):
    cosines, rows = neighbours(model.texts)
    place = planes.principal_plane if projection == "pca" else lambda vectors: planes.t_sne(vectors, init="pca")
    return {
        "name": model.name,
        "points": place(model.texts),
        "nearest": rows.tolist(),
        "cosines": [[round(cosine, 3) for cosine in row] for row in cosines.tolist()],
    }


def _cut(text):
    return text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + "…"


def _rounded(value):
    return round(value, 4) if isinstance(value, float) else value


def table(measured: Sequence[Mapping[str, Any]]) -> list[str]:
    """Makes the lines of a table of the result of `measures`, a line for each model.

    Args:
        measured: the result of `measures`.

    Returns:
        list of str.
    """
    columns = ["uniformity", *(["alignment"] if measured[0]["cosines"] else []), *measured[0]["cosines"]]
    width = max(len(model["name"]) for model in measured)
    lines = [f"{'':{width}}" + "".join(f"  {column:>{max(len(column), 10)}}" for column in columns)]
    for model in measured:
        values = [
            model["cosines"][column].mean() if column in model["cosines"] else model[column] for column in columns
        ]
        cells = (f"  {value:{max(len(column), 10)}.4f}" for column, value in zip(columns, values, strict=True))
        lines.append(f"{model['name']:{width}}" + "".join(cells))
    return lines

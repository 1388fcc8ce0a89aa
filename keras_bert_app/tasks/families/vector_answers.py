"""What vectors answer: cosines of two texts, ranks of positives, and labels of nearest texts; and their scores."""

from collections.abc import Callable, Sequence

import numpy as np

from keras_bert_app.tasks import intervals, metrics, sampling

_CELLS_AT_A_TIME = 1 << 24  # cosines that are compared together
_SHOWN_RANKS = 20


def predictions(examples: Sequence, vectors: Sequence, kind: str) -> list[dict]:
    """The predictions from vectors of length 1.

    Args:
        examples: text_vectors.Example.
        vectors: the vectors of the texts of each example, [G, D]; dense, or sparse of scipy.
        kind: "spearman", "mrr" or "nearest_label".

    Returns:
        list of dicts, one for each example. spearman: value, the cosine of the two texts. mrr: rank of the positive
        among the positives of all examples and the negatives of this one, 1 for the nearest, and its cosine. Other
        positives of the same anchor, and the anchor itself, do not count. nearest_label: label of the nearest other
        text, and its cosine.
    """
    if kind == "spearman":
        return [{"value": float(_products(rows[:1], rows[1:2])[0, 0])} for rows in vectors]
    return (_ranks if kind == "mrr" else _labels)(examples, vectors)


def _ranks(examples, vectors):
    keys = [sampling.content(example.texts[1]) for example in examples]
    first_of_key = {key: number for number, key in reversed(list(enumerate(keys)))}
    numbers = sorted(set(first_of_key.values()))  # of the examples whose positives are the candidates
    column = {keys[number]: place for place, number in enumerate(numbers)}
    own_of_text = {}
    for example, key in zip(examples, keys, strict=True):
        own_of_text.setdefault(sampling.content(example.texts[0]), set()).add(column[key])
    candidates = _stacked([vectors[number][1:2] for number in numbers])
    found = []
    size = max(1, _CELLS_AT_A_TIME // len(numbers))
    for start in range(0, len(examples), size):
        rows = range(start, min(start + size, len(examples)))
        cosines = _products(_stacked([vectors[number][:1] for number in rows]), candidates)
        for number, row in zip(rows, cosines, strict=True):
            own = column[keys[number]]
            texts, first = examples[number].texts, sampling.content(examples[number].texts[0])
            cosine, others = row[own], own_of_text[first] | {column[key] for key in (first,) if key in column}
            row[list(others)] = -np.inf
            negatives = [place for place in range(2, len(texts)) if texts[place].strip()]
            of_negatives = _products(vectors[number][:1], vectors[number][negatives])[0] if negatives else []
            # Vectors that are not numbers are never nearer than others.
            rank = 1 + int((~(row < cosine)).sum()) + int((~(np.asarray(of_negatives) < cosine)).sum())
            found.append({"rank": rank, "cosine": float(cosine)})
    return found


def _labels(examples, vectors):
    everything, found = _stacked([rows[:1] for rows in vectors]), []
    size = max(1, _CELLS_AT_A_TIME // len(examples))
    for start in range(0, len(examples), size):
        cosines = _products(everything[start : start + size], everything)
        for number, row in enumerate(cosines, start):
            row[number] = -np.inf
            nearest = int(row.argmax())
            found.append({"label": examples[nearest].label, "cosine": float(row[nearest])})
    return found


def _products(one, other):
    """The dense products of rows, float [len(one), len(other)]."""
    product = one @ other.T
    return product.toarray() if hasattr(product, "toarray") else product


def _stacked(rows):
    if hasattr(rows[0], "tocsr"):
        import scipy.sparse

        return scipy.sparse.vstack(rows).tocsr()
    return np.concatenate(rows)


def tf_idf(train_examples: Sequence, examples: Sequence) -> list:
    """The TF-IDF vectors of the texts of each example, sparse [G, words]. The training texts give the frequencies."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    def texts_of(group):
        return [text for example in group for text in example.texts]

    # A token is a run of letters and digits; without spaces between words (Chinese), two characters are one.
    has_spaces = np.mean([" " in text.strip() for text in texts_of(examples)]) > 0.5
    how = {"token_pattern": r"(?u)\b\w+\b"} if has_spaces else {"analyzer": "char", "ngram_range": (1, 2)}
    vectorizer = TfidfVectorizer(sublinear_tf=True, **how).fit([*texts_of(train_examples), *texts_of(examples), "a"])
    rows, groups, start = vectorizer.transform(texts_of(examples)), [], 0
    for example in examples:
        groups.append(rows[start : start + len(example.texts)])
        start += len(example.texts)
    return groups


def _numbers(examples, found):
    return np.array([example.label for example in examples]), np.array([prediction["value"] for prediction in found])


def _reciprocal_ranks(examples, found):
    return np.array([1.0 / prediction["rank"] for prediction in found])


def _within(count):
    return lambda examples, found: np.array([prediction["rank"] <= count for prediction in found], np.float64)


def _has_label(examples, found):
    return np.array([a["label"] == b.label for a, b in zip(found, examples, strict=True)], np.float64)


# Metric -> function (examples, predictions) -> the score of each example, whose mean is the metric.
_OF_EXAMPLES = {
    "mrr": _reciprocal_ranks,
    "accuracy_at_1": _within(1),
    "recall_at_10": _within(10),
    "nearest_label": _has_label,
}
SCORES: dict[str, Callable] = {
    **{name: lambda a, b, name=name: metrics.NUMBER_METRICS[name](*_numbers(a, b)) for name in ("spearman", "pearson")},
    **{name: lambda a, b, each=each: float(np.mean(each(a, b))) for name, each in _OF_EXAMPLES.items()},
}


def measure(metric: str, examples: Sequence, found: Sequence[dict]) -> intervals.Measure:
    """A metric as intervals.Measure.

    Args:
        metric: a key of SCORES.
        examples: text_vectors.Example.
        found: the result of predictions.
    """
    if metric in _OF_EXAMPLES:
        return _OF_EXAMPLES[metric](examples, found)
    gold, values = _numbers(examples, found)
    return lambda indices: metrics.NUMBER_METRICS[metric](gold[indices], values[indices])


def for_picture(examples: Sequence, found: Sequence[dict]) -> tuple[list, list, tuple]:
    """(right answers, given answers, names) for drawing.finetuning_pictures.draw_answers."""
    if "value" in found[0]:
        return [example.label for example in examples], [prediction["value"] for prediction in found], ()
    if "rank" in found[0]:
        names = (*map(str, range(1, _SHOWN_RANKS)), f"{_SHOWN_RANKS} and more")
        ranks = [min(prediction["rank"], _SHOWN_RANKS) - 1 for prediction in found]
        return [0] * len(ranks), ranks, (("positive",), names)
    names = tuple(sorted({example.label for example in examples}))
    given = [names.index(prediction["label"]) for prediction in found]
    return [names.index(example.label) for example in examples], given, names


def worst(examples: Sequence, found: Sequence[dict], most: int) -> list[dict]:
    """At most `most` answers as dicts, the worst first: of scores, those whose cosine has another order."""
    if "value" in found[0]:
        gold, values = _numbers(examples, found)
        badness = np.abs(values.argsort().argsort() - gold.argsort(kind="stable").argsort()) / len(found)
    elif "rank" in found[0]:
        badness = 1.0 - _reciprocal_ranks(examples, found)
    else:
        badness = (1.0 - _has_label(examples, found)) * [1.0 + prediction["cosine"] for prediction in found]
    return [
        {
            "place": examples[index].place,
            "error": round(float(badness[index]), 4),
            "predicted": next(iter(found[index].values())),
            "right": 1 if "rank" in found[index] else examples[index].label,
            "text": " | ".join(examples[index].texts),
        }
        for index in np.argsort(-badness, kind="stable")[:most]
        if badness[index] > 0
    ]

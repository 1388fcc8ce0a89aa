"""Scores of predictions, by scikit-learn and scipy where possible. A higher score is always better."""

import warnings

import numpy as np


def _f1(average, positive=1):
    def score(gold, predicted):
        from sklearn.metrics import f1_score

        extra = {"pos_label": positive} if average == "binary" else {}
        return f1_score(gold, predicted, average=average, zero_division=0.0, **extra)

    return score


def _micro_f1_of_label_sets(gold, predicted):
    # Each label of each example is a yes or a no. scikit-learn is 100 times slower, which is too slow for resamples.
    total = gold.sum() + predicted.sum()
    return float(2.0 * (gold * predicted).sum() / total) if total else 0.0


def _macro_f1_of_label_sets(gold, predicted):
    # The loop scores each label alone. For a single label, scikit-learn would also score the absence of the label.
    occurs = np.flatnonzero(np.any((gold > 0) | (predicted > 0), axis=0))
    return (
        float(np.mean([_f1("binary")(gold[:, label], predicted[:, label]) for label in occurs])) if len(occurs) else 0.0
    )


def _matthews(gold, predicted):
    from sklearn.metrics import matthews_corrcoef

    if np.ptp(gold) == 0 or np.ptp(predicted) == 0:
        return 0.0  # the correlation with a constant is undefined
    return matthews_corrcoef(gold, predicted)


def _correlation(name):
    def score(gold, predicted):
        from scipy import stats

        if np.ptp(gold) == 0 or np.ptp(predicted) == 0:
            return 0.0  # the correlation with a constant is undefined
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return float(getattr(stats, name)(gold, predicted)[0])

    return score


# Functions of the right and the predicted class indices, int [N]. f1 is the F1 of the second class. macro_f1 is the
# mean F1 of the classes that occur, right or predicted. (micro_f1 over single classes would equal accuracy.)
CLASS_METRICS = {
    "accuracy": lambda gold, predicted: float(np.mean(gold == predicted)),
    "f1": _f1("binary"),
    "macro_f1": _f1("macro"),
    "matthews_correlation": _matthews,
}
# Functions of the right and the predicted numbers, float [N].
NUMBER_METRICS = {
    "spearman": _correlation("spearmanr"),
    "pearson": _correlation("pearsonr"),
    "negative_rmse": lambda gold, predicted: -float(np.sqrt(np.mean((gold - predicted) ** 2))),
}
# Functions of the right and the predicted label sets, 0 or 1 [N, n]. macro_f1 is the mean F1 of the labels that occur,
# right or predicted: a label that a split does not contain would always score 0.
LABEL_SET_METRICS = {
    "micro_f1": _micro_f1_of_label_sets,
    "macro_f1": _macro_f1_of_label_sets,
    "exact_match": lambda gold, predicted: float(np.mean(np.all(gold == predicted, axis=1))),
}


def top_k_accuracy(gold: np.ndarray, probabilities: np.ndarray, k: int) -> float:
    """The share of the examples whose class is among the k most probable classes.

    Args:
        gold: int [N]. The right classes.
        probabilities: float [N, n]. If two classes are equally probable, the lower index comes first.
        k: int. Number of classes.
    """
    best = np.argsort(-probabilities, axis=1, kind="stable")[:, :k]
    return float(np.mean(np.any(best == gold[:, None], axis=1)))


def no_pictures(model, features, logits, title: str) -> dict[str, bytes]:
    """{}, for families without pictures of their own.

    Args:
        model: Not used; all families have this signature.
        features: Not used.
        logits: Not used.
        title: Not used.
    """
    return {}


def no_signatures(examples) -> dict[str, str]:
    """{}, for families whose metrics have only one variant.

    Args:
        examples: The scored examples. Not used; all families have this signature.
    """
    return {}

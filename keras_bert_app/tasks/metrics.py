"""Scores of predictions, by scikit-learn and scipy where they have them; all are the higher the better."""

import warnings

import numpy as np


def _f1(average, positive=1):
    def score(gold, predicted):
        from sklearn.metrics import f1_score

        extra = {"pos_label": positive} if average == "binary" else {}
        return f1_score(gold, predicted, average=average, zero_division=0.0, **extra)

    return score


def _micro_f1_of_label_sets(gold, predicted):
    return _f1("binary")(gold.ravel(), predicted.ravel())  # each label of each example a yes or no


def _macro_f1_of_label_sets(gold, predicted):
    # Label by label: of a single column scikit-learn would score its absence too.
    occurs = np.flatnonzero(np.any((gold > 0) | (predicted > 0), axis=0))
    return (
        float(np.mean([_f1("binary")(gold[:, label], predicted[:, label]) for label in occurs])) if len(occurs) else 0.0
    )


def _matthews(gold, predicted):
    from sklearn.metrics import matthews_corrcoef

    if np.ptp(gold) == 0 or np.ptp(predicted) == 0:
        return 0.0  # of a constant there is none
    return matthews_corrcoef(gold, predicted)


def _correlation(name):
    def score(gold, predicted):
        from scipy import stats

        if np.ptp(gold) == 0 or np.ptp(predicted) == 0:
            return 0.0  # of a constant there is none
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return float(getattr(stats, name)(gold, predicted)[0])

    return score


# Of classes: functions of the indices of the right and the predicted class, int [N]. f1 is that of the second class;
# macro_f1 the mean over the classes that occur, right or predicted. (Over single classes micro_f1 would be accuracy.)
OF_CLASSES = {
    "accuracy": lambda gold, predicted: float(np.mean(gold == predicted)),
    "f1": _f1("binary"),
    "macro_f1": _f1("macro"),
    "matthews_correlation": _matthews,
}
# Of numbers: float [N].
OF_NUMBERS = {
    "spearman": _correlation("spearmanr"),
    "pearson": _correlation("pearsonr"),
    "negative_rmse": lambda gold, predicted: -float(np.sqrt(np.mean((gold - predicted) ** 2))),
}
# Of label sets: 0 or 1 [N, n]. macro_f1 is the mean over the labels that occur, right or predicted, as of classes: of a
# label that a split does not have every answer would score 0.
OF_LABEL_SETS = {
    "micro_f1": _micro_f1_of_label_sets,
    "macro_f1": _macro_f1_of_label_sets,
    "exact_match": lambda gold, predicted: float(np.mean(np.all(gold == predicted, axis=1))),
}


def top_k_accuracy(gold, probabilities, k):
    """Share of the examples whose class is among the k most probable; ties are broken by the order of the classes.

    Args:
        gold: int [N]. probabilities: [N, n].
    """
    best = np.argsort(-probabilities, axis=1, kind="stable")[:, :k]
    return float(np.mean(np.any(best == gold[:, None], axis=1)))

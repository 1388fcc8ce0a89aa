"""The official score of SemEval-2010 Task 8, and the table of the example."""

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from examples.comparisons import difference, spread


def macro_f1(right, given, counts=1):
    """The official score: the mean F1 of the nine relations without Other. A wrong direction is a mistake.

    Args:
        right, given: [examples]. Names of relations.
        counts: 1, or int [draws, examples], how often each example counts. The function then returns [draws].
    """
    right, given, scores = np.array(right), np.array(given), []
    for relation in sorted({name.partition("(")[0] for name in right} - {"Other"}):
        is_right, is_given = (np.char.startswith(names, f"{relation}(") for names in (right, given))
        hits, both = (right == given) & is_right, is_right.astype(int) + is_given
        scores.append(2 * (counts * hits).sum(axis=-1) / np.maximum((counts * both).sum(axis=-1), 1))
    return np.mean(scores, axis=0)


def constant_f1(train_names, test_names):
    """The score of an answer that is always the most frequent relation."""
    names = [name for name in train_names if name != "Other"]
    return macro_f1(test_names, [max(sorted(set(names)), key=names.count)] * len(test_names))


def words_between_f1(train, train_names, test, test_names):
    """The score of a logistic regression over the words between the nominals, and over pairs and triples of them."""
    words = CountVectorizer(ngram_range=(1, 3), binary=True, token_pattern=r"\S+")
    known = words.fit_transform([between for _, _, between, _, _ in train])
    model = LogisticRegression(max_iter=1000).fit(known, train_names)
    return macro_f1(test_names, model.predict(words.transform([between for _, _, between, _, _ in test])))


def table(done, baselines, test_names):
    """Yields the scores, and the differences with 95 % intervals over seeds (Welch) and over examples (bootstrap).

    Args:
        done: kind -> [{"macro-F1", "answers"}] of its seeds. The kinds are in the order of KINDS.
        baselines: name -> score.
        test_names: [examples]. The right relations.
    """
    yield "\n| model | macro-F1 of nine relations | over examples |\n|---|---|---|"
    yield from (f"| {name} | {score:.4f} | |" for name, score in baselines.items())
    scores = {kind: [run["macro-F1"] for run in runs] for kind, runs in done.items()}
    yield from (f"| {kind} | {spread(values)} | |" for kind, values in scores.items())
    size = len(test_names)
    counts = np.random.default_rng(0).multinomial(size, np.full(size, 1 / size), 1000)
    drawn = {
        kind: np.mean([macro_f1(test_names, run["answers"], counts) for run in runs], axis=0)
        for kind, runs in done.items()
    }
    plain, markers, sentence, nominals = done
    for one, other in ((markers, plain), (nominals, markers), (nominals, sentence), (nominals, plain)):
        low, high = np.percentile(drawn[one] - drawn[other], [2.5, 97.5])
        yield f"| {one}, minus {other} | {difference(scores[one], scores[other])} | {low:+.4f} to {high:+.4f} |"

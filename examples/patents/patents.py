"""Gives documents topics of a tree, and scores the best 1, 3 and 5 topics at each level (PatentBERT, DocBERT).

python -m examples.patents.patents --init_checkpoint=MODEL --data_dir=REUTERS --output_dir=runs/patents

MODEL is any BERT that `convert` reads, with its vocabulary. REUTERS has the files reut2-*.sgm of Reuters-21578. Its 90
topics stand in for the classes of patents.
"""

import csv
import pathlib

import numpy as np
from absl import flags
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from examples.common import define_finetuning, keep_scores, keep_settings, run_with_flags
from examples.comparisons import over_examples, spread
from keras_bert_app import FinetunedRun, finetune

_TREE = pathlib.Path(__file__).with_name("tree.txt")
FREQUENT, LINEAR = "the most frequent ones", "logistic regression over TF-IDF"
LINEAR_OF_ALL = "the same, with the documents that choose BERT's weights"
GAIN = "BERT, minus logistic regression (over documents)"
_BANDS = ((1, 9), (10, 49), (50, 199), (200, None))  # numbers of training documents


def main(directory, data_dir, init_checkpoint, num_seeds=3, **settings):
    keep_settings(directory, data_dir=data_dir, init_checkpoint=init_checkpoint, **settings)
    settings["test_file"] = f"{data_dir}/reut2-*.sgm"  # all of dev then chooses the weights
    done = finetune(f"{directory}/run", "reuters", data_dir, init_checkpoint, num_seeds=num_seeds, **settings)
    folders = [f"seed-{run['seed']}" for run in done.get("runs", []) if "failed" not in run] or [""]
    answers = []
    for folder in folders:
        run = FinetunedRun(str(pathlib.Path(directory, "run", folder)))
        _, test, _, predictions = run.evaluate(settings["test_file"], split="test")
        answers.append(np.array([list(prediction["probabilities"].values()) for prediction in predictions]))
    topics = run.labels
    train, dev = (run.task.read_split(data_dir, split, run.run) for split in ("train", "dev"))
    is_of_train, is_of_dev, is_of_test = (one_hot(documents, topics) for documents in (train, dev, test))
    scores = {FREQUENT: [np.tile(is_of_train.sum(axis=0), (len(test), 1))]}
    scores[LINEAR] = [linear(train, is_of_train, test)]
    scores[LINEAR_OF_ALL] = [linear(train + dev, np.concatenate([is_of_train, is_of_dev]), test)]
    scores["BERT"] = answers
    levels = {"topics": [[topic] for topic in topics]}
    levels |= {f"groups of level {level}": groups(topics, level) for level in (3, 2)}
    results = {
        name: of_level(scores, is_of_train, is_of_test, [[topics.index(topic) for topic in group] for group in members])
        for name, members in levels.items()
    }
    results["recall of 3, by training documents"] = by_frequency(scores, is_of_train, is_of_test)
    keep_scores(f"{directory}/results.json", results)
    write_classes(f"{directory}/classes.csv", topics, scores, is_of_train, is_of_test)
    print("\n".join(tables(results)))


def one_hot(documents, topics):
    """Which topics the documents have, bool [documents, topics]."""
    return np.array([[topic in document.label for topic in topics] for document in documents])


def linear(train, is_of_train, test):
    """The probabilities of a logistic regression for each topic, over words and pairs of words."""
    vectors = TfidfVectorizer(sublinear_tf=True, min_df=2, ngram_range=(1, 2))
    known = vectors.fit_transform([document.text_a for document in train])
    model = OneVsRestClassifier(LogisticRegression(C=100.0)).fit(known, is_of_train)
    return model.predict_proba(vectors.transform([document.text_a for document in test]))


def groups(topics, level):
    """The topics of each group at a level of the tree, from 1 at the top. A topic above the level is a group itself."""
    parents = dict(line.split() for line in _TREE.read_text(encoding="utf-8").splitlines())
    members = {}
    for topic in topics:
        branch = [topic]
        while branch[0] in parents:
            branch.insert(0, parents[branch[0]])
        members.setdefault(branch[min(level, len(branch)) - 1], []).append(topic)
    return list(members.values())


def of_level(scores, is_of_train, is_of_test, columns):
    """Name -> [seeds, 8]: for the best 1, 3 and 5 groups, whether one is right, and precision and recall of all.

    The precision of 1 is whether it is right, and is left out.

    The score of a group is that of its best topic, or the number of its documents for FREQUENT. The last entry has what
    BERT gains over the logistic regression: (mean, low, high) of each figure, 95 % interval over documents.
    """
    of_train, right = (np.array([known[:, c].any(axis=1) for c in columns]).T for known in (is_of_train, is_of_test))
    by_document = {name: [] for name in scores}
    for name, runs in scores.items():
        for shares in runs:
            of_groups = np.array([shares[:, column].max(axis=1) for column in columns]).T
            if name == FREQUENT:
                of_groups = np.tile(of_train.sum(axis=0), (len(right), 1))
            best = np.argsort(-of_groups, axis=1, kind="stable")
            hits = np.take_along_axis(right, best, axis=1)
            row = []
            for k in (1, 3, 5):
                num_right = hits[:, :k].sum(axis=1)
                row += [num_right > 0, num_right / hits[:, :k].shape[1], num_right * len(right) / right.sum()]
            del row[1]
            by_document[name].append(np.array(row, float).T)  # [documents, 8]
    means = {name: np.mean(runs, axis=1) for name, runs in by_document.items()}
    gains = means["BERT"].mean(axis=0) - means[LINEAR].mean(axis=0)
    interval = over_examples(by_document["BERT"], by_document[LINEAR])
    rows = {name: runs.tolist() for name, runs in means.items()}
    return {"number": len(columns), **rows, GAIN: np.stack([gains, *interval], axis=1).tolist()}


def best_three(shares):
    """Whether a topic is one of the best 3 of its document, bool [documents, topics]."""
    ranks = np.argsort(np.argsort(-shares, axis=1, kind="stable"), axis=1, kind="stable")
    return ranks < 3


def by_frequency(scores, is_of_train, is_of_test):
    """Band of training documents -> {number of topics, name -> mean over its topics of the recall of 3, [seeds]}."""
    counts, results = is_of_train.sum(axis=0), {}
    for low, high in _BANDS:
        of_band = (counts >= low) & (counts <= (high or counts.max()))
        results[f"{low} to {high}" if high else f"{low} and more"] = {
            "number": int(of_band.sum()),
            **{name: [recalls(s, is_of_test)[of_band].mean() for s in runs] for name, runs in scores.items()},
        }
    return results


def recalls(shares, is_right):
    """float [topics]: the share of a topic's documents that have it among their best 3."""
    return (best_three(shares) & is_right).sum(axis=0) / np.maximum(is_right.sum(axis=0), 1)


def write_classes(path, topics, scores, is_of_train, is_of_test):
    """Writes the counts and the recall of 3 of each topic, the most frequent topic first."""
    columns = {name: np.mean([recalls(shares, is_of_test) for shares in runs], axis=0) for name, runs in scores.items()}
    with open(path, "w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["topic", "training documents", "test documents", *(f"recall of 3, {name}" for name in columns)])
        for number in np.argsort(-is_of_train.sum(axis=0), kind="stable"):
            counts = [int(is_right[:, number].sum()) for is_right in (is_of_train, is_of_test)]
            rows.writerow([topics[number], *counts, *(f"{values[number]:.3f}" for values in columns.values())])


def tables(results):
    """Yields the lines of a table for each level, and of the table by frequency."""
    for level, rows in results.items():
        rows = dict(rows)
        gains = rows.pop(GAIN, [])
        if "number" in rows:
            yield f"\n| {rows.pop('number')} {level} | 1 best: right | recall |" + "".join(
                f" {k} best: one right | precision | recall |" for k in (3, 5)
            )
            yield "|---" * 9 + "|"
            for name, runs in rows.items():
                yield f"| {name} | {' | '.join(spread(column, 3) for column in zip(*runs, strict=True))} |"
            yield f"| {GAIN} | {' | '.join(f'{mean:+.3f} ({low:+.3f} to {high:+.3f})' for mean, low, high in gains)} |"
        else:
            names = [name for name in next(iter(rows.values())) if name != "number"]
            yield f"\n| {level} | topics | {' | '.join(names)} |\n|{'---|' * (len(names) + 2)}"
            for band, figures in rows.items():
                yield f"| {band} | {figures['number']} | {' | '.join(spread(figures[name], 3) for name in names)} |"


if __name__ == "__main__":
    flags.DEFINE_string("output_dir", "runs/patents", "Where runs and results go.")
    flags.DEFINE_string("data_dir", None, "Folder with the files reut2-*.sgm.", required=True)
    flags.DEFINE_string("init_checkpoint", None, "A BERT in any layout that convert reads.", required=True)
    flags.DEFINE_integer("num_seeds", 3, "Runs.", lower_bound=1)
    flags.DEFINE_integer("max_seq_length", 256, "Tokens of a document that the model reads.")
    flags.DEFINE_float("num_train_epochs", 6, "Epochs of a run.")
    flags.DEFINE_bool("bias_correction", True, "Correct the optimizer's means in the first steps.")
    define_finetuning()
    names = ("num_seeds", "max_seq_length", "num_train_epochs", "bias_correction")
    names += ("precision", "learning_rate", "pooling")
    run_with_flags(main, "data_dir", "init_checkpoint", *names)

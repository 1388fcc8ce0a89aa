"""Trains a task directly and after another task, and compares both (TransBERT, STILTs).

python -m examples.stages.stages --init_checkpoint=MODEL --data_dir=DATA --output_dir=runs/stages

MODEL is any BERT that `convert` reads, with its vocabulary. DATA has the folders MRPC, RTE, dream and codah with
the official files.
"""

import json
import os

import numpy as np
import scipy.stats
from absl import app, flags

from keras_bert_app import FinetunedRun, finetune

# Target task -> (task between pre-training and the target, what finetune reads, what is scored).
TARGETS = {
    "rte": ("mrpc", "RTE/train.tsv", ("RTE/dev.tsv", None)),
    "codah": ("dream", "codah", ("codah/full_data.tsv", "test")),
}
FOLDERS = {"mrpc": "MRPC", "dream": "dream"}
_SETTINGS = {
    # The official dev of RTE is the test here, so a tenth of the training examples chooses the weights.
    "rte": {"dev_fraction": 0.1, "num_train_epochs": 4, "bias_correction": True},
    "codah": {"num_train_epochs": 4, "bias_correction": True, "max_seq_length": 64},
    "mrpc": {"num_train_epochs": 3, "bias_correction": True},
    "dream": {"num_train_epochs": 2, "bias_correction": True, "max_seq_length": 192},
}
KINDS = ("direct", "after another task")


def main(directory, data_dir, init_checkpoint, targets=tuple(TARGETS), num_seeds=5, **changes):
    results = {}
    for target in targets:
        middle, training, (file, split) = TARGETS[target]
        first = f"{directory}/{middle}"
        finetune(first, middle, f"{data_dir}/{FOLDERS[middle]}", init_checkpoint, **(_SETTINGS[middle] | changes))
        right = []  # of each kind: bool [seeds, examples]
        for kind, start in zip(KINDS, (init_checkpoint, first), strict=True):
            workdir = f"{directory}/{target} {kind}"
            settings = _SETTINGS[target] | changes
            finetune(workdir, target, f"{data_dir}/{training}", start, num_seeds=num_seeds, **settings)
            answers = [answered(path, f"{data_dir}/{file}", split) for path in runs_in(workdir)]
            right.append([[given == label for given, label in zip(*pair, strict=True)] for pair in answers])
        labels = answers[0][1]
        constant = max(map(labels.count, labels)) / len(labels)
        results[target] = {"after": middle, "examples": len(labels), "constant answer": constant, **compared(*right)}
        with open(f"{directory}/results.json", "w", encoding="utf-8") as output:
            json.dump(results, output, indent=1)
    print("\n".join(table(results)))


def runs_in(workdir):
    """The directories of the seeds of a run."""
    seeds = sorted(name for name in os.listdir(workdir) if name.startswith("seed-"))
    return [os.path.join(workdir, name) for name in seeds] or [workdir]


def answered(workdir, path, split):
    """(answers of a run, labels) of a file."""
    _, examples, _, predictions = FinetunedRun(workdir).evaluate(path, split=split)
    return [prediction["label"] for prediction in predictions], [example.label for example in examples]


def compared(direct, staged):
    """Accuracy of each seed, and the difference of the means with its 95 % intervals over seeds and over examples.

    Args:
        direct: bool [seeds, examples]. Whether an answer is right.
        staged: bool [seeds, examples]. The same after another task.
    """
    direct, staged = np.array(direct, float), np.array(staged, float)
    by_seed = direct.mean(axis=1), staged.mean(axis=1)
    difference = staged.mean(axis=0) - direct.mean(axis=0)
    draws = np.random.default_rng(0).integers(0, len(difference), (1000, len(difference)))
    of_seeds = [np.nan, np.nan]
    if len(direct) > 1:
        of_seeds = scipy.stats.ttest_ind(*by_seed[::-1], equal_var=False).confidence_interval()
    return {
        **{kind: accuracies.tolist() for kind, accuracies in zip(KINDS, by_seed, strict=True)},
        "difference": float(difference.mean()),
        "interval over seeds": list(map(float, of_seeds)),
        "interval over examples": np.percentile(difference[draws].mean(axis=1), [2.5, 97.5]).tolist(),
    }


def table(results):
    yield "\n| accuracy | constant answer | direct | after another task | difference | over seeds | over examples |"
    yield "|---|---|---|---|---|---|---|"
    for target, figures in results.items():
        cells = [f"{figures['constant answer']:.3f}"]
        cells += [f"{np.mean(figures[k]):.3f} ({min(figures[k]):.3f} to {max(figures[k]):.3f})" for k in KINDS]
        cells.append(f"{figures['difference']:+.3f}")
        cells += ["{:+.3f} to {:+.3f}".format(*figures[f"interval over {what}"]) for what in ("seeds", "examples")]
        yield f"| {target}, {figures['examples']} examples; after {figures['after']} | {' | '.join(cells)} |"


if __name__ == "__main__":
    flags.DEFINE_string("output_dir", "runs/stages", "Where runs and results go.")
    flags.DEFINE_string("data_dir", None, "Folder with MRPC, RTE, dream and codah.", required=True)
    flags.DEFINE_string("init_checkpoint", None, "A BERT in any layout that convert reads.", required=True)
    flags.DEFINE_list("targets", list(TARGETS), "Target tasks.")
    flags.DEFINE_integer("num_seeds", 5, "Runs of each kind.")
    given = flags.FLAGS
    settings = ("data_dir", "init_checkpoint", "targets", "num_seeds")
    app.run(lambda _: main(given.output_dir, **{name: getattr(given, name) for name in settings}))

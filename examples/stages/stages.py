"""Trains a task directly and after another task, and compares both (TransBERT, STILTs).

python -m examples.stages.stages --init_checkpoint=MODEL --data_dir=DATA --output_dir=runs/stages

MODEL is any BERT that `convert` reads, with its vocabulary. DATA has the folders MRPC, RTE, dream and codah with
the official files.
"""

import sys

import numpy as np
from absl import flags

from examples.common import define_finetuning, keep_scores, keep_settings, need_files, run_with_flags, scores_so_far
from examples.comparisons import difference, over_examples, spread
from keras_bert_app import FinetunedRun, finetune

# Target task -> (task between pre-training and the target, what finetune reads, the file that is scored).
TARGETS = {
    "rte": ("mrpc", "RTE/train.tsv", "RTE/dev.tsv"),
    "codah": ("dream", "codah", "codah/full_data.tsv"),  # of this file, the part "test"
}
FOLDERS = {"mrpc": "MRPC", "dream": "dream"}
_SETTINGS = {
    # The official dev of RTE is the test here, so a tenth of the training examples chooses the weights.
    "rte": {"dev_fraction": 0.1, "num_train_epochs": 4, "bias_correction": True},
    # Part 0 was scored earlier when settings were chosen (docs/results/finetuning.md).
    "codah": {"num_train_epochs": 3, "bias_correction": True, "max_seq_length": 64, "fold": 2},
    "mrpc": {"num_train_epochs": 3, "bias_correction": True},
    # With batches of 32, DREAM was still at chance after three quarters of these questions.
    "dream": {
        "num_train_epochs": 1,
        "bias_correction": True,
        "max_seq_length": 128,
        "max_train_examples": 3000,
        "global_batch_size": 16,
    },
}
KINDS = ("direct", "after another task")


def main(directory, data_dir, init_checkpoint, targets=tuple(TARGETS), num_seeds=5, **changes):
    if unknown := set(targets) - set(TARGETS):
        sys.exit(f"--targets={','.join(targets)}: {min(unknown)!r} is not known; known: {', '.join(TARGETS)}")
    for middle, *files in (TARGETS[target] for target in targets):
        need_files(*(f"{data_dir}/{file}" for file in (FOLDERS[middle], *files)))
    keep_settings(directory, data_dir=data_dir, init_checkpoint=init_checkpoint, **changes)
    results = scores_so_far(f"{directory}/results.json")
    for target in targets:
        middle, training, scored = TARGETS[target]
        right, middles = {kind: [] for kind in KINDS}, []  # bool [seeds, examples]
        for seed in range(1, num_seeds + 1):
            first = f"{directory}/{middle}/{seed}"
            done = run_task(first, middle, f"{data_dir}/{FOLDERS[middle]}", init_checkpoint, seed, changes)
            middles.append(done["reported"]["score"])
            for kind, start in zip(KINDS, (init_checkpoint, first), strict=True):
                workdir, test = f"{directory}/{target} {kind}/{seed}", {"test_file": f"{data_dir}/{scored}"}
                run_task(workdir, target, f"{data_dir}/{training}", start, seed, changes | test)
                given, labels = answered(workdir, f"{data_dir}/{scored}")
                right[kind].append([a == b for a, b in zip(given, labels, strict=True)])
        constant = max(map(labels.count, labels)) / len(labels)
        results = scores_so_far(f"{directory}/results.json")
        results[target] = {
            "after": middle,
            "scores of the middle task": middles,
            "its constant answer": done["baseline"]["score"],
            "examples": len(labels),
            "constant answer": constant,
            **compared(*right.values()),
        }
        keep_scores(f"{directory}/results.json", results)
    print("\n".join(table(results)))


def run_task(workdir, task, data, start, seed, changes):
    return finetune(workdir, task, data, start, seed=seed, **(_SETTINGS[task] | changes))


def answered(workdir, path):
    """(answers of a run, labels) of the test examples of a file."""
    _, examples, _, predictions = FinetunedRun(workdir).evaluate(path, split="test")
    return [prediction["label"] for prediction in predictions], [example.label for example in examples]


def compared(direct, staged):
    """Accuracy of each seed, and the difference of the means with its 95 % intervals over seeds and over examples.

    Args:
        direct: bool [seeds, examples]. Whether an answer is right.
        staged: bool [seeds, examples]. The same after another task.
    """
    direct, staged = np.array(direct, float), np.array(staged, float)
    by_seed = [kind.mean(axis=1).tolist() for kind in (direct, staged)]
    return {
        **dict(zip(KINDS, by_seed, strict=True)),
        "difference": difference(*by_seed[::-1], 3),
        "interval over examples": over_examples(staged, direct).tolist(),
    }


def table(results):
    yield "\n| accuracy | constant answer | direct | after another task | difference, over seeds | over examples |"
    yield "|---|---|---|---|---|---|"
    for target, figures in results.items():
        cells = [f"{figures['constant answer']:.3f}", *(spread(figures[kind], 3) for kind in KINDS)]
        cells += [figures["difference"], "{:+.3f} to {:+.3f}".format(*figures["interval over examples"])]
        yield f"| {target}, {figures['examples']} examples; after {figures['after']} | {' | '.join(cells)} |"
    yield "\n| accuracy of the task between | constant answer | runs |\n|---|---|---|"
    for figures in results.values():
        middle, scores = figures["after"], figures["scores of the middle task"]
        yield f"| {middle} | {figures['its constant answer']:.3f} | {spread(scores, 3)} |"


if __name__ == "__main__":
    flags.DEFINE_string("output_dir", "runs/stages", "Where runs and results go.")
    flags.DEFINE_string("data_dir", None, "Folder with MRPC, RTE, dream and codah.", required=True)
    flags.DEFINE_string("init_checkpoint", None, "A BERT in any layout that convert reads.", required=True)
    flags.DEFINE_list("targets", list(TARGETS), "Target tasks.")
    flags.DEFINE_integer("num_seeds", 5, "Runs of each kind.", lower_bound=1)
    define_finetuning()
    names = ("targets", "num_seeds", "precision", "learning_rate", "pooling")
    run_with_flags(main, "data_dir", "init_checkpoint", *names)

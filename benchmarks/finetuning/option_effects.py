"""Measures what each option of transfer changes, with five seeds and an interval of the difference.

python -m benchmarks.finetuning.option_effects --encoder=MODEL --data_dir=TASKS --directory=runs/options
python -m benchmarks.finetuning.option_effects --encoder=MODEL --data_dir=TASKS --directory=runs/options \\
    --rows=none,pooling_mean,consistency

A row differs from the row that it is compared with in one option, and in settings that this option needs. Both rows
have the same seeds, precision and test examples. Each run has one evaluation at its end, which chooses nothing. The
95 % interval of the difference comes from 1,000 resamples of seeds and of examples. A row takes an estimated 12
minutes on two cores with AVX2. A row that was stopped continues.
"""

import os

import numpy as np
from absl import flags

from benchmarks.common.resumable import results_of
from benchmarks.finetuning.finetune_rows import OPTIONS
from benchmarks.finetuning.paired_difference import paired_difference
from benchmarks.finetuning.row_runs import given_flags, measures, run_row
from keras_bert_app.cli.common import app
from keras_bert_app.errors import UserError, nearest

flags.DEFINE_string("encoder", "", "The pre-trained model, in any layout that convert reads.")
flags.DEFINE_string("data_dir", "", "Folder of the tasks, as for finetune_table.")
_PRECISION = flags.DEFINE_string("precision", "float32", "Compute type of all rows.")
_DIRECTORY = flags.DEFINE_string("directory", "runs/options", "Where the runs go.")
_ROWS = flags.DEFINE_list(
    "rows", list(OPTIONS), "Rows to run. If a row is compared with another row, name that other row first."
)


def main(arguments):
    del arguments
    encoder, data_dir = app.required("encoder", "data_dir")
    for number, row in enumerate(_ROWS.value):
        if row not in OPTIONS:
            raise UserError(f"--rows: {row!r} is not known: {nearest(row, list(OPTIONS))}")
        if (other := OPTIONS[row][1]) and other not in _ROWS.value[:number]:
            raise UserError(f"--rows: {row} is compared with {other}; name {other} before it")
    given = {
        row: given_flags(OPTIONS[row][0], encoder, data_dir, _PRECISION.value, _DIRECTORY.value) for row in _ROWS.value
    }
    done = results_of(
        _ROWS.value,
        lambda row: run_row(os.path.join(_DIRECTORY.value, row), given[row]),
        os.path.join(_DIRECTORY.value, "table.json"),
        given.get,
        shown=lambda figures: f"{figures['mean']:.4f} +- {figures['standard_deviation']:.4f}",
    )
    effects = results_of(
        [row for row in _ROWS.value if OPTIONS[row][1]],
        lambda row: _effect(row, OPTIONS[row][1], given[row]["test_file"]),
        os.path.join(_DIRECTORY.value, "effects.json"),
        lambda row: {"row": given[row], "compared_with": given[OPTIONS[row][1]]},
    )
    print("\n" + "\n".join(table(done, effects)))


def _effect(row, other, test_file):
    """The difference of two rows in the reported metric, with its interval."""
    ours, sources = measures(os.path.join(_DIRECTORY.value, row), test_file)
    theirs, _ = measures(os.path.join(_DIRECTORY.value, other), test_file)
    return paired_difference(ours, theirs, sources)


def table(done: dict, effects: dict):
    """Yields a table in Markdown, a line for each row.

    Args:
        done: dict. Row -> results over its seeds.
        effects: dict. Row -> result of paired_difference.
    """
    names = ("row", "metric", "mean", "compared with", "difference", "95 % interval", "excludes 0", "minutes a seed")
    yield f"| {' | '.join(names)} |"
    yield "|---" * len(names) + "|"
    for row, figures in done.items():
        minutes = np.mean([run["train_seconds"] for run in figures["runs"]]) / 60
        compared = "| | | |"
        if row in effects:
            low, high = effects[row]["interval"]
            excludes_zero = "yes" if low > 0 or high < 0 else "no"
            compared = f"| {effects[row]['difference']:+.4f} | {low:+.4f} to {high:+.4f} | {excludes_zero} |"
        yield (
            f"| {row} | {figures['metric']} | {figures['mean']:.4f} +- {figures['standard_deviation']:.4f} "
            f"| {OPTIONS[row][1] or ''} {compared} {minutes:.1f} |"
        )


if __name__ == "__main__":
    app.run(main, __doc__)

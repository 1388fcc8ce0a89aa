"""Fine-tunes on public tasks. Each row is one finetune command with its reported scores and its baseline.

python -m benchmarks.finetuning.finetune_table --encoder=MODEL --data_dir=TASKS --directory=runs/finetune
python -m benchmarks.finetuning.finetune_table --encoder=MODEL --data_dir=TASKS --directory=runs/finetune \\
    --rows=mrpc,conll2003

A row that was stopped continues. A finished row does not run again, and the table shows its results. If a finished row
had other flags, the benchmark stops with an error. TASKS has the folders glue, conll2003, scibert, squad, codah, dream,
chinese, and the extracted reuters21578 and 20newsgroups-bydate, in their official layouts. DIRECTORY/table.json has all
results. All rows take an estimated 7 hours on two cores with AVX2.
"""

import os
import statistics

from absl import flags

from benchmarks.common.resumable import results_of
from benchmarks.finetuning.finetune_rows import ROWS
from benchmarks.finetuning.row_runs import given_flags, reporting_runs, run_row, summary
from keras_bert_app.cli.common import app
from keras_bert_app.errors import UserError, nearest

flags.DEFINE_string("encoder", "", "The pre-trained model, in any layout that convert reads.")
_OTHERS = {
    name: flags.DEFINE_string(f"{name}_encoder", "", f"The model for the rows whose names begin with {rows}.")
    for name, rows in (("own", "own"), ("chinese", "chnsenticorp"))
}
_DATA = flags.DEFINE_string("data_dir", "", "Folder of the tasks.")
_PRECISION = flags.DEFINE_string("precision", "float32", "Compute type of all rows.")
_DIRECTORY = flags.DEFINE_string("directory", "runs/finetune", "Where the runs go.")
_ROWS = flags.DEFINE_list("rows", [row for row in ROWS if "encoder" not in ROWS[row]], "Rows to run, in this order.")


def main(arguments):
    del arguments
    encoder, data_dir = app.required("encoder", "data_dir")
    for row in _ROWS.value:
        if row not in ROWS:
            raise UserError(f"--rows: {row!r} is not known: {nearest(row, list(ROWS))}")
        if (other := ROWS[row].get("encoder")) and not _OTHERS[other].value:
            raise UserError(
                f"--{other}_encoder is missing; the row {row} starts from that model; give the model's directory"
            )
    encoders = {None: encoder, **{name: flag.value for name, flag in _OTHERS.items()}}
    given = {
        row: given_flags(ROWS[row], encoders[ROWS[row].get("encoder")], data_dir, _PRECISION.value)
        for row in _ROWS.value
    }
    done = results_of(
        _ROWS.value,
        lambda row: run_row(os.path.join(_DIRECTORY.value, row), given[row]),
        os.path.join(_DIRECTORY.value, "table.json"),
        given.get,
        shown=lambda figures: next(iter(table({"": figures}, with_head=False))),
    )
    print("\n" + "\n".join(table(done)))


def table(done: dict, with_head: bool = True):
    """Yields a table in Markdown, a line for each row. If a row has several seeds, all metrics are means.

    Args:
        done: dict. Row -> results of its run.
        with_head: whether the first two lines are the head.
    """
    if with_head:
        yield "| row | metric | reported | 95 % interval | baseline | seeds | evaluations | examples | minutes a seed |"
        yield "|---|---|---|---|---|---|---|---|---|"
    for row, figures in done.items():
        runs, texts, num_runs = reporting_runs(figures), summary(figures), len(figures.get("runs", [figures]))
        yield (
            f"| {row} | {figures['metric']} | {texts['score']}{_others(runs)} "
            f"| {texts['interval']} | {texts['baseline']} "
            f"| {len(runs)}{f' of {num_runs}' * (len(runs) < num_runs)} "
            f"| {runs[0]['num_evaluations']} | {runs[0]['reported']['examples']:,} | {texts['minutes']} |"
        )


def _others(runs):
    """Text with the means of all metrics but the first one, and of further dev splits; "" if there are none."""
    metric = runs[0]["metric"]
    means = {
        name: statistics.mean(run["reported"]["metrics"][name] for run in runs)
        for name in runs[0]["reported"]["metrics"]
        if name != metric
    }
    for split, scores in runs[0].items():
        if split.startswith("dev_") and isinstance(scores, dict):
            means |= {
                f"{split}: {name}": statistics.mean(run[split][name] for run in runs)
                for name in scores
                if name.startswith(metric)
            }
    return f" ({', '.join(f'{name} {value:.4f}' for name, value in means.items())})" if means else ""


if __name__ == "__main__":
    app.run(main, __doc__)

"""Compares context vectors of a translation run with static embeddings (McCann et al. 2017, CoVe).

python -m benchmarks.text_to_text.context_vectors --translation=RUN --data_dir=TASKS --directory=runs/context_vectors
python -m benchmarks.text_to_text.context_vectors --translation=RUN --data_dir=TASKS --directory=DIR \\
    --rows=sst-2:static,sst-2:context --seeds=5

RUN is a translation run with --encoder_layers=0 and --bilstm_units, best with English as its source. TASKS has the
folders glue and conll2003 in their official layouts. A row is TASK:VECTORS:

- static: the embeddings of RUN alone;
- context: each embedding beside the context vector of RUN;
- untrained_lstm: the same, but the LSTM that makes the context vectors has random weights;
- untrained: embeddings and LSTM have random weights.

All vectors are frozen. A BiLSTM of the same size reads them in all rows, so the rows of a task differ only in the
vectors. The other rows of a task are compared with static, with the same seeds and test examples. The 95 % interval of
the difference comes from 1,000 resamples of seeds and of examples. A row that was stopped continues.
DIRECTORY/table.json and DIRECTORY/differences.json have all results.
"""

import os

from absl import flags

from benchmarks.common.resumable import results_of
from benchmarks.finetuning.paired_difference import paired_difference
from benchmarks.finetuning.row_runs import given_flags, measures, run_row, summary
from keras_bert_app.cli.common import app
from keras_bert_app.errors import UserError, nearest

_SHARED = {"freeze_layers": -1, "bilstm_units": 128, "learning_rate": 1e-3, "num_train_epochs": 3.0}
# The test labels of SST-2 are not public, so its dev sentences are the test set. A part of train chooses the weights.
_TASKS = {
    "sst-2": {
        **_SHARED,
        "task": "sst-2",
        "data_dir": "glue/SST-2/train.tsv",
        "dev_fraction": 0.01,
        "test_file": "glue/SST-2/dev.tsv",
        "max_seq_length": 64,
        "pooling": "max",
    },
    "conll2003": {
        **_SHARED,
        "task": "ner",
        "data_dir": "conll2003",
        "test_file": "conll2003/test.txt",
        "max_eval_examples": 1000,
        "max_seq_length": 64,  # as many positions as the runs of multi30k have
    },
}
_STATIC = "static"
_VECTORS = {
    _STATIC: {"context_vectors": "none"},
    "context": {},
    "untrained_lstm": {"context_vectors": "random"},
    "untrained": {"random_init": True},
}
ROWS = {
    f"{task}:{vectors}": {**flags_of_task, **flags_of_vectors}
    for task, flags_of_task in _TASKS.items()
    for vectors, flags_of_vectors in _VECTORS.items()
}
flags.DEFINE_string("translation", "", "The translation run.")
flags.DEFINE_string("data_dir", "", "Folder of the tasks.")
_DIRECTORY = flags.DEFINE_string("directory", "runs/context_vectors", "Where the runs go.")
_PRECISION = flags.DEFINE_string("precision", "float32", "Compute type of all rows.")
_SEEDS = flags.DEFINE_integer("seeds", 3, "Seeds of each row.", lower_bound=1)
_EXAMPLES = flags.DEFINE_integer("max_train_examples", 8000, "Most training examples of a row; 0: all.", lower_bound=0)
_ROWS = flags.DEFINE_list("rows", list(ROWS), "Rows to run. Name the row static of a task before its other rows.")


def main(arguments):
    del arguments
    translation, data_dir = app.required("translation", "data_dir")
    check_rows(_ROWS.value)
    limits = {"num_seeds": _SEEDS.value, "max_train_examples": _EXAMPLES.value}
    given = {row: given_flags({**ROWS[row], **limits}, translation, data_dir, _PRECISION.value) for row in _ROWS.value}
    done = results_of(
        _ROWS.value,
        lambda row: run_row(_workdir(row), given[row]),
        os.path.join(_DIRECTORY.value, "table.json"),
        given.get,
        shown=lambda figures: summary(figures)["score"],
    )
    differences = results_of(
        [row for row in _ROWS.value if row != _static_row(row)],
        lambda row: _difference(row, given[row]["test_file"]),
        os.path.join(_DIRECTORY.value, "differences.json"),
        lambda row: {"row": given[row], "compared_with": given[_static_row(row)]},
    )
    print("\n" + "\n".join(table(done, differences)))


def check_rows(rows: list[str]) -> None:
    """Raises UserError if a row does not exist, or comes before the row that it is compared with.

    Args:
        rows: names of the rows, in their order.
    """
    for number, row in enumerate(rows):
        if row not in ROWS:
            raise UserError(f"--rows: {row!r} is not known: {nearest(row, list(ROWS))}")
        if _static_row(row) not in rows[: number + 1]:
            raise UserError(f"--rows: {row} is compared with {_static_row(row)}; name {_static_row(row)} before it")


def _static_row(row):
    return f"{row.partition(':')[0]}:{_STATIC}"


def _workdir(row):
    return os.path.join(_DIRECTORY.value, row.replace(":", "_"))


def _difference(row, test_file):
    """The difference of a row and the row static of its task in the reported metric, with its interval."""
    ours, sources = measures(_workdir(row), test_file)
    theirs, _ = measures(_workdir(_static_row(row)), test_file)
    return paired_difference(ours, theirs, sources)


def table(done: dict, differences: dict):
    """Yields a table in Markdown, a line for each row.

    Args:
        done: dict. Row -> results of its run.
        differences: dict. Row -> result of paired_difference with the row static.
    """
    interval = "95 % interval"
    names = ("row", "metric", "reported", interval, "baseline", "difference to static", interval, "minutes a seed")
    yield f"| {' | '.join(names)} |"
    yield "|---" * len(names) + "|"
    for row, figures in done.items():
        texts, compared = summary(figures), " | "
        if row in differences:
            low, high = differences[row]["interval"]
            compared = f"{differences[row]['difference']:+.4f} | {low:+.4f} to {high:+.4f}"
        yield (
            f"| {row} | {figures['metric']} | {texts['score']} | {texts['interval']} | {texts['baseline']} "
            f"| {compared} | {texts['minutes']} |"
        )


if __name__ == "__main__":
    app.run(main, __doc__)

"""The flags that `evaluate` and `predict` share. They override options of the run."""

import dataclasses
import os
from collections.abc import Callable

from absl import flags

from keras_bert_app.cli.common import config_flags, written_places
from keras_bert_app.config.finetuning_config import FinetuningConfig
from pipelines import storage

flags.disclaim_key_flags()  # --help then lists them under the command that calls `define`

_NAMES = (
    "max_seq_length",
    "max_windows",
    "doc_stride",
    "max_query_length",
    "max_answer_length",
    "n_best_size",
    "null_score_diff_threshold",
    "max_target_length",
    "num_beams",
    "length_penalty",
    "temperature",
    "top_k",
    "top_p",
    "seed",
    "global_batch_size",
    "precision",
    "strategy",
)
# Names of answer files without their endings, and the files that the servers of tasks expect (Task.answer_files).
_ANSWERS = ("predictions", "nbest_predictions", "null_odds", "probabilities", "scores", "translations", "rewrites")
_SERVER_FILES = frozenset(
    f"{name}.tsv"
    for name in ("CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI-m", "MNLI-mm", "QNLI", "RTE", "WNLI", "AX", "SNLI")
)


def define() -> Callable[[], dict]:
    """Defines the flags.

    Returns:
        A function. It returns the values that the user set, as keyword arguments of tasks.scoring.opened.
    """
    fields = [field for field in dataclasses.fields(FinetuningConfig) if field.name in _NAMES]
    given = config_flags.define_flags(fields, default="By default the run's.")
    ensemble = flags.DEFINE_bool(
        "ensemble",
        False,
        "For a run of several seeds: answer with the mean of the seeds' logits instead of the best seed alone. "
        "Seeds that are no better than the baseline are left out.",
    )
    return lambda: {"changes": given(), "together": ensemble.value}


def check_new_answers(output_dir: str) -> None:
    """Refuses to replace answers in a directory, unless the user gave --overwrite.

    Args:
        output_dir: str. The value of --output_dir.

    Raises:
        UserError: the directory has a file of answers already.
    """
    names = [
        name
        for name in storage.list_directory(output_dir)
        if name.partition(".")[0] in _ANSWERS or name in _SERVER_FILES
    ]
    written_places.check_new([os.path.join(output_dir, name) for name in names], "output_dir")

"""The flags that `evaluate` and `predict` share. They replace options of the run when it answers."""

import dataclasses
from collections.abc import Callable

from absl import flags

from keras_bert_app.cli.common import config_flags
from keras_bert_app.config.finetuning_config import FinetuningConfig

flags.disclaim_key_flags()  # --help then shows them as flags of the command that calls define

_NAMES = (
    "max_seq_length",
    "max_windows",
    "doc_stride",
    "max_query_length",
    "max_answer_length",
    "n_best_size",
    "null_score_diff_threshold",
    "global_batch_size",
    "precision",
    "strategy",
)


def define() -> Callable[[], dict]:
    """Defines the flags.

    Returns:
        A function that returns the values that the user set, as keyword arguments of tasks.scoring.opened.
    """
    fields = [field for field in dataclasses.fields(FinetuningConfig) if field.name in _NAMES]
    given = config_flags.define_flags(fields, default="By default the run's.")
    ensemble = flags.DEFINE_bool(
        "ensemble",
        False,
        "For runs of several seeds: answer by the mean of their logits, not with the best seed alone; "
        "those that are no better than the baseline are left out.",
    )
    return lambda: {"changes": given(), "together": ensemble.value}

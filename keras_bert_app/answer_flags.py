"""What a fine-tuned run may answer with in place of what it was trained with: the flags that `evaluate` and `predict` share."""

import dataclasses

from absl import flags

from keras_bert_app import config_flags
from keras_bert_app.finetuning_config import FinetuningConfig

flags.disclaim_key_flags()  # they are the command's own

_NAMES = ("max_seq_length", "max_windows", "doc_stride", "max_query_length", "max_answer_length", "n_best_size",
          "null_score_diff_threshold", "global_batch_size", "precision", "strategy")


def define():
    """Defines them; returns a function that gives, as a dict, those that the user set."""
    fields = [field for field in dataclasses.fields(FinetuningConfig) if field.name in _NAMES]
    return config_flags.define_flags(fields, default="By default the run's.")

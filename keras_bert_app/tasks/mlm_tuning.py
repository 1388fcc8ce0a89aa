"""Masked LM on a task's own texts before the task itself (Howard and Ruder 2018, ULMFiT, section 3.2)."""

import dataclasses
import hashlib
import json
import os

import numpy as np
import tensorflow as tf

from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.errors import UserError
from keras_bert_app.files import read_json
from keras_bert_app.interop import load
from keras_bert_app.runs import work_directory
from keras_bert_app.tasks import registry, results
from keras_bert_app.training import pretraining_start, strategies

# Texts that stand together in a document: rows of masked LM are filled from one document.
_TEXTS_A_DOCUMENT = 50
# Fields of the run that the masked LM is tuned with too: those that decide its weights, and those that do not.
_DECISIVE = (
    "global_batch_size",
    "max_seq_length",
    "learning_rate",
    "learning_rate_schedule",
    "decay_power",
    "decay_share",
    "optimizer",
    "bias_correction",
    "layer_decay",
    "weight_decay_rate",
    "not_decayed",
    "adam_beta_1",
    "adam_beta_2",
    "adam_epsilon",
    "clip_norm",
)
_OTHERS = ("gradient_accumulation_steps", "precision", "seed", "jit_compile", "log_steps", "on_nonfinite")


def tuned(directory, run, model_config, vocabulary_bytes, initial, strategy, stream=None):
    """(Weights, lines) after some steps of masked LM on the training texts; a tuning that is done is not done again.

    What the tuning does not train, such as the pooler, stays as it was.

    Args:
        directory: where the tuning lives: texts.txt, made_from.json, and run/, a work directory of pretrain. run:
            FinetuningConfig. initial: (Weights, lines) to start from, or None for random ones. strategy: tf.distribute.Strategy.

    Raises:
        UserError: the tuning that lives there was made from something else.
    """
    workdir = os.path.join(directory, "run")
    task = registry.find(run.task)
    texts = _documents(task.family.texts(task.read_split(run.data_dir, "train", run, most=run.max_train_examples)))
    _keep_what_it_is_made_from(
        directory, _made_from(run, model_config, vocabulary_bytes, initial, texts), texts, strategy
    )
    pretraining = PretrainingConfig(
        input_files=(os.path.abspath(os.path.join(directory, "texts.txt")),),
        input_format="sentences",
        sentence_objective="none",
        num_train_steps=run.mlm_tuning_steps,
        save_checkpoints_steps=run.mlm_tuning_steps,
        eval_steps=run.mlm_tuning_steps,
        allow_missing=("masked_lm",),
        init_checkpoint=run.init_checkpoint if initial else "",
        **{name: getattr(run, name) for name in (*_DECISIVE, *_OTHERS)},
    ).resolved()
    if not work_directory.is_started(workdir) or not _is_done(workdir, run.mlm_tuning_steps):
        pretraining_start.launch(workdir, model_config, pretraining, vocabulary_bytes, initial, strategy, stream)
    strategies.wait_for_all(strategy)  # until the chief has written the last checkpoint
    weights, lines = load.load_weights(workdir, allow_missing=("pooler", "masked_lm", "next_sentence"))
    if initial:
        before, earlier_lines = initial
        weights = dataclasses.replace(before, tensors={**before.tensors, **weights.tensors})
        lines = [*earlier_lines, f"  tuned by {run.mlm_tuning_steps:,} steps of masked LM in {workdir}"]
    return weights, lines


def _is_done(workdir, num_steps):
    return tf.io.gfile.exists(os.path.join(workdir, "checkpoints", f"step-{num_steps:08d}"))


def _made_from(run, model_config, vocabulary_bytes, initial, texts):
    """dict of what decides the tuned weights -> its value, or sha256 of it."""
    weights = hashlib.sha256(json.dumps(model_config.to_dict(), sort_keys=True).encode())
    for path, tensor in sorted(initial[0].tensors.items()) if initial else ():
        weights.update(path.encode())
        weights.update(np.ascontiguousarray(tensor))
    return {
        "training texts": hashlib.sha256(texts.encode()).hexdigest(),
        "vocabulary": hashlib.sha256(vocabulary_bytes).hexdigest(),
        "initial weights": weights.hexdigest(),
        "mlm_tuning_steps": run.mlm_tuning_steps,
        **{name: getattr(run, name) for name in _DECISIVE},
    }


def _keep_what_it_is_made_from(directory, made_from, texts, strategy):
    """Writes texts.txt and made_from.json, or raises UserError where a tuning of something else was begun."""
    path = os.path.join(directory, "made_from.json")
    if work_directory.is_started(os.path.join(directory, "run")):
        before = read_json(path) if tf.io.gfile.exists(path) else made_from  # none in directories of earlier versions
        if other := [name for name, value in made_from.items() if before.get(name) != value]:
            raise UserError(
                f"{directory}: the masked LM there was tuned with other {', '.join(other)}; give another "
                "--workdir, or delete that directory to tune anew"
            )
    elif strategies.is_chief(strategy):
        tf.io.gfile.makedirs(directory)
        with tf.io.gfile.GFile(os.path.join(directory, "texts.txt"), "w") as file:
            file.write(texts)
        results.write_json(path, made_from)


def _documents(texts):
    """The texts a line each, an empty line after some of them."""
    lines = []
    for number, text in enumerate(texts):
        if number and number % _TEXTS_A_DOCUMENT == 0:
            lines.append("")
        lines.append(" ".join(text.split()))
    return "".join(f"{line}\n" for line in lines)

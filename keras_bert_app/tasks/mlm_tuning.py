"""The language model is tuned on a task's texts before the task (Howard and Ruder 2018, ULMFiT, section 3.2).

A BERT learns masked LM, and a GPT predicts the next piece.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable
from typing import TextIO

import numpy as np
import tensorflow as tf

from keras_bert_app.config.bert_config import PARTS, BertConfig
from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.errors import UserError
from keras_bert_app.files import read_json
from keras_bert_app.interop import load
from keras_bert_app.interop.weights import Weights
from keras_bert_app.runs.work_directory import ExistingRun
from keras_bert_app.tasks import registry, results
from keras_bert_app.tasks.labelled_data import drawn_examples
from keras_bert_app.training import pretraining_start, strategies
from pipelines import storage
from pipelines.wordpiece.vocabulary_checks import split_symbols

# Texts in one document. All texts in a row of masked LM come from one document.
_TEXTS_A_DOCUMENT = 50
_MADE_FROM = "made_from.json"
# Fields that the tuning takes from the run. If a field of _DECISIVE has changed, the run refuses an earlier tuning.
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


def tuned(
    directory: str,
    run: FinetuningConfig,
    model_config: BertConfig,
    vocabulary: bytes,
    initial: tuple[Weights, list[str]] | None,
    strategy: tf.distribute.Strategy,
    stream: TextIO | None = None,
) -> tuple[Weights, list[str]]:
    """Tunes masked LM on the training texts, or loads the weights of a finished tuning.

    The parts that the tuning does not train, such as the pooler, keep their weights.

    Args:
        directory: the directory of the tuning. It has texts.txt, made_from.json and run/, a work directory of pretrain.
        run: FinetuningConfig.
        model_config: BertConfig.
        vocabulary: content of the vocabulary file.
        initial: (Weights, lines) to start from, or None for random weights.
        strategy: tf.distribute.Strategy.
        stream: file for progress lines; standard output by default.

    Returns:
        (Weights, log lines about them).

    Raises:
        UserError: the directory holds a tuning with other texts, other initial weights or other options.
    """
    workdir = os.path.join(directory, "run")
    existing = ExistingRun.read(workdir)
    task = registry.find(run.task).bound(run)
    examples = drawn_examples(task.read_split(run.data_dir, "train", task.settled(run)), task, run)
    texts = documents_of(task.family.texts(examples), model_config)
    made_from = _made_from(run, model_config, vocabulary, initial, texts)
    if existing.is_started:
        _check_made_from(directory, made_from)
    elif strategies.is_chief(strategy):
        storage.make_directories(directory)
        storage.write_whole(os.path.join(directory, "texts.txt"), texts)
        results.write_json(os.path.join(directory, _MADE_FROM), made_from)
    pretraining = _pretraining(directory, run, model_config, initial)
    if f"step-{run.mlm_tuning_steps:08d}" not in map(os.path.basename, existing.checkpoints):
        pretraining_start.launch(workdir, model_config, pretraining, vocabulary, initial, strategy, stream, existing)
    strategies.wait_for_all(strategy)  # the chief must first write the last checkpoint
    weights, lines = load.load_weights(workdir, allow_missing=PARTS[1:])
    if initial:
        before, earlier_lines = initial
        weights = dataclasses.replace(before, tensors={**before.tensors, **weights.tensors})
        lines = [
            *earlier_lines,
            f"  tuned by {run.mlm_tuning_steps:,} steps of {pretraining.language_model} LM in {workdir}",
        ]
    return weights, lines


def _pretraining(directory, run, model_config, initial):
    """The PretrainingConfig of the tuning: masked LM for a BERT, the next piece for a GPT."""
    return PretrainingConfig(
        input_files=(os.path.abspath(os.path.join(directory, "texts.txt")),),
        input_format="symbols" if model_config.tokenizer == "symbols" else "sentences",
        language_model=model_config.language_model,
        sentence_objective="none",
        num_train_steps=run.mlm_tuning_steps,
        save_checkpoints_steps=run.mlm_tuning_steps,
        eval_steps=run.mlm_tuning_steps,
        allow_missing=("masked_lm",),
        init_checkpoint=run.init_checkpoint if initial else "",
        **{name: getattr(run, name) for name in (*_DECISIVE, *_OTHERS)},
    ).resolved()


def _made_from(run, model_config, vocabulary, initial, texts):
    """dict name -> value or sha256 of each input and option that decides the tuned weights."""
    weights = hashlib.sha256(json.dumps(model_config.to_dict(), sort_keys=True).encode())
    for path, tensor in sorted(initial[0].tensors.items()) if initial else ():
        weights.update(path.encode())
        weights.update(np.ascontiguousarray(tensor))
    return {
        "training texts": hashlib.sha256(texts.encode()).hexdigest(),
        "vocabulary": hashlib.sha256(vocabulary).hexdigest(),
        "initial weights": weights.hexdigest(),
        "mlm_tuning_steps": run.mlm_tuning_steps,
        **{name: getattr(run, name) for name in _DECISIVE},
    }


def _check_made_from(directory, made_from):
    """Raises UserError if the tuning in a directory has other texts, initial weights or options."""
    before = read_json(os.path.join(directory, _MADE_FROM))
    if other := [name for name, value in made_from.items() if before.get(name) != value]:
        raise UserError(
            f"{directory}: the language model there was tuned with other {', '.join(other)}; give another "
            "--workdir, or delete that directory to tune again"
        )


def documents_of(texts: Iterable[str], config: BertConfig) -> str:
    """Writes the texts of a task as text for pre-training.

    Each text is a line, with an empty line after every _TEXTS_A_DOCUMENT texts. If positions count lines, each text is
    a document and keeps its lines.

    Args:
        texts: iterable of str.
        config: BertConfig of the model.
    """
    split = split_symbols if config.tokenizer == "symbols" else str.split
    lines = []
    if config.positions == "lines":
        documents = ("\n".join(line for line in map(str.strip, text.split("\n")) if line) for text in texts)
        return "".join(f"{document}\n\n" for document in documents)
    for number, text in enumerate(texts):
        if number and number % _TEXTS_A_DOCUMENT == 0:
            lines.append("")
        lines.append(" ".join(split(text)))
    return "".join(f"{line}\n" for line in lines)

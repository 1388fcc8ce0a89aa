"""Starts a pre-training: prepares devices, weights, corpora and the work directory, then trains."""

import contextlib
import dataclasses
import os
import time
from typing import TextIO

import tensorflow as tf

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.config.weight_shapes import shapes
from keras_bert_app.errors import UserError
from keras_bert_app.interop.weights import Weights
from keras_bert_app.runs import lock, work_directory
from keras_bert_app.runs.shared_tokenizer import run_tokenizer
from keras_bert_app.runs.work_directory import ExistingRun
from keras_bert_app.training import (
    initialization,
    pretraining_corpora,
    pretraining_data,
    pretraining_heldout,
    strategies,
    token_sources,
    vocabulary_fit,
)
from keras_bert_app.training.pretrain import pretrain
from keras_bert_app.training.pretraining_corpora import PretrainingCorpora
from keras_bert_app.training.start import Start
from pipelines import storage
from pipelines.corpus.manifest import load_manifest
from pipelines.wordpiece.vocabulary import parse_vocabulary

_WAIT_SECONDS = 6 * 3600


def launch(
    workdir: str,
    model_config: BertConfig,
    run: PretrainingConfig,
    vocabulary: bytes | None = None,
    initial: tuple[Weights, list[str]] | None = None,
    strategy: tf.distribute.Strategy | None = None,
    stream: TextIO | None = None,
    existing: ExistingRun | None = None,
    flags_for_time: str = "",
) -> dict[str, float]:
    """Starts the run of a new work directory, or goes on with the run of an old one.

    The function writes config.json only after it has checked devices, text and starting weights. A refused start thus
    leaves no run behind.

    Args:
        workdir: the work directory.
        model_config: BertConfig.
        run: PretrainingConfig, resolved.
        vocabulary: content of the vocabulary file; None on resume.
        initial: (Weights, lines) of run.init_checkpoint, if the caller has loaded them already.
        strategy: tf.distribute.Strategy, or None for the one that the configuration names.
        stream: the output of the trainer's progress; standard output by default.
        existing: content of the work directory, if the caller has read it already.
        flags_for_time: the flags that a long run on a CPU advises, to train for a given time; "" for no advice.

    Returns:
        dict of the last evaluation's figures.

    Raises:
        UserError: devices, text or weights do not fit, or another run uses the directory.
        Interrupted: SIGINT or SIGTERM came, and the run is saved.
    """
    start = make_start(workdir, model_config, run, vocabulary, initial, strategy, stream, existing)
    start = dataclasses.replace(start, flags_for_time=flags_for_time)
    # Machines that train together share the directory. The chief locks it for all of them.
    with lock.locked(workdir) if start.is_chief else contextlib.nullcontext():
        start.existing.check_unchanged()
        return pretrain(_with_corpora(start))


def make_start(
    workdir: str,
    model_config: BertConfig,
    run: PretrainingConfig,
    vocabulary: bytes | None = None,
    initial: tuple[Weights, list[str]] | None = None,
    strategy: tf.distribute.Strategy | None = None,
    stream: TextIO | None = None,
    existing: ExistingRun | None = None,
) -> Start:
    """Makes the Start of a pre-training without its corpora. It writes nothing.

    The arguments and errors are those of launch.
    """
    # Machines must find each other before other code uses TensorFlow's devices.
    strategy = strategy or strategies.make_strategy(run.strategy)
    existing = existing or ExistingRun.read(workdir)
    run = strategies.resolved(run, strategy)
    pretraining_data.check_ramps(run, strategy)
    vocabulary = existing.vocabulary() if vocabulary is None else vocabulary
    source = None
    if not existing.has_begun:
        source = token_sources.source_of(run, model_config, parse_vocabulary(vocabulary)[0])
        model_config = model_config if source is None else source.config
    weights, lines = None, []
    if run.init_checkpoint and not existing.has_begun:
        weights, lines = initial or load_initial(run)
        _check_weights(weights, model_config, run, vocabulary)
    if run.lexicon_file and not existing.has_begun:
        tokenizer = run_tokenizer(vocabulary, model_config)
        pretraining_data.example_arguments(run, tokenizer, run.lexicon_file)  # refuses a lexicon that cannot be used
    start = Start(str(workdir), strategy, model_config, run, vocabulary, existing, weights, tuple(lines), None, stream)
    return dataclasses.replace(start, token_source=source)


def _with_corpora(start):
    """Adds the corpora to a Start. The chief first writes them and the configuration of the run."""
    if start.is_chief:
        manifests = pretraining_corpora.prepared_corpora(start.existing, start.run, start.model_config.channels)
        pretraining_corpora.report(manifests, start.run)
        if not start.existing.has_begun:
            pretraining_corpora.check_pairs(manifests, start.run)
            for line in vocabulary_fit.check_corpora(manifests, start.tokenizer):
                print(line, flush=True)
        pretraining_heldout.keep_apart(start.workdir, manifests)
        pretraining_corpora.keep_lexicon(start.existing, start.run)
        work_directory.write_config(start.workdir, start.model_config, start.run, start.vocabulary)
    else:
        _wait_for_chief(start.workdir, start.run)
    # Before the chief arrives here, other machines may see the files of an earlier start.
    strategies.wait_for_all(start.strategy)
    directories = pretraining_corpora.corpus_directories(start.workdir, start.run)
    if not start.is_chief:
        manifests = {directory: load_manifest(directory) for directory in directories}
    corpora = PretrainingCorpora.from_manifests(manifests)
    return dataclasses.replace(start, data=pretraining_heldout.with_heldout_apart(start.workdir, corpora))


def load_initial(run: PretrainingConfig) -> tuple[Weights, list[str]]:
    """Loads the weights of --init_checkpoint, with the parts that the run needs.

    Args:
        run: PretrainingConfig.

    Returns:
        (Weights, lines that tell the user about them).

    Raises:
        UserError: the path has no weights, or lacks a part that a model of its class has and that the run needs.
    """
    # A run from scratch needs no reader of other layouts.
    from keras_bert_app.interop.load import load_weights

    return load_weights(run.init_checkpoint, allow_missing=run.parts_not_needed(), allow_absent=True)


def _check_weights(weights, model_config, run, vocabulary):
    """Raises UserError if the weights belong to another vocabulary or another model."""
    source = weights.vocabulary
    if source is not None and source.rstrip(b"\n") != vocabulary.rstrip(b"\n"):
        raise UserError(
            f"--init_checkpoint={run.init_checkpoint}: was trained with another vocabulary than --vocab_file; "
            "leave out --vocab_file, or make a model with that vocabulary (convert --vocab_file)"
        )
    initialization.check_fits(shapes(model_config, run.trained_parts()), weights, run.init_checkpoint)


def _wait_for_chief(workdir, run):
    """Waits until the chief has written the work directory and the corpus."""
    directories = pretraining_corpora.corpus_directories(workdir, run)
    needed = [
        work_directory.path_in(workdir, "config.json"),
        *(os.path.join(directory, "manifest.json") for directory in directories),
    ]
    started = time.monotonic()
    while not all(storage.exists(path) for path in needed):
        if time.monotonic() - started > _WAIT_SECONDS:
            raise UserError(
                f"the chief has not written {' and '.join(needed)} in {_WAIT_SECONDS // 3600} hours; see what "
                "it printed, and give every machine the same --workdir on a file system that all of them see"
            )
        time.sleep(1.0)

"""The plan of a launch: the values that the runs of all seeds share, and the configuration of each run."""

import dataclasses
import os
from typing import Any, NamedTuple

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.interop.weights import Weights
from keras_bert_app.runs import work_directory
from keras_bert_app.runs.work_directory import ExistingRun
from keras_bert_app.tasks import context_lstm, initial_weights, pruned_runs, registry, vector_start
from keras_bert_app.vectors.static.word_vector_files import WordVectors
from pipelines import storage

Loaded = tuple[Weights, list[str]]  # weights, and log lines about them


class Source(NamedTuple):
    """The starting point of a fine-tuning run.

    Attributes:
        init_checkpoint: the model to start from, or None.
        takes_weights: whether the run uses the weights of init_checkpoint. If not, the run uses only the shape and
            the vocabulary of that model.
        model_config: BertConfig, if there is no init_checkpoint.
        vocabulary: content of the vocabulary file, if there is no init_checkpoint.
    """

    init_checkpoint: str | None = None
    takes_weights: bool = False
    model_config: BertConfig | None = None
    vocabulary: bytes | None = None


@dataclasses.dataclass
class Plan:
    """The values that the runs of all seeds share.

    Attributes:
        existing: dict seed -> ExistingRun.
        started: seeds whose runs continue with the configuration in their directories.
        wanted: fields that the user set.
        settings: fields that all runs share. Each run has its own seed.
        source: Source.
        num_seeds: number of runs.
        model_config: BertConfig of all runs.
        vocabulary: content of their vocabulary file.
        loaded: the weights of init_checkpoint; None until `load` reads them.
        context_units: units in each direction of the LSTM that makes context vectors; 0 for no context vectors.
        word_vectors: the vectors of --init_vectors; None until `load_vectors` reads them.
    """

    existing: dict[int, ExistingRun]
    started: tuple[int, ...]
    wanted: dict[str, Any]
    settings: dict[str, Any]
    source: Source
    num_seeds: int
    model_config: BertConfig
    vocabulary: bytes
    loaded: Loaded | None = None
    context_units: int = 0
    word_vectors: WordVectors | None = None

    def run(self, seed: int) -> FinetuningConfig:
        """The configuration of a seed's run."""
        if seed in self.started:
            return _resumed(self.existing[seed], self.wanted, seed if self.num_seeds > 1 else None, self.source)[1]
        run = FinetuningConfig(**{**self.settings, "seed": seed}).checked_against(self.model_config)
        run.check_read(() if self.started else self.wanted)
        return run

    def load(self, run: FinetuningConfig) -> Loaded:
        """The weights of --init_checkpoint. The method reads them once for all seeds."""
        if self.loaded is None:
            choice = run.context_vectors
            weights, lines, _ = initial_weights.read(run.init_checkpoint, run.encoder_layers, run.task, choice)
            self.loaded = weights, lines
        return self.loaded

    def load_vectors(self, run: FinetuningConfig) -> WordVectors | None:
        """The vectors of --init_vectors, or None. The method reads them once for all seeds."""
        if run.init_vectors and self.word_vectors is None:
            self.word_vectors = vector_start.read(run, self.model_config)
        return self.word_vectors


def make_plan(workdir: str, wanted: dict[str, Any], num_seeds: int, source: Source) -> tuple[Plan, dict[int, str]]:
    """Plans the runs of a work directory.

    Args:
        workdir: the work directory.
        wanted: dict of the fields of FinetuningConfig that the user set.
        num_seeds: number of runs.
        source: Source.

    Returns:
        (Plan, dict seed -> directory of its run).

    Raises:
        UserError: no task, no data or no model is named, or a directory holds another kind of run.
    """
    _check_as_many_seeds(workdir, num_seeds)
    if source.init_checkpoint and not source.takes_weights:
        wanted = {**wanted, "init_checkpoint": ""}
    directories = _directories(workdir, wanted, num_seeds)
    return _plan(directories, wanted, num_seeds, source), directories


def _plan(directories, wanted, num_seeds, source):
    """The Plan of the runs in directories, dict seed -> directory."""
    existing = {seed: ExistingRun.read(directory) for seed, directory in directories.items()}
    started = {seed: state for seed, state in existing.items() if state.is_started}
    for state in started.values():
        pruned_runs.check_not_pruned(state)
        state.config(FinetuningConfig)  # raises if the directory holds another kind of run
    # A complete command starts again from the beginning if the earlier start saved no checkpoint.
    if wanted.get("task") and wanted.get("data_dir") and (source.init_checkpoint or source.model_config):
        started = {seed: state for seed, state in started.items() if state.has_begun}
    common = existing, tuple(started), wanted
    if started:
        # Existing runs decide the configuration of the runs that are still to start.
        seed, state = next(iter(started.items()))
        model_config, run = _resumed(state, wanted, seed if num_seeds > 1 else None, source)
        units = state.values.get("head", {}).get("context_units", 0)
        return Plan(*common, run.to_dict(), source, num_seeds, model_config, state.vocabulary(), context_units=units)
    settings = {**_task_defaults(wanted), **wanted}
    num_layers, choice = settings.get("encoder_layers", -1), settings.get("context_vectors", "auto")
    context_lstm.check_start(choice, source.init_checkpoint, source.takes_weights)
    if source.init_checkpoint:
        weights, lines, units = initial_weights.read(source.init_checkpoint, num_layers, settings["task"], choice)
        loaded = (weights, lines) if source.takes_weights else None
        _check_token_vectors(weights.config, loaded, "--random_init")
        model_config = _with_dropout(weights.config, settings)
        return Plan(*common, settings, source, num_seeds, model_config, weights.vocabulary, loaded, units)
    if source.model_config is None:
        raise UserError(
            "--init_checkpoint is missing; give a pre-trained model, or give --config and --vocab_file to train from "
            "scratch"
        )
    model_config = _with_dropout(_with_lowest_layers(source.model_config, num_layers), settings)
    _check_token_vectors(model_config, None, "--config")
    return Plan(*common, settings, source, num_seeds, model_config, source.vocabulary)


def _with_dropout(model_config, settings):
    """The configuration with the dropout of --encoder_dropout."""
    rate = settings.get("encoder_dropout", -1.0)
    if rate < 0.0:
        return model_config
    if model_config.architecture == "lstm_lm":
        raise UserError(f"--encoder_dropout={rate}: an LSTM has dropouts of its own; leave it out")
    return model_config.replace(hidden_dropout_prob=rate, attention_probs_dropout_prob=rate)


def _check_token_vectors(model_config, loaded, flag):
    if model_config.token_vectors and loaded is None:
        raise UserError(
            f"{flag}: this model has {model_config.token_vectors} vectors from a file, which only its run has; start "
            "from the run with --init_checkpoint"
        )


def _directories(workdir, wanted, num_seeds):
    """dict seed -> directory of the run with this seed."""
    first = wanted.get("seed", FinetuningConfig.seed)
    if "seed" not in wanted and num_seeds > 1:  # existing runs keep their seeds
        first = min(map(int, _seeds_of(workdir)), default=first)
    if num_seeds == 1:
        return {first: workdir}
    return {seed: os.path.join(workdir, f"seed-{seed}") for seed in range(first, first + num_seeds)}


def _seeds_of(workdir):
    """The seeds of the runs in a directory, as text."""
    return [
        name.removeprefix("seed-")
        for name in storage.list_directory(workdir)
        if name.startswith("seed-") and name[5:].isdecimal() and work_directory.is_started(os.path.join(workdir, name))
    ]


def _check_as_many_seeds(workdir, num_seeds):
    """Raises UserError if a single run and runs of several seeds would share a directory and its results.json."""
    is_started = work_directory.is_started(workdir)
    if num_seeds > 1 and is_started:
        raise UserError(f"--num_seeds={num_seeds}: --workdir={workdir} holds a run of one seed; give another --workdir")
    if earlier_seeds := _seeds_of(workdir) if num_seeds == 1 and not is_started else ():
        raise UserError(
            f"--workdir={workdir}: holds runs of several seeds "
            f"({', '.join(f'seed-{seed}' for seed in earlier_seeds)}); give "
            "--num_seeds=2 or more to continue them, or another --workdir"
        )


def _resumed(existing, wanted, seed, source):
    """(BertConfig, FinetuningConfig) of a resumed run. seed is None for a single run."""
    model_config = source.model_config
    if model_config is not None:
        _, run = existing.config(FinetuningConfig)
        model_config = _with_lowest_layers(model_config, run.encoder_layers)
    wanted = wanted if seed is None else {**wanted, "seed": seed}
    return existing.resumed(model_config, wanted, source.vocabulary, FinetuningConfig)


def _with_lowest_layers(model_config, count):
    """A BertConfig with its lowest `count` layers; -1 for all layers.

    Raises:
        UserError: the model has fewer layers.
    """
    if count > model_config.num_hidden_layers:
        raise UserError(
            f"--encoder_layers={count}: the encoder has {model_config.num_hidden_layers}; give at most that many, or -1"
        )
    return model_config if count < 0 else model_config.replace(num_hidden_layers=count)


def _task_defaults(wanted):
    """The task's defaults, which override the general defaults.

    Raises:
        UserError: no task or no data is named.
    """
    if not wanted.get("task"):
        raise UserError("--task is missing; --list_tasks names all")
    if not wanted.get("data_dir"):
        raise UserError("--data_dir is missing; it is the directory of the task's files")
    return registry.find(wanted["task"]).defaults

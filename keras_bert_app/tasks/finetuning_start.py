"""The start of fine-tuning: one run, or one run for each of several seeds."""

import dataclasses
import os
from typing import Any, NamedTuple, TextIO

import tensorflow as tf

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import NotFinite, UserError
from keras_bert_app.interop import load, own_layout, surgery
from keras_bert_app.interop.hub import is_handle
from keras_bert_app.interop.weights import Weights
from keras_bert_app.runs import checkpoints, seeds, work_directory
from keras_bert_app.runs.shared_tokenizer import run_tokenizer
from keras_bert_app.runs.work_directory import ExistingRun
from keras_bert_app.tasks import (
    batches,
    context_lstm,
    mlm_tuning,
    pruned_runs,
    registry,
    result_lines,
    results,
    transfer,
)
from keras_bert_app.tasks.finetune import TaskData, finetune, has_ended
from keras_bert_app.tasks.labelled_data import load_data
from keras_bert_app.tasks.task import TEXT_TO_TEXT
from keras_bert_app.training import strategies, vocabulary_fit
from keras_bert_app.training.start import Start
from pipelines import storage
from pipelines.wordpiece import casing
from pipelines.wordpiece.vocabulary import checked_pieces

# --init_checkpoint may lack these parts: fine-tuning does not use the heads of pre-training, and can learn a pooler.
_NOT_NEEDED = ("pooler", "masked_lm", "next_sentence")
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


def launch(
    workdir: str,
    wanted: dict[str, Any],
    num_seeds: int = 1,
    source: Source | tuple = (),
    stream: TextIO | None = None,
) -> dict[str, Any]:
    """Starts or resumes the runs of a work directory.

    Args:
        workdir: the work directory.
        wanted: dict of the fields of FinetuningConfig that the user set. The task's defaults and then the general
            defaults give the other fields.
        num_seeds: number of runs. Several runs live in WORKDIR/seed-N.
        source: Source. If it has a configuration and a vocabulary, a resumed run must have the same.
        stream: file for progress lines; standard output by default.

    Returns:
        dict: the results of a single run, or the results over several seeds (results.over_seeds).

    Raises:
        UserError: an option, a file or the work directory does not fit.
        Interrupted: a signal came. The run is saved.
    """
    source = Source(*source)
    _check_as_many_seeds(workdir, num_seeds)
    if source.init_checkpoint and not source.takes_weights:
        wanted = {**wanted, "init_checkpoint": ""}
    directories = _directories(workdir, wanted, num_seeds)
    plan = _plan(directories, wanted, num_seeds, source)
    # All seeds share one strategy, because TensorFlow does not release devices.
    strategy = strategies.make_strategy(plan.settings.get("strategy", "auto"))
    teacher, outcomes = transfer.Teacher(strategy, stream), []
    for seed, directory in directories.items():
        run = plan.run(seed)
        existing, initial = plan.existing[seed], None
        if not existing.has_begun and run.init_checkpoint:
            initial = plan.load(run)
        try:
            start = make_start(
                directory,
                plan.model_config,
                run,
                plan.vocabulary,
                initial,
                strategy,
                stream,
                teacher,
                existing,
                _tuning_directory(workdir, directory, run),
                plan.context_units,
            )
            outcomes.append(finetune(start))
        except NotFinite as error:
            if num_seeds == 1:
                raise
            # The failure of a seed is a result, too. The other seeds can still be trained.
            print(f"seed {seed}: {error}", file=stream, flush=True)
            outcomes.append({"seed": seed, "failed": str(error)})
    return outcomes[0] if num_seeds == 1 else _over_seeds(workdir, outcomes, strategy, stream)


def make_start(
    workdir: str,
    model_config: BertConfig,
    run: FinetuningConfig,
    vocabulary: bytes,
    initial: Loaded | None = None,
    strategy: tf.distribute.Strategy | None = None,
    stream: TextIO | None = None,
    teacher: transfer.Teacher | None = None,
    existing: ExistingRun | None = None,
    tuning_directory: str = "",
    context_units: int = 0,
) -> Start:
    """Checks all options and data, and makes the Start of one fine-tuning run.

    The function writes no files, except for the tuning of masked LM in tuning_directory.

    Args:
        workdir: the work directory.
        model_config: BertConfig.
        run: FinetuningConfig.
        vocabulary: content of the vocabulary file.
        initial: (Weights, lines) of the encoder to start from, or None.
        strategy: tf.distribute.Strategy. None: the strategy that the configuration names.
        stream: file for progress lines; standard output by default.
        teacher: transfer.Teacher, which may already hold the answers that it gave for another seed. None: the
            function makes a new Teacher.
        existing: the content of the work directory. None: the function reads it.
        tuning_directory: the directory in which masked LM is first tuned on the task's texts; "" for no tuning.
        context_units: units of the LSTM that makes context vectors, or 0. A resumed run must get its own number.

    Raises:
        UserError: an option, a file or the work directory does not fit.
    """
    strategy, existing = strategy or strategies.make_strategy(run.strategy), existing or ExistingRun.read(workdir)
    given, run = run, registry.find(run.task).settled(strategies.with_precision(run, strategy))
    strategies.check_batch_size(strategy, run.global_batch_size, run.gradient_accumulation_steps)
    tokenizer = run_tokenizer(vocabulary, model_config.do_lower_case)
    data = _loaded_data(existing, run, tokenizer, model_config.type_vocab_size)
    fingerprints = {name: getattr(data, name).fingerprint() for name in ("train", "dev", "reported")}
    if existing.has_begun:
        _check_examples(existing, run, data, fingerprints)
    head = _head(existing, data, run, tokenizer, context_units, model_config.num_hidden_layers)
    run = run.resolved(batches.steps_per_epoch(data.train, run.global_batch_size))
    teachers, answers = _teachers(existing, run), None
    if teachers and not has_ended(existing, run):
        answers = transfer.kept_answers(workdir, data) if existing.has_begun else None
        if answers is None:
            answers = (teacher or transfer.Teacher(strategy, stream)).logits(data, run, teachers)
        transfer.learn_from(answers, data)
    if tuning_directory and not existing.has_begun:
        initial = mlm_tuning.tuned(tuning_directory, given, model_config, vocabulary, initial, strategy, stream)
    weights, lines = initial or (None, ())
    task_data = TaskData(data, head, fingerprints, tuple(teachers), answers)
    run = strategies.with_compilation(run, strategy)
    return Start(workdir, strategy, model_config, run, vocabulary, existing, weights, tuple(lines), task_data, stream)


def _loaded_data(existing, run, tokenizer, num_segments):
    """The Data of a run.

    A resumed run skips two checks: options without effect, and texts with many [UNK].

    Raises:
        UserError: the task has pairs, and the model has one segment.
    """
    data = load_data(run, tokenizer, () if existing.has_begun else None)
    if not existing.has_begun:
        fit = vocabulary_fit.check(data.train.token_ids, tokenizer, f"--data_dir={run.data_dir}")
        data.warnings = [*data.warnings, *fit]
    if num_segments < 2 and data.train.has_pairs:
        raise UserError(
            f"--task={run.task}: has pairs, but the model has one segment (type_vocab_size 1) and was not trained on "
            "pairs; give a model with two segments, or a task of single texts"
        )
    return data


def _head(existing, data, run, tokenizer, context_units, num_layers):
    """The Head or Decoder of a run. A resumed run keeps the units of its numbers."""
    head = data.task.family.make_head(data.task, run, data.labels, tokenizer)
    head = context_lstm.in_head(head, context_units, num_layers)
    return transfer.in_units_of(head, data, existing.values if existing.has_begun else None)


@dataclasses.dataclass
class _Plan:
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
            self.loaded = _load(run.init_checkpoint, run.encoder_layers, run.task, run.context_vectors)[:2]
        return self.loaded


def _plan(directories, wanted, num_seeds, source):
    """The _Plan of a launch.

    Raises:
        UserError: no task, no data or no model is named, or a directory holds another kind of run.
    """
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
        return _Plan(*common, run.to_dict(), source, num_seeds, model_config, state.vocabulary(), context_units=units)
    settings = {**_task_defaults(wanted), **wanted}
    num_layers, choice = settings.get("encoder_layers", -1), settings.get("context_vectors", "auto")
    context_lstm.check_start(choice, source.init_checkpoint, source.takes_weights)
    if source.init_checkpoint:
        weights, lines, units = _load(source.init_checkpoint, num_layers, settings["task"], choice)
        loaded = (weights, lines) if source.takes_weights else None
        return _Plan(*common, settings, source, num_seeds, weights.config, weights.vocabulary, loaded, units)
    if source.model_config is None:
        raise UserError(
            "--init_checkpoint is missing; give a pre-trained model, or give --config and --vocab_file to train from "
            "scratch"
        )
    model_config = _with_lowest_layers(source.model_config, num_layers)
    return _Plan(*common, settings, source, num_seeds, model_config, source.vocabulary)


def _over_seeds(workdir, outcomes, strategy, stream):
    """Writes, prints and returns the results over several seeds."""
    figures = results.over_seeds(outcomes)
    if strategies.is_chief(strategy):
        results.write_json(os.path.join(workdir, "results.json"), figures)
    for line in result_lines.seeds_summary(figures):
        print(line, file=stream, flush=True)
    return figures


def _tuning_directory(workdir, directory, run):
    """The directory for the tuning of masked LM; "" for no tuning.

    All seeds share one tuning, unless each seed draws its own training examples.
    """
    return os.path.join(directory if run.max_train_examples else workdir, "mlm_tuning") if run.mlm_tuning_steps else ""


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


def _teachers(existing, run):
    """Directories of the teaching runs. A resumed run keeps its teachers."""
    if not run.teacher:
        return []
    return existing.values["teachers"] if existing.has_begun else seeds.sound(run.teacher)


def _check_examples(existing, run, data, fingerprints):
    """Raises UserError if a resumed run would get other examples or labels."""
    names = {
        "labels": "labels",
        "train": "training examples",
        "dev": "development examples",
        "reported": "examples to report",
    }
    values = existing.values
    before = {"labels": values.get("labels"), **values.get("examples_sha256", {})}
    now = {"labels": list(data.labels), **fingerprints}
    if other := [names[name] for name in now if now[name] != before.get(name)]:
        files = f"--data_dir={run.data_dir}{' with --unlabelled_files' if run.unlabelled_files else ''}"
        raise UserError(
            f"{files}: has other {' and '.join(other)} than the run in {existing.directory} began with; give another "
            "--workdir for a new run, or use evaluate to score the finished run on these files"
        )


def _load(init_checkpoint, num_layers, task, context_vectors):
    """The weights of --init_checkpoint: (Weights, log lines, units of the LSTM that makes context vectors).

    If init_checkpoint holds runs of several seeds, the weights are those of the best seed. The function leaves out an
    output layer of another task. If no record names the task, it leaves out an output layer whose labels do not show
    the task.
    """
    directory = init_checkpoint if is_handle(init_checkpoint) else seeds.best(init_checkpoint)
    weights, lines = load.load_weights(directory, allow_missing=_NOT_NEEDED)
    units = 0
    if registry.find(task).kind != TEXT_TO_TEXT:
        weights, lines, units = context_lstm.chosen(weights, lines, context_vectors, init_checkpoint, num_layers)
    earlier = _task_of(directory)
    if (weights.task or weights.own_head) and earlier and not registry.answer_alike(earlier, task):
        lines.append(f"  left out: the output layer, of task {earlier}")
        weights = _without_output_layer(weights)
    elif not earlier:  # no record says what the head has learned
        weights = dataclasses.replace(weights, own_head=None)
        if weights.task and not transfer.says_what_it_answers(weights, registry.find(task)):
            labels = ", ".join(weights.labels[:6]) or "no labels"
            lines.append(f"  left out: the output layer, which does not say what it answers ({labels})")
            weights = _without_output_layer(weights)
    if num_layers >= 0 and num_layers != weights.config.num_hidden_layers:
        weights, line = surgery.lowest_layers(weights, num_layers)
        weights = dataclasses.replace(weights, own_head=None)  # the head may read layers that were removed
        lines.append(f"  {line}")
    if weights.vocabulary is None:
        raise UserError(
            f"--init_checkpoint={init_checkpoint}: has no vocabulary; put the vocab.txt of the model beside the "
            "weights, or convert the model with --vocab_file"
        )
    pieces = checked_pieces(weights.vocabulary, f"of {init_checkpoint}")
    casing.verify(pieces, weights.config.do_lower_case, f"of {init_checkpoint}")
    return weights, lines, units


def _without_output_layer(weights):
    kept = {path: tensor for path, tensor in weights.tensors.items() if not path.startswith("classifier/")}
    return dataclasses.replace(weights, tensors=kept, task="", labels=(), problem_type="", own_head=None)


def _task_of(directory):
    """The task that a run of this package has learned; "" for other models."""
    if is_handle(directory) or not own_layout.recognizes(directory):
        return ""
    run_directory, _ = checkpoints.find(directory)
    return ExistingRun.read(run_directory).values.get(FinetuningConfig.KEY, {}).get("task", "")

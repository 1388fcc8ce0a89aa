"""Fine-tuning: from a Start to the weights that score best on the dev examples."""

import contextlib
import dataclasses
import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

from keras_bert_app.drawing.finetuning_pictures import draw_curves
from keras_bert_app.modeling.task_models import TaskHead, make_task_model
from keras_bert_app.runs import checkpoints, lock, work_directory
from keras_bert_app.tasks import batches, lengths, mined_epochs, objectives, results, transfer, vector_start
from keras_bert_app.tasks.dev_evaluation import Scorer
from keras_bert_app.tasks.labelled_data import Data
from keras_bert_app.tasks.task import TEXT_TO_TEXT
from keras_bert_app.training import initialization, loop, reporting, strategies, tpu
from keras_bert_app.training.optimizers import choice
from keras_bert_app.training.pace import Reached
from keras_bert_app.training.start import Start
from pipelines import storage
from pipelines.plurals import counted


@dataclasses.dataclass(frozen=True)
class TaskData:
    """The labelled data of a fine-tuning run, and the values that follow from them.

    Attributes:
        data: Data. If there are teachers, the training features have their answers.
        head: Head or Decoder of the task.
        fingerprints: dict split -> sha256 of its examples.
        target_vocabulary: content of the vocabulary file of the target texts, if they have their own.
        teachers: directories of the teaching runs.
        answers: logits of the teachers, which the run stores so that a resumed run can use them. None: the run has no
            teachers, or has already ended.
        vectors: VectorStart of --init_vectors, or None.
    """

    data: Data
    head: TaskHead
    fingerprints: dict[str, str]
    target_vocabulary: bytes | None = None
    teachers: tuple[str, ...] = ()
    answers: np.ndarray | None = None
    vectors: vector_start.VectorStart | None = None

    @property
    def vector_notes(self) -> dict[str, Any]:
        """The entry of config.json and results.json about --init_vectors; {} without such a file."""
        return {vector_start.KEY: self.vectors.counts} if self.vectors else {}


def finetune(start: Start) -> dict[str, Any]:
    """Runs or resumes one fine-tuning run.

    Args:
        start: Start whose data are TaskData.

    Returns:
        dict of results, the content of WORKDIR/results.json.

    Raises:
        UserError: the work directory or the weights do not fit the run.
        Interrupted: SIGINT or SIGTERM came. The run is saved.
    """
    run, data = start.run, start.data.data
    objective = data.task.family.make_objective(data.task, run, start.data.head)
    if run.language_model_weight:
        objective = objectives.WithLanguageModel(objective, run.language_model_weight)

    # Machines that train together share the work directory. Only the chief locks it, for all machines.
    with lock.locked(start.workdir) if start.is_chief else contextlib.nullcontext(), start.strategy.scope():
        start.existing.check_unchanged()
        # 1. model and optimizer, with their first values
        model, optimizer = _make_model(start)
        state, origin = initialization.initialize(_with_fitted_weights(start, model), model, optimizer)
        _write_configuration(start)

        # 2. the reporter and the first lines of its log
        reporter = reporting.make_reporter(start, state, objective, draw_curves)
        for line in _introduction(start, model, optimizer, origin, objective):
            reporter.say(line)

        # 3. batches and dev examples
        scorer = Scorer(start.workdir, data, run, model, start.strategy, reporter, state["step"])
        reached = Reached()

        # 4. the loop
        training = loop.Training(
            start.workdir,
            run,
            start.strategy,
            model,
            optimizer,
            objective,
            start.execution,
            _training_batches(start, state, reached, scorer),
            _averaged(scorer, optimizer),
            state,
            reporter,
            ends_early=scorer.ends_early,
            has_many_lengths=run.has_many_lengths,
            batches_need_weights=bool(run.mine_negatives),
            reached=reached,
        )
        loop.train(training)
        if scorer.ends_early() and not training.has_ended:
            reporter.say(scorer.early_end())
        if run.average_checkpoints:
            scorer.evaluate_average()
        notes = start.data.vector_notes
        return results.write(start.workdir, data, run, model, scorer, start.is_chief, reporter, notes)


def _make_model(start):
    """(model, Optimizer) with their initial values; call it in the strategy's scope."""
    run, num_layers = start.run, start.model_config.num_hidden_layers
    model = make_task_model(
        start.model_config,
        start.data.head,
        seed=run.seed,
        dtype=strategies.KERAS_POLICIES[run.precision],
        encoder_has_dropout=run.freeze_layers >= 0,
        passes=2 if run.consistency_weight else 1,
        has_language_model=bool(run.language_model_weight),
        has_decoder=run.vector_loss == "tsdae",
    )
    transfer.begin_with_label_shares(model, start.data.data)
    initialization.begin_with_characters(model, start.tokenizer)
    if start.data.data.task.kind == TEXT_TO_TEXT and start.weights is None:
        initialization.begin_with_sines(model)
    if start.data.vectors and not start.existing.has_begun:
        vector_start.begin_with_rows(model, start.data.vectors)
    optimizer = choice.make_optimizer(run, transfer.trained_variables(model, run), num_layers)
    optimizer.first_steps = transfer.first_steps(optimizer.variables_by_path, run, num_layers)
    if run.average_decay:
        optimizer.keep_average(run.average_decay)
    return model, optimizer


def _with_fitted_weights(start, model):
    """The Start with weights that fit its task.

    The weights keep their output layer only if it fits the head of the run. --reinit_layers gives the highest layers
    new random values.
    """
    if start.weights is None:
        return start
    data, lines = start.data.data, list(start.weight_lines)
    weights, lines = transfer.keep_output_layer(start.weights, lines, start.data.head, data.task, data.labels)
    if start.data.vectors and not start.existing.has_begun:
        weights = vector_start.in_head(weights, start.data.vectors)
    if start.data.data.task.kind == TEXT_TO_TEXT:
        weights, lines = transfer.with_decoder(weights, lines, model, start.run)
    if start.run.reinit_layers:
        weights, lines = transfer.with_new_layers(weights, lines, model, start.run.reinit_layers)
    wanted = {variable.path: variable.shape for variable in model.weights}
    initialization.check_fits(wanted, weights, start.run.init_checkpoint)
    return dataclasses.replace(start, weights=weights, weight_lines=tuple(lines))


def _write_configuration(start):
    """Writes the configuration of the run into its work directory. Only the chief writes."""
    if not start.is_chief:
        return
    if start.existing.has_begun:
        work_directory.rewrite_run(start.existing, start.run)
        return
    task_data = start.data
    checkpoints.forget_best(start.workdir)
    if task_data.answers is not None:
        transfer.keep_answers(start.workdir, task_data.answers)
    notes = {
        **transfer.notes_for_others(task_data.data, task_data.head),
        "examples_sha256": task_data.fingerprints,
        **task_data.vector_notes,
        **({"teachers": list(task_data.teachers)} if task_data.teachers else {}),
    }
    if task_data.target_vocabulary is not None:
        notes["target_vocab_sha256"] = hashlib.sha256(task_data.target_vocabulary).hexdigest()
        storage.make_directories(start.workdir)
        storage.write_whole(work_directory.path_in(start.workdir, "target_vocab.txt"), task_data.target_vocabulary)
    work_directory.write_config(start.workdir, start.model_config, start.run, start.vocabulary, notes)


def _introduction(start, model, optimizer, origin, objective):
    """Yields the first lines of the log: the devices, the parameters, the loss, the examples and the warnings."""
    data = start.data.data
    yield strategies.describe(start.strategy, start.run)
    yield from tpu.advice(start.strategy, start.run)
    num_trained = sum(variable.shape.num_elements() for variable in optimizer.variables_by_path.values())
    yield f"{model.count_params():,} parameters, {num_trained:,} trained; {origin}"
    if start.data.vectors and not start.existing.has_begun:
        yield start.data.vectors.line(start.run.init_vectors)
    if description := getattr(objective, "description", ""):
        yield description
    for name, features, examples in (
        ("training", data.train, data.train_examples),
        ("dev", data.dev, data.dev_examples),
        (data.reported_on, data.reported, data.reported_examples),
    ):
        yield (
            f"{name}: {counted(len(examples), 'example')}, {len(features.token_ids):,} tokens, longest row "
            f"{features.row_lengths().max():,}{''.join('; ' + note for note in features.notes)}"
        )
    yield from data.warnings


def _training_batches(start, state, reached, scorer):
    """The batches of a run from its position on, with lengths for its devices and its compilation."""
    features_of = None
    if start.run.mine_negatives:
        features_of = mined_epochs.MinedEpochs(start, scorer, lambda: reached.should_stop()).features
    length_cost = lengths.cost(start.execution.mode, start.model_config, strategies.device_kind(start.strategy))
    return batches.training_batches(
        start.data.data.train,
        start.run,
        state["position"],
        length_cost,
        state["step"],
        lambda: reached.share,
        features_of,
    )


def _averaged(scorer, optimizer) -> Callable:
    """The scorer's evaluation, with the running means of the weights if the optimizer keeps them."""

    def evaluate(step, should_stop):
        with optimizer.averaged_weights():
            return scorer.evaluate(step, should_stop)

    return evaluate


def has_ended(existing: work_directory.ExistingRun, run: Any) -> bool:
    """Whether the newest checkpoint of a run is its last one.

    Args:
        existing: ExistingRun, the content of the work directory.
        run: FinetuningConfig.
    """
    if not existing.has_begun:
        return False
    manifest = checkpoints.read_manifest(existing.checkpoints[-1], verify=False)
    return run.has_ended(manifest["step"], manifest["seconds"])

"""Fine-tuning: from a configuration, labelled files and a pre-trained encoder to the weights that score best."""

import contextlib

from keras_bert_app.drawing.finetuning_pictures import draw_curves
from keras_bert_app.errors import UserError
from keras_bert_app.files import read_json
from keras_bert_app.modeling.task_model import BertTaskModel
from keras_bert_app.runs import checkpoints, lock, seeds, work_directory
from keras_bert_app.runs.shared_tokenizer import run_tokenizer
from keras_bert_app.tasks import batches, lengths, registry, results, transfer
from keras_bert_app.tasks.dev_evaluation import Scorer
from keras_bert_app.tasks.labelled_data import load_data
from keras_bert_app.training import initialization, loop, reporting, steps, strategies, tpu
from keras_bert_app.training.optimizers import choice


def finetune(workdir, model_config, run, vocabulary_bytes, initial=None, strategy=None, stream=None, teacher=None):
    """Runs or resumes one fine-tuning.

    Order of initialization: the newest checkpoint of the work directory, else `initial`, else from scratch.

    Args:
        workdir: config.json is written there once devices and examples have been found good. model_config: BertConfig.
        run: FinetuningConfig. vocabulary_bytes: of the vocabulary file.
        initial: (Weights, lines) of the encoder to start from, a function that gives them, which is called once all that was
            given has been found good, or None. strategy: tf.distribute.Strategy, or None for the
            one that the configuration names. stream: where progress goes; standard output by default.
        teacher: transfer.Teacher that may have answered for another seed; a new one by default.

    Returns:
        dict of results, as WORKDIR/results.json has it.

    Raises:
        UserError: something does not fit; Interrupted: SIGINT or SIGTERM came, the run is saved.
    """
    strategy = strategy or strategies.make_strategy(run.strategy)
    run = registry.find(run.task).settled(strategies.with_precision(run, strategy))
    strategies.check_batch_size(strategy, run.global_batch_size, run.gradient_accumulation_steps)
    chief = strategies.is_chief(strategy)
    tokenizer = run_tokenizer(vocabulary_bytes, model_config.do_lower_case)
    # What a run has begun with it may go on with.
    data = load_data(run, tokenizer, () if work_directory.has_checkpoint(workdir) else None)
    task, fingerprints = data.task, {"train": data.train.fingerprint(), "dev": data.dev.fingerprint()}
    if model_config.type_vocab_size < 2 and data.train.has_pairs:
        raise UserError(
            f"--task={run.task}: has pairs, but the model has one segment (type_vocab_size 1) and was never shown a pair; take "
            "a model with two, or a task of single texts"
        )
    if work_directory.has_checkpoint(workdir):
        _check_examples(workdir, run, data, fingerprints)
    begun = (
        read_json(work_directory.path_in(workdir, "config.json")) if work_directory.has_checkpoint(workdir) else None
    )
    head = transfer.in_units_of(task.family.make_head(task, run, data.labels), data, begun)
    run = run.resolved(batches.steps_per_epoch(data.train, run.global_batch_size))
    teachers = _teachers(workdir, run)
    if teachers and not _has_ended(workdir, run):
        answers = transfer.kept_answers(workdir, data) if work_directory.has_checkpoint(workdir) else None
        if answers is None:
            answers = (teacher or transfer.Teacher(strategy, stream)).logits(data, run, teachers)
        transfer.learn_from(answers, data)
    initial = initial() if callable(initial) else initial
    run = strategies.with_compilation(run, strategy)
    objective = task.family.make_objective(task, run, head)

    # Machines that train together share the directory; the chief's lock stands for all.
    with lock.locked(workdir) if chief else contextlib.nullcontext(), strategy.scope():
        model = BertTaskModel(
            model_config,
            head,
            seed=run.seed,
            dtype=strategies.KERAS_POLICIES[run.precision],
            encoder_has_dropout=run.freeze_layers >= 0,
            passes=2 if run.consistency_weight else 1,
        )
        transfer.begin_with_label_shares(model, data)
        optimizer = choice.make_optimizer(run, transfer.trained_variables(model, run), model_config.num_hidden_layers)
        optimizer.first_steps = transfer.first_steps(optimizer.variables_by_path, run, model_config.num_hidden_layers)
        if run.average_decay:
            optimizer.keep_average(run.average_decay)
        if initial:
            initial = transfer.of_the_same_task(*initial, head, task, data.labels)
            if run.reinit_layers:
                initial = transfer.with_new_layers(*initial, model, run.reinit_layers)
        start, origin = initialization.initialize(
            workdir, run, model, optimizer, len(steps.columns(objective)), initial
        )
        if chief and checkpoints.list_checkpoints(workdir):
            work_directory.rewrite_run(workdir, run)
        elif chief:
            checkpoints.forget_best(workdir)
            if teachers:
                transfer.keep_answers(workdir, answers)
            work_directory.write_config(
                workdir,
                model_config,
                run,
                vocabulary_bytes,
                {
                    **transfer.notes_for_others(data, head),
                    "examples_sha256": fingerprints,
                    **({"teachers": teachers} if teachers else {}),
                },
            )
        reporter = reporting.Reporter(
            workdir, start["step"], start["seconds"], run, objective, draw_curves, active=chief, stream=stream
        )
        for line in (strategies.describe(strategy, run), *tpu.advice(strategy, run)):
            reporter.say(line)
        num_trained = sum(variable.shape.num_elements() for variable in optimizer.variables_by_path.values())
        reporter.say(f"{model.count_params():,} parameters, {num_trained:,} trained; {origin}")
        for name, features, examples in (
            ("training", data.train, data.train_examples),
            ("dev", data.dev, data.dev_examples),
        ):
            reporter.say(
                f"{name}: {len(examples):,} examples, {len(features.token_ids):,} tokens, longest row "
                f"{features.row_lengths().max():,}{''.join('; ' + note for note in features.notes)}"
            )
        scorer = Scorer(workdir, data, run, model, strategy, reporter, start["step"])

        def evaluate(step, should_stop):
            with optimizer.averaged_weights():
                return scorer.evaluate(step, should_stop)

        length_cost = lengths.cost(run.jit_compile, model_config, strategies.device_kind(strategy) == "TPU")
        loop.train(
            loop.Training(
                workdir,
                run,
                strategy,
                model,
                optimizer,
                objective,
                batches.training_batches(data.train, run, start["position"], length_cost),
                evaluate,
                start,
                reporter,
                ends_early=scorer.ends_early,
                has_many_lengths=run.has_many_lengths,
            )
        )
        if scorer.ends_early() and not _has_ended(workdir, run):
            reporter.say(scorer.early_end())
        return results.write(workdir, data, run, model, scorer, chief, reporter)


def _teachers(workdir, run):
    """Directories of the runs that teach. A run that has begun goes on with those that it began with, the best seed where none are noted."""
    if not run.teacher:
        return []
    if work_directory.has_checkpoint(workdir):
        return read_json(work_directory.path_in(workdir, "config.json")).get("teachers") or [seeds.best(run.teacher)]
    return seeds.sound(run.teacher)


def _has_ended(workdir, run):
    saved = checkpoints.list_checkpoints(workdir)
    if not saved:
        return False
    manifest = checkpoints.read_manifest(saved[-1], verify=False)
    return run.has_ended(manifest["step"], manifest.get("seconds", 0.0))


def _check_examples(workdir, run, data, fingerprints):
    """Raises UserError where a run that has begun would go on with other examples or labels than it began with."""
    notes = read_json(work_directory.path_in(workdir, "config.json"))
    before = {"labels": notes.get("labels", list(data.labels)), **notes.get("examples_sha256", fingerprints)}
    names = {"labels": "labels", "train": "training examples", "dev": "development examples"}
    now = {"labels": list(data.labels), **fingerprints}
    if other := [names[name] for name in now if now[name] != before[name]]:
        files = f"--data_dir={run.data_dir}{' with --unlabelled_files' if run.unlabelled_files else ''}"
        raise UserError(
            f"{files}: has other {' and '.join(other)} than the run in {workdir} began with; give another --workdir, or score "
            "the finished run on them with evaluate"
        )

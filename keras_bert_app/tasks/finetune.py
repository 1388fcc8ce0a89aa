"""Fine-tuning: from a configuration, labelled files and a pre-trained encoder to the weights that score best."""

import contextlib
import dataclasses

from keras_bert_app.config import read_json
from keras_bert_app.drawing.finetuning import draw_curves
from keras_bert_app.errors import UserError
from keras_bert_app.modeling.task_model import BertTaskModel
from keras_bert_app.runs import checkpoints, lock
from keras_bert_app.runs import workdir as workdirs
from keras_bert_app.tasks import batches, lengths, objectives, predicting, results, scoring
from keras_bert_app.tasks.labelled_data import load_data
from keras_bert_app.training import forward, initialization, loop, optimizers, reporting, steps, tpu
from keras_bert_app.training import strategy as strategies
from pipelines.wordpiece import BertTokenizer

# Under which name other libraries know the head of a kind of task.
_FIELD_NAMES = {"classification": "sequence_classification", "regression": "sequence_classification",
                "multi_label": "sequence_classification", "tagging": "token_classification",
                "question_answering": "question_answering", "multiple_choice": "multiple_choice"}


def finetune(workdir, model_config, run, vocabulary_bytes, initial=None, strategy=None, stream=None):
    """Runs or resumes one fine-tuning.

    Order of initialization: the newest checkpoint of the work directory, else `initial`, else from scratch.

    Args:
        workdir: config.json is written there once devices and examples have been found good. model_config: BertConfig.
        run: FinetuningConfig. vocabulary_bytes: of the vocabulary file.
        initial: (Weights, lines) of the encoder to start from, a function that gives them, which is called once all that was
            given has been found good, or None. strategy: tf.distribute.Strategy, or None for the
            one that the configuration names. stream: where progress goes; standard output by default.

    Returns:
        dict of results, as WORKDIR/results.json has it.

    Raises:
        UserError: something does not fit; Interrupted: SIGINT or SIGTERM came, the run is saved.
    """
    strategy = strategy or strategies.make_strategy(run.strategy)
    run = strategies.with_precision(run, strategy)
    strategies.check_batch_size(strategy, run.global_batch_size, run.gradient_accumulation_steps)
    chief = strategies.is_chief(strategy)
    tokenizer = BertTokenizer(vocabulary_bytes, model_config.do_lower_case, verify_casing=False)
    data = load_data(run, tokenizer)
    task, fingerprints = data.task, {"train": data.train.fingerprint(), "dev": data.dev.fingerprint()}
    if workdirs.has_checkpoint(workdir):
        _check_examples(workdir, run, data, fingerprints)
    head = task.family.make_head(task, run, data.labels)
    if run.teacher:
        data.train.labels["teacher_logits"] = teacher_logits(data, run, strategy)
    initial = initial() if callable(initial) else initial
    run = run.resolved(batches.steps_per_epoch(data.train, run.global_batch_size))
    run = strategies.with_compilation(run, strategy)
    objective = task.family.make_objective(task, run)

    # Machines that train together share the directory; the chief's lock stands for all.
    with lock.locked(workdir) if chief else contextlib.nullcontext(), strategy.scope():
        model = BertTaskModel(model_config, head, seed=run.seed, dtype=strategies.KERAS_POLICIES[run.precision],
                              encoder_has_dropout=run.freeze_layers >= 0)
        optimizer = optimizers.make_optimizer(run, trained_variables(model, run), model_config.num_hidden_layers)
        optimizer.first_steps = first_steps(optimizer.variables_by_path, run, model_config.num_hidden_layers)
        if run.average_decay:
            optimizer.keep_average(run.average_decay)
        if initial:
            initial = of_the_same_task(*initial, head, task, data.labels)
        start, origin = initialization.initialize(workdir, run, model, optimizer, len(steps.columns(objective)), initial)
        if chief and not checkpoints.list_checkpoints(workdir):
            workdirs.write_config(workdir, model_config, run, vocabulary_bytes,
                                  {**notes_for_others(data, head), "examples_sha256": fingerprints})
        reporter = reporting.Reporter(workdir, start["step"], start["seconds"], run, objective, draw_curves, active=chief,
                                      stream=stream)
        for line in (strategies.describe(strategy, run), *tpu.advice(strategy, run)):
            reporter.say(line)
        num_trained = sum(variable.shape.num_elements() for variable in optimizer.variables_by_path.values())
        reporter.say(f"{model.count_params():,} parameters, {num_trained:,} trained; "
                     f"{origin}")
        for name, features, examples in (("training", data.train, data.train_examples), ("dev", data.dev, data.dev_examples)):
            reporter.say(f"{name}: {len(examples):,} examples, {len(features.token_ids):,} tokens, longest row "
                         f"{features.row_lengths().max():,}{''.join('; ' + note for note in features.notes)}")
        scorer = Scorer(workdir, data, run, model, strategy, reporter, start["step"])

        def evaluate(step, should_stop):
            with optimizer.averaged_weights():
                return scorer.evaluate(step, should_stop)

        length_cost = lengths.cost(run.jit_compile, model_config, strategies.device_kind(strategy) == "TPU")
        loop.train(loop.Training(
            workdir, run, strategy, model, optimizer, objective,
            batches.training_batches(data.train, run, start["position"], length_cost), evaluate, start, reporter,
            ends_early=scorer.ends_early, has_many_lengths=run.has_many_lengths))
        return results.write(workdir, data, run, model, scorer, chief, reporter)


def _check_examples(workdir, run, data, fingerprints):
    """Raises UserError where a run that has begun would go on with other examples or labels than it began with."""
    notes = read_json(workdirs.path_in(workdir, "config.json"))
    before = {"labels": notes.get("labels", list(data.labels)), **notes.get("examples_sha256", fingerprints)}
    names = {"labels": "labels", "train": "training examples", "dev": "development examples"}
    now = {"labels": list(data.labels), **fingerprints}
    if other := [names[name] for name in now if now[name] != before[name]]:
        raise UserError(f"--data_dir={run.data_dir}: has other {' and '.join(other)} than the run in {workdir} began with; give "
                        "another --workdir, or score the finished run on them with evaluate")


class Scorer:
    """Evaluates a model on the dev examples, keeps the best weights, and knows when to end.

    Attributes:
        history: list of (step, score by the task's first metric).
    """

    def __init__(self, workdir, data, run, model, strategy, reporter, first_step):
        self.workdir, self.data, self.run, self.model, self.reporter = workdir, data, run, model, reporter
        self.strategy, self.chief = strategy, strategies.is_chief(strategy)
        self.times = max(1, run.num_train_steps // run.eval_steps)
        compiled, self.length_cost = scoring.compilation(strategy, run, model.config, data.dev, self.times)
        self.call = forward.make_prediction_call(strategy, model, compiled)
        self.metric = data.task.metrics[0]
        # Only the chief drops the rows of steps that are taken again, and others may read before it does.
        self.history = [(row["step"], row[f"eval_{self.metric}"]) for row in results.read_metrics(workdir)
                        if f"eval_{self.metric}" in row and row["step"] <= first_step]

    def logits(self, features, should_stop=lambda: False, times=1):
        """The logits of each unit, or None when stopped. Args: times: how often they will be asked for."""
        return predicting.unit_logits(self.call, self.model, features, self.run, self.run.global_batch_size, should_stop,
                                      length_cost=self.length_cost, times=times)

    def decoded(self, examples, features, logits, run=None):
        """Predictions for examples; run: in place of the run's FinetuningConfig."""
        return self.data.task.family.decode(self.data.task, examples, features, logits, run or self.run, self.data.labels)

    def evaluate(self, step, should_stop):
        """dict of eval_* figures; the weights are kept if none scored better before."""
        data = self.data
        logits = self.logits(data.dev, should_stop, self.times)
        if logits is None:
            return {}
        found = self.decoded(data.dev_examples, data.dev, logits)
        scores = data.task.family.score(data.task, data.dev_examples, found, data.labels)
        figures = {f"eval_{name}": float(value) for name, value in scores.items()}
        earlier = [score for at, score in self.history if at < step]
        is_best = not earlier or scores[self.metric] > max(earlier)
        if is_best and self.chief:
            checkpoints.save_best(self.workdir, self.model, step, figures)
        strategies.wait_for_all(self.strategy)  # who reads the best weights next finds them written
        self.reporter.write(step, figures)
        self.reporter.say(f"step {step:,}: dev " + ", ".join(f"{name} {value:.4f}" for name, value in scores.items())
                          + (" (the best so far)" if is_best and earlier else ""))
        self.history = [(at, score) for at, score in self.history if at < step] + [(step, figures[f"eval_{self.metric}"])]
        return figures

    def best_step(self):
        """The first step whose score none has passed."""
        return max(self.history, key=lambda entry: (entry[1], -entry[0]))[0]

    def ends_early(self):
        """Whether so many evaluations have passed without a better score."""
        if not self.run.early_stopping or not self.history:
            return False
        return sum(step > self.best_step() for step, _ in self.history) >= self.run.early_stopping


def teacher_logits(data, run, strategy):
    """The teacher's logits of the training examples, float32 [U, n].

    Raises:
        UserError: it has learned another task, or other labels.
    """
    teacher = scoring.FinetunedRun(run.teacher, {"global_batch_size": run.global_batch_size}, strategy)
    if data.task.kind not in objectives.TAUGHT:
        raise UserError(f"--teacher={run.teacher}: task {data.task.name} cannot be distilled; leave it out: a teacher is for tasks "
                        f"of {', '.join(kind.replace('_', '-') for kind in objectives.TAUGHT)}")
    if teacher.task.kind != data.task.kind or teacher.labels != data.labels:
        raise UserError(f"--teacher={run.teacher}: answers {teacher.task.name} with {', '.join(teacher.labels[:6]) or 'numbers'};"
                        f" expected a run of {data.task.kind} with {', '.join(data.labels[:6]) or 'numbers'}")
    return teacher.logits(data.train_examples)


def trained_variables(model, run):
    """dict path -> tf.Variable of what a run trains: all but the embeddings and lowest layers that are frozen.

    The pooler is learned with the output layer: where the start had none it is random.
    """
    frozen = ()
    if run.freeze_layers:
        num_layers = run.freeze_layers if run.freeze_layers > 0 else model.config.num_hidden_layers
        frozen = ("encoder/embeddings/", *(f"encoder/layer_{index}/" for index in range(num_layers)))
    return {variable.path: variable.value for variable in model.trainable_variables
            if not variable.path.startswith(frozen)}


def first_steps(paths, run, num_layers):
    """dict path -> step from which on it is trained: gradual unfreezing, one layer more each so many steps."""
    if not run.gradual_unfreezing:
        return {}
    return {path: run.gradual_unfreezing * (num_layers + 1 - optimizers.depth(path, num_layers)) for path in paths}


def of_the_same_task(weights, lines, head, task, labels):
    """(Weights, lines) with the output layer, where it is this head for these labels, and else without it."""
    tensors, own = weights.tensors, weights.own_head
    if own:
        is_ours = own.labels == labels and {**own.description, "dropout": head.dropout} == dataclasses.asdict(head)
        if is_ours:
            tensors, lines = {**tensors, **own.tensors}, [line for line in lines if line != own.left_out]
        of, its_labels = "another kind" if own.labels == labels else "other labels", own.labels
    else:
        is_ours = head.is_plain and weights.task == _FIELD_NAMES[task.kind] and weights.labels == labels
        tensors = {path: tensor for path, tensor in tensors.items() if is_ours or not path.startswith("classifier/")}
        of, its_labels = weights.task, weights.labels
    if of and not is_ours:
        lines = [*lines, f"  left out: the output layer, of {of} ({', '.join(its_labels[:6]) or 'no labels'})"]
    return dataclasses.replace(weights, tensors=tensors), lines


def notes_for_others(data, head):
    """Keys of config.json by which other programs, and convert, know the output layer; and our own description of it."""
    family = data.task.family
    notes = {"head": dataclasses.asdict(head), "labels": list(data.labels), "inputs": family.input_names(data.train_examples)}
    if head.is_plain:
        notes |= {"task": _FIELD_NAMES[data.task.kind]}
        if data.labels:
            notes["id2label"] = {str(index): label for index, label in enumerate(data.labels)}
    return notes

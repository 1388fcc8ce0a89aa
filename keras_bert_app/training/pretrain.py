"""Pre-training: from a resolved configuration and a prepared work directory to a trained checkpoint."""

import time

import numpy as np
import tensorflow as tf

from keras_bert_app.errors import Interrupted, UserError
from keras_bert_app.interop import load
from keras_bert_app.interop.weights import part_of
from keras_bert_app.modeling.parts import PARTS
from keras_bert_app.modeling.pretrainer import BertPretrainer
from keras_bert_app.runs import checkpoints
from keras_bert_app.runs import workdir as workdirs
from keras_bert_app.training import data, evaluation, optimizers, profiling, reporting, steps
from keras_bert_app.training import strategy as strategies
from keras_bert_app.training.signals import Signals
from keras_bert_app.training.window import Window
from pipelines.pretraining import STREAM_VERSION
from pipelines.wordpiece import BertTokenizer

KERAS_POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}


def pretrain(workdir, corpora, heldout_shards, strategy=None, run=None, stream=None, initial=None):
    """Runs or resumes the pre-training that WORKDIR/config.json describes, up to its num_train_steps or train_minutes.

    Order of initialization: the newest checkpoint of the work directory, else the weights of init_checkpoint, else from
    scratch.

    Args:
        workdir: holds config.json and vocab.txt (runs.workdir.write_config).
        corpora: for each corpus its TFRecord files of pipelines.corpus. heldout_shards: the same, of all; may be empty.
        strategy: tf.distribute.Strategy, or None for the one that the configuration names.
        run: PretrainingConfig in place of the one in config.json.
        stream: where progress goes; standard output by default.
        initial: what init_checkpoint holds, as interop.load.load_weights gives it; read from there by default.

    Returns:
        dict of the last evaluation's figures.

    Raises:
        UserError: something does not fit; Interrupted: SIGINT or SIGTERM came, the run is saved.
    """
    model_config, saved_run, _ = workdirs.read_config(workdir)
    run = run or saved_run
    strategy = strategy or strategies.make_strategy(run.strategy)
    strategies.check_batch_size(strategy, data.batch_size_at(run, 0), run.gradient_accumulation_steps)
    chief = strategies.is_chief(strategy)
    workdirs.read_vocabulary(workdir)
    tokenizer = BertTokenizer(workdirs.path_in(workdir, "vocab.txt"), model_config.do_lower_case, verify_casing=False)

    with strategy.scope():
        model = BertPretrainer(model_config, seed=run.seed, dtype=KERAS_POLICIES[run.precision], parts=trained_parts(run))
        trainable = {variable.path: variable.value for variable in model.trainable_variables}
        optimizer = optimizers.make_optimizer(run, trainable, model_config.num_hidden_layers)
    start, origin = _initialize(workdir, run, model, optimizer, initial)
    step, position = start["step"], start["position"]
    reporter = reporting.Reporter(workdir, step, start["seconds"], run, active=chief, stream=stream)
    reporter.say(strategies.describe(strategy, run))
    reporter.say(f"{model.count_params():,} parameters; {origin}")

    examples = data.example_arguments(run, tokenizer, data.lexicon_of(workdir))
    heldout = data.heldout_dataset(run, heldout_shards, tokenizer, examples)
    if heldout is None:
        reporter.say("no documents are held out, so nothing will be evaluated; --holdout_fraction keeps some")
    evaluation_call = steps.make_evaluation_call(strategy, model, with_pairs=run.sentence_objective != "none")

    def evaluate(should_stop):
        if heldout is None:
            return {}
        figures = evaluation.evaluate(evaluation_call, heldout, model_config.vocab_size, run.max_eval_steps, should_stop)
        if should_stop():
            return figures
        if not figures["eval_masked_lm_count"]:
            reporter.say("no example can be made of the documents that are held out, so nothing was evaluated")
            return {}
        reporter.write(step, figures)
        for line in evaluation.summary(figures, run.sentence_objective):
            reporter.say(line)
        return figures

    def save(evaluation_due):
        if chief:
            checkpoints.save(workdir, model, optimizer, step, position, keep=run.keep_checkpoints,
                             keep_every=run.keep_every_steps, unlogged=window.rows, seconds=clock.seconds(),
                             evaluation_due=evaluation_due)

    train_call = steps.make_train_call(strategy, model, optimizer, run)
    per_call = strategies.iterations_per_loop(strategy, run.iterations_per_loop)
    profiler = profiling.Profiler(workdir, run.profile_steps if chief else 0, reporter.say)
    clock, window = _Clock(run, start["seconds"]), Window(start["unlogged"])
    # Machines that train together must decide alike, so that none asks its own clock or its own signals alone.
    alone = strategies.num_machines(strategy) == 1
    is_over = start["seconds"] >= run.train_minutes * 60 if run.train_minutes else step >= run.num_train_steps
    batches, batch_size, figures = None, 0, None
    with Signals() as signals:
        # An evaluation that a stop or a kill cut off is made up for. Several machines make it again even where it was
        # finished, since only the chief could know.
        if start.get("evaluation_due") and not is_over and not (alone and step in reporter.evaluated_steps):
            figures = evaluate(lambda: alone and signals.received)
            window.restart_clock()
        while not is_over:
            # 1. k global batches and the position after them
            waiting = time.monotonic()
            if data.batch_size_at(run, step) != batch_size:
                batch_size = data.batch_size_at(run, step)
                batches = iter(data.training_dataset(run, corpora, tokenizer, position, examples, step))
            count = min(per_call, *(interval - step % interval for interval in (run.save_checkpoints_steps, run.eval_steps)),
                        data.steps_of_this_size(run, step) or per_call)
            if not run.train_minutes:
                count = min(count, run.num_train_steps - step)
            try:
                stack = [next(batches) for _ in range(count)]
            except StopIteration:
                raise data.without_examples(corpora, tokenizer) from None
            stacked = {name: tf.stack([batch[name] for batch, _ in stack]) for name in stack[0][0]}
            waited = time.monotonic() - waiting
            # 2. k steps on the devices
            with profiler.watch(len(stack)):
                rows = train_call(stacked, step, clock.progress() if run.train_minutes else None, bool(signals.received))
            _check_finite(rows, step, list(trainable), run)
            before, step = step, step + len(stack)
            position = stack[-1][1].numpy().tolist()
            is_over = rows[-1, _column("progress")] >= 1.0 if run.train_minutes else step >= run.num_train_steps
            # All machines stop at the same step: at one that all of them were told of.
            stop = signals.received
            if not alone:
                stop = (stop or strategies.STOP_ELSEWHERE) if rows[-1, _column("stop")] else 0
            # 3. what people watch
            window.add(rows, stacked["input_mask"], waited)
            reporter.live(step, window.recent())

            def due(interval):
                return is_over or step // interval > before // interval
            if due(run.log_steps):
                reporter.log(step, {**window.close(), **optimizers.norms(optimizer, rows[-1, _column("learning_rate")], step),
                                    "memory_mb": reporting.memory_mb()})
            # 4. keep and evaluate
            if due(run.save_checkpoints_steps) or stop:
                save(due(run.eval_steps))
            if due(run.eval_steps) and not stop:
                figures = evaluate(lambda: alone and signals.received)
                if alone and signals.received:
                    stop = signals.received
                    save(True)
                window.restart_clock()
            if stop:
                raise Interrupted(stop, step, chief)
        if figures is None:  # a run that was finished before
            figures = evaluate(lambda: alone and signals.received)
            if alone and signals.received:
                raise Interrupted(signals.received, step, chief)
    profiler.close()
    reporter.finish(step, clock.seconds())
    return figures


def trained_parts(run):
    """The parts of a model that a run trains, and so has: without sentence pairs nothing teaches the pooler."""
    return ("encoder", "masked_lm") if run.sentence_objective == "none" else PARTS


def _column(name):
    return steps.STEP_METRICS.index(name)


def _initialize(workdir, run, model, optimizer, initial):
    """(where the run stands, as a checkpoint's manifest has it; lines that say where the weights come from)."""
    beginning = {"step": 0, "position": None, "unlogged": [], "seconds": 0.0}
    saved = checkpoints.list_checkpoints(workdir)
    if saved:
        manifest = checkpoints.restore(saved[-1], model, optimizer)
        origin = f"resumed at step {manifest['step']:,} from {saved[-1]}"
        position = tuple(manifest["position"])
        if manifest.get("stream", 1) != STREAM_VERSION:
            # Saved by an earlier version of this program, which took the examples of a block in another order.
            position = (position[0], position[1] + 1, 0)
            origin += "; saved by an earlier version, so that the data goes on at the next shard"
        # Rows of an earlier version lack the last three columns.
        unlogged = [[*row, -1.0, 0.0, 0.0][:len(steps.STEP_METRICS)] for row in manifest["unlogged"]]
        return {**beginning, **manifest, "position": position, "unlogged": unlogged}, origin
    if run.init_checkpoint:
        weights, lines = initial or load.load_weights(run.init_checkpoint, allow_missing=run.parts_not_needed())
        return beginning, "\n".join([*_assign(model, weights, run), *lines])
    return beginning, f"from scratch, seed {run.seed}"


def _assign(model, weights, run):
    """Gives the model the weights that it starts from; what they do not hold stays as it was initialized."""
    found = {path: tensor.shape for path, tensor in weights.tensors.items()}
    faults = [f"{variable.path} expected {list(variable.shape)}, found {list(found[variable.path])}"
              for variable in model.weights if found.get(variable.path, variable.shape) != tuple(variable.shape)]
    # A part is taken whole or not at all: a layer or a table that only one side has would be lost, or start at random.
    wanted, given = {variable.path for variable in model.weights}, {part_of(path) for path in found}
    faults += [f"{path} has no place in it" for path in found if path not in wanted and part_of(path) in model.parts]
    faults += [f"{path} is not in it" for path in wanted if path not in found and part_of(path) in given]
    if faults:
        raise UserError(f"--init_checkpoint={run.init_checkpoint}: does not fit this run's model: {'; '.join(faults[:5])}"
                        f"{f' and {len(faults) - 5} more' if len(faults) > 5 else ''}; leave --config and its keys out, or make such a model by convert (--keep_layers, "
                        "--tie_word_embeddings, --max_position_embeddings)")
    left = load.assign(model, weights)
    lines = [f"{len(model.weights) - len(left)} weights from {run.init_checkpoint}, optimizer and steps new"]
    if left:
        lines.append(f"  from scratch, seed {run.seed}: {', '.join(sorted({part_of(path) for path in left}))}")
    not_trained = sorted({part_of(path) for path in found} - set(model.parts))
    if not_trained:
        lines.append(f"  left out, since this run does not train it: {', '.join(not_trained)}")
    return lines


def _check_finite(rows, first_step, paths, run):
    """Raises UserError at the first step whose loss or gradient is not finite, unless such steps are skipped."""
    bad = np.flatnonzero(rows[:, _column("bad_variable")] >= 0)
    if not bad.size or run.on_nonfinite == "skip":
        return
    index = int(rows[bad[0], _column("bad_variable")])
    where = f"the gradient of {paths[index]}" if index < len(paths) else "the loss or the gradient's norm"
    raise UserError(f"step {first_step + bad[0] + 1}: {where} is not finite; begin in another --workdir with a lower "
                    "--learning_rate or more --num_warmup_steps, from --init_checkpoint if you like, or go on here with "
                    "--on_nonfinite=skip")


class _Clock:
    """The time that a run has taken, its earlier parts included."""

    def __init__(self, run, seconds_before):
        self.budget = run.train_minutes * 60.0
        self.started = time.monotonic() - seconds_before

    def seconds(self):
        return time.monotonic() - self.started

    def progress(self):
        """The share of the time budget that is spent; 0 without a budget."""
        return self.seconds() / self.budget if self.budget else 0.0

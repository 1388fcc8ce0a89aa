"""The loop that every kind of training goes through: k steps a call, checkpoints, evaluations, signals, reports."""

import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert_app.errors import Interrupted, NotFinite
from keras_bert_app.runs import checkpoints
from keras_bert_app.training import infeed, profiling, reporting, steps, strategies, tpu
from keras_bert_app.training.optimizers import choice
from keras_bert_app.training.pace import Pace
from keras_bert_app.training.signals import Signals
from keras_bert_app.training.window import Window

_LONGEST_CALL_SECONDS = 5.0  # a preempted TPU machine is left half a minute


@dataclasses.dataclass
class Training:
    """What one run trains, on what, and from where on.

    Attributes:
        workdir: its directory. run: TrainingConfig, resolved. strategy, model, optimizer, objective: of make_train_call.
        batches: endless iterator of (dict of tensors [B, ...], position after it, ints). A call of the device takes
            batches of one shape.
        evaluate: function (step, should_stop) -> dict of figures, {} where nothing can be evaluated; it reports them.
        start: where the run stands: step, seconds, unlogged, evaluation_due, as a checkpoint's manifest has them.
        reporter: reporting.Reporter.
        ends_early: asked before the first step and after each evaluation.
        has_many_lengths: whether the batches are of many lengths.
    """

    workdir: str
    run: Any
    strategy: tf.distribute.Strategy
    model: Any
    optimizer: Any
    objective: Any
    batches: Iterator
    evaluate: Callable
    start: dict
    reporter: reporting.Reporter
    ends_early: Callable = lambda: False
    has_many_lengths: bool = False


def train(training):
    """Takes a run to its num_train_steps or train_minutes.

    Returns:
        dict of the last evaluation's figures.

    Raises:
        NotFinite: a loss or gradient is; Interrupted: SIGINT or SIGTERM came, the run is saved.
    """
    run, start, reporter = training.run, training.start, training.reporter
    step, position = start["step"], start["position"]
    chief = strategies.is_chief(training.strategy)
    columns = steps.columns(training.objective)
    device = strategies.device_kind(training.strategy)
    # On a CPU the next batches would be made with what the step is computed with.
    batches = infeed.Batches(training.batches, ahead=device != "CPU")
    # Steps of many lengths go one by one: rarely do several of one length follow each other.
    per_call = (
        1 if training.has_many_lengths else strategies.iterations_per_loop(training.strategy, run.iterations_per_loop)
    )
    train_call = steps.make_train_call(
        training.strategy,
        training.model,
        training.optimizer,
        run,
        training.objective,
        # What XLA compiles has one length.
        training.has_many_lengths and run.jit_compile != "step" and device != "TPU",
        per_call,
    )
    norms_call = choice.make_norms_call(training.strategy, training.optimizer)
    profiler = profiling.Profiler(training.workdir, run.profile_steps if chief else 0, reporter.say)
    pace, window = Pace(run, start["seconds"]), Window(training.objective, start["unlogged"])
    # Machines that train together must decide alike, so that none asks its own clock or its own signals alone.
    alone = strategies.num_machines(training.strategy) == 1
    is_over, figures, is_spent = run.has_ended(step, start["seconds"]) or training.ends_early(), None, False

    def save(evaluation_due):
        # The end by the clock is foretold before the last call, which may take less: a run that has ended is to say so.
        seconds = max(pace.seconds(), run.train_minutes * 60 if is_spent else 0.0)
        if chief:
            checkpoints.save(
                training.workdir,
                training.model,
                training.optimizer,
                step,
                position,
                keep=run.keep_checkpoints,
                keep_every=run.keep_every_steps,
                unlogged=window.rows,
                seconds=seconds,
                evaluation_due=evaluation_due,
            )

    def steps_of_call(first_step):
        """How many steps the call that begins there takes: none that a checkpoint or an evaluation would have to cut."""
        most, intervals = per_call, [run.save_checkpoints_steps, run.eval_steps]
        if not run.iterations_per_loop:
            # A signal waits for the end of a call, and so do lines of the log.
            most = min(per_call, pace.steps_within(_LONGEST_CALL_SECONDS)) if alone else per_call
            intervals += [run.log_steps] if run.log_steps >= per_call else []
        count = min(most, *(interval - first_step % interval for interval in intervals))
        return count if run.train_minutes else min(count, run.num_train_steps - first_step)

    with Signals() as signals, batches, tpu.named_faults(training.strategy, run):

        def evaluate():
            return training.evaluate(step, lambda: alone and signals.received)

        # An evaluation that a stop or a kill cut off is made up for. Several machines make it again even where it was
        # finished, since only the chief could know.
        if start.get("evaluation_due") and not is_over and not (alone and step in reporter.evaluated_steps):
            figures = evaluate()
            if alone and signals.received:
                raise Interrupted(signals.received, step, chief)  # the checkpoint still says that it is due
            is_over = training.ends_early()
            window.restart_clock()
        while not is_over:
            # 1. k global batches and the position after them
            waiting = time.monotonic()
            stacked, position = batches.take(steps_of_call(step))
            waited = time.monotonic() - waiting
            # 2. k steps on the devices
            num_steps = next(iter(stacked.values())).shape[0]
            batches.begin(steps_of_call(step + num_steps))
            with profiler.watch(num_steps):
                rows = np.concatenate(
                    [
                        train_call(some, step + first, pace.progress(), bool(signals.received))
                        for first, some in pace.calls(stacked)
                    ]
                )
            _check_finite(rows[:, columns["bad_variable"]], step, list(training.optimizer.variables_by_path), run)
            before, step = step, step + num_steps
            is_spent = bool(run.train_minutes) and rows[-1, columns["progress"]] >= 1.0
            is_over = is_spent if run.train_minutes else step >= run.num_train_steps
            # All machines stop at the same step: at one that all of them were told of.
            stop = signals.received
            if not alone:
                stop = (stop or strategies.STOP_ELSEWHERE) if rows[-1, columns["stop"]] else 0
            # 3. what people watch
            window.add(rows, stacked["input_mask"], waited)
            reporter.live(step, window.recent)

            def due(interval):
                return is_over or step // interval > before // interval

            if due(run.log_steps):
                norms = norms_call(rows[-1, columns["learning_rate"]], step)
                reporter.log(
                    step, {**window.close(), **norms, "seconds": pace.seconds(), "memory_mb": reporting.memory_mb()}
                )
            # 4. keep and evaluate
            # Evaluations that are rarer than checkpoints have one of their step, too: the best weights are of a state that can be gone on from.
            if (
                due(run.save_checkpoints_steps)
                or stop
                or run.eval_steps > run.save_checkpoints_steps
                and due(run.eval_steps)
            ):
                save(due(run.eval_steps))
            if due(run.eval_steps) and not stop:
                figures = evaluate()
                if alone and signals.received:
                    stop = signals.received
                    save(True)
                elif training.ends_early():
                    is_over = True
                    save(False)
                window.restart_clock()
            if stop:
                raise Interrupted(stop, step, chief)
        if figures is None:  # a run that was finished before
            figures = evaluate()
            if alone and signals.received:
                raise Interrupted(signals.received, step, chief)
    profiler.close()
    reporter.finish(step, pace.seconds())
    return figures


def _check_finite(bad_variables, first_step, paths, run):
    """Raises NotFinite at the first step whose loss or gradient is not finite, unless such steps are skipped."""
    bad = np.flatnonzero(bad_variables >= 0)
    if not bad.size or run.on_nonfinite == "skip":
        return
    index = int(bad_variables[bad[0]])
    where = f"the gradient of {paths[index]}" if index < len(paths) else "the loss or the gradient's norm"
    raise NotFinite(
        f"step {first_step + bad[0] + 1}: {where} is not finite; begin in another --workdir with a lower "
        "--learning_rate or more --num_warmup_steps, from --init_checkpoint if you like, or go on here with "
        "--on_nonfinite=skip"
    )

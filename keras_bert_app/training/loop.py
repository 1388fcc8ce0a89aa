"""The training loop of every task: steps, checkpoints, evaluations, signals and reports."""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert_app.config.training_config import TrainingConfig
from keras_bert_app.errors import Interrupted, NotFinite
from keras_bert_app.modeling.execution import Execution
from keras_bert_app.runs import checkpoints
from keras_bert_app.training import device_faults, infeed, reporting, steps, strategies
from keras_bert_app.training.optimizers import choice
from keras_bert_app.training.optimizers.optimizer_base import Optimizer
from keras_bert_app.training.pace import Pace, Reached
from keras_bert_app.training.signals import Signals
from keras_bert_app.training.window import Window

_LONGEST_CALL_SECONDS = 5.0  # a preempted TPU machine has only 30 seconds to finish the call and save
# The loop prints the outlook after this many steps or this many seconds of steps, whichever comes first.
_STEPS_BEFORE_OUTLOOK, _SECONDS_BEFORE_OUTLOOK = 10, 20.0
_MOST_UNLOGGED_STEPS = 10_000  # a checkpoint has the figures of each step since the last line of the log


@dataclasses.dataclass
class Training:
    """The model, data and state of one run.

    Attributes:
        workdir: the work directory.
        run: TrainingConfig, resolved.
        strategy: tf.distribute.Strategy.
        model: the model of steps.make_train_call.
        optimizer: Optimizer.
        objective: see training.losses.
        execution: Execution of the training step.
        batches: endless iterator of (dict of tensors [B, ...], position after the batch, a tuple of int). All batches
            of a call have one shape.
        evaluate: function (step, should_stop) that reports and returns a dict of figures; {} if there is nothing to do.
        state: dict with keys of a checkpoint's manifest: step, position, seconds and unlogged. The keys clock and
            evaluation_due may be missing.
        reporter: reporting.Reporter.
        ends_early: function that says whether the run ends now. The loop calls it before the first step and after each
            evaluation.
        has_many_lengths: whether the rows of different batches have many lengths.
        batches_need_weights: whether a batch may follow from the weights after the step before it. No thread then makes
            batches ahead.
        outlook: function of (step, seconds a step, estimated seconds left). It returns lines that the loop prints once,
            after the first steps.
        reached: Reached. The batches may read it.
        has_ended: whether the run has reached its num_train_steps or train_minutes. train sets it.
    """

    workdir: str
    run: TrainingConfig
    strategy: tf.distribute.Strategy
    model: Any
    optimizer: Optimizer
    objective: Any
    execution: Execution
    batches: Iterator
    evaluate: Callable[[int, Callable[[], bool]], dict[str, float]]
    state: dict[str, Any]
    reporter: reporting.Reporter
    ends_early: Callable[[], bool] = lambda: False
    has_many_lengths: bool = False
    batches_need_weights: bool = False
    outlook: Callable[[int, float, float], list[str]] = lambda step, step_seconds, seconds_left: []
    reached: Reached = dataclasses.field(default_factory=Reached)
    has_ended: bool = False


def train(training: Training) -> dict[str, float]:
    """Trains until num_train_steps, train_minutes or an early end.

    Args:
        training: Training.

    Returns:
        dict of the last evaluation's figures.

    Raises:
        NotFinite: a loss or gradient is not finite.
        Interrupted: SIGINT or SIGTERM came, and the run is saved.
    """
    loop = _Loop(training)
    with loop.signals, loop.batches, device_faults.named(training.strategy, training.run, training.model.config):
        loop.make_up_for_evaluation()
        while not loop.is_over:
            # 1. k global batches and the position after them
            stacked, waited = loop.next_batches()
            # 2. k steps on the devices
            rows = loop.take_steps(stacked)
            # 3. the output for people
            loop.report(rows, stacked, waited)
            # 4. checkpoints and evaluations
            loop.keep_and_evaluate()
        loop.evaluate_finished_run()
    return loop.end()


class _Loop:
    """The state of a loop between its four parts."""

    def __init__(self, training: Training):
        self.training, self.run, self.state = training, training.run, training.state
        self.step, self.position = training.state["step"], training.state["position"]
        self.chief = strategies.is_chief(training.strategy)
        self.columns = steps.columns(training.objective)
        device = strategies.device_kind(training.strategy)
        # On a CPU, a thread that makes the next batches would take cores away from the step.
        self.batches = infeed.Batches(training.batches, ahead=device != "CPU" and not training.batches_need_weights)
        # With many lengths a call takes one step, because batches of one length rarely follow each other.
        self.per_call = (
            1
            if training.has_many_lengths
            else strategies.iterations_per_loop(training.strategy, self.run.iterations_per_loop)
        )
        self.train_call = steps.make_train_call(
            training.strategy,
            training.model,
            training.optimizer,
            self.run,
            training.objective,
            # If XLA compiles the whole step, each length of rows needs its own program.
            training.has_many_lengths and not training.execution.compiles_all,
            self.per_call,
            training.execution,
        )
        self.norms_call = choice.make_norms_call(training.strategy, training.optimizer)
        self.profiler = None
        if self.chief and self.run.profile_steps:
            from keras_bert_app.training.profiling import Profiler  # few runs need it

            self.profiler = Profiler(training.workdir, self.run.profile_steps, training.reporter.say)
        self.pace = Pace(self.run, self.state["seconds"], self.state.get("clock"))
        self.progress = training.reached.share = self.pace.share_before
        self.compiled = (0, 0.0)
        self.has_outlook, self.has_batches = False, False
        self.window = Window(training.objective, self.state["unlogged"])
        self.signals = Signals()
        # Machines that train together must decide alike, so no machine decides by its own clock or signals alone.
        self.alone = strategies.num_machines(training.strategy) == 1
        training.reached.should_stop = lambda: self.alone and bool(self.signals.received)
        training.has_ended = self.run.has_ended(self.step, self.state["seconds"])
        self.is_over = training.has_ended or training.ends_early()
        self.figures: dict[str, float] | None = None
        self.first_step = self.before = self.step
        self.stop = 0

    def make_up_for_evaluation(self) -> None:
        """Repeats an evaluation that a stop or a kill cut off.

        Several machines repeat even a finished evaluation, because only the chief knows that it finished.
        """
        was_made = self.alone and self.step in self.training.reporter.evaluated_steps
        if not self.state.get("evaluation_due") or self.is_over or was_made:
            return
        self._evaluate()
        if self.alone and self.signals.received:
            raise Interrupted(self.signals.received, self.step, self.chief)  # the checkpoint still has evaluation_due
        self.is_over = self.training.ends_early()
        self.window.restart_clock()

    def next_batches(self) -> tuple[dict[str, tf.Tensor], float]:
        """Takes the batches of the next call. Returns (dict of tensors [k, B, ...], seconds of waiting).

        Raises:
            Interrupted: a signal came while a long batch was made, and the run is saved.
        """
        if not self.batches.begun:
            self.training.reached.share = self.progress
        is_first, self.has_batches = not self.has_batches, True
        starting = self.training.reporter.busy(self.step, "waiting for the first batch", self._seconds_left)
        waiting = time.monotonic()
        with starting if is_first else contextlib.nullcontext():
            try:
                stacked, self.position = self.batches.take(self._steps_of_call(self.step))
            except infeed.StopAsked:
                if self.position is not None:  # None: no step was taken, so the same command begins anew
                    self._save(False)
                raise Interrupted(self.signals.received, self.step, self.chief) from None
        if is_first:  # the start of the pipeline counts neither for the measured speed nor for the schedule
            self.window.restart_clock()
            self.pace.leave_out(time.monotonic() - waiting)
            waiting = time.monotonic()
        # The share changes only while no thread makes batches. All machines then change the shape of batches at the
        # same step.
        self.training.reached.share = self.progress
        return stacked, time.monotonic() - waiting

    def take_steps(self, stacked: dict[str, tf.Tensor]) -> np.ndarray:
        """Takes k steps. Returns the rows of their figures, [k, number of columns]."""
        num_steps = next(iter(stacked.values())).shape[0]
        self.batches.begin(self._steps_of_call(self.step + num_steps))
        rows, num_compiled, left_out = [], 0, self.pace.left_out
        with self.profiler.watch(num_steps) if self.profiler else contextlib.nullcontext():
            for first, batches, compiles in self.pace.calls(stacked):
                with self._first_of_shape(batches) if compiles else contextlib.nullcontext():
                    arguments = self.step + first, self.pace.progress(), bool(self.signals.received)
                    rows.append(self.train_call(batches, *arguments))
                num_compiled += len(rows[-1]) if compiles else 0
        rows = np.concatenate(rows)
        self.compiled = num_compiled, self.pace.left_out - left_out
        self.progress = float(rows[-1, self.columns["progress"]])
        paths = list(self.training.optimizer.variables_by_path)
        _check_finite(rows[:, self.columns["bad_variable"]], self.step, paths, self.run)
        self.before, self.step = self.step, self.step + num_steps
        if self.run.train_minutes:
            self.training.has_ended = bool(rows[-1, self.columns["progress"]] >= 1.0)
        else:
            self.training.has_ended = self.step >= self.run.num_train_steps
        self.is_over = self.training.has_ended
        # The step sums the signals over all replicas, so all machines learn of a signal and stop at the same step.
        self.stop = self.signals.received
        if not self.alone:
            self.stop = (self.stop or strategies.STOP_ELSEWHERE) if rows[-1, self.columns["stop"]] else 0
        return rows

    def report(self, rows: np.ndarray, stacked: dict[str, tf.Tensor], waited: float) -> None:
        """Shows the progress line, and writes a line of the log if one is due."""
        mask = stacked["input_mask"]
        if "target_word_ids" in stacked:  # the tokens of targets are work, too
            mask = tf.concat([mask, tf.cast(stacked["target_word_ids"] > 0, mask.dtype)], axis=-1)
        self.window.add(rows, mask, waited, *self.compiled)
        seconds_left = self._seconds_left()
        self.training.reporter.live(self.step, self.window.recent, seconds_left)
        if self._is_due(min(self.run.log_steps, _MOST_UNLOGGED_STEPS)):
            figures = self.window.close()
            norms = self.norms_call(rows[-1, self.columns["learning_rate"]], self.step)
            clock = {"seconds": self.pace.seconds(), "memory_mb": reporting.memory_mb()}
            self.training.reporter.log(self.step, {**figures, **norms, **clock}, seconds_left)
            self.window.restart_clock()  # the norms take time too, most of all at the first call
        self._say_outlook(seconds_left)

    def keep_and_evaluate(self) -> None:
        """Saves and evaluates at the steps where each is due.

        Raises:
            Interrupted: a signal stopped the run, and the run is saved.
        """
        run, evaluates = self.run, self._is_due(self.run.eval_steps)
        # If evaluations are rarer than checkpoints, each evaluation also saves a checkpoint of its step. A run can then
        # go on from the best weights.
        is_rare = run.eval_steps > run.save_checkpoints_steps and evaluates
        if self._is_due(run.save_checkpoints_steps) or self.stop or is_rare:
            self._save(evaluates)
        if evaluates and not self.stop:
            self._evaluate()
            if self.alone and self.signals.received:
                self.stop = self.signals.received
                self._save(True)
            elif self.training.ends_early():
                self.is_over = True
                self._save(False)
            self.window.restart_clock()
        if self.stop:
            raise Interrupted(self.stop, self.step, self.chief)

    def evaluate_finished_run(self) -> None:
        """Evaluates a run that had already ended at this start. The loop has evaluated all other runs."""
        if self.figures is None:
            self._evaluate()
            if self.alone and self.signals.received:
                raise Interrupted(self.signals.received, self.step, self.chief)

    def end(self) -> dict[str, float]:
        """Reports the end. Returns the last evaluation's figures."""
        if self.profiler:
            self.profiler.close()
        self.training.reporter.finish(self.step, self.pace.seconds())
        return self.figures

    def _seconds_left(self):
        return self.pace.seconds_left(self.step)

    def _say_outlook(self, seconds_left):
        """Prints the outlook of the run once, after the first steps."""
        step_seconds, num_timed = self.pace.mean_step_seconds(), self.pace.num_timed
        is_early = self.step - self.first_step < _STEPS_BEFORE_OUTLOOK
        if self.has_outlook or not num_timed or (is_early and step_seconds * num_timed < _SECONDS_BEFORE_OUTLOOK):
            return
        self.has_outlook = True
        for line in self.training.outlook(self.step, step_seconds, seconds_left):
            self.training.reporter.say(line)

    def _first_of_shape(self, batches):
        """The context of the first call with batches of a shape. The reporter shows the duration."""
        shape, is_compiled = tuple(batches["input_mask"].shape[1:]), self.training.execution.is_compiled
        return self.training.reporter.first_of_shape(self.step, shape, is_compiled, self._seconds_left)

    def _evaluate(self):
        self.figures = self.training.evaluate(self.step, lambda: self.alone and self.signals.received)

    def _save(self, evaluation_due):
        # The last call may be faster than predicted. A finished run therefore saves its full time.
        has_used_up_clock = bool(self.training.has_ended and self.run.train_minutes)
        seconds = max(self.pace.seconds(), self.run.train_minutes * 60 if has_used_up_clock else 0.0)
        if self.chief:
            checkpoints.save(
                self.training.workdir,
                self.training.model,
                self.training.optimizer,
                self.step,
                self.position,
                keep=self.run.keep_checkpoints,
                keep_every=self.run.keep_every_steps,
                unlogged=self.window.rows,
                seconds=seconds,
                evaluation_due=evaluation_due,
                clock=self.run.train_minutes * 60 if has_used_up_clock else self.pace.clock(),
            )

    def _steps_of_call(self, first_step):
        """The number of steps of a call from first_step on. No call goes past a checkpoint or an evaluation."""
        run, most = self.run, self.per_call
        intervals = [run.save_checkpoints_steps, run.eval_steps]
        if not run.iterations_per_loop:
            # Signals and lines of the log wait for the end of a call, so a call must be short.
            if self.alone:
                most = min(self.per_call, self.pace.steps_within(_LONGEST_CALL_SECONDS))
            intervals += [run.log_steps] if run.log_steps >= self.per_call else []
        count = min(most, *(interval - first_step % interval for interval in intervals))
        return count if run.train_minutes else min(count, run.num_train_steps - first_step)

    def _is_due(self, interval):
        return self.is_over or self.step // interval > self.before // interval


def _check_finite(bad_variables, first_step, paths, run):
    """Raises NotFinite for the first step that is not finite, unless the run skips such steps."""
    bad = np.flatnonzero(bad_variables >= 0)
    if not bad.size or run.on_nonfinite == "skip":
        return
    index = int(bad_variables[bad[0]])
    culprit = f"the gradient of {paths[index]}" if index < len(paths) else "the loss or the gradient's norm"
    raise NotFinite(
        f"step {first_step + bad[0] + 1}: {culprit} is not finite; begin in another --workdir with a lower "
        "--learning_rate or more --num_warmup_steps (optionally from --init_checkpoint), or continue this run with "
        "--on_nonfinite=skip"
    )

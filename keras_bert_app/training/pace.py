"""The clock of a run: the time spent, the number of steps a call takes, and the time left."""

import dataclasses
import time
from collections.abc import Callable, Iterator

import tensorflow as tf

from keras_bert_app.config.training_config import TrainingConfig

# Before any step is timed, a call has two steps: one compiles, and one shows how long a step takes.
_STEPS_UNTIMED = 2


@dataclasses.dataclass
class Reached:
    """What the batches of a run may ask about it. The loop writes it.

    Attributes:
        share: the share of a run with a time budget that is over, 0 at the beginning. The loop changes it between
            calls. All machines that train together have the same share.
        should_stop: function that says whether a signal has come. On several machines it says no, because these stop
            together, after a step.
    """

    share: float = 0.0
    should_stop: Callable[[], bool] = lambda: False


class Pace:
    """The clock of a run. It also counts the earlier parts of a resumed run.

    The first step of each shape of batches also compiles, which takes minutes on a TPU. The start of the data pipeline
    takes time too. The time budget includes both. The learning-rate schedule leaves both out. Otherwise warm-up and
    decay would go on while the run takes no step. The schedule is spread over the rest of the time. A resumed run
    continues its schedule from the saved point.

    Args:
        run: TrainingConfig.
        seconds_before: seconds that the earlier parts of the run took.
        clock_before: clock() at the end of the earlier parts. It is None for a checkpoint without this value; the
            schedule of such a run followed the seconds.

    Attributes:
        share_before: share of the run that was over before this part; 0 without a time budget.
        seconds_per_step: seconds, measured in the newest call that compiled nothing; 0 before the first measurement.
        left_out: seconds of this part that the schedule does not count: compiling, and the start of the data pipeline.
        num_timed: number of steps of this part that compiled nothing.
    """

    def __init__(self, run: TrainingConfig, seconds_before: float, clock_before: float | None = None):
        self._run, self._budget = run, run.train_minutes * 60.0
        self._before, self._started = seconds_before, time.monotonic()
        clock = seconds_before if clock_before is None else clock_before
        self.share_before = clock / self._budget if self._budget else 0.0
        self._shapes, self.left_out = set(), 0.0
        self._steady_since, self._steady_left_out, self.num_timed = None, 0.0, 0
        self.seconds_per_step = 0.0

    def seconds(self) -> float:
        """The seconds that the run has taken so far."""
        return self._before + time.monotonic() - self._started

    def progress(self) -> tuple[float, float] | None:
        """(share of the run that is over, share that a step adds); None without a time budget.

        The first share is 1 or more at the end of the run.
        """
        if not self._budget:
            return None
        left = self._budget - self._before - self.left_out
        if left <= 0:
            return 2.0, 0.0  # not 1, because rounding may bring the mean of ones over replicas below 1
        share_per_second = (1.0 - self.share_before) / left
        return self.share_before + (
            self.seconds() - self._before - self.left_out
        ) * share_per_second, self.seconds_per_step * share_per_second

    def clock(self) -> float:
        """The seconds of the time budget that the schedule counts as over; seconds() without a budget."""
        progress = self.progress()
        return self.seconds() if progress is None else min(progress[0], 1.0) * self._budget

    def leave_out(self, seconds: float) -> None:
        """Removes past seconds from the schedule, because the run did not train in them.

        Args:
            seconds: number of seconds.
        """
        self.left_out += seconds

    def steps_within(self, seconds: float) -> int:
        """The number of steps that a call can take within some seconds, at least 1.

        Args:
            seconds: the longest duration of the call.
        """
        return max(1, int(seconds / self.seconds_per_step)) if self.seconds_per_step else _STEPS_UNTIMED

    def mean_step_seconds(self) -> float:
        """The mean seconds of a step without compiling; 0 before any step is timed.

        The mean includes the time of evaluations and checkpoints.
        """
        if not self.num_timed:
            return 0.0
        left_out = self.left_out - self._steady_left_out
        return max(time.monotonic() - self._steady_since - left_out, 1e-9) / self.num_timed

    def seconds_left(self, step: int) -> float | None:
        """The estimated seconds until the end of the run.

        Args:
            step: number of steps that the run has taken.

        Returns:
            Seconds. None if the run has no time budget and no step is timed yet.
        """
        if self._budget:
            return max(0.0, self._budget - self.seconds())
        steps_left = max(0, self._run.num_train_steps - step)
        return steps_left * self.mean_step_seconds() if self.num_timed else None

    def calls(self, stacked: dict[str, tf.Tensor]) -> Iterator[tuple[int, dict[str, tf.Tensor], bool]]:
        """Splits a stack of batches into calls, and measures the time of each call.

        A call ends when the caller takes the next item. The first two steps of a new shape are separate calls.

        Args:
            stacked: dict of tensors [k, B, ...].

        Yields:
            (index of the call's first step in the stack, dict of tensors with the batches of the call, whether the call
            compiles). Only the first call of a shape compiles.
        """
        count, *shape = next(iter(stacked.values())).shape
        shape, first = tuple(shape), 0
        is_new = shape not in self._shapes
        self._shapes.add(shape)
        for end in sorted({min(end, count) for end in (1, 2, count)}) if is_new else (count,):
            began, compiles = time.monotonic(), is_new and not first
            if self._steady_since is None and not compiles:
                self._steady_since, self._steady_left_out = began, self.left_out
            yield first, {name: values[first:end] for name, values in stacked.items()}, compiles
            taken = time.monotonic() - began
            if compiles:
                self.left_out += taken
            else:
                self.seconds_per_step = taken / (end - first)
                self.num_timed += end - first
            first = end

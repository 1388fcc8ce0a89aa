"""The clock of a run: how much of a time budget is spent, and how many steps a call should take."""

import time
from collections.abc import Iterator

import tensorflow as tf

from keras_bert_app.config.training_config import TrainingConfig

# Steps of a call before any step was timed: one that compiles, and one that shows how long a step takes.
_STEPS_UNTIMED = 2


class Pace:
    """The clock of a run, which counts the earlier parts of the run too.

    The first step of each shape of batches also compiles, which takes minutes on a TPU. The time budget includes
    compiling. The learning-rate schedule leaves it out, because warm-up and decay would pass meanwhile: the schedule is
    spread over the time that is left.

    Args:
        run: TrainingConfig.
        seconds_before: seconds that the earlier parts of the run took.

    Attributes:
        seconds_per_step: seconds, measured in the newest call; 0 until a call was timed.
    """

    def __init__(self, run: TrainingConfig, seconds_before: float):
        self._budget, self._before, self._started = run.train_minutes * 60.0, seconds_before, time.monotonic()
        self._shapes, self._compiling = set(), 0.0
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
        at_start, left = self._before / self._budget, self._budget - self._before - self._compiling
        if left <= 0:
            return 2.0, 0.0  # not 1, because rounding may bring a mean of ones over replicas below 1
        share_per_second = (1.0 - at_start) / left
        return at_start + (
            self.seconds() - self._before - self._compiling
        ) * share_per_second, self.seconds_per_step * share_per_second

    def steps_within(self, seconds: float) -> int:
        """The number of steps that a call can take within some seconds, at least 1."""
        return max(1, int(seconds / self.seconds_per_step)) if self.seconds_per_step else _STEPS_UNTIMED

    def calls(self, stacked: dict[str, tf.Tensor]) -> Iterator[tuple[int, dict[str, tf.Tensor]]]:
        """Cuts a stack of batches into calls, and measures the time until the caller asks for the next call.

        The first and the second step of a new shape are calls of their own.

        Args:
            stacked: dict of tensors [k, B, ...].

        Yields:
            (number of the call's first step in the stack, dict of tensors with the call's part of the first axis).
        """
        count, *shape = next(iter(stacked.values())).shape
        shape, first = tuple(shape), 0
        is_new = shape not in self._shapes
        self._shapes.add(shape)
        for end in sorted({min(end, count) for end in (1, 2, count)}) if is_new else (count,):
            began = time.monotonic()
            yield first, {name: values[first:end] for name, values in stacked.items()}
            taken = time.monotonic() - began
            if is_new and not first:
                self._compiling += taken
            else:
                self.seconds_per_step = taken / (end - first)
            first = end

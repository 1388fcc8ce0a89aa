"""How fast a run goes: how much of a time budget is spent, and how many steps a call of the device should take."""

import time

_UNKNOWN_YET = 2  # steps of a call before any was timed: one that is compiled and one that tells how long they take


class Pace:
    """The clock of a run, its earlier parts included.

    The first step of each shape of batches is compiled when it is taken, which is minutes on a TPU. The time budget has that in it, but
    not the learning rate's warm-up and decay, which would go by unseen: they follow what is left.

    Args:
        run: TrainingConfig. seconds_before: that its earlier parts took.

    Attributes:
        seconds_per_step: of the newest call; 0 as long as none was timed.
    """

    def __init__(self, run, seconds_before):
        self._budget, self._before, self._started = run.train_minutes * 60.0, seconds_before, time.monotonic()
        self._shapes, self._compiling = set(), 0.0
        self.seconds_per_step = 0.0

    def seconds(self):
        """That the run has taken."""
        return self._before + time.monotonic() - self._started

    def progress(self):
        """(share of the run that is over, 1 and more at its end, what a step adds to it); None without a time budget."""
        if not self._budget:
            return None
        at_start, left = self._before / self._budget, self._budget - self._before - self._compiling
        if left <= 0:
            return 2.0, 0.0  # the mean over replicas of 1 may be less by rounding
        each_second = (1.0 - at_start) / left
        return at_start + (
            self.seconds() - self._before - self._compiling
        ) * each_second, self.seconds_per_step * each_second

    def steps_within(self, seconds):
        """How many steps a call may take in so much time, one at least."""
        return max(1, int(seconds / self.seconds_per_step)) if self.seconds_per_step else _UNKNOWN_YET

    def calls(self, stacked):
        """Yields (number of its first step in the stack, dict of tensors [k, B, ...]) for each call that takes a stack's steps, and
        times what is done with it until the next is asked for. Of a new shape the first step goes alone, and the second."""
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

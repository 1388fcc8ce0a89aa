"""The figures of the steps between two lines of the log."""

import collections
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert_app.training import steps


class Window:
    """Sums since the last log line, and the clocks of the loop.

    Args:
        objective: the objective, whose sums begin each row; see training.losses.
        rows: rows with the columns of steps.columns, from steps that were taken before a stop and are not yet logged.
    """

    def __init__(self, objective: Any, rows: Iterable[np.ndarray] = ()):
        self.objective, self.columns = objective, steps.columns(objective)
        # An earlier version of the program saved fewer columns.
        self.rows = [np.pad(row, (0, len(self.columns) - len(row))) for row in rows]
        self.latest = collections.deque(maxlen=50)
        self.restart_clock()

    def restart_clock(self) -> None:
        """Restarts the clock, because the run did not train since the last step."""
        self.started, self.timed_tokens, self.waited, self.compiling = time.monotonic(), 0, 0.0, 0.0

    def add(
        self,
        rows: np.ndarray,
        input_mask: tf.Tensor,
        waited: float,
        num_compiled: int = 0,
        compile_seconds: float = 0.0,
    ) -> None:
        """Adds steps.

        Args:
            rows: [k, number of columns].
            input_mask: int [k, B, S].
            waited: seconds that the loop waited for the batches of these steps.
            num_compiled: number of these steps that compiled; they come first. The speed does not count their tokens.
            compile_seconds: seconds that the compiling steps took.
        """
        self.rows.extend(rows)
        self.latest.extend(rows)
        self.timed_tokens += int(tf.reduce_sum(input_mask[num_compiled:]))
        self.waited += waited
        self.compiling += compile_seconds

    def recent(self) -> dict[str, float]:
        """The figures of the last 50 steps."""
        return self._figures(list(self.latest))

    def close(self) -> dict[str, float]:
        """The figures since the last call of this method."""
        figures = self._figures(self.rows)
        self.rows = []
        self.restart_clock()
        return figures

    def _figures(self, rows):
        values = np.asarray(rows, np.float64)
        column = {name: values[:, index] for name, index in self.columns.items()}
        # A skipped step has no loss, so the means leave it out.
        good = (column["bad_variable"] < 0) & (column["overflow"] == 0)
        sums = {name: float(column[name][good].sum()) for name in self.objective.sum_names}
        seconds = max(time.monotonic() - self.started - self.compiling, 1e-9)
        figures = {
            **(self.objective.metrics(sums) if good.any() else {}),
            "learning_rate": float(column["learning_rate"][-1]),
            "gradient_norm": float(column["gradient_norm"][good].mean()) if good.any() else 0.0,
            "input_wait_share": min(self.waited / seconds, 1.0),
        }
        if self.timed_tokens:
            figures["tokens_per_second"] = self.timed_tokens / seconds
        if not good.all():
            figures["skipped_steps"] = float((~good).sum())
        return figures

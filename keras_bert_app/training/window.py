"""The figures between two lines of the log."""

import collections
import time

import numpy as np
import tensorflow as tf

from keras_bert_app.training import steps


class Window:
    """Sums since the last log line, and the clocks of the loop.

    Args:
        objective: whose sums the rows begin with. rows: of steps.columns, taken before a stop and not yet logged.
    """

    def __init__(self, objective, rows=()):
        self.objective, self.columns = objective, steps.columns(objective)
        self.rows = list(rows)
        self.latest = collections.deque(maxlen=50)
        self.restart_clock()

    def restart_clock(self):
        """Time from here on counts; what passed since the last step was no training."""
        self.started, self.timed_tokens, self.waited = time.monotonic(), 0, 0.0

    def add(self, rows, input_mask, waited):
        """Takes in steps: rows [k, number of columns]; waited: seconds that the loop waited for their batches."""
        self.rows.extend(rows)
        self.latest.extend(rows)
        self.timed_tokens += int(tf.reduce_sum(input_mask))
        self.waited += waited

    def recent(self):
        """Figures of the last 50 steps."""
        return self._figures(list(self.latest))

    def close(self):
        """Figures since the last call."""
        figures = self._figures(self.rows)
        self.rows = []
        self.restart_clock()
        return figures

    def _figures(self, rows):
        values = np.asarray(rows, np.float64)
        column = {name: values[:, index] for name, index in self.columns.items()}
        # A step that was skipped has no loss; the others stand for it.
        good = column["bad_variable"] < 0
        sums = {name: float(column[name][good].sum()) for name in self.objective.sum_names}
        seconds = max(time.monotonic() - self.started, 1e-9)
        figures = {
            **(self.objective.metrics(sums) if good.any() else {}),
            "learning_rate": float(column["learning_rate"][-1]),
            "gradient_norm": float(column["gradient_norm"][good].mean()) if good.any() else 0.0,
            "tokens_per_second": self.timed_tokens / seconds,
            "input_wait_share": self.waited / seconds,
        }
        if not good.all():
            figures["skipped_steps"] = float((~good).sum())
        return figures

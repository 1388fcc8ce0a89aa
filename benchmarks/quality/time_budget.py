"""Training that ends after a number of minutes, or after a number of steps.

Scripts of any environment import this module, so it needs only the standard library.
"""

import json
import time

_SECONDS_BETWEEN_LINES = 10.0


class TimeBudget:
    """A clock that sets the learning rate and keeps a log. The constructor starts it.

    The minutes include the compilation of the first step. The learning rate starts to rise after that step, as in our
    own training (keras_bert_app/training/pace.py).

    Args:
        minutes: float. Length of the training.
        learning_rate: float. Peak. The rate rises to it and then falls to 0, both in proportion to the time.
        warmup_share: float. Share of the time in which the rate rises.
        path: str. The log, JSON lines with step, seconds and loss (the mean since the previous line).
        num_steps: int. The number of steps that ends the training and decides the learning rate; 0 for the minutes.
    """

    def __init__(self, minutes, learning_rate, warmup_share, path, num_steps=0):
        self.num_steps = num_steps
        self.seconds, self.peak, self.warmup_share, self.path = minutes * 60.0, learning_rate, warmup_share, path
        self.step, self.started, self.logged, self.first_step = 0, time.monotonic(), 0.0, 0.0
        open(path, "w", encoding="utf-8").close()

    def elapsed(self) -> float:
        return time.monotonic() - self.started

    def is_over(self) -> bool:
        return self.step >= self.num_steps if self.num_steps else self.elapsed() >= self.seconds

    def rate(self) -> float:
        """The learning rate of the step that begins now."""
        if self.num_steps:
            progress = self.step / self.num_steps
        else:
            progress = max(0.0, self.elapsed() - self.first_step) / max(self.seconds - self.first_step, 1e-9)
        if progress < self.warmup_share:
            return self.peak * progress / self.warmup_share
        return self.peak * max(0.0, 1.0 - progress)

    def took_step(self, mean_loss) -> None:
        """Counts a step, and writes a line to the log every ten seconds.

        Args:
            mean_loss: function that returns the mean loss since the previous line.
        """
        self.step += 1
        elapsed = self.elapsed()
        if self.step == 1:
            self.first_step = elapsed
        if elapsed - self.logged >= _SECONDS_BETWEEN_LINES or self.is_over():
            self.logged, loss = elapsed, mean_loss()
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps({"step": self.step, "seconds": round(elapsed, 1), "loss": loss}) + "\n")
            steps_left = (self.num_steps - self.step) * elapsed / self.step
            left = steps_left if self.num_steps else max(0.0, self.seconds - elapsed)
            print(
                f"step {self.step:,}  loss {loss:.3f}  {self.step / elapsed:.2f} steps/s  "
                f"ETA {left // 60:.0f}:{left % 60:02.0f}",
                flush=True,
            )


def time_budget_of(given):
    """Makes and starts the clock of a training.

    Args:
        given: dict. The JSON object that quality_peers passes to the script of a peer.

    Returns:
        TimeBudget.
    """
    names = ("minutes", "learning_rate", "warmup_share")
    return TimeBudget(*(given[name] for name in names), given["log"], given["num_steps"])

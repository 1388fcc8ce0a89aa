"""The output of a run: the progress line, metrics.jsonl, TensorBoard events and the curves."""

import contextlib
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TextIO

import tensorflow as tf
from tensorflow.core.util import event_pb2

from keras_bert_app.config.training_config import TrainingConfig
from keras_bert_app.runs import work_directory
from keras_bert_app.terminal.durations import duration
from keras_bert_app.terminal.progress import LiveLine, shown_while
from keras_bert_app.training.start import Start
from pipelines import storage

# A stream that is not a terminal, such as a file, keeps every line. The reporter therefore writes a line to it only
# after this many seconds without one. The interval is short in the first minute.
_SECONDS_BETWEEN_FIRST_LINES, _SECONDS_BETWEEN_LINES = 8.0, 60.0
_LONG_COMPILATION_SECONDS = 5.0  # the reporter prints a line that stays after a compilation of this length

# tf.summary.scalar writes this metadata, but needs the tensorboard package, which TensorFlow no longer installs.
_SCALAR = tf.compat.v1.SummaryMetadata(
    plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars"), data_class=1
)


class Reporter:
    """Shows and writes the figures of a run.

    A resumed run appends to metrics.jsonl. The reporter first drops the lines of steps that the run takes again.

    Args:
        workdir: the work directory, which gets metrics.jsonl, events/ and curves.png.
        first_step: the step that this part of the run starts from.
        run: TrainingConfig.
        objective: see training.losses.
        draw: function of the rows of metrics.jsonl and a title. It returns the curves as PNG.
        active: whether the reporter shows and writes anything. It is True only in the chief process.
        stream: the output; standard output by default.

    Attributes:
        evaluated_steps: set of the steps whose evaluation was in metrics.jsonl at the start.
    """

    def __init__(
        self,
        workdir: str,
        first_step: int,
        run: TrainingConfig,
        objective: Any,
        draw: Callable[[list[dict], str], bytes],
        active: bool = True,
        stream: TextIO | None = None,
    ):
        self.workdir, self.run, self.objective, self.draw, self.active = workdir, run, objective, draw, active
        self.live_line = LiveLine(stream, seconds_elsewhere=None)
        self.began = self.last_line = time.monotonic()
        if active:
            self.path = work_directory.path_in(workdir, "metrics.jsonl")
            self.evaluated_steps, has_dropped = _drop_later_steps(self.path, first_step)
            events = work_directory.path_in(workdir, "events")
            if has_dropped:
                _drop_later_events(events, first_step)
            self.events = tf.summary.create_file_writer(events)

    def live(self, step: int, figures: Callable[[], Mapping[str, float]], seconds_left: float | None = None) -> None:
        """Updates the progress line. A stream that is not a terminal gets a line only from time to time.

        Args:
            step: the step.
            figures: function that returns the figures of the line. The reporter calls it only if it shows the line.
            seconds_left: estimated seconds until the end of the run; None if unknown.
        """
        if self.active:
            self._show(lambda: self._progress(step, figures(), seconds_left))

    @contextlib.contextmanager
    def busy(self, step: int, what: str, seconds_left: Callable[[], float | None]) -> Iterator[None]:
        """Shows the duration of some work while the block runs. The block must print nothing.

        Args:
            step: number of steps that the run has taken.
            what: the name of the work, such as "compiling".
            seconds_left: function that returns the estimated seconds until the end of the run, or None.
        """
        if not self.active:
            yield
            return

        def text(seconds):
            parts = [self._steps(step), f"{what} {duration(seconds)}", self._eta(seconds_left())]
            return "  ".join(part for part in parts if part)

        with shown_while(lambda seconds: self._show(lambda: text(seconds)) if seconds >= 1.0 else None):
            yield

    @contextlib.contextmanager
    def first_of_shape(
        self, step: int, shape: tuple[int, ...], is_compiled: bool, seconds_left: Callable[[], float | None]
    ) -> Iterator[None]:
        """Shows the duration of the first call with batches of a shape. A long compilation leaves a line.

        Args:
            step: number of steps that the run has taken.
            shape: (rows, tokens a row) of the batches.
            is_compiled: whether XLA compiles the step. If not, the call lasts hardly longer than later ones.
            seconds_left: as for busy.
        """
        began, size = time.monotonic(), " x ".join(map(str, shape))
        with self.busy(step, "compiling" if is_compiled else f"first batch of {size} tokens", seconds_left):
            yield
        seconds = time.monotonic() - began
        if is_compiled and seconds >= _LONG_COMPILATION_SECONDS:
            self.say(f"{self._steps(step)}  compiled for batches of {size} tokens in {duration(seconds)}")

    def log(self, step: int, figures: Mapping[str, float], seconds_left: float | None = None) -> None:
        """Writes a row of metrics.jsonl and TensorBoard, and prints a line of progress.

        Args:
            step: the step.
            figures: dict name -> value.
            seconds_left: as for live.
        """
        if not self.active:
            return
        self.write(step, figures)
        self.say(self._progress(step, figures, seconds_left))

    def write(self, step: int, figures: Mapping[str, float]) -> None:
        """Writes a row of metrics.jsonl and TensorBoard. It writes the evaluation of a step only once.

        Args:
            step: the step.
            figures: dict name -> value. The names of an evaluation's figures begin with eval_.
        """
        if not self.active or (_is_evaluation(figures) and step in self.evaluated_steps):
            return
        row = {"step": int(step), **{name: as_written(value) for name, value in figures.items()}}
        with tf.io.gfile.GFile(self.path, "a") as file:
            file.write(json.dumps(row) + "\n")
        with self.events.as_default(step=step):
            for name, value in figures.items():
                tf.summary.write(name, tf.constant(value, tf.float32), metadata=_SCALAR)
        self.events.flush()

    def say(self, text: str) -> None:
        """Prints a line that stays.

        Args:
            text: the line.
        """
        if self.active:
            self.last_line = time.monotonic()
            self.live_line.say(text)

    def finish(self, step: int, seconds: float) -> None:
        """Prints the last line of a run, and draws its curves to WORKDIR/curves.png.

        Args:
            step: the last step.
            seconds: seconds that the whole run took.
        """
        if not self.active:
            return
        path = work_directory.path_in(self.workdir, "curves.png")
        title = f"{self.workdir}: {step:,} steps in {duration(seconds)}"
        storage.write_whole(path, self.draw(read_metrics(self.workdir), title))
        self.say(f"{step:,} steps in {duration(seconds)}; curves: {path}")

    def _show(self, text):
        """Shows text() on a terminal. Prints it to another stream if the last line is old enough."""
        if self.live_line.is_terminal:
            self.live_line.show(text)
            return
        now = time.monotonic()
        is_beginning = now - self.began < _SECONDS_BETWEEN_LINES
        if now - self.last_line >= (_SECONDS_BETWEEN_FIRST_LINES if is_beginning else _SECONDS_BETWEEN_LINES):
            self.say(text())

    def _steps(self, step):
        return f"step {step:,}" + ("" if self.run.train_minutes else f"/{self.run.num_train_steps:,}")

    def _progress(self, step, figures, seconds_left):
        parts = (
            [f"loss {figures['loss']:.3f}", self.objective.progress(figures)]
            if "loss" in figures
            else ["no step whose loss is finite"]
        )
        speed = f"{figures['tokens_per_second']:,.0f} tokens/s" if "tokens_per_second" in figures else ""
        return "  ".join(part for part in [self._steps(step), *parts, speed, self._eta(seconds_left)] if part)

    @staticmethod
    def _eta(seconds_left):
        """The last part of a progress line; "" if the time left is unknown."""
        return "" if seconds_left is None else f"ETA {duration(seconds_left)}"


def make_reporter(start: Start, state: dict[str, Any], objective: Any, draw: Callable) -> Reporter:
    """The Reporter of a run.

    Args:
        start: Start.
        state: state of the run, from initialization.initialize.
        objective: see training.losses.
        draw: see Reporter.
    """
    return Reporter(
        start.workdir,
        state["step"],
        start.run,
        objective,
        draw,
        active=start.is_chief,
        stream=start.stream,
    )


def read_metrics(workdir: str) -> list[dict[str, Any]]:
    """Reads the rows of WORKDIR/metrics.jsonl, without a line that a kill cut off.

    Args:
        workdir: the work directory.

    Returns:
        The rows; [] if the file does not exist.
    """
    lines = _lines_of(work_directory.path_in(workdir, "metrics.jsonl"))
    return [json.loads(line) for line in lines if line.endswith("}")]


def as_written(value: float) -> float:
    """Rounds a figure to seven significant digits, as in metrics.jsonl.

    Args:
        value: the figure.
    """
    return float(f"{value:.7g}")


def memory_mb() -> float:
    """The largest resident memory that this process has had, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def _lines_of(path):
    if not storage.is_file(path):
        return []
    with storage.open_file(path) as file:
        return file.read().decode("utf-8").splitlines()


def _is_evaluation(row):
    return any(name.startswith("eval_") for name in row)


def _drop_later_steps(path, step):
    """Drops the lines of steps after the resumed checkpoint, because the run writes them again.

    Returns:
        (set of the steps whose evaluation is among the remaining lines, whether a line was dropped).
    """
    if not storage.exists(path):
        return set(), False
    lines, kept, evaluated_steps = _lines_of(path), [], set()
    for line in lines:
        try:
            row = json.loads(line)
            if row["step"] <= step:
                kept.append(line)
                if _is_evaluation(row):
                    evaluated_steps.add(row["step"])
        except (ValueError, KeyError):
            continue  # a line that a kill cut off
    storage.write_whole(path, "".join(line + "\n" for line in kept))
    return evaluated_steps, len(kept) < len(lines)


def _drop_later_events(directory, step):
    """Drops the events of steps after the resumed checkpoint. TensorBoard would show them beside the new ones."""
    for name in storage.list_directory(directory):
        path, kept, has_later = os.path.join(directory, name), [], False
        try:
            for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
                if event_pb2.Event.FromString(record).step <= step:
                    kept.append(record)
                else:
                    has_later = True
        except tf.errors.DataLossError:  # a kill cut the last record
            pass
        if has_later:
            new = os.path.join(directory, "rewritten")
            with tf.io.TFRecordWriter(new) as writer:
                for record in kept:
                    writer.write(record)
            tf.io.gfile.rename(new, path, overwrite=True)

"""What a run shows: the live line, metrics.jsonl, TensorBoard events."""

import json
import resource
import sys
import time

import tensorflow as tf

from keras_bert_app.runs import work_directory
from keras_bert_app.terminal.durations import duration

# tf.summary.scalar needs the tensorboard package, which TensorFlow no longer brings; this is what it writes.
_SCALAR = tf.compat.v1.SummaryMetadata(
    plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars"), data_class=1
)


class Reporter:
    """Writes the figures of a run where people look for them.

    Args:
        workdir: metrics.jsonl, events/ and curves.png go there; a resumed run appends, after lines of steps that it takes
            again are dropped.
        first_step, seconds: where this part of the run begins. run: TrainingConfig. objective: see
            training.losses. draw: function of the rows of metrics.jsonl and a title that gives the PNG of the curves.
        active: False in processes other than the chief, which stay silent.
    """

    def __init__(self, workdir, first_step, seconds, run, objective, draw, active=True, stream=None):
        self.workdir, self.run, self.objective, self.draw, self.active = workdir, run, objective, draw, active
        self.run_began = time.monotonic() - seconds
        self.stream = stream or sys.stdout
        self.is_terminal = self.stream.isatty()
        self.first_step, self.started = first_step, None
        if active:
            self.path = work_directory.path_in(workdir, "metrics.jsonl")
            self.evaluated_steps = _drop_later_steps(self.path, first_step)
            self.events = tf.summary.create_file_writer(work_directory.path_in(workdir, "events"))

    def live(self, step, figures):
        """Rewrites the progress line, on a terminal only. Args: figures: a function that works them out."""
        if self.active and self.is_terminal:
            self.stream.write("\r" + self._line(step, figures()) + "\x1b[K")
            self.stream.flush()

    def log(self, step, figures):
        """One row of metrics.jsonl and TensorBoard, and one line of progress."""
        if not self.active:
            return
        self.write(step, figures)
        self.say(self._line(step, figures))

    def write(self, step, figures):
        """One row of metrics.jsonl and TensorBoard; an evaluation of a step stands there once, however often it is made."""
        if not self.active or (_is_evaluation(figures) and step in self.evaluated_steps):
            return
        row = {"step": int(step), **{name: as_written(value) for name, value in figures.items()}}
        with tf.io.gfile.GFile(self.path, "a") as file:
            file.write(json.dumps(row) + "\n")
        with self.events.as_default(step=step):
            for name, value in figures.items():
                tf.summary.write(name, tf.constant(value, tf.float32), metadata=_SCALAR)
        self.events.flush()

    def say(self, text):
        """A line of its own."""
        if self.active:
            self.stream.write(("\r" if self.is_terminal else "") + text + ("\x1b[K" if self.is_terminal else "") + "\n")
            self.stream.flush()

    def _line(self, step, figures):
        of_all = "" if self.run.train_minutes else f"/{self.run.num_train_steps:,}"
        parts = (
            [f"loss {figures['loss']:.3f}", self.objective.progress(figures)]
            if "loss" in figures
            else ["no step whose loss is finite"]
        )
        parts = [
            f"step {step:,}{of_all}",
            *parts,
            f"{figures['tokens_per_second']:,.0f} tokens/s",
            f"ETA {self._eta(step)}",
        ]
        return "  ".join(part for part in parts if part)

    def _eta(self, step):
        now = time.monotonic()
        if self.run.train_minutes:
            return duration(max(0.0, self.run.train_minutes * 60.0 - (now - self.run_began)))
        # The clock starts after the first call, which compiles.
        if self.started is None:
            self.started, self.first_step = now, step
        rate = (step - self.first_step) / max(now - self.started, 1e-9)
        return duration((self.run.num_train_steps - step) / rate) if rate > 0 else "--"

    def finish(self, step, seconds):
        """The last line of a run, and its curves as WORKDIR/curves.png."""
        if not self.active:
            return
        path = work_directory.path_in(self.workdir, "curves.png")
        work_directory.write_whole(
            path, self.draw(read_metrics(self.workdir), f"{self.workdir}: {step:,} steps in {duration(seconds)}")
        )
        self.say(f"{step:,} steps in {duration(seconds)}; curves: {path}")


def read_metrics(workdir):
    """The rows of WORKDIR/metrics.jsonl, [] before there are any; a line that a kill cut off is left out."""
    path = work_directory.path_in(workdir, "metrics.jsonl")
    if not tf.io.gfile.exists(path):
        return []
    with tf.io.gfile.GFile(path) as file:
        return [json.loads(line) for line in file.read().splitlines() if line.endswith("}")]


def as_written(value):
    """A figure as metrics.jsonl has it: with seven digits."""
    return float(f"{value:.7g}")


def memory_mb():
    """The most memory that this process has had resident, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def _is_evaluation(row):
    return any(name.startswith("eval_") for name in row)


def _drop_later_steps(path, step):
    """Drops lines of steps after the checkpoint that a run resumes from: they would stand there twice.

    Returns:
        set of the steps whose evaluation is among the lines kept.
    """
    if not tf.io.gfile.exists(path):
        return set()
    with tf.io.gfile.GFile(path) as file:
        lines = file.read().splitlines()
    kept, evaluated_steps = [], set()
    for line in lines:
        try:
            row = json.loads(line)
            if row["step"] <= step:
                kept.append(line)
                if _is_evaluation(row):
                    evaluated_steps.add(row["step"])
        except (ValueError, KeyError):
            continue  # a line cut by a kill
    work_directory.write_whole(path, "".join(line + "\n" for line in kept))
    return evaluated_steps

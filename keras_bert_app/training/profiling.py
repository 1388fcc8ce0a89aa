"""Profiles training steps: writes TensorFlow's trace, and prints the ops that take the most time."""

import bisect
import collections
import contextlib
import os
from collections.abc import Callable, Iterator

import tensorflow as tf

from keras_bert_app.runs import work_directory
from pipelines import storage

# The name of a training call in the trace. The trace also contains the evaluations between two calls.
_CALL = "call of training steps"


class Profiler:
    """Traces some steps after the first call, writes WORKDIR/profile and prints the ten most costly ops.

    Args:
        workdir: the work directory.
        num_steps: number of steps to trace; 0 for none.
        say: function that prints a line.
    """

    def __init__(self, workdir: str, num_steps: int, say: Callable[[str], None]):
        self.directory, self.remaining, self.say = work_directory.path_in(workdir, "profile"), num_steps, say
        self.num_steps, self.is_warm = 0, False

    @contextlib.contextmanager
    def watch(self, num_steps: int) -> Iterator[None]:
        """Traces the block, which is one call of training steps, if the profile needs more steps.

        Args:
            num_steps: number of steps of the call.
        """
        # The first call compiles, so its times are not typical.
        if not self.is_warm or self.remaining <= 0:
            self.is_warm = True
            yield
            return
        if not self.num_steps:
            tf.profiler.experimental.start(self.directory)
        with tf.profiler.experimental.Trace(_CALL):
            yield
        self.num_steps += num_steps
        self.remaining -= num_steps
        if self.remaining <= 0:
            self._report()

    def close(self) -> None:
        """Reports the traced steps of a run that ended before all steps were traced."""
        if self.remaining > 0 and self.num_steps:
            self._report()
        elif self.remaining > 0:
            self.say("profile: the run ended before a step after its first call could be traced")

    def _report(self):
        tf.profiler.experimental.stop()
        totals = op_times(self.directory)
        all_seconds = sum(seconds for _, seconds in totals.values())
        self.say(f"profile of {self.num_steps} steps: {self.directory}; the most costly ops, all threads:")
        for name, (count, seconds) in sorted(totals.items(), key=lambda item: -item[1][1])[:10]:
            self.say(
                f"  {name:32} {seconds / self.num_steps * 1e3:9.2f} ms a step {seconds / max(all_seconds, 1e-9):6.1%} "
                f"{count / self.num_steps:9.1f} times"
            )


def op_times(directory: str) -> dict[str, tuple[int, float]]:
    """Sums the times of ops in the newest trace below a directory, over all threads and devices.

    Only ops that begin within a training call count.

    Args:
        directory: the folder of the traces.

    Returns:
        dict op type -> (number of executions, seconds). The name of an XLA kernel is "XLA " and the kernel's name.
    """
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    # A glob would misread special characters in the name of the directory.
    traces = sorted(
        os.path.join(folder, name)
        for folder, _, names in tf.io.gfile.walk(os.path.join(directory, "plugins", "profile"))
        for name in names
        if name.endswith(".xplane.pb")
    )
    space = xplane_pb2.XSpace()
    with storage.open_file(traces[-1]) as file:
        space.ParseFromString(file.read())
    events = [
        (plane, line.timestamp_ns * 1000 + event.offset_ps, event)
        for plane in space.planes
        for line in plane.lines
        for event in line.events
    ]
    calls = sorted(
        (start, start + event.duration_ps)
        for plane, start, event in events
        if plane.event_metadata[event.metadata_id].name == _CALL
    )
    call_starts, totals = [start for start, _ in calls], collections.defaultdict(lambda: [0, 0.0])
    for plane, start, event in events:
        index = bisect.bisect_right(call_starts, start) - 1
        kind = _kind(plane, event)
        if kind and index >= 0 and start < calls[index][1]:
            totals[kind][0] += 1
            totals[kind][1] += event.duration_ps * 1e-12
    return {kind: tuple(total) for kind, total in totals.items()}


def _kind(plane, event):
    """The op type of an event; "" for an event of the runtime itself."""
    name = plane.event_metadata[event.metadata_id].name
    # TensorFlow writes ops as "name:Type", and oneDNN's ops as "name:_Type".
    op, _, kind = name.partition(":")
    kind = kind.removeprefix("_")
    if op and kind.isidentifier() and kind[0].isupper():
        return kind
    # Kernels of a compiled program have the statistic hlo_op. Events "end: name", which mark an end, have it too.
    is_kernel = any(plane.stat_metadata[stat.metadata_id].name == "hlo_op" for stat in event.stats)
    return f"XLA {name}" if is_kernel and not kind else ""

"""Where the time of a step goes: TensorFlow's own trace, and its most costly ops as a table."""

import bisect
import collections
import contextlib
import os

import tensorflow as tf

from keras_bert_app.runs import work_directory

_CALL = "call of training steps"  # in the trace, which evaluations between two calls are in too


class Profiler:
    """Traces some steps once a run is warm, writes WORKDIR/profile and prints the ten most costly ops.

    Args:
        num_steps: how many; 0 for none. say: prints a line.
    """

    def __init__(self, workdir, num_steps, say):
        self.directory, self.remaining, self.say = work_directory.path_in(workdir, "profile"), num_steps, say
        self.num_steps, self.is_warm = 0, False

    @contextlib.contextmanager
    def watch(self, num_steps):
        """Around one call of so many steps."""
        # The first call compiles.
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

    def close(self):
        """Reports what was traced of a run that ended first."""
        if self.remaining > 0 and self.num_steps:
            self._report()
        elif self.remaining > 0:
            self.say("profile: the run ended before a step after its first call could be traced")

    def _report(self):
        tf.profiler.experimental.stop()
        totals = op_times(self.directory)
        whole = sum(seconds for _, seconds in totals.values())
        self.say(f"profile of {self.num_steps} steps: {self.directory}; the most costly ops, all threads:")
        for name, (count, seconds) in sorted(totals.items(), key=lambda item: -item[1][1])[:10]:
            self.say(
                f"  {name:32} {seconds / self.num_steps * 1e3:9.2f} ms a step {seconds / max(whole, 1e-9):6.1%} "
                f"{count / self.num_steps:9.1f} times"
            )


def op_times(directory):
    """dict op type, or "XLA" and a kernel's name, -> (count, seconds) of the calls in the newest trace below a directory, added up
    over threads and devices."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    # Not by glob: the directory may have its signs in its name.
    traces = sorted(
        os.path.join(folder, name)
        for folder, _, names in tf.io.gfile.walk(os.path.join(directory, "plugins", "profile"))
        for name in names
        if name.endswith(".xplane.pb")
    )
    space = xplane_pb2.XSpace()
    with tf.io.gfile.GFile(traces[-1], "rb") as file:
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
    begins, totals = [start for start, _ in calls], collections.defaultdict(lambda: [0, 0.0])
    for plane, start, event in events:
        at = bisect.bisect_right(begins, start) - 1
        kind = _kind(plane, event)
        if kind and at >= 0 and start < calls[at][1]:
            totals[kind][0] += 1
            totals[kind][1] += event.duration_ps * 1e-12
    return {kind: tuple(total) for kind, total in totals.items()}


def _kind(plane, event):
    """What an event is counted as, "" for one of the runtime's."""
    name = plane.event_metadata[event.metadata_id].name
    # Ops are written "name:Type", those of oneDNN "name:_Type".
    op, _, kind = name.partition(":")
    kind = kind.removeprefix("_")
    if op and kind.isidentifier() and kind[0].isupper():
        return kind
    # What a compiled program runs has its op as a statistic; an end of something is written "end: name".
    is_kernel = any(plane.stat_metadata[stat.metadata_id].name == "hlo_op" for stat in event.stats)
    return f"XLA {name}" if is_kernel and not kind else ""

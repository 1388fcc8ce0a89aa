"""Parts R1 and R4 of the reliability benchmark: SIGKILL and SIGTERM at random moments of a run."""

import collections
import os
import re
import shutil
import signal
import time

from benchmarks.reliability import reliability_runs as runs
from benchmarks.reliability.reliability_runs import SAVE_STEPS

_LEAST_SHARE_IN_SAVES = 0.2  # at least 10 of 50 kills


def kills(bench, part: str, options) -> tuple[bool, str]:
    """R1: kills one run with SIGKILL many times, alternately at a random moment and inside a save.

    A kill counts as inside a save if it left a new checkpoint under a temporary name, or an old checkpoint that the
    save was about to delete.

    Args:
        bench: Bench.
        part: str. Name of the part, the folder of its runs.
        options: absl's FLAGS.

    Returns:
        (whether the part passed, line of figures).
    """
    steps = (3 * options.kills // 2 + 4) * SAVE_STEPS
    whole = bench.finished(f"{part}/whole", steps)
    workdir, notes = bench.path(part, "killed"), runs.Notes(bench.path(part, "kills.json"))
    places = notes.setdefault("places", [])
    save_seconds = 0.1
    while len(places) < options.kills:
        log = bench.path(part, f"life-{len(places) + 1}.log")
        in_save = len(places) % 2 == 1
        place = _kill(bench, workdir, steps, log, in_save, save_seconds)
        if place is None:
            break
        if in_save:  # adapts the pause, so that kills spread over the whole save
            save_seconds *= 1.05 if place.startswith("save") else 0.8
        places.append(place)
        notes.keep()
        bench.say(f"kill {len(places)}/{options.kills} at step {runs.last_step_in(log)}/{steps}, in: {place}")
    landed = len(places)
    code = bench.server.run(bench.flags(workdir, steps), bench.path(part, "last.log"))
    wrong = runs.differences(workdir, whole, steps) if code == 0 else [f"the last start ended with exit code {code}"]
    in_saves = sum(place.startswith("save") for place in places)
    leftovers = [name for name in os.listdir(os.path.join(workdir, "checkpoints")) if not name.startswith("step-")]
    counts = ", ".join(f"{count} {place}" for place, count in sorted(collections.Counter(places).items()))
    verdict = "; ".join(wrong) or "losses (7 digits), weights, slots and position equal bit for bit"
    seen = f"{landed} kills ({counts}), {steps} steps: {verdict}" + (
        f"; left behind: {', '.join(leftovers)}" if leftovers else ""
    )
    return not wrong and not leftovers and landed == options.kills and in_saves >= _LEAST_SHARE_IN_SAVES * landed, seen


def _kill(bench, workdir, steps, log, in_save, save_seconds):
    """Starts the run and kills it. Returns the place of the kill, or None if the run ended before the kill."""
    if os.path.exists(log):
        os.remove(log)
    command = bench.server.start(bench.flags(workdir, steps), log)
    before = runs.begun_saves(workdir)
    first = (runs.checkpoint_steps(workdir) or [0])[-1]
    # A kill comes up to three saves after the last checkpoint, so that the run makes progress between kills.
    target = first + (
        bench.generator.choice((0, SAVE_STEPS, 2 * SAVE_STEPS))
        if in_save
        else bench.generator.randint(1, 3 * SAVE_STEPS)
    )
    if not runs.wait_until(command, lambda: runs.last_step_in(log) >= max(target, first + 1)):
        return None
    if in_save:
        _wait_for_save(command, workdir, runs.begun_saves(workdir))
    time.sleep(bench.generator.uniform(0.0, save_seconds))
    if command.poll() is not None:
        return None
    command.send(signal.SIGKILL)
    command.wait()
    return _place(workdir, before)


def _wait_for_save(command, workdir, before):
    """Waits until the run begins a save that is not in `before`. Returns False if the run ends without such a save."""
    runs.wait_until(command, lambda: runs.begun_saves(workdir) - before, pause=0.0002)
    return bool(runs.begun_saves(workdir) - before)


def _place(workdir, before):
    """The place of a kill in the run, read from the files that it left."""
    for name, _, _ in runs.begun_saves(workdir) - before:
        files = os.listdir(os.path.join(workdir, "checkpoints", name))
        return "save, files complete but not renamed" if "manifest.json" in files else "save, files unfinished"
    # keep_checkpoints is 3. A fourth checkpoint exists from the rename until the oldest one is deleted.
    return "save, the oldest not yet deleted" if len(runs.checkpoint_steps(workdir)) > 3 else "training"


def signals(bench, part: str, options) -> tuple[bool, str]:
    """R4: sends SIGTERM at random moments, and continues the run.

    Every second stop gets another SIGTERM during the save.

    Args:
        bench: Bench.
        part: str. Name of the part, the folder of its runs.
        options: absl's FLAGS.

    Returns:
        (whether the part passed, line of figures).
    """
    steps = (options.stops + 2) * SAVE_STEPS
    whole = bench.finished(f"{part}/whole", steps)
    workdir, faults, during_save = bench.path(part, "stopped"), [], 0
    shutil.rmtree(workdir, ignore_errors=True)
    for number in range(1, options.stops + 1):
        log = bench.path(part, f"life-{number}.log")
        if os.path.exists(log):
            os.remove(log)
        first = (runs.checkpoint_steps(workdir) or [0])[-1]
        command = bench.server.start(bench.flags(workdir, steps), log)
        target = first + bench.generator.randint(1, SAVE_STEPS)
        if not runs.wait_until(command, lambda log=log, target=target: runs.last_step_in(log) >= target):
            faults.append(f"stop {number}: the run ended before step {target}")
            break
        before = runs.begun_saves(workdir)
        command.send(signal.SIGTERM)
        if number % 2 == 0:
            during_save += _wait_for_save(command, workdir, before)
            command.send(signal.SIGTERM)
        code = command.wait()
        with open(log, encoding="utf-8") as file:
            stopped = re.search(r"stopped by SIGTERM after step ([\d,]+), saved", file.read())
        saved = (runs.checkpoint_steps(workdir) or [0])[-1]
        if code != 128 + signal.SIGTERM or not stopped or int(stopped[1].replace(",", "")) != saved or saved < target:
            faults.append(
                f"stop {number}: exit {code}, message {stopped and stopped[0]!r}, saved {saved}, SIGTERM at {target}"
            )
        bench.say(f"stop {number}/{options.stops}: SIGTERM at step {target}, saved at {saved}, exit {code}")
    code = bench.server.run(bench.flags(workdir, steps), bench.path(part, "last.log"))
    faults += runs.differences(workdir, whole, steps) if code == 0 else [f"the last start ended with exit code {code}"]
    return not faults and during_save > 0, (
        f"{options.stops} stops, {during_save} with a second SIGTERM inside the save: "
        f"{'; '.join(faults) if faults else 'exit code 143, the step named and saved each time, end equal bit for bit'}"
    )

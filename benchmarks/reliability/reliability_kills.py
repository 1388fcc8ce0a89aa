"""R1 and R4 of benchmarks/reliability/reliability.py: processes that are killed, and processes that are asked to stop."""

import collections
import os
import re
import shutil
import signal
import time

from benchmarks.reliability import reliability_runs as runs
from benchmarks.reliability.reliability_runs import SAVE_STEPS

_LEAST_SHARE_IN_SAVES = 0.2  # 10 of 50


def kills(bench, part, options):
    """R1: one run killed with SIGKILL again and again, by turns at a random moment and inside a save.

    Where a kill landed is read from what it left: a checkpoint under its temporary name that was not there before.
    """
    steps = (3 * options.kills // 2 + 4) * SAVE_STEPS
    whole = bench.finished(f"{part}/whole", steps)
    workdir, notes = bench.path(part, "killed"), runs.Notes(bench.path(part, "kills.json"))
    places = notes.setdefault("places", [])
    save_seconds = 0.1
    while len(places) < options.kills:
        number, log = len(places), bench.path(part, f"life-{len(places)}.log")
        if os.path.exists(log):
            os.remove(log)
        command = bench.server.start(bench.flags(workdir, steps), log)
        in_save = number % 2 == 1
        before = runs.begun_saves(workdir)
        first = (runs.checkpoint_steps(workdir) or [0])[-1]
        # Up to three saves from here, so that the run gets on in spite of it all.
        target = first + (
            bench.generator.choice((0, SAVE_STEPS, 2 * SAVE_STEPS))
            if in_save
            else bench.generator.randint(1, 3 * SAVE_STEPS)
        )
        if not runs.wait_until(command, lambda: runs.last_step_in(log) >= max(target, first + 1)):
            break
        if in_save:
            known = runs.begun_saves(workdir)
            runs.wait_until(command, lambda: runs.begun_saves(workdir) - known, pause=0.0002)
        time.sleep(bench.generator.uniform(0.0, save_seconds))
        if command.poll() is not None:
            break
        command.send(signal.SIGKILL)
        command.wait()
        place = _place(workdir, before)
        if in_save:  # toward kills that are spread over the whole save
            save_seconds *= 1.05 if place.startswith("save") else 0.8
        places.append(place)
        notes.keep()
        bench.say(f"kill {len(places)}/{options.kills} at step {runs.last_step_in(log)}/{steps}, in: {place}")
    landed = len(places)
    code = bench.server.run(bench.flags(workdir, steps), bench.path(part, "last.log"))
    found = runs.differences(workdir, whole, steps) if code == 0 else [f"the last start ended with {code}"]
    in_saves = sum(place.startswith("save") for place in places)
    left = [name for name in os.listdir(os.path.join(workdir, "checkpoints")) if not name.startswith("step-")]
    counts = ", ".join(f"{count} {place}" for place, count in sorted(collections.Counter(places).items()))
    verdict = "; ".join(found) + " differ" if found else "all losses, weights, slots and the position equal bit for bit"
    seen = f"{landed} kills ({counts}), {steps} steps: {verdict}" + (
        f"; left behind: {', '.join(left)}" if left else ""
    )
    return not found and not left and landed == options.kills and in_saves >= _LEAST_SHARE_IN_SAVES * landed, seen


def _place(workdir, before):
    """Where a kill landed."""
    for name, _, _ in runs.begun_saves(workdir) - before:
        files = os.listdir(os.path.join(workdir, "checkpoints", name))
        return "save, whole but for its name" if "manifest.json" in files else "save, files unfinished"
    # keep_checkpoints is 3: a fourth stands there from the rename until the oldest is deleted.
    return "save, the oldest not yet deleted" if len(runs.checkpoint_steps(workdir)) > 3 else "training"


def signals(bench, part, options):
    """R4: SIGTERM at random moments, every other time again while the run saves; then the run goes on."""
    steps = (options.stops + 2) * SAVE_STEPS
    whole = bench.finished(f"{part}/whole", steps)
    workdir, faults, during_save = bench.path(part, "stopped"), [], 0
    shutil.rmtree(workdir, ignore_errors=True)
    for number in range(options.stops):
        log = bench.path(part, f"life-{number}.log")
        if os.path.exists(log):
            os.remove(log)
        first = (runs.checkpoint_steps(workdir) or [0])[-1]
        command = bench.server.start(bench.flags(workdir, steps), log)
        target = first + bench.generator.randint(1, SAVE_STEPS)
        if not runs.wait_until(command, lambda: runs.last_step_in(log) >= target):
            faults.append(f"stop {number}: the run ended before step {target}")
            break
        known = runs.begun_saves(workdir)
        command.send(signal.SIGTERM)
        if number % 2:
            runs.wait_until(command, lambda: runs.begun_saves(workdir) - known, pause=0.0002)
            is_saving = bool(runs.begun_saves(workdir) - known)
            command.send(signal.SIGTERM)
            during_save += is_saving
        code = command.wait()
        with open(log, encoding="utf-8") as file:
            told = re.search(r"stopped by SIGTERM after step ([\d,]+), saved", file.read())
        saved = (runs.checkpoint_steps(workdir) or [0])[-1]
        if code != 128 + signal.SIGTERM or not told or int(told[1].replace(",", "")) != saved or saved < target:
            faults.append(f"stop {number}: exit {code}, told {told and told[0]!r}, saved {saved}, asked at {target}")
        bench.say(f"stop {number + 1}/{options.stops} asked at step {target}, saved at {saved}, exit {code}")
    code = bench.server.run(bench.flags(workdir, steps), bench.path(part, "last.log"))
    faults += runs.differences(workdir, whole, steps) if code == 0 else [f"the last start ended with {code}"]
    return not faults and during_save > 0, (
        f"{options.stops} stops, {during_save} with a second SIGTERM inside the save: "
        f"{'; '.join(faults) if faults else 'each exit 143 with the step named and saved, the end equal bit for bit'}"
    )

"""Parts R2 and R5 of the reliability benchmark: restoring every checkpoint, and damaging each file of a checkpoint."""

import os
import shutil

from benchmarks.reliability import reliability_runs as runs

DAMAGES = {
    "deleted": None,
    "emptied": lambda content: b"",
    "cut by a byte": lambda content: content[:-1],
    "cut in half": lambda content: content[: len(content) // 2],
    "flipped at the beginning": lambda content: _flipped(content, 0),
    "flipped in the middle": lambda content: _flipped(content, len(content) // 2),
    "flipped at the end": lambda content: _flipped(content, len(content) - 1),
    "a digit flipped": lambda content: _flipped(content, next(i for i, byte in enumerate(content) if 48 <= byte < 58)),
}


def every_step(bench, part: str, options) -> tuple[bool, str]:
    """R2: keeps the checkpoint of every step of a run, and continues the run from each of them.

    Args:
        bench: Bench.
        part: str. Name of the part, the folder of its runs.
        options: absl's FLAGS.

    Returns:
        (whether the part passed, line of figures).
    """
    kept = {"save_checkpoints_steps": 1, "keep_checkpoints": options.steps + 1, "eval_steps": 7}
    whole = bench.finished(f"{part}/whole", options.steps, **kept)
    notes = runs.Notes(bench.path(part, "steps.json"))
    for step in range(1, options.steps):
        if str(step) in notes:
            continue
        workdir = bench.path(part, "again")
        shutil.rmtree(workdir, ignore_errors=True)
        shutil.copytree(whole, workdir, ignore=shutil.ignore_patterns("events", "curves.png"))
        for later in range(step + 1, options.steps + 1):
            shutil.rmtree(runs.checkpoint_dir(workdir, later))
        log = bench.path(part, "again.log")
        code = bench.server.run(bench.flags(workdir, options.steps, **kept), log)
        with open(log, encoding="utf-8") as file:
            if f"resumed at step {step} " not in file.read():
                code = code or f"no line 'resumed at step {step}'"
        notes[str(step)] = runs.differences(workdir, whole, options.steps) if code == 0 else [f"ended with {code}"]
        os.remove(log)
        notes.keep()
        bench.say(f"from step {step}/{options.steps}: {'; '.join(notes[str(step)]) or 'the same'}")
    wrong = {step: differences for step, differences in notes.items() if differences}
    return not wrong, (
        f"{len(notes)} restored steps of {options.steps}: "
        + (
            f"the rest of the run differs after {len(wrong)} of them, the first {next(iter(wrong.items()))}"
            if wrong
            else "the rest of the run equal bit for bit each time"
        )
    )


def damaged_files(bench, part: str, options) -> tuple[bool, str]:
    """R5: damages each file of the newest checkpoint in each way, and runs the command that resumes.

    Args:
        bench: Bench.
        part: str. Name of the part, the folder of its runs.
        options: absl's FLAGS.

    Returns:
        (whether the part passed, line of figures).
    """
    steps = 3 * runs.SAVE_STEPS
    whole = bench.finished(f"{part}/whole", steps)
    workdir, faults, refused, used = bench.path(part, "damaged"), [], 0, 0
    names = sorted(os.listdir(runs.checkpoint_dir(whole, 2 * runs.SAVE_STEPS)))
    for name in names:
        for damage, change in DAMAGES.items():
            _damaged_copy(whole, workdir, steps, name, change)
            log = bench.path(part, "damaged.log")
            if os.path.exists(log):
                os.remove(log)
            code = bench.server.run(bench.flags(workdir, steps), log)
            with open(log, encoding="utf-8") as file:
                output = file.read()
            is_named = name in output
            if code == 2 and f"step-{2 * runs.SAVE_STEPS:08d}" in output and is_named and "Traceback" not in output:
                verdict, refused = "file named, run refused", refused + 1
            elif (
                code == 0
                and f"resumed at step {runs.SAVE_STEPS} " in output
                and is_named
                and not runs.differences(workdir, whole, steps)
            ):
                verdict, used = "file named, checkpoint before it used", used + 1
            else:
                resumed = [line for line in output.splitlines() if "resumed at" in line or "from scratch" in line]
                verdict = f"NOT NOTICED: exit {code}, {resumed}"
                faults.append(f"{name} {damage}: exit {code}")
            bench.say(f"{name} {damage}: {verdict}")
    return not faults, (
        f"{len(names)} files x {len(DAMAGES)} damages: {refused} refused by name, {used} continued from "
        "the checkpoint before" + (f"; NOT NOTICED: {', '.join(faults)}" if faults else "")
    )


def _damaged_copy(whole, workdir, steps, name, change):
    """Copies a run without its last checkpoint, and damages a file of the newest checkpoint that is left."""
    shutil.rmtree(workdir, ignore_errors=True)
    shutil.copytree(whole, workdir, ignore=shutil.ignore_patterns("events", "curves.png"))
    shutil.rmtree(runs.checkpoint_dir(workdir, steps))
    path = os.path.join(runs.checkpoint_dir(workdir, 2 * runs.SAVE_STEPS), name)
    with open(path, "rb") as file:
        content = file.read()
    os.remove(path)
    if change is not None:
        with open(path, "wb") as file:
            file.write(change(content))


def _flipped(content, place):
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]

"""Part R7 of the reliability benchmark: a small file system is full while a run saves, logs or exports."""

import contextlib
import os
import shutil
import subprocess

from benchmarks.reliability import reliability_runs as runs
from benchmarks.reliability.reliability_runs import SAVE_STEPS
from keras_bert_app.errors import UserError

_STEPS = 4 * SAVE_STEPS
_MEGABYTES, _MOST_MEGABYTES = 16, 64


def disk_full(bench, part: str, options) -> tuple[bool, str]:
    """R7: fills a small disk while a run saves a checkpoint, while a run logs, and while a model is exported.

    The part checks the exit code, the message, the last good state and partial files. Then it frees space and repeats
    each command.

    Args:
        bench: Bench.
        part: str. Name of the part, the folder of its runs.
        options: absl's FLAGS.

    Returns:
        (whether the part passed, line of figures).
    """
    whole = bench.finished(f"{part}/whole", _STEPS)
    faults = []
    with _small_disk(bench.path(part, "disk"), options.small_disk) as disk:
        for name, attempt in (("checkpoint", _during_checkpoint), ("log", _during_log), ("export", _during_export)):
            faults_here = attempt(bench, part, disk, whole)
            verdict = "; ".join(faults_here) or "one error line, last good state intact, nothing partial"
            bench.say(f"disk full during {name}: {verdict}")
            faults += [f"{name}: {fault}" for fault in faults_here]
    kind = "the file system of --small_disk" if options.small_disk else f"a tmpfs of {_MEGABYTES} MB"
    verdict = "; ".join(faults) or (
        "exit code 2 with one error line each; with free space the export works and the runs end bit for bit equal"
    )
    return not faults, f"on {kind}: {verdict}"


@contextlib.contextmanager
def _small_disk(directory, given):
    """Provides an empty directory on a small file system, and empties the directory after the block."""
    directory = os.path.abspath(given) if given else directory
    if not given:
        os.makedirs(directory, exist_ok=True)
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={_MEGABYTES}m", "tmpfs", directory],
            capture_output=True,
            text=True,
            check=False,
        )
        if mounted.returncode:
            raise UserError(f"R7: cannot mount a tmpfs ({mounted.stderr.strip()}); run as root, or give --small_disk")
    elif not os.path.isdir(directory) or os.listdir(directory):
        raise UserError(f"--small_disk={directory}: expected an empty directory; make or empty it")
    elif not _MEGABYTES << 20 <= _free(directory) <= _MOST_MEGABYTES << 20:
        raise UserError(
            f"--small_disk={directory}: {_free(directory) / 2**20:,.1f} MB are free; expected {_MEGABYTES} to "
            f"{_MOST_MEGABYTES} MB; mount a file system of such a size, or leave the flag out"
        )
    try:
        yield directory
    finally:
        for name in os.listdir(directory):
            path = os.path.join(directory, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
        if not given:
            subprocess.run(["umount", directory], check=False)


def _free(directory):
    status = os.statvfs(directory)
    return status.f_bavail * status.f_frsize


def _fill(disk, leave):
    """Writes a file that leaves `leave` bytes of the disk free."""
    with open(os.path.join(disk, "filler"), "wb", buffering=0) as file:
        while (left := _free(disk) - leave) > 0:
            try:
                file.write(b"\0" * min(left, 1 << 20))
            except OSError:
                break


def _size(directory):
    paths = (os.path.join(directory, name) for name in os.listdir(directory))
    return sum(os.path.getsize(path) for path in paths if os.path.isfile(path))


def _interrupted_run(bench, part, disk, whole, name, leave, **changes):
    """Fills the disk of a run after its first checkpoint, then frees space and continues the run. Returns faults."""
    workdir, log = os.path.join(disk, name), bench.path(part, f"{name}.log")
    if os.path.exists(log):
        os.remove(log)
    command = bench.server.start(bench.flags(workdir, _STEPS, **changes), log)
    if not runs.wait_until(command, lambda: runs.checkpoint_steps(workdir)):
        return [f"the run ended with exit code {command.code} before its first checkpoint"]
    _fill(disk, leave)
    code = command.wait()
    with open(log, encoding="utf-8") as file:
        output = file.read()
    errors = [line for line in output.splitlines() if line.startswith("error: ")]
    faults = []
    if code != 2 or len(errors) != 1 or "Traceback" in output:
        faults.append(f"exit {code}, {len(errors)} error lines, last line {output.strip().splitlines()[-1][:150]!r}")
    elif "space" not in errors[0].lower():
        faults.append(f"the message does not say that the disk is full: {errors[0][:200]!r}")
    bench.say(f"{name}: exit {code}: {(errors or ['no error line'])[0][:300]}")
    os.remove(os.path.join(disk, "filler"))
    steps = runs.checkpoint_steps(workdir)
    code = bench.server.run(bench.flags(workdir, _STEPS, **changes), log)
    with open(log, encoding="utf-8") as file:
        if f"resumed at step {steps[-1]} " not in file.read() or code:
            return [*faults, f"after space was freed: exit {code}"]
    faults += runs.differences(workdir, whole, _STEPS)
    leftovers = [name for name in os.listdir(os.path.join(workdir, "checkpoints")) if not name.startswith("step-")]
    return faults + [f"{', '.join(leftovers)} left behind"] * bool(leftovers)


def _during_checkpoint(bench, part, disk, whole):
    return _interrupted_run(
        bench, part, disk, whole, "checkpoint", leave=_size(runs.checkpoint_dir(whole, _STEPS)) // 2
    )


def _during_log(bench, part, disk, whole):
    shutil.rmtree(os.path.join(disk, "checkpoint"), ignore_errors=True)
    return _interrupted_run(bench, part, disk, whole, "log", leave=0)


def _during_export(bench, part, disk, whole):
    from keras_bert_app.export import saved_models

    shutil.rmtree(os.path.join(disk, "log"), ignore_errors=True)
    export_dir, log = os.path.join(disk, "model"), bench.path(part, "export.log")
    flags, faults = ["export", f"--workdir={whole}", f"--export_dir={export_dir}"], []
    whole_export = bench.path(part, "model")
    if not os.path.isdir(whole_export) and bench.server.run(
        ["export", f"--workdir={whole}", f"--export_dir={whole_export}"], log
    ):
        return [f"the export to a disk with enough space failed; see {log}"]
    needed = sum(_size(root) for top in (whole_export, f"{whole_export}_ids") for root, _, _ in os.walk(top))
    # The disk becomes full in the export over ids, between the two exports, and in the raw-text export.
    for share in (0.2, 0.6, 0.9):
        _fill(disk, leave=int(needed * share))
        if os.path.exists(log):
            os.remove(log)
        code = bench.server.run(flags, log)
        with open(log, encoding="utf-8") as file:
            output = file.read()
        errors = [line for line in output.splitlines() if line.startswith("error: ")]
        bench.say(f"export with {share:.0%} of the needed space: exit {code}: {(errors or ['no error line'])[0][:300]}")
        if code != 2 or len(errors) != 1 or "Traceback" in output or "space" not in errors[0].lower():
            faults.append(f"with {share:.0%} of the space: exit {code}, {output.strip().splitlines()[-1:]}")
        for directory in (export_dir, f"{export_dir}_ids"):
            for name in os.listdir(directory) if os.path.isdir(directory) else ():
                try:
                    saved_models.load(os.path.join(directory, name))
                except (UserError, OSError) as error:
                    faults.append(f"with {share:.0%} of the space: {directory}/{name} is partial ({str(error)[:100]})")
        os.remove(os.path.join(disk, "filler"))
        shutil.rmtree(export_dir, ignore_errors=True)
        shutil.rmtree(f"{export_dir}_ids", ignore_errors=True)
    if bench.server.run(flags, log):
        faults.append("the export failed after space was freed")
    return faults

"""Parts R3 and R3b of the reliability benchmark: runs on several replicas or processes, and a killed worker."""

import os
import shutil
import signal

from benchmarks.reliability import reliability_runs as runs

_STEPS = 20
_TOLERANCE = 1e-6
_SAME = {
    "hidden_dropout_prob": 0,
    "attention_probs_dropout_prob": 0,
    "learning_rate": 1e-4,
    "num_warmup_steps": 2,
    "save_checkpoints_steps": 5,
}


def launched(num_workers: int, command: list[str]) -> list[str]:
    """The launch_workers command that runs another command in several processes.

    Args:
        num_workers: int. Number of processes.
        command: list of str. The other command and its flags.
    """
    flags = [flag for flag in command if not flag.startswith("--strategy=")]
    return ["launch_workers", f"--num_workers={num_workers}", "--", *flags]


def replicas_and_processes(bench, part: str, options) -> tuple[bool, str]:
    """R3: compares the weights after training on one device, two replicas, two processes and four processes.

    Args:
        bench: Bench.
        part: str. Name of the part, the folder of its runs.
        options: absl's FLAGS.

    Returns:
        (whether the part passed, line of figures).
    """
    del options
    one = bench.finished(f"{part}/one", _STEPS, **_SAME)
    # With a learning rate of 0 the run keeps its initial weights.
    initial = bench.finished(f"{part}/begun", 1, **{**_SAME, "learning_rate": 0})
    moved = _moved(initial, one)
    commands = {
        "2 replicas": lambda workdir: (bench.flags(workdir, _STEPS, **{**_SAME, "strategy": "mirrored"}), 2),
        "2 processes": lambda workdir: (launched(2, bench.flags(workdir, _STEPS, **_SAME)), 1),
        "4 processes": lambda workdir: (launched(4, bench.flags(workdir, _STEPS, **_SAME)), 1),
    }
    results, passed = [], moved > 100 * _TOLERANCE
    for name, command in commands.items():
        workdir = bench.path(part, name.replace(" ", "-"))
        shutil.rmtree(workdir, ignore_errors=True)
        arguments, logical_cpus = command(workdir)
        code = bench.server.run(arguments, f"{workdir}.log", logical_cpus)
        difference = runs.largest_difference(workdir, one, _STEPS) if code == 0 else float("inf")
        passed = passed and difference < _TOLERANCE
        results.append(f"{name} {difference:.1e}" if code == 0 else f"{name} ended with {code}")
        bench.say(f"{results[-1]} (largest difference of a weight from one replica, {_STEPS} steps)")
    return passed, (
        f"largest difference of a weight from one replica: {', '.join(results)}; "
        f"training moved weights by up to {moved:.1e}"
    )


def _moved(initial, one):
    """The largest change of a weight by training. The run `initial` has the initial weights of the run `one`."""
    before, after = runs.tensors(initial, 1), runs.tensors(one, _STEPS)
    return max(float(abs(before[name] - after[name]).max()) for name in before if name.startswith("model/"))


def worker_killed(bench, part: str, options) -> tuple[bool, str]:
    """R3b: kills one of two workers in the middle of a run. The launcher must start both again.

    One run loses worker 1, and another run loses worker 0, the chief.

    Args:
        bench: Bench.
        part: str. Name of the part, the folder of its runs.
        options: absl's FLAGS.

    Returns:
        (whether the part passed, line of figures).
    """
    del options
    whole = bench.path(part, "whole")
    steps = 4 * _STEPS
    if not os.path.exists(os.path.join(whole, "curves.png")):
        bench.say("training a run of two processes without disturbance")
        if bench.server.run(launched(2, bench.flags(whole, steps, **_SAME)), f"{whole}.log"):
            return False, f"the undisturbed run failed; see {whole}.log"
    faults = []
    for victim in (1, 0):
        workdir = bench.path(part, f"killed-{victim}")
        log = f"{workdir}.log"
        shutil.rmtree(workdir, ignore_errors=True)
        if os.path.exists(log):
            os.remove(log)
        command = bench.server.start(launched(2, bench.flags(workdir, steps, **_SAME)), log)
        if runs.wait_until(command, lambda log=log: runs.last_step_in(log) >= _STEPS):
            os.kill(_children(command.pid)[victim], signal.SIGKILL)
        code = command.wait()
        with open(log, encoding="utf-8") as file:
            has_restarted = f"worker {victim} was killed by SIGKILL; starting all 2 again" in file.read()
        wrong = runs.differences(workdir, whole, steps) if code == 0 else [f"ended with {code}"]
        faults += [f"worker {victim} killed: {fault}" for fault in wrong + ([] if has_restarted else ["no restart"])]
        bench.say(
            f"worker {victim} killed, {'restarted' if has_restarted else 'NOT restarted'}, exit {code}: "
            f"{'; '.join(wrong) or 'the end equal bit for bit'}"
        )
    return not faults, "; ".join(faults) or "worker 1 killed, then the chief: both runs go on and end bit for bit equal"


def _children(pid):
    """The process ids of a process's children in the order of their start."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]

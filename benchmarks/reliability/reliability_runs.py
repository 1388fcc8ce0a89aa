"""Commands for a small pretrain run, and the comparison of two runs, for the parts of the reliability benchmark."""

import contextlib
import json
import os
import random
import time
from collections.abc import Callable

import numpy as np

from pipelines import storage

SAVE_STEPS = 10
CLOCKS = ("tokens_per_second", "input_wait_share", "seconds", "memory_mb")  # figures that differ in every run
MODEL = {
    "hidden_size": 64,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": 128,
    "max_position_embeddings": 64,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
}
_SYLLABLES = "ba ce di fo gu ka le mi no pu ra se ti vo zu".split()


class Bench:
    """The directory of the runs, with the commands that start them.

    Args:
        directory: str. Directory of all runs.
        server: CommandServer.
        say: function that is called with each line of progress.
    """

    def __init__(self, directory: str, server, say: Callable[[str], None]):
        self.directory, self.server, self.say = directory, server, say
        self.generator = random.Random(5)

    def path(self, *names: str) -> str:
        return os.path.join(self.directory, *names)

    def prepare(self) -> None:
        """Makes a corpus of invented words and its vocabulary, unless they exist."""
        os.makedirs(self.directory, exist_ok=True)
        if os.path.exists(self.path("corpus", "manifest.json")):
            return
        generator = random.Random(1)
        words = ["".join(generator.choices(_SYLLABLES, k=generator.randint(1, 3))) for _ in range(300)]
        with open(self.path("text.txt"), "w", encoding="utf-8") as file:
            for _ in range(400):
                for _ in range(generator.randint(2, 12)):
                    file.write(" ".join(generator.choices(words, k=generator.randint(3, 12))) + ".\n")
                file.write("\n")
        for arguments in (
            [
                "learn_vocab",
                f"--input_files={self.path('text.txt')}",
                f"--vocab_file={self.path('vocab.txt')}",
                "--vocab_size=300",
                "--overwrite",
            ],
            [
                "prepare_corpus",
                f"--input_files={self.path('text.txt')}",
                f"--output_dir={self.path('corpus')}",
                "--holdout_fraction=0.1",
            ],
        ):
            if self.server.run(arguments, self.path("prepare.log")):
                raise RuntimeError(f"{arguments[0]} failed; see {self.path('prepare.log')}")

    def flags(self, workdir: str, num_train_steps: int, **changes) -> list[str]:
        """The pretrain command with its flags.

        Args:
            workdir: str. Work directory of the run.
            num_train_steps: int. Number of steps.
            **changes: flags with values that replace the usual values, including the flags of the model.
        """
        values = {
            "workdir": workdir,
            "corpus_dir": self.path("corpus"),
            "vocab_file": self.path("vocab.txt"),
            "config": "tiny",
            "max_seq_length": 32,
            "global_batch_size": 8,
            "num_train_steps": num_train_steps,
            "num_warmup_steps": 2,
            "save_checkpoints_steps": SAVE_STEPS,
            "eval_steps": 4 * SAVE_STEPS,
            "log_steps": 1,
            "iterations_per_loop": 1,
            "max_eval_steps": 2,
            "strategy": "one_device",
            **MODEL,
            **changes,
        }
        return ["pretrain", *(f"--{name}={value}" for name, value in values.items())]

    def finished(self, name: str, num_train_steps: int, **changes) -> str:
        """Trains a run without disturbance, unless an earlier call has finished it. Returns its work directory.

        Args:
            name: str. The work directory, relative to the directory of all runs.
            num_train_steps: int. Number of steps.
            **changes: as for the method flags.
        """
        workdir = self.path(name)
        if not os.path.exists(os.path.join(workdir, "curves.png")):  # a run writes this file last
            self.say(f"training {name}, {num_train_steps} steps without disturbance")
            code = self.server.run(self.flags(workdir, num_train_steps, **changes), self.path(f"{name}.log"))
            if code:
                raise RuntimeError(f"the undisturbed run {name} ended with exit code {code}; see {self.path(name)}.log")
        return workdir


class Notes(dict):
    """A dict in a JSON file. With it a stopped part continues at the work that is missing."""

    def __init__(self, path: str):
        self._path = path
        super().__init__()
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                self.update(json.load(file))

    def keep(self) -> None:
        storage.write_whole(self._path, json.dumps(self, indent=1))


def checkpoint_steps(workdir: str) -> list[int]:
    """Steps of the checkpoints that have their final name, oldest first.

    Args:
        workdir: str. The work directory of a run.
    """
    root = os.path.join(workdir, "checkpoints")
    return sorted(int(name[5:]) for name in os.listdir(root) if name.startswith("step-")) if os.path.isdir(root) else []


def checkpoint_dir(workdir: str, step: int) -> str:
    return os.path.join(workdir, "checkpoints", f"step-{step:08d}")


def begun_saves(workdir: str) -> set[tuple]:
    """(name, inode, time of change) of the checkpoints under a temporary name.

    Args:
        workdir: str. The work directory of a run.
    """
    root, saves = os.path.join(workdir, "checkpoints"), set()
    for name in os.listdir(root) if os.path.isdir(root) else ():
        if name.startswith("writing-"):
            with contextlib.suppress(FileNotFoundError):
                stat = os.stat(os.path.join(root, name))
                saves.add((name, stat.st_ino, stat.st_ctime_ns))
    return saves


def last_step_in(log: str) -> int:
    """The step of the last progress line in a file; 0 without such a line.

    Args:
        log: str. Path of the file.
    """
    step = 0
    if os.path.exists(log):
        with open(log, encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("step ") and line.endswith("\n"):
                    step = int(line[5:].split("/")[0].replace(",", ""))
    return step


def wait_until(command, condition: Callable[[], object], seconds: float = 300.0, pause: float = 0.0005) -> bool:
    """Waits for a condition while a command runs.

    Args:
        command: Command.
        condition: function that returns whether to stop waiting.
        seconds: float. Longest time to wait.
        pause: float. Seconds between two checks.

    Returns:
        Whether the condition became true before the command ended.

    Raises:
        RuntimeError: the condition does not become true and the command does not end within `seconds`.
    """
    until, polled = time.monotonic() + seconds, 0.0
    while not condition():
        now = time.monotonic()
        if now - polled > 0.05:
            polled = now
            if command.poll() is not None:
                return bool(condition())
        if now > until:
            raise RuntimeError(f"the command is still running after {seconds:.0f} s, without the expected step or file")
        time.sleep(pause)
    return True


def tensors(workdir: str, step: int) -> dict[str, np.ndarray]:
    """The weights and slots of a checkpoint by name.

    Args:
        workdir: str. The work directory of a run.
        step: int. Step of the checkpoint.
    """
    import tensorflow as tf

    reader = tf.train.load_checkpoint(os.path.join(checkpoint_dir(workdir, step), "checkpoint"))
    return {
        name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map() if name.endswith("VARIABLE_VALUE")
    }


def largest_difference(workdir: str, other: str, step: int) -> float:
    """The largest difference between the weights of two runs, without the optimizer's slots.

    Args:
        workdir: str. Work directory of a run.
        other: str. Work directory of the other run.
        step: int. Step of the checkpoints.
    """
    ours, theirs = tensors(workdir, step), tensors(other, step)
    return max(float(np.abs(ours[name] - theirs[name]).max()) for name in ours if name.startswith("model/"))


def rows(workdir: str) -> list[dict]:
    """The lines of metrics.jsonl without the figures in CLOCKS.

    Args:
        workdir: str. The work directory of a run.
    """
    with open(os.path.join(workdir, "metrics.jsonl"), encoding="utf-8") as file:
        return [{name: value for name, value in json.loads(line).items() if name not in CLOCKS} for line in file]


def differences(workdir: str, other: str, step: int) -> list[str]:
    """Lists the differences between two runs: lines of metrics.jsonl, and weights, slots and position at a step.

    Args:
        workdir: str. Work directory of a run.
        other: str. Work directory of the other run.
        step: int. Step of the checkpoints.

    Returns:
        list of str; [] if the runs are equal.
    """
    faults = []
    for kind, key in (("training", "loss"), ("evaluation", "eval_loss")):
        ours, theirs = ({row["step"]: row for row in rows(directory) if key in row} for directory in (workdir, other))
        wrong = sorted(number for number in ours.keys() | theirs.keys() if ours.get(number) != theirs.get(number))
        if wrong:
            faults.append(
                f"{kind} figures of {len(wrong)} steps differ, the first of step {wrong[0]}"
                + ("" if wrong[0] in ours else " (missing)")
            )
    ours, theirs = tensors(workdir, step), tensors(other, step)
    if ours.keys() != theirs.keys():
        faults.append("the names of the variables differ")
    wrong = [name for name in ours if name in theirs and ours[name].tobytes() != theirs[name].tobytes()]
    if wrong:
        faults.append(f"{len(wrong)} of {len(ours)} variables differ, the first {wrong[0]}")
    manifests = []
    for directory in (workdir, other):
        with open(os.path.join(checkpoint_dir(directory, step), "manifest.json"), encoding="utf-8") as file:
            manifests.append(json.load(file))
    keys = ("step", "position", "unlogged")
    faults += [f"{key} of the manifests differs" for key in keys if manifests[0][key] != manifests[1][key]]
    return faults

"""Kills, stops and damages training runs, fills their disks, and compares the results: goals R1 to R5 and R7.

python -m benchmarks.reliability.reliability --directory=runs/reliability
python -m benchmarks.reliability.reliability --directory=runs/reliability --parts=R1 --kills=50

The same command continues a stopped benchmark, because DIRECTORY/results.json has the results of the finished parts.
--again=R1,R4 deletes the results and runs of these parts first and runs them again; --parts must have them. The exit
code is 1 if a part fails.

The benchmark runs the pretrain command on a small text of invented words. --log_steps=1 logs the loss of every step, so
that the benchmark can compare all losses. Two runs are equal if the bits of weights, optimizer slots and position are
equal, and if the losses in metrics.jsonl are equal (seven digits).
"""

import os
import shutil
import sys
import time

from absl import flags

from benchmarks.reliability import reliability_disk, reliability_kills, reliability_resume, reliability_workers
from benchmarks.reliability.command_server import CommandServer
from benchmarks.reliability.reliability_runs import Bench, Notes
from keras_bert_app.cli.common import app
from keras_bert_app.errors import UserError

PARTS = {
    "R1": (reliability_kills.kills, "kill -9 at random moments"),
    "R2": (reliability_resume.every_step, "restored at every step"),
    "R3": (reliability_workers.replicas_and_processes, "replicas and processes"),
    "R3b": (reliability_workers.worker_killed, "a worker killed, all restarted"),
    "R4": (reliability_kills.signals, "SIGTERM, and a second one while saving"),
    "R5": (reliability_resume.damaged_files, "damaged checkpoint files"),
    "R7": (reliability_disk.disk_full, "disk full"),
}

_DIRECTORY = flags.DEFINE_string("directory", "runs/reliability", "Where the runs and the results go.")
_PARTS = flags.DEFINE_list("parts", list(PARTS), "Parts to run.")
_AGAIN = flags.DEFINE_list("again", [], "Parts of --parts whose results and runs are deleted first.")
flags.DEFINE_integer("kills", 50, "R1: how often the run is killed.", lower_bound=1)
flags.DEFINE_integer("steps", 30, "R2: length of the run.", lower_bound=2)
flags.DEFINE_integer("stops", 10, "R4: how often the run is stopped.", lower_bound=1)
flags.DEFINE_string(
    "small_disk",
    "",
    "R7: an empty directory on a file system with 16 to 64 MB free; by default a tmpfs, mounted as root.",
)


def main(arguments):
    del arguments
    for part in [*_PARTS.value, *_AGAIN.value]:
        if part not in PARTS:
            raise UserError(f"--parts or --again has {part!r}; the parts are {', '.join(PARTS)}")
    if not _PARTS.value:
        raise UserError(f"--parts is empty; expected at least one of {', '.join(PARTS)}")
    for part in _AGAIN.value:
        if part not in _PARTS.value:
            raise UserError(f"--again has {part!r}, but --parts={','.join(_PARTS.value)} does not run it; add it there")
    with app.quiet_start():
        pass  # this loads TensorFlow
    directory = os.path.abspath(_DIRECTORY.value)
    os.makedirs(directory, exist_ok=True)
    results = Notes(os.path.join(directory, "results.json"))
    for part in _AGAIN.value:
        results.pop(part, None)
        results.keep()
        shutil.rmtree(os.path.join(directory, part), ignore_errors=True)
    with CommandServer() as server:
        for part in _PARTS.value:
            if part in results:
                continue
            bench = Bench(directory, server, lambda line, part=part: print(f"{part}: {line}", flush=True))
            bench.prepare()
            os.makedirs(bench.path(part), exist_ok=True)
            started = time.monotonic()
            passed, seen = PARTS[part][0](bench, part, flags.FLAGS)
            results[part] = {"passed": passed, "seen": seen, "seconds": round(time.monotonic() - started)}
            results.keep()
            print(f"{part}: {'passed' if passed else 'FAILED'}: {seen}", flush=True)
    print("\n| part | what was done | what was seen | seconds | verdict |\n|---|---|---|---|---|")
    for part in _PARTS.value:
        result = results[part]
        print(
            f"| {part} | {PARTS[part][1]} | {result['seen']} | {result['seconds']} "
            f"| {'passed' if result['passed'] else 'FAILED'} |"
        )
    sys.exit(0 if all(results[part]["passed"] for part in _PARTS.value) else 1)


if __name__ == "__main__":
    app.run(main, __doc__)

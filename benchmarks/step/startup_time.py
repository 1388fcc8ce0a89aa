"""Measures how long every command takes to print its --help, and how long imports take beside `import tensorflow`.

taskset -c 0 python -m benchmarks.step.startup_time --rounds=5 --output_file=startup_time.json

Each measurement is a process of its own. A round runs all measurements once, in turn. The first round does not count,
because it compiles bytecode and reads files into memory. Wall time is the time that a person waits. CPU time is summed
over all threads. On one idle core it is about the wall time. The goals are that --help takes less than 1 second, and
an import less than 1.5 times as long as `import tensorflow`.
"""

import os
import pathlib
import statistics
import subprocess
import sys
import time

from absl import flags

from benchmarks.common import report
from benchmarks.common.this_machine import machine
from keras_bert_app.cli.common import app

_ROUNDS = flags.DEFINE_integer("rounds", 5, "Counted rounds.", lower_bound=1)
_PARTS = flags.DEFINE_multi_enum("parts", ["help", "import"], ["help", "import"], "What to measure.")
_PYTHON = flags.DEFINE_string(
    "transformers_python", "", "Interpreter with torch and transformers. Without it, transformers is not timed."
)
_OUTPUT_FILE = flags.DEFINE_string("output_file", "", "Where to write every figure as JSON.")

_CLI = pathlib.Path(__file__).parents[2] / "keras_bert_app" / "cli"
_TENSORFLOW = "import tensorflow"
_OURS = {
    "import keras_bert_app": "import keras_bert_app",
    "its model: from keras_bert_app import BertPretrainer": "from keras_bert_app import BertPretrainer",
    "all its names": "import keras_bert_app as app; [getattr(app, name) for name in dir(app)]",
}
_OTHERS = {name: name for name in (_TENSORFLOW, "import keras", "import keras_hub")}  # our model needs the first two
_TRANSFORMERS = "transformers' model: from transformers import BertForPreTraining"
_LIMITS = {"help": 1.0, "import": 1.5}


def main(arguments):
    del arguments
    verbs = sorted(path.stem for path in _CLI.glob("*.py") if path.stem != "__init__")
    commands = {
        "help": {verb: [sys.executable, "-m", f"keras_bert_app.cli.{verb}", "--help"] for verb in verbs},
        "import": {name: [sys.executable, "-c", code] for name, code in {**_OTHERS, **_OURS}.items()},
    }
    if _PYTHON.value:
        commands["import"][_TRANSFORMERS] = [_PYTHON.value, "-c", "from transformers import BertForPreTraining"]
    figures, lines = {"machine": machine(("tensorflow", "keras", "absl-py")), "rounds": _ROUNDS.value}, []
    print(f"{report.in_words(figures['machine'])}; {_ROUNDS.value} rounds", flush=True)
    for part in _PARTS.value:
        figures[part] = measured(commands[part])
        lines += table(part, figures[part])
        print("\n".join(table(part, figures[part])), flush=True)
    report.keep(
        _OUTPUT_FILE.value, figures, lines, lambda path: draw({part: figures[part] for part in _PARTS.value}, path)
    )


def measured(commands: dict[str, list[str]]) -> dict:
    """Runs commands in turn and measures how long they take.

    Args:
        commands: dict. Name -> command.

    Returns:
        dict. Name -> list of (wall, CPU) seconds in the counted rounds.
    """
    times = {name: [] for name in commands}
    for round_number in range(_ROUNDS.value + 1):
        for name, command in commands.items():
            seconds = run_time(command)
            if round_number:
                times[name].append(seconds)
    return times


def run_time(command: list[str]) -> tuple[float, float]:
    """Runs a process to its end. Returns its (wall, CPU) seconds.

    Args:
        command: list of str. The program and its arguments.
    """
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return time.perf_counter() - started, usage.ru_utime + usage.ru_stime


def table(part: str, times: dict):
    """Yields the lines of a table in Markdown.

    Args:
        part: str. "help" or "import". The table of imports also has their ratios to `import tensorflow`.
        times: dict. Name -> list of (wall, CPU) seconds.
    """
    is_import = part == "import"
    reference = [statistics.median(column) for column in zip(*times[_TENSORFLOW], strict=True)] if is_import else None
    head = ["--help of" if part == "help" else "import", "wall, s", "CPU, s"]
    head += ["times TensorFlow, wall", "times TensorFlow, CPU"] if reference else []
    yield f"\n| {' | '.join(head)} |\n|{'---|' * len(head)}"
    medians = {}
    for name, seconds in times.items():
        columns = list(zip(*seconds, strict=True))
        medians[name] = [statistics.median(column) for column in columns]
        cells = [
            f"{median:.2f} ({min(column):.2f} to {max(column):.2f})"
            for median, column in zip(medians[name], columns, strict=True)
        ]
        if reference:
            pairs = zip(medians[name], reference, strict=True)
            cells += [f"{median / tensorflow_median:.2f}" for median, tensorflow_median in pairs]
        yield f"| `{name}` | " + " | ".join(cells) + " |"
    units = reference or (1.0, 1.0)
    for clock, unit, column in zip(("wall", "CPU"), units, zip(*medians.values(), strict=True), strict=True):
        above = [
            name
            for name, median in zip(medians, column, strict=True)
            if is_ours(name) and median / unit > _LIMITS[part]
        ]
        yield (
            f"ours above {_LIMITS[part]:g}{' times TensorFlow' if reference else ' s'} by {clock} time: "
            f"{', '.join(above) or 'none'}"
        )


def is_ours(name: str) -> bool:
    """Whether a row is a command or an import of this package."""
    return name not in (*_OTHERS, _TRANSFORMERS)


def draw(parts: dict, path: str) -> None:
    """Draws bars of wall time, a panel for each part.

    Args:
        parts: dict. Part -> result of measured.
        path: str. File to write.
    """
    panels = {}
    for part, times in parts.items():
        walls = {name: list(zip(*seconds, strict=True))[0] for name, seconds in times.items()}
        panels["--help" if part == "help" else part] = {
            name: (statistics.median(wall), min(wall), max(wall)) for name, wall in walls.items()
        }
    report.draw_bars(panels, "Start-up\nseconds, wall, less is better", path, is_ours)


if __name__ == "__main__":
    app.run(main, __doc__)

"""Compiles the trainer's pre-training programs for TPUs without a TPU, and tabulates the largest batches that fit.

make compile-tpu
make compile-tpu ROWS=v5e/base/128/bfloat16/1,v5e/base/512/bfloat16/4

A row is CHIP/SIZE/S/PRECISION/PARTS. The command first lowers and compiles a batch that nearly fills the memory
according to `estimate`. From the memory that this batch leaves free, the command computes a second batch. The straight
line through both gives the largest batch that should fit, and the command compiles this batch too. It compiles at most
five batches for a row. The figures of a row are those of the largest batch that the compiler accepted.

Compiling a program takes minutes. --results_file keeps each result, so that a stopped run can continue. If the model
has changed, first delete --directory and --results_file, because they have the programs and results of the old model.
"""

import json
import os
import re
import subprocess
import sys

from absl import flags

from benchmarks.tpu.tpu_chips import CHIPS, floor_seconds, hbm_bytes, predicted_batch
from benchmarks.tpu.tpu_programs import STEPS_PER_CALL, Program, pretraining_run
from keras_bert_app.cli.common import app
from keras_bert_app.config.bert_config import PARTS, BertConfig
from keras_bert_app.errors import UserError
from keras_bert_app.estimation.estimate import largest_rows
from keras_bert_app.estimation.memory import training_memory
from pipelines import storage

_ROWS = flags.DEFINE_list("rows", [], "Rows of the table; empty: those of all sizes in bfloat16 on v5e.")
_PROGRAMS = flags.DEFINE_list(
    "programs", [], "Programs (benchmarks/tpu/tpu_programs.py) to compile for --chip, instead of --rows."
)
_CHIP = flags.DEFINE_enum("chip", "v5e", list(CHIPS), "The TPU of --programs.")
_LOWERING_PYTHON = flags.DEFINE_string("lowering_python", ".venv-tpu/bin/python", "Python with requirements-tpu.txt.")
_DIRECTORY = flags.DEFINE_string("directory", "runs/tpu", "Directory for the lowered programs.")
_RESULTS_FILE = flags.DEFINE_string("results_file", "runs/tpu/results.json", "File for the results.")

ACCUMULATED = 4  # parts of the rows with accumulation; any number above 1 needs the same memory
_LENGTHS = (128, 512)
_REFUSED = re.compile(r"(Used |HLO temporaries \()([\d.]+)([GM])(?: of [\d.]+[GM] hbm|\))")
_MOST_TRIES = 5
# A batch that takes this share of the memory counts as the largest. Near the limit the compiler saves memory, and a
# larger batch may need less than a smaller one.
_FULL = 0.95
_FIRST_SHARE = 0.97  # share of the memory that the first program takes according to `estimate`


class Figures:
    """Results of programs by CHIP:NAME.

    Each program is lowered and compiled once. A file keeps its result.

    Args:
        path: str. The JSON file.
    """

    def __init__(self, path: str):
        self.path, self.done = path, {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                self.done = json.load(file)

    def of(self, chip: str, program: Program) -> dict:
        """The figures of a program, as tpu_compiler.compile_file returns them."""
        key = f"{chip}:{program.name}"
        if key not in self.done:
            self.done[key] = _compiled(chip, program)
            os.makedirs(os.path.dirname(self.path) or ".", exist_ok=True)
            storage.write_whole(self.path, json.dumps(self.done, indent=1))
        print(f"{key:50} {described(chip, program, self.done[key])}", flush=True)
        return self.done[key]


def _compiled(chip, program):
    path = os.path.join(_DIRECTORY.value, program.name.replace("/", "-") + ".mlir")
    if not os.path.exists(path):
        subprocess.run(
            [
                _LOWERING_PYTHON.value,
                "-m",
                "benchmarks.tpu.check_tpu",
                f"--programs={program.name}",
                f"--output_dir={_DIRECTORY.value}",
            ],
            env={**os.environ, "TPU_LOAD_LIBRARY": "0"},
        )
    if not os.path.exists(path):
        raise UserError(
            f"program {program.name}: check_tpu did not write {path}, and printed the reason above; mend the cause, "
            "then give the same command again"
        )
    # Every program has its own process, since libtpu does not give back its memory.
    process = subprocess.run(
        [sys.executable, "-m", "benchmarks.tpu.tpu_compiler", f"--chip={chip}", f"--file={path}"],
        stdout=subprocess.PIPE,
        text=True,
    )
    if process.returncode:
        raise UserError(
            f"program {program.name}: the compiler's process for {chip} ended with exit code {process.returncode}, and "
            "printed the reason above. The earlier results are kept; give the same command again to continue"
        )
    return json.loads(process.stdout.splitlines()[-1])


def described(chip: str, program: Program, figures: dict) -> str:
    """A program's figures as one line of text.

    Args:
        chip: str. A key of CHIPS.
        program: Program.
        figures: dict. Figures of the program.
    """
    if "error" in figures:
        return f"refused: {refusal(figures['error'])} ({figures['seconds']:.0f} s)"
    seconds, bound = floor_seconds(CHIPS[chip], figures["flops"], figures["hbm_traffic"])
    megabytes = {name: figures[name] / 1e6 for name in ("arguments", "outputs", "aliased", "temporaries", "code")}
    return (
        f"compiled in {figures['seconds']:.0f} s; HBM {hbm_bytes(figures) / 1e9:.2f} GB ("
        + ", ".join(f"{name} {value:,.0f} MB" for name, value in megabytes.items())
        + f"); {figures['flops'] / 1e9:,.0f} GFLOP, {figures['hbm_traffic'] / 1e9:,.2f} GB through HBM; floor "
        f"{seconds * 1e3:.2f} ms, by {bound}; {figures.get('cycles', 0) / 1e6:,.1f} million cycles by the compiler's "
        "estimate"
    )


def refusal(error: str) -> str:
    """The part of a compiler's message about missing memory, or the beginning of another message.

    Args:
        error: str. The compiler's message.
    """
    match = re.search(r"Ran out of memory[^.]*\.\s*Used [^.]*\.[^.]*\.[^.]*", error)
    return " ".join((match[0] if match else error[:200]).split())


def needed_bytes(figures: dict, argument_bytes: int) -> float | None:
    """The HBM of a program in bytes; None if it was refused for another reason than its size.

    Args:
        figures: dict. The program's figures.
        argument_bytes: int. Bytes of its arguments. The message about "HLO temporaries" does not include them.
    """
    if "error" not in figures:
        return hbm_bytes(figures)
    match = _REFUSED.search(figures["error"])
    if not match:
        return None
    return float(match[2]) * {"G": 2**30, "M": 2**20}[match[3]] + (0 if match[1] == "Used " else argument_bytes)


def largest(
    figures: Figures, chip: str, size: str, length: int, precision: str, parts: int
) -> tuple[Program, dict] | None:
    """Compiles programs to find the most rows that fit.

    Args:
        figures: Figures.
        chip: str. A key of CHIPS.
        size: str. Published size of the model.
        length: int. Tokens in a row.
        precision: str. Compute type.
        parts: int. Number of parts of a batch. The core computes one part after the other.

    Returns:
        (Program, its figures); None if no program fits.
    """

    def program_of(rows):
        return Program("pretrain", size, length, precision, rows * parts, parts)

    memory, sizes = CHIPS[chip].memory, {}
    rows = max(8, largest_rows(lambda rows: _memory(program_of(rows))[0] <= _FIRST_SHARE * memory) // 8 * 8)
    while rows and rows not in sizes and len(sizes) < _MOST_TRIES:
        result = figures.of(chip, program_of(rows))
        sizes[rows] = needed_bytes(result, _memory(program_of(rows))[1])
        if sizes[rows] is None:
            return None
        if "error" not in result and sizes[rows] >= _FULL * memory:
            break
        if len(sizes) > 1:
            nearest = sorted(sizes, key=lambda each: abs(sizes[each] - memory))[:2]
            rows = predicted_batch({each: sizes[each] for each in nearest}, memory)
            if rows <= max(
                (each for each in sizes if "error" not in figures.done[f"{chip}:{program_of(each).name}"]), default=0
            ):
                break
        elif "error" in result:
            rows = int(rows * memory / sizes[rows]) // 8 * 8
        else:
            # Assume that all temporaries grow with the rows.
            rows = int(rows * (1 + (memory - sizes[rows]) / result["temporaries"])) // 8 * 8
    fitting = [rows for rows in sizes if "error" not in figures.done[f"{chip}:{program_of(rows).name}"]]
    if not fitting:
        return None
    program = program_of(max(fitting))
    return program, figures.done[f"{chip}:{program.name}"]


def _memory(program):
    """(bytes of a Program according to `estimate`, bytes of its arguments alone).

    These programs contain the loop over the steps, so all batches of a call are their arguments. `estimate` does not
    count these batches, since on a TPU the host runs the loop.
    """
    run = pretraining_run(program)
    needed = training_memory(
        BertConfig.of_size(program.size), run, PARTS, program.batch_size // program.parts, device="TPU"
    )
    numbers = 3 * run.max_seq_length + 3 * run.max_predictions_per_seq + 1
    batches = 4 * STEPS_PER_CALL * program.batch_size * numbers
    return needed.peak + batches, needed.weights + needed.slots + batches


def table_line(row: str, result: tuple[Program, dict] | None) -> str:
    """A line of the table.

    Args:
        row: str. CHIP/SIZE/S/PRECISION/PARTS.
        result: result of `largest`.
    """
    chip, size, length, precision, parts = row.split("/")
    if result is None:
        return f"| {chip} | {size} | {length} | {precision} | {parts} | none | | | |"
    program, figures = result
    rows_at_a_time = program.batch_size // program.parts
    # For a step in parts, the compiler counts the loop's body once, so its figures do not give the step's time.
    rate = bound = ""
    if program.parts == 1:
        seconds, bound = floor_seconds(CHIPS[chip], figures["flops"], figures["hbm_traffic"])
        rate = f"{rows_at_a_time * program.length / seconds:,.0f}"
    return (
        f"| {chip} | {size} | {length} | {precision} | {parts} | {rows_at_a_time} | "
        f"{hbm_bytes(figures) / 1e9:.2f} | {rate} | {bound} |"
    )


def usual_rows() -> list[str]:
    """The rows of all sizes on v5e in bfloat16, without and with accumulation."""
    return [
        f"v5e/{size}/{length}/bfloat16/{parts}"
        for size in ("base", "tiny", "small", "medium", "mini", "large")
        for length in _LENGTHS
        for parts in (1, ACCUMULATED)
    ]


def main(arguments):
    del arguments
    rows = _ROWS.value or usual_rows()
    for row in rows:
        parts = row.split("/")
        if len(parts) != 5 or parts[0] not in CHIPS or parts[2] not in map(str, _LENGTHS) or parts[4] in ("", "0"):
            raise UserError(
                f"--rows: {row!r}: expected CHIP/SIZE/S/PRECISION/PARTS, such as v5e/base/128/bfloat16/1; "
                f"S is {' or '.join(map(str, _LENGTHS))}"
            )
        Program.named(f"pretrain/{'/'.join(parts[1:4])}/{parts[4]}/{parts[4]}")
    figures = Figures(_RESULTS_FILE.value)
    if _PROGRAMS.value:
        for name in _PROGRAMS.value:
            figures.of(_CHIP.value, Program.named(name))
        return
    lines = []
    for row in rows:
        chip, size, length, precision, parts = row.split("/")
        lines.append(table_line(row, largest(figures, chip, size, int(length), precision, int(parts))))
    print(
        "\n| chip | model | S | precision | parts | most rows at a time | HBM, GB | tokens/s at most | bound by |\n"
        "|---|---|---|---|---|---|---|---|---|"
    )
    print("\n".join(lines))


if __name__ == "__main__":
    app.run(main, __doc__)

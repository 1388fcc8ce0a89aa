"""Compares the estimates of `estimate` for a training step with real steps on this CPU.

taskset -c 0 python -m benchmarks.step.estimate_check --output_file=estimate_check.json
taskset -c 0 python -m benchmarks.step.estimate_check --steps= --corpus_dir=CORPUS --vocab_file=VOCAB

An entry of --steps is SIZE:ROWS:LENGTH:PRECISION or SIZE:ROWS:LENGTH:PRECISION:PARTS. PARTS is the value of
--gradient_accumulation_steps. Each entry is a real training step in a process of its own (measured_step.py).

Measured memory is the peak of TensorFlow's allocator within a step, less its memory between steps. Estimated memory is
the peak that `estimate` computes, less weights and slots. The table also has the resident memory, which includes the
traced graph and the compiler. Time is CPU time. The rate of a step divided by the rate of a large product in the same
process is a value for --utilization.

--corpus_dir is a directory that prepare_corpus wrote. With this flag the benchmark counts the rows of an epoch and the
positions per word. White space separates the words.
"""

import json
import os
import subprocess
import sys

from absl import flags

from benchmarks.common import count_flags
from benchmarks.common.report import draw_bars, in_words, keep
from benchmarks.common.this_machine import machine
from keras_bert_app.cli.common import app
from keras_bert_app.config.bert_config import PARTS, BertConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.errors import UserError
from keras_bert_app.estimation import hardware
from keras_bert_app.estimation.counts import flop_per_token, parameters
from keras_bert_app.estimation.memory import training_memory
from pipelines.choices import OBJECTIVES

_STEPS = flags.DEFINE_list(
    "steps",
    [
        "tiny:8:128:float32",
        "tiny:32:128:float32",
        "tiny:8:512:float32",
        "mini:2:128:float32",
        "mini:16:128:float32",
        "small:1:128:float32",
        "small:8:128:float32",
        "tiny:32:128:bfloat16",
        "mini:8:128:bfloat16",
        "mini:32:128:float32:4",
        "base:1:128:float32",
    ],
    "Steps to measure, SIZE:ROWS:LENGTH:PRECISION[:PARTS].",
)
_COMPILED = flags.DEFINE_enum("compiled", "parts", ["parts", "step", "none"], "Value of --jit_compile in each step.")
_TIMES = flags.DEFINE_integer("times", 2, "Number of steps in the measured call.", lower_bound=1)
_CORPUS_DIR = flags.DEFINE_string("corpus_dir", "", "Directory of a corpus. The command counts its positions per word.")
_VOCAB_FILE = flags.DEFINE_string("vocab_file", "", "Vocabulary for --corpus_dir.")
_LENGTHS = count_flags.define("lengths", [128, 512], "Lengths of rows in tokens, for --corpus_dir.")
_OBJECTIVE = flags.DEFINE_enum(
    "sentence_objective", "nsp", OBJECTIVES, "Value of this flag of pretrain, for --corpus_dir."
)
_OUTPUT_FILE = flags.DEFINE_string(
    "output_file", "", "JSON file for all figures. The table and the picture are written beside it."
)


def main(arguments):
    del arguments
    steps = [_parsed(step) for step in _STEPS.value]
    if not steps and not _CORPUS_DIR.value:
        raise UserError(
            "--steps is empty and --corpus_dir is not given, so there is nothing to measure; give one of the two"
        )
    if _CORPUS_DIR.value:
        app.required("vocab_file")
    figures, lines = {"machine": machine(("tensorflow", "keras")), "steps": [], "lengths": {}}, []
    print(in_words(figures["machine"]), end="\n\n", flush=True)
    if steps:
        figures["steps"] = compared(steps, lines)
    if _CORPUS_DIR.value:
        figures["lengths"] = counted_positions(_CORPUS_DIR.value, _VOCAB_FILE.value, lines)
    keep(_OUTPUT_FILE.value, figures, lines, lambda path: draw(figures["steps"], figures["lengths"], path))


def _parsed(step):
    try:
        size, rows, length, precision, *parts = step.split(":")
        config = BertConfig.of_size(size)
        run = PretrainingConfig(
            global_batch_size=int(rows),
            max_seq_length=int(length),
            precision=precision,
            gradient_accumulation_steps=int(*parts or [1]),
            jit_compile=_COMPILED.value,
        ).resolved()
    except ValueError as error:
        raise UserError(
            f"--steps: {step!r} is not SIZE:ROWS:LENGTH:PRECISION[:PARTS], as in tiny:8:128:float32 ({error})"
        ) from None
    return size, config, run


def _say(lines, *more):
    """Prints lines of the tables and appends them to `lines`."""
    lines += more
    print("\n".join(more), flush=True)


def compared(steps: list[tuple], lines: list[str]) -> list[dict]:
    """Measures each step and compares it with its estimate.

    Args:
        steps: list of (size, BertConfig, PretrainingConfig).
        lines: list of str. The table's lines are printed and appended to it.

    Returns:
        list of dict: the figures of each step.
    """
    _say(
        lines,
        "| config | rows x tokens, parts | precision | memory, estimate, MB | allocator's peak | estimate / peak "
        "| resident | GFLOP a step | CPU ms | GFLOP/s | of a large product |",
        "|---" * 11 + "|",
    )
    results = []
    for size, config, run in steps:
        rows, length = run.global_batch_size, run.max_seq_length
        parts = run.gradient_accumulation_steps
        request = {
            "size": size,
            "rows": rows,
            "length": length,
            "precision": run.precision,
            "times": _TIMES.value,
            "parts": parts,
            "compiled": run.jit_compile,
        }
        figures = _measured(request)
        num_parameters = sum(parameters(config).values())
        if figures["parameters"] != num_parameters:
            raise UserError(
                f"the built model {size} has {figures['parameters']:,} parameters; `estimate` counts {num_parameters:,}"
            )
        needed = training_memory(config, run, PARTS, rows // parts, hardware.DEVICES["cpu"].multiplies_bfloat16)
        estimate = needed.peak - needed.weights - needed.slots
        flop = rows * length * flop_per_token(config, length, run.max_predictions_per_seq)
        rate = flop / figures["cpu_seconds"]
        cells = [
            size,
            f"{rows} x {length}, {parts}",
            run.precision,
            f"{estimate / 1e6:,.0f}",
            f"{figures['peak_bytes'] / 1e6:,.0f}",
            f"{estimate / figures['peak_bytes']:.2f}",
            f"{figures['resident_bytes'] / 1e6:,.0f}",
            f"{flop / 1e9:,.1f}",
            f"{figures['cpu_seconds'] * 1e3:,.0f}",
            f"{rate / 1e9:,.1f}",
            f"{rate / figures['product_flop_per_second']:.2f}",
        ]
        _say(lines, f"| {' | '.join(cells)} |")
        results.append({**request, **figures, "estimated_bytes": estimate, "flop": flop})
    return results


def _measured(request):
    """Runs measured_step with a request. Returns its figures."""
    command = [sys.executable, "-m", "benchmarks.step.measured_step", json.dumps(request)]
    # Standard error is not captured, so that the user sees errors at once.
    process = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, env={"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ}
    )
    if process.returncode:
        raise UserError(
            f"{request['size']}: measured_step ended with exit code {process.returncode}; its error message is above"
        )
    return json.loads(process.stdout)


def counted_positions(corpus_dir: str, vocab_file: str, lines: list[str]) -> dict[int, dict]:
    """Counts the rows of one epoch and the positions per word, for each length in --lengths.

    Args:
        corpus_dir: str. Directory of the corpus.
        vocab_file: str. The vocabulary.
        lines: list of str. The table's lines are printed and appended to it.

    Returns:
        dict. Length -> dict with words, rows and positions_per_word.
    """
    with app.quiet_start():
        import tensorflow as tf

        from pipelines import BertTokenizer, pretraining_dataset
        from pipelines.corpus import preparation

    manifest = preparation.load_manifest(corpus_dir)
    shards, words = preparation.shard_paths(corpus_dir, manifest, "train"), manifest["train"]["words"]
    tokenizer = BertTokenizer(vocab_file, True)
    _say(
        lines,
        *([""] if lines else []),
        "| tokens a row | words | rows of an epoch | positions a word |",
        "|---" * 4 + "|",
    )
    counts = {}
    for length in _LENGTHS.value:
        batches = pretraining_dataset(
            shards,
            tokenizer,
            global_batch_size=512,
            epochs=1,
            max_seq_length=length,
            max_predictions_per_seq=max(1, round(0.15 * length)),
            sentence_objective=_OBJECTIVE.value,
        )
        # The last batch may have empty rows, whose mask is 0. They do not count.
        rows = sum(int(tf.reduce_sum(batch["input_mask"][:, 0])) for batch in batches)
        counts[length] = {"words": words, "rows": rows, "positions_per_word": rows * length / words}
        _say(lines, f"| {length} | {words:,} | {rows:,} | {counts[length]['positions_per_word']:.2f} |")
    return counts


def draw(steps: list[dict], lengths: dict[int, dict], path: str) -> None:
    """Draws bars of estimated and measured memory, of rates, and of the positions per word.

    Args:
        steps: list of dict. Result of compared; [] for no panels of steps.
        lengths: dict. Result of counted_positions; {} for no panel of positions.
        path: str. File to write.
    """
    panels = {"memory of a step, MB": {}, "share of a large product": {}, "positions a word": {}}
    memory, rate, positions = panels.values()
    for step in steps:
        name = ":".join(str(step[part]) for part in ("size", "rows", "length", "precision", "parts"))
        memory[f"{name}, estimate"] = (step["estimated_bytes"] / 1e6,) * 3
        memory[f"{name}, peak"] = (step["peak_bytes"] / 1e6,) * 3
        rate[name] = (step["flop"] / step["cpu_seconds"] / step["product_flop_per_second"],) * 3
    for length, counted in lengths.items():
        positions[f"{length} tokens a row"] = (counted["positions_per_word"],) * 3
    draw_bars(
        {title: bars for title, bars in panels.items() if bars},
        "Estimates and real steps on this CPU\nestimated in blue, measured in grey",
        path,
        lambda name: name.endswith("estimate"),
    )


if __name__ == "__main__":
    app.run(main, __doc__)

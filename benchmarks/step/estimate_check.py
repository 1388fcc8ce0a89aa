"""What `estimate` says of a training step beside what a real one takes on this CPU.

taskset -c 0 python -m benchmarks.step.estimate_check --output_file=estimate_check.json
taskset -c 0 python -m benchmarks.step.estimate_check --steps= --corpus_dir=CORPUS --vocab_file=VOCAB

Each entry of --steps, SIZE:ROWS:LENGTH:PRECISION or with :PARTS (--gradient_accumulation_steps) after it, is a real
training step in a process of its own (measured_step.py). Memory is the peak of TensorFlow's own allocator within a
step, less what is there between steps, against the estimate's peak less weights and slots; resident memory, with the
traced graph and the compiler's, stands beside it. Time is CPU time, against FLOP at the rate of a large product in the
same process: that quotient is what --utilization wants to know.

With --corpus_dir, what prepare_corpus wrote: rows of an epoch, and positions that a word (between white space) takes.
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
_COMPILED = flags.DEFINE_enum("compiled", "parts", ["parts", "step", "none"], "What --jit_compile is.")
_TIMES = flags.DEFINE_integer("times", 2, "Steps in the call that is measured.", lower_bound=1)
_CORPUS_DIR = flags.DEFINE_string("corpus_dir", "", "Corpus whose positions a word are counted.")
_VOCAB_FILE = flags.DEFINE_string("vocab_file", "", "Its vocabulary.")
_LENGTHS = count_flags.define("lengths", [128, 512], "Tokens a row, for the positions a word.")
_OBJECTIVE = flags.DEFINE_enum("sentence_objective", "nsp", OBJECTIVES, "As of pretrain, for the positions a word.")
_OUTPUT_FILE = flags.DEFINE_string(
    "output_file", "", "Where to write every figure as JSON; table and picture beside it."
)


def main(arguments):
    del arguments
    steps = [_parsed(step) for step in _STEPS.value]
    if not steps and not _CORPUS_DIR.value:
        raise UserError("--steps= leaves nothing to measure; give steps, or --corpus_dir")
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


def _tell(lines, *more):
    """Prints lines of the tables and adds them to those before."""
    lines += more
    print("\n".join(more), flush=True)


def compared(steps, lines):
    """Measures, tells and returns each step beside its estimate."""
    _tell(
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
        command = [sys.executable, "-m", "benchmarks.step.measured_step", json.dumps(request)]
        # What goes wrong is shown as it comes.
        measured = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, env={"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ}
        )
        if measured.returncode:
            raise UserError(
                f"{size}: the step that was to be measured ended with exit code {measured.returncode}; what it said is above"
            )
        seen = json.loads(measured.stdout)
        if seen["parameters"] != sum(parameters(config).values()):
            raise UserError(f"{size} has {seen['parameters']:,} parameters, not {sum(parameters(config).values()):,}")
        needed = training_memory(config, run, PARTS, rows // parts, hardware.DEVICES["cpu"].multiplies_bfloat16)
        estimate = needed.peak - needed.weights - needed.slots
        flop = rows * length * flop_per_token(config, length, run.max_predictions_per_seq)
        rate = flop / seen["cpu_seconds"]
        cells = [
            size,
            f"{rows} x {length}, {parts}",
            run.precision,
            f"{estimate / 1e6:,.0f}",
            f"{seen['peak_bytes'] / 1e6:,.0f}",
            f"{estimate / seen['peak_bytes']:.2f}",
            f"{seen['resident_bytes'] / 1e6:,.0f}",
            f"{flop / 1e9:,.1f}",
            f"{seen['cpu_seconds'] * 1e3:,.0f}",
            f"{rate / 1e9:,.1f}",
            f"{rate / seen['product_flop_per_second']:.2f}",
        ]
        _tell(lines, f"| {' | '.join(cells)} |")
        results.append({**request, **seen, "estimated_bytes": estimate, "flop": flop})
    return results


def counted_positions(corpus_dir, vocab_file, lines):
    """Counts, tells and returns rows and positions a word of one epoch for each of --lengths."""
    with app.quiet_start():
        import tensorflow as tf

        from pipelines import BertTokenizer, pretraining_dataset
        from pipelines.corpus import preparation

    manifest = preparation.load_manifest(corpus_dir)
    shards, words = preparation.shard_paths(corpus_dir, manifest, "train"), manifest["train"]["words"]
    tokenizer = BertTokenizer(vocab_file, True)
    _tell(
        lines,
        *([""] if lines else []),
        "| tokens a row | words | rows of an epoch | positions a word |",
        "|---" * 4 + "|",
    )
    found = {}
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
        rows = sum(int(tf.reduce_sum(batch["input_mask"][:, 0])) for batch in batches)  # the last batch is filled up
        found[length] = {"words": words, "rows": rows, "positions_per_word": rows * length / words}
        _tell(lines, f"| {length} | {words:,} | {rows:,} | {found[length]['positions_per_word']:.2f} |")
    return found


def draw(steps, lengths, path):
    """Bars of each step's estimate and the allocator's peak, of its share of a large product's rate, and of positions a word; panels
    of what was asked for."""
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
        "What estimate says beside real steps on this CPU\nestimated in blue, measured in grey",
        path,
        lambda name: name.endswith("estimate"),
    )


if __name__ == "__main__":
    app.run(main, __doc__)

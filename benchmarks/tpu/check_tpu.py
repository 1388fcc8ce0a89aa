"""Lowers the trainer's programs to the TPU, with TensorFlow's own TPU kernels but no TPU, and checks its batches.

make check-tpu
make check-tpu PROGRAMS=pretrain/base/128/bfloat16/32/1,finetune_tagging/tiny/128/bfloat16/32/1

A program is the very tf.function that the trainer calls on a device: for training a loop of 100 steps, each forward,
backward, accumulation, clipping and the optimizer's update. For each a line is printed: lowered, or the ops that
stopped it; how many instructions; any dynamic shape, string, or type of 64 bits. The exit code is 1 if any was stopped.
Before that the batches of every masking, objective and head are looked at on the host: one shape, int32, float32.
"""

import os
import sys
import time

from absl import flags

from benchmarks.tpu import tpu_text
from benchmarks.tpu.tpu_programs import PRETRAINING, Program, make
from keras_bert_app.cli.common import app

_PROGRAMS = flags.DEFINE_list(
    "programs", [], "Names of programs (benchmarks/tpu/tpu_programs.py); empty: the usual ones."
)
_OUTPUT_DIR = flags.DEFINE_string("output_dir", "", "Where to write what the programs were lowered to; empty: nowhere.")
_BATCHES = flags.DEFINE_boolean("batches", True, "Whether to look at batches on the host.")

_SHAPES = [(length, precision) for length in (128, 512) for precision in ("float32", "bfloat16")]


def usual_programs():
    """All sizes, lengths and precisions; all objectives, optimizers and heads at the size where it takes least time."""
    from benchmarks.tpu.tpu_examples import HEADS

    found = [Program(what, "tiny", 128, "bfloat16", 32) for what in PRETRAINING]
    found += [Program("pretrain", "tiny", *shape, 32, 4) for shape in _SHAPES]
    # Tiny has no four layers to put side by side.
    found += [
        Program(f"{what}_{head}", "mini" if head == "last_four" else "tiny", 128, "bfloat16", 32)
        for head in HEADS
        for what in ("finetune", "predict")
    ]
    found += [
        Program("pretrain", size, *shape, 32)
        for size in ("tiny", "mini", "small", "medium", "base")
        for shape in _SHAPES
    ]
    found += [
        Program("finetune_classification", "base", 128, "bfloat16", 32, 2),
        Program("evaluate", "base", 512, "bfloat16", 32),
    ]
    found += [Program("pretrain", "large", *shape, 8) for shape in _SHAPES]
    found += [Program("pretrain", "large", 512, "bfloat16", 8, 2)]
    return list({program.name: program for program in found}.values())


def lowered(name, output_dir=""):
    """(whether a TPU runs all of a program, line for people); its text goes to OUTPUT_DIR, by its name with - for /."""
    from benchmarks.tpu.tpu_lowering import NotLowered, lower

    started = time.monotonic()
    try:
        of_ops, text = lower(*make(Program.named(name)))
    except NotLowered as error:
        return False, f"STOPPED: {error}"
    summary = tpu_text.summarize(text)
    # By the names that they have in TensorFlow.
    summary.dynamic = summary.dynamic and tpu_text.summarize(of_ops).dynamic or summary.dynamic
    if output_dir and summary.is_lowered:
        os.makedirs(output_dir, exist_ok=True)
        path = os.path.join(output_dir, name.replace("/", "-") + ".mlir")
        with open(path + ".tmp", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(path + ".tmp", path)
    return summary.is_lowered, f"{summary.line()} ({time.monotonic() - started:.0f} s)"


def main(arguments):
    del arguments
    # Without it TensorFlow asks for a TPU's address for many minutes.
    os.environ.setdefault("TPU_LOAD_LIBRARY", "0")
    for name in _PROGRAMS.value:
        Program.named(name)
    with app.quiet_start():
        import tensorflow as tf
    print(f"TensorFlow {tf.__version__}")
    stopped = []
    if _BATCHES.value and not _PROGRAMS.value:
        from benchmarks.tpu import tpu_batches

        for name, fault, line in tpu_batches.check():
            print(f"{name:46} {line}", flush=True)
            stopped += [name] if fault else []
    names = _PROGRAMS.value or [program.name for program in usual_programs()]
    for name in names:
        is_lowered, line = lowered(name, _OUTPUT_DIR.value)
        print(f"{name:46} {line}", flush=True)
        stopped += [] if is_lowered else [name]
        tf.keras.backend.clear_session()
    print(f"{len(names)} programs; stopped: {', '.join(stopped) or 'none'}")
    sys.exit(1 if stopped else 0)


if __name__ == "__main__":
    app.run(main, __doc__)

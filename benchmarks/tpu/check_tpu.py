"""Lowers the trainer's programs to the TPU by TensorFlow's own TPU kernels, without a TPU, and checks the batches.

make check-tpu
make check-tpu PROGRAMS=pretrain/base/128/bfloat16/32/1,finetune_tagging/tiny/128/bfloat16/32/1

A program is the tf.function that the trainer calls on a device. For training it is a loop of 100 steps, each with
forward, backward, accumulation, clipping and the optimizer's update. The command prints a line for each program:
whether it was lowered or which ops stopped it, its number of instructions, and any dynamic shape, string, or type of
64 bits. The exit code is 1 if a program was stopped.

Without --programs the command first checks the batches of every masking, objective and head on the host. Each array
must have the same shape in all batches, and the type int32 or float32.
"""

import os
import sys
import time

from absl import flags

from benchmarks.tpu import tpu_text
from benchmarks.tpu.tpu_programs import PRETRAINING, Program, make
from keras_bert_app.cli.common import app
from pipelines import storage

_PROGRAMS = flags.DEFINE_list(
    "programs", [], "Names of programs (benchmarks/tpu/tpu_programs.py); empty: those of usual_programs."
)
_OUTPUT_DIR = flags.DEFINE_string("output_dir", "", "Directory for the text of the lowered programs; empty: none.")
_BATCHES = flags.DEFINE_boolean("batches", True, "Whether to check the batches on the host, if --programs is empty.")

_SHAPES = [(length, precision) for length in (128, 512) for precision in ("float32", "bfloat16")]


def usual_programs() -> list[Program]:
    """All sizes, lengths and precisions, and at the smallest size all objectives, optimizers and heads."""
    from benchmarks.tpu.tpu_examples import HEADS

    programs = [Program(what, "tiny", 128, "bfloat16", 32) for what in PRETRAINING]
    programs += [Program("pretrain", "tiny", *shape, 32, 4) for shape in _SHAPES]
    # last_four joins four layers, which tiny does not have.
    programs += [
        Program(f"{what}_{head}", "mini" if head == "last_four" else "tiny", 128, "bfloat16", 32)
        for head in HEADS
        for what in ("finetune", "predict")
    ]
    programs += [
        Program("pretrain", size, *shape, 32)
        for size in ("tiny", "mini", "small", "medium", "base")
        for shape in _SHAPES
    ]
    programs += [
        Program("finetune_classification", "base", 128, "bfloat16", 32, 2),
        Program("evaluate", "base", 512, "bfloat16", 32),
    ]
    programs += [Program("pretrain", "large", *shape, 8) for shape in _SHAPES]
    programs += [Program("pretrain", "large", 512, "bfloat16", 8, 2)]
    return list({program.name: program for program in programs}.values())


def lowered(name: str, output_dir: str = "") -> tuple[bool, str]:
    """Lowers a program.

    Args:
        name: str. Name of the program.
        output_dir: str. Directory for the text of lowered programs; "" for none. The file's name is the program's
            name with "-" instead of "/".

    Returns:
        (whether a TPU can run the whole program, line to print).
    """
    from benchmarks.tpu.tpu_lowering import NotLowered, lower

    started = time.monotonic()
    try:
        tensorflow_text, text = lower(*make(Program.named(name)))
    except NotLowered as error:
        return False, f"STOPPED: {error}"
    summary = tpu_text.summarize(text)
    # Show ops with dynamic shapes by their names in TensorFlow.
    summary.dynamic = summary.dynamic and tpu_text.summarize(tensorflow_text).dynamic or summary.dynamic
    if output_dir and summary.is_lowered:
        os.makedirs(output_dir, exist_ok=True)
        path = os.path.join(output_dir, name.replace("/", "-") + ".mlir")
        storage.write_whole(path, text)
    return summary.is_lowered, f"{summary.line()} ({time.monotonic() - started:.0f} s)"


def main(arguments):
    del arguments
    # Without this variable TensorFlow asks for a TPU's address for many minutes.
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

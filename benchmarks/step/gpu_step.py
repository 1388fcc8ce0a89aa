"""Times our training step on a GPU, one process for each entry, and prints a line of JSON for each.

python -m benchmarks.step.gpu_step --steps=base:128:128:bfloat16:step,base:128:128:bfloat16:none

An entry is SIZE:ROWS:LENGTH:PRECISION:JIT_COMPILE. A sixth part "deterministic" measures the step of --deterministic.
Dropout is 0.1, 15 % of the positions are predicted, and the vocabulary is that of bert-base-uncased. A line has the
milliseconds of a step (the median over four calls of ten steps), tokens a second, the share of the peak FLOP/s, the
seconds of the first call (tracing, compiling and ten steps), and the peak memory of the allocator. `gpu_step_torch.py`
beside this file times torch.

For the share of the peak, a token counts as 3 (24 L H^2 + 4 S H L + P/S 2 (H^2 + H V)) FLOP. L is the number of layers,
H the hidden size, S the tokens and P the predictions of a row, and V the size of the vocabulary. The peak is the dense
peak of an H100 or H200: 989 TFLOP/s in bfloat16 and float16, 495 TFLOP/s in float32 (TF32).
"""

import dataclasses
import json
import subprocess
import sys
import time

from absl import flags

from benchmarks.step.random_batches import random_batch
from keras_bert_app.cli.common import app
from keras_bert_app.config.bert_config import SIZES, BertConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.config.training_config import COMPILATIONS
from keras_bert_app.errors import UserError

_STEPS = flags.DEFINE_list("steps", ["base:128:128:bfloat16:step"], "Entries to measure, one process after another.")
_ALONE = flags.DEFINE_bool("alone", False, "Measure the one entry of --steps in this process.")
_PEAKS = {"bfloat16": 989e12, "float16": 989e12, "float32": 495e12}
_STEPS_PER_CALL, _CALLS = 10, 4


def main(arguments):
    del arguments
    entries = [_parsed(entry) for entry in _STEPS.value]
    if not entries:
        raise UserError("--steps is empty; give entries such as base:128:128:bfloat16:step")
    if _ALONE.value:
        if len(entries) != 1:
            raise UserError(f"--steps={','.join(_STEPS.value)}: expected one entry with --alone; leave --alone out")
        print(json.dumps({"step": _STEPS.value[0], **measured(*entries[0])}), flush=True)
        return
    for entry in _STEPS.value:
        subprocess.run([sys.executable, "-m", "benchmarks.step.gpu_step", f"--steps={entry}", "--alone"], check=True)


def _parsed(entry):
    parts = entry.split(":")
    size, rows, length, precision, compiled, *more = [*parts, *[""] * (5 - len(parts))]
    if (
        size not in SIZES
        or precision not in _PEAKS
        or compiled not in COMPILATIONS
        or more not in ([], ["deterministic"])
    ):
        raise UserError(
            f"--steps={entry}: expected SIZE:ROWS:LENGTH:PRECISION:JIT_COMPILE[:deterministic], such as "
            "base:128:128:bfloat16:step"
        )
    if not (rows.isdigit() and length.isdigit() and int(rows) and int(length)):
        raise UserError(f"--steps={entry}: expected whole numbers from 1 on for ROWS and LENGTH")
    return size, int(rows), int(length), precision, compiled, bool(more)


def measured(size: str, rows: int, length: int, precision: str, compiled: str, deterministic: bool) -> dict:
    """Measures a step. Returns a dict of the figures that the line of JSON has.

    Args:
        size: str. The size, such as "base".
        rows: int. Rows in a step.
        length: int. Tokens in a row.
        precision: str. Compute type.
        compiled: str. Value of --jit_compile.
        deterministic: bool. Whether the step is that of --deterministic.
    """
    with app.quiet_start():
        import numpy as np
        import tensorflow as tf

        from keras_bert_app.modeling.pretrainer import BertPretrainer
        from keras_bert_app.training import strategies
        from keras_bert_app.training.losses import PretrainingObjective
        from keras_bert_app.training.optimizers import choice
        from keras_bert_app.training.steps import make_train_call
    if not tf.config.list_physical_devices("GPU"):
        raise UserError("TensorFlow sees no GPU here; install requirements-cuda.txt on a machine that has one")
    config = BertConfig.of_size(size)
    run = PretrainingConfig(max_seq_length=length, global_batch_size=rows, precision=precision, jit_compile=compiled)
    run = dataclasses.replace(run, deterministic=deterministic).resolved()
    strategy = strategies.make_strategy("one_device")
    run = strategies.resolved(run, strategy)
    with strategy.scope():
        model = BertPretrainer(config, dtype=strategies.KERAS_POLICIES[precision])
        variables = {variable.path: variable.value for variable in model.trainable_variables}
        optimizer = choice.make_optimizer(run, variables, config.num_hidden_layers)
    call = make_train_call(strategy, model, optimizer, run, PretrainingObjective())
    batches = {name: tf.stack([values] * _STEPS_PER_CALL) for name, values in random_batch(config, run).items()}
    seconds = []
    for number in range(_CALLS + 2):
        started = time.monotonic()
        call(batches, number * _STEPS_PER_CALL)
        seconds.append(time.monotonic() - started)
    step_seconds = float(np.median(seconds[2:])) / _STEPS_PER_CALL
    tokens_per_second = rows * length / step_seconds
    return {
        "milliseconds": round(1e3 * step_seconds, 2),
        "tokens_per_second": round(tokens_per_second),
        "share_of_peak": round(tokens_per_second * _flop_per_token(config, run) / _PEAKS[precision], 4),
        "first_call_seconds": round(seconds[0], 1),
        "peak_gibibytes": round(tf.config.experimental.get_memory_info("GPU:0")["peak"] / 2**30, 2),
    }


def _flop_per_token(config, run):
    layers, hidden, length = config.num_hidden_layers, config.hidden_size, run.max_seq_length
    head = run.max_predictions_per_seq / length * 2 * (hidden**2 + hidden * config.vocab_size)
    return 3 * (24 * layers * hidden**2 + 4 * length * hidden * layers + head)


if __name__ == "__main__":
    app.run(main, __doc__)

"""Measures a real training step in a process of its own, for estimate_check. It prints a line of JSON.

python -m benchmarks.step.measured_step '{"size": "tiny", "rows": 8, "length": 128, "precision": "float32", "times": 2,
                                          "compiled": "parts"}'
"""

import json
import sys
import time

from benchmarks.common.this_machine import resident_bytes
from benchmarks.step.random_batches import random_batch
from keras_bert_app.cli.common import app
from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig

_DEVICE = "CPU:0"


def measure(size: str, rows: int, length: int, precision: str, times: int, compiled: str, parts: int = 1) -> dict:
    """Measures training steps of a published size.

    Args:
        size: str. The size, such as "tiny".
        rows: int. Rows in a step.
        length: int. Tokens in a row.
        precision: str. Compute type.
        times: int. Number of steps.
        compiled: str. Value of --jit_compile.
        parts: int. Value of --gradient_accumulation_steps: a step computes its rows in this many parts.

    Returns:
        dict with:
        - parameters: number of parameters.
        - peak_bytes: peak of TensorFlow's allocator within a step, less its bytes between two steps.
        - resident_bytes: peak memory of the process, less its memory before the first trace.
        - cpu_seconds: CPU seconds of a step, summed over all threads.
        - product_flop_per_second: FLOP per CPU second of a large matrix product.
    """
    with app.quiet_start():
        import tensorflow as tf

        from keras_bert_app.modeling.pretrainer import BertPretrainer
        from keras_bert_app.training.losses import PretrainingObjective
        from keras_bert_app.training.optimizers import choice
        from keras_bert_app.training.steps import make_train_call
        from keras_bert_app.training.strategies import KERAS_POLICIES

    config = BertConfig.of_size(size)
    run = PretrainingConfig(
        max_seq_length=length,
        global_batch_size=rows,
        precision=precision,
        gradient_accumulation_steps=parts,
        jit_compile=compiled,
    ).resolved()
    strategy = tf.distribute.OneDeviceStrategy(_DEVICE)
    with strategy.scope():
        model = BertPretrainer(config, dtype=KERAS_POLICIES[precision])
        variables = {variable.path: variable.value for variable in model.trainable_variables}
        optimizer = choice.make_optimizer(run, variables, config.num_hidden_layers)
    call = make_train_call(strategy, model, optimizer, run, PretrainingObjective())
    batches = {name: tf.stack([values] * times) for name, values in random_batch(config, run).items()}

    resident = resident_bytes("VmRSS")
    call(batches, 0)  # traces and compiles
    # get_memory_info works on this CPU, because the allocator that TensorFlow uses with oneDNN counts its bytes.
    between = tf.config.experimental.get_memory_info(_DEVICE)["current"]
    tf.config.experimental.reset_memory_stats(_DEVICE)
    started = time.process_time()
    call(batches, times)
    return {
        "parameters": model.count_params(),
        "cpu_seconds": (time.process_time() - started) / times,
        "peak_bytes": tf.config.experimental.get_memory_info(_DEVICE)["peak"] - between,
        "resident_bytes": resident_bytes("VmHWM") - resident,
        "product_flop_per_second": _product_rate(tf, precision),
    }


def _product_rate(tf, precision, size=1024, times=8):
    matrix = tf.ones([size, size], precision)
    product = tf.function(lambda: tf.matmul(matrix, matrix))
    product()
    started = time.process_time()
    for _ in range(times):
        product().numpy()
    return times * 2 * size**3 / (time.process_time() - started)


if __name__ == "__main__":
    print(json.dumps(measure(**json.loads(sys.argv[1]))))

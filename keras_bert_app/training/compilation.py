"""The one place that decides what XLA compiles, from the run's flags and the devices."""

import dataclasses

import tensorflow as tf

from keras_bert_app.config.training_config import TrainingConfig
from keras_bert_app.modeling.execution import GPU_STEP, PARTS, PLAIN, STEP, UNCOMPILED, Execution
from keras_bert_app.training.strategies import device_kind


def training_execution(run: TrainingConfig, strategy: tf.distribute.Strategy) -> Execution:
    """The Execution of a training step.

    A TPU compiles every program whole, whatever --jit_compile says.

    Args:
        run: TrainingConfig. "auto" that nobody has resolved means no compilation.
        strategy: the devices.
    """
    device = device_kind(strategy)
    if device == "TPU":
        return STEP
    if device == "GPU" and run.jit_compile == "step":
        return dataclasses.replace(GPU_STEP, is_deterministic=run.deterministic)
    return {"step": STEP, "parts": PARTS}.get(run.jit_compile, UNCOMPILED)


def inference_execution(run: TrainingConfig, strategy: tf.distribute.Strategy, is_worth: bool) -> Execution:
    """The Execution of evaluations and predictions.

    On a CPU kernels save about half of the time in bfloat16 and a tenth at most in float32, and every length of rows
    takes a second to compile (docs/results/speed.md). A TPU compiles every program whole.

    Args:
        run: TrainingConfig, for the precision.
        strategy: the devices.
        is_worth: whether there are rows enough to make up for compiling.
    """
    device = device_kind(strategy)
    if device == "TPU":
        return STEP
    return PARTS if is_worth and run.precision == "bfloat16" and device == "CPU" else PLAIN

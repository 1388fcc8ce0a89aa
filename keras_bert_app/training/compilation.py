"""Decides what XLA compiles, from the flags of the run and the devices."""

import dataclasses

import tensorflow as tf

from keras_bert_app.config.training_config import TrainingConfig
from keras_bert_app.modeling.execution import GPU_STEP, PARTS, PLAIN, STEP, UNCOMPILED, Execution
from keras_bert_app.training.strategies import device_kind


def training_execution(run: TrainingConfig, strategy: tf.distribute.Strategy) -> Execution:
    """The Execution of a training step.

    On a TPU, XLA compiles every program as a whole, whatever --jit_compile says.

    Args:
        run: TrainingConfig. An unresolved --jit_compile=auto means no compilation.
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

    On a CPU, compiled kernels save about half of the time in bfloat16, but at most a tenth in float32. Each length of
    rows takes a second to compile (docs/results/speed.md). On a TPU, XLA compiles every program as a whole.

    Args:
        run: TrainingConfig, for the precision.
        strategy: the devices.
        is_worth: whether there are enough rows to make up for the time of compiling.
    """
    device = device_kind(strategy)
    if device == "TPU":
        return STEP
    return PARTS if is_worth and run.precision == "bfloat16" and device == "CPU" else PLAIN

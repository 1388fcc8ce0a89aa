"""Measures how many steps a peer takes in some minutes, for trials that count steps instead of minutes."""

import os

from benchmarks.common.this_machine import machine
from benchmarks.quality import quality_peers
from benchmarks.quality.quality_contenders import Contender
from keras_bert_app.errors import UserError


def measured(contender: Contender, directory: str, minutes: float, **arguments) -> dict:
    """Trains a peer for a short time. Nothing else may run on the machine.

    Args:
        contender: Contender. Its dropout and precision decide the speed.
        directory: str. Where the model goes.
        minutes: float. Length of this training.
        **arguments: those of quality_peers.pretrain.

    Returns:
        dict with seconds_before_steps (starting and compiling), steps_per_second, and the machine.

    Raises:
        UserError: the time is too short to measure a speed.
    """
    model_dir = os.path.join(directory, f"{contender.name}-{contender.precision}-{contender.dropout:g}")
    quality_peers.pretrain(contender, model_dir, minutes=minutes, **arguments)
    return {**speed_of(quality_peers.logged(model_dir)), "machine": machine(("tensorflow", "keras"))}


def speed_of(log: list[dict]) -> dict[str, float]:
    """The speed between the first and the last line of a log.

    Args:
        log: rows with step and seconds, as TimeBudget writes them. The first line may contain the compilation.

    Returns:
        dict with seconds_before_steps and steps_per_second.

    Raises:
        UserError: the log has fewer than two lines.
    """
    if len(log) < 2:
        raise UserError(
            f"--speed_minutes is too short: the log of a peer has {len(log)} lines and not two or more; give a larger "
            "--speed_minutes"
        )
    first, last = log[0], log[-1]
    speed = (last["step"] - first["step"]) / (last["seconds"] - first["seconds"])
    return {"seconds_before_steps": max(0.0, first["seconds"] - first["step"] / speed), "steps_per_second": speed}


def steps_in(minutes: float, speed: dict[str, float]) -> int:
    """The number of steps that a peer takes in some minutes, with the time to start and compile.

    Args:
        minutes: float.
        speed: dict of `measured`.

    Raises:
        UserError: the minutes end before the first step.
    """
    steps = round((60.0 * minutes - speed["seconds_before_steps"]) * speed["steps_per_second"])
    if steps < 1:
        raise UserError(
            f"--minutes={minutes:g}: a peer needs {speed['seconds_before_steps']:.0f} s before its first step; give "
            "more minutes"
        )
    return steps

"""Learning-rate schedules, as functions of how much of a run is done.

Progress counts from 0 to 1: steps by num_train_steps, or for a run with a time budget the time that is spent
(Izsak et al. 2021, "How to Train BERT with an Academic Budget": the rate falls to 0 just when the time is up).
"""

import math

import tensorflow as tf

SLANTED_TRIANGULAR_RATIO = 32.0  # Howard and Ruder 2018, section 3.2: the lowest rate is the peak divided by it


def learning_rate(run, step, progress):
    """The learning rate of a step.

    Args:
        run: PretrainingConfig, resolved. step: counted from 0. progress: float32 scalar, the share of the run before this
            step.

    Returns:
        float32 scalar.
    """
    step, progress = tf.cast(step, tf.float32), tf.minimum(tf.cast(progress, tf.float32), 1.0)
    warmup_share = min(run.num_warmup_steps / run.num_train_steps, 1.0)  # of the steps, or of the time
    if not warmup_share:
        warmed = tf.ones_like(progress)
    else:
        warmed = progress / warmup_share if run.train_minutes else step / run.num_warmup_steps
    after_warmup = tf.maximum(progress - warmup_share, 0.0) / max(1.0 - warmup_share, 1e-9)
    shape = _SHAPES[run.learning_rate_schedule](run, progress, after_warmup)
    if run.learning_rate_schedule == "slanted_triangular":
        factor = (1.0 + (SLANTED_TRIANGULAR_RATIO - 1.0) * tf.minimum(warmed, shape)) / SLANTED_TRIANGULAR_RATIO
    else:
        factor = tf.where(warmed < 1.0, warmed, shape)
    return run.learning_rate * factor


# What follows the warm-up, in shares of the peak: of progress from the beginning, or of that since the warm-up.
_SHAPES = {
    # google-research/bert: the decay counts from step 0 while the warm-up runs.
    "linear": lambda run, progress, after_warmup: 1.0 - progress,
    "polynomial": lambda run, progress, after_warmup: (1.0 - progress) ** run.decay_power,
    "cosine": lambda run, progress, after_warmup: 0.5 * (1.0 + tf.cos(math.pi * after_warmup)),
    "constant": lambda run, progress, after_warmup: tf.ones_like(progress),
    "slanted_triangular": lambda run, progress, after_warmup: 1.0 - after_warmup,
    "warmup_stable_decay": lambda run, progress, after_warmup: tf.minimum(
        1.0, (1.0 - progress) / max(run.decay_share, 1e-9)
    ),
}

"""Learning-rate schedules, as functions of the progress of a run from 0 to 1.

Progress is the share of num_train_steps, or in a run with a time budget the share of the time. The rate then falls to 0
exactly when the time is over (Izsak et al. 2021, "How to Train BERT with an Academic Budget").
"""

import math

import tensorflow as tf

from keras_bert_app.config.training_config import TrainingConfig

SLANTED_TRIANGULAR_RATIO = 32.0  # peak rate / lowest rate (Howard and Ruder 2018, section 3.2)


def learning_rate(run: TrainingConfig, step, progress):
    """The learning rate of a step.

    Args:
        run: TrainingConfig, resolved.
        step: number of the step, from 0.
        progress: float32 scalar. The share of the run before this step.

    Returns:
        float32 scalar.
    """
    step, progress = tf.cast(step, tf.float32), tf.minimum(tf.cast(progress, tf.float32), 1.0)
    # The warm-up is a share of the steps, or of the time in a run with a time budget.
    warmup_share = run.warmup_share or min(run.num_warmup_steps / run.num_train_steps, 1.0)
    if not warmup_share:
        warmed = tf.ones_like(progress)
    else:
        by_share = run.train_minutes or run.warmup_share
        warmed = progress / warmup_share if by_share else step / run.num_warmup_steps
    after_warmup = tf.maximum(progress - warmup_share, 0.0) / max(1.0 - warmup_share, 1e-9)
    shape = _SHAPES[run.learning_rate_schedule](run, progress, after_warmup)
    if run.learning_rate_schedule == "slanted_triangular":
        factor = (1.0 + (SLANTED_TRIANGULAR_RATIO - 1.0) * tf.minimum(warmed, shape)) / SLANTED_TRIANGULAR_RATIO
    else:
        factor = tf.where(warmed < 1.0, warmed, shape)
    return run.learning_rate * factor


def _inverse_square_root(run, progress, after_warmup):
    """The square root of (end of the warm-up / progress) (Vaswani et al. 2017, section 5.3)."""
    del after_warmup
    warmup_share = run.warmup_share or min(run.num_warmup_steps / run.num_train_steps, 1.0)
    warmup_share = max(warmup_share, 1.0 / run.num_train_steps)
    return tf.sqrt(warmup_share / tf.maximum(progress, warmup_share))


# The rate after the warm-up, as a share of the peak. The functions take the run, the progress since the beginning of
# the run, and the progress since the end of the warm-up.
_SHAPES = {
    # As in google-research/bert, the decay counts from step 0, not from the end of the warm-up.
    "linear": lambda run, progress, after_warmup: 1.0 - progress,
    "polynomial": lambda run, progress, after_warmup: (1.0 - progress) ** run.decay_power,
    "cosine": lambda run, progress, after_warmup: 0.5 * (1.0 + tf.cos(math.pi * after_warmup)),
    "constant": lambda run, progress, after_warmup: tf.ones_like(progress),
    "slanted_triangular": lambda run, progress, after_warmup: 1.0 - after_warmup,
    "warmup_stable_decay": lambda run, progress, after_warmup: tf.minimum(
        1.0, (1.0 - progress) / max(run.decay_share, 1e-9)
    ),
    "inverse_square_root": _inverse_square_root,
}

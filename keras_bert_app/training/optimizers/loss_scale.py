"""Dynamic loss scaling for float16 (Micikevicius et al. 2018, Mixed Precision Training, section 3.2)."""

import tensorflow as tf

_FIRST_SCALE = 2.0**15
# The scale doubles after this many good steps in a row. Each step whose loss or gradient is not finite halves the
# scale, down to 1.
_STEPS_TO_DOUBLE = 2000
_LARGEST_SCALE = 2.0**24


class LossScale:
    """The factor of the loss, which keeps small gradients above the smallest number of float16.

    All replicas have the same scale, because it depends on gradients that are summed over them. A step whose scaled
    gradients overflow changes no weight and halves the scale. Make this object in the strategy's scope.

    Attributes:
        scale: float32 variable.
        good_steps: float32 variable, the steps since the scale changed. TensorFlow would keep an integer on the host,
            where a program for a GPU cannot change it.
    """

    def __init__(self):
        self.scale = tf.Variable(_FIRST_SCALE, trainable=False, name="loss_scale")
        self.good_steps = tf.Variable(0.0, trainable=False, name="loss_scale_good_steps")

    def variables(self) -> dict[str, tf.Variable]:
        """dict name -> variable, for checkpoints."""
        return {"scale": self.scale, "good_steps": self.good_steps}

    def is_overflow(self, is_good, sums):
        """Whether a step fails only because its scale is too large.

        Then the loss is finite, the gradient is not, and the scale can still fall.

        Args:
            is_good: bool scalar. Whether the loss and the gradients of the step are finite.
            sums: float32 [n]. The sums of the losses.
        """
        return ~is_good & tf.math.is_finite(tf.reduce_sum(sums)) & (self.scale > 1.0)

    def changed(self, scale, good_steps, is_good) -> tuple:
        """(scale, good_steps) after a step.

        Args:
            scale: float32 scalar before the step.
            good_steps: float32 scalar before the step.
            is_good: bool scalar. Whether the loss and the gradients of the step are finite.
        """
        good_steps = tf.where(is_good, good_steps + 1.0, 0.0)
        doubles = good_steps >= _STEPS_TO_DOUBLE
        larger = tf.where(doubles, tf.minimum(2.0 * scale, _LARGEST_SCALE), scale)
        return tf.where(is_good, larger, tf.maximum(0.5 * scale, 1.0)), tf.where(doubles, 0.0, good_steps)

    def change(self, is_good) -> None:
        """Changes the variables after a step.

        Args:
            is_good: bool scalar. Whether the loss and the gradients of the step are finite.
        """
        scale, good_steps = self.changed(tf.identity(self.scale), tf.identity(self.good_steps), is_good)
        self.scale.assign(scale)
        self.good_steps.assign(good_steps)

    def change_on(self, strategy: tf.distribute.Strategy, is_good) -> None:
        """Changes the variables after a step on every replica. Call it in cross-replica context.

        Args:
            strategy: the devices.
            is_good: bool scalar. Whether the loss and the gradients of the step are finite.
        """

        def change_scale(scale, good_steps, is_good):
            new_scale, new_steps = self.changed(tf.identity(scale), tf.identity(good_steps), is_good)
            scale.assign(new_scale)
            good_steps.assign(new_steps)

        strategy.extended.update(self.scale, change_scale, group=False, args=(self.good_steps, is_good))

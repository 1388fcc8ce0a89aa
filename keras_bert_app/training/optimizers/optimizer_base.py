"""The base class of the optimizers: slots for each variable, and updates that can be skipped.

Slots are tf.Variables. This project cannot use Keras' optimizers. They clip the gradients of each replica before the
sum over replicas, and they sum gradients that this project has summed already.
"""

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from keras_bert_app.config.training_config import TrainingConfig
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.training.optimizers.loss_scale import LossScale

NOT_DECAYED = TrainingConfig.not_decayed


class Traits(NamedTuple):
    """Properties of a variable, besides its shape, that its update depends on.

    Attributes:
        decay: weight decay rate.
        is_excepted: whether the variable is never decayed.
        num_matrices: number of matrices that lie side by side in the variable. Query, key and value are three matrices
            in one kernel [H, 3H].
    """

    decay: float
    is_excepted: bool
    num_matrices: int


class Optimizer(tf.Module):
    """Base class of the optimizers.

    A subclass defines four methods.
    make_slots() returns the slots.
    step_terms(step) computes what updates need of the step, once for all variables.
    update(variable, slots, gradient, learning_rate, terms, traits) changes one variable and its slots.
    update_norms(learning_rate, step) returns for each variable the norm of the last update, whose number is `step`.

    Args:
        variables: dict path -> tf.Variable. Make the optimizer in the strategy's scope, where the variables were made.
        weight_decay_rate: decay of the variables whose path has no match of not_decayed.
        learning_rate_factors: dict path -> factor of the learning rate; 1 for all by default.
        not_decayed: regular expression.

    Attributes:
        slots: dict name -> dict path -> tf.Variable. Checkpoints use these names. A variable need not have every slot.
        first_steps: dict path -> number of updates before a variable is trained (gradual unfreezing). Until then
            neither the variable nor its slots change.
        average_decay: decay of the running means of keep_average; 0 without running means.
        loss_scale: LossScale of float16; None in other precisions.
    """

    def __init__(
        self,
        variables: Mapping[str, tf.Variable],
        weight_decay_rate: float = 0.01,
        learning_rate_factors: Mapping[str, float] | None = None,
        not_decayed: str = NOT_DECAYED,
    ):
        super().__init__(name="optimizer")
        self.variables_by_path = variables
        self.weight_decay_rate = weight_decay_rate
        self.learning_rate_factors = learning_rate_factors or dict.fromkeys(variables, 1.0)
        self.first_steps = {}
        self.average_decay = 0.0
        self.loss_scale = None
        self.not_decayed = re.compile(not_decayed)
        self.slots = self.make_slots()

    def keep_average(self, decay: float) -> None:
        """Keeps running means of the weights after each update (Polyak and Juditsky 1992).

        Call this method in the strategy's scope. A mean is a sum divided by a share. Both begin at zero, so the zeros
        do not change the mean, even if updates are skipped or begin late.

        Args:
            decay: decay of the running means.
        """
        self.average_decay = decay
        for name, is_sum in (("average_sum", True), ("average_share", False)):
            self.slots[name] = {
                path: new_slot(variable.shape if is_sum else [], f"{name}/{path}")
                for path, variable in self.variables_by_path.items()
            }

    def scale_loss(self) -> None:
        """Turns on loss scaling, which float16 needs. Call this method in the strategy's scope."""
        self.loss_scale = LossScale()
        self.slots["loss_scale"] = self.loss_scale.variables()

    def scaled(self, loss):
        """The loss times its scale; unchanged without a scale.

        Args:
            loss: float32 scalar.
        """
        return loss if self.loss_scale is None else loss * self.loss_scale.scale

    def unscaled(self, values):
        """Values that grow with the scaled loss, divided by the scale; unchanged without a scale.

        Args:
            values: float32 tensor.
        """
        return values if self.loss_scale is None else values / self.loss_scale.scale

    def is_overflow(self, is_good, sums):
        """Whether a step that is not good fails only because of the scale; see LossScale.

        Args:
            is_good: bool scalar. Whether the loss and the gradients of the step are finite.
            sums: float32 [n]. The sums of the losses.
        """
        return tf.constant(False) if self.loss_scale is None else self.loss_scale.is_overflow(is_good, sums)

    @contextlib.contextmanager
    def averaged_weights(self) -> Iterator[None]:
        """Gives the variables their running means within the block.

        Variables without a running mean, or without an update so far, keep their values.
        """
        saved = {}
        try:
            for path, share in self.slots.get("average_share", {}).items():
                if share.numpy() > 0.0:
                    variable = self.variables_by_path[path]
                    saved[path] = variable.numpy()
                    variable.assign(self.slots["average_sum"][path].numpy() / share.numpy())
            yield
        finally:
            for path, value in saved.items():
                self.variables_by_path[path].assign(value)

    def apply(self, gradients, learning_rate, step=0, is_good=True, scale=1.0, execution: Execution = PLAIN):
        """Does one update. Call it in replica context, with the same gradients on every replica.

        Args:
            gradients: dense tensors in the order of the variables.
            learning_rate: float32 scalar.
            step: int32, the number of earlier updates.
            is_good: bool scalar. If it is False, only the loss scale changes.
            scale: float32 scalar that multiplies the gradients.
            execution: Execution. If it compiles updates, one kernel does the update of each variable.
        """
        is_compiled = execution.compiles_parts or execution.has_update_in_program
        rates = {factor: learning_rate * factor for factor in set(self.learning_rate_factors.values())}
        tf.distribute.get_replica_context().merge_call(
            self._update_all, args=(is_compiled, gradients, scale, rates, step, tf.convert_to_tensor(is_good))
        )

    def apply_in_program(self, gradients, learning_rate, step, is_good, scale) -> None:
        """Does the same as apply, for one replica in a program that XLA compiles as a whole.

        The program computes every new value, and then keeps either the new or the old value. A condition would make
        the device wait for the host. The arguments are those of apply.
        """
        for (path, variable), gradient in zip(self.variables_by_path.items(), gradients, strict=True):
            slots, is_changed = self.slots_of(path), is_good
            if path in self.first_steps:
                is_changed = is_good & (step >= self.first_steps[path])
            terms = self.step_terms(self.updates_of(path, step))
            rate = learning_rate * self.learning_rate_factors[path]
            changing = variable, *slots.values()
            before = [tf.convert_to_tensor(each) for each in changing]
            self._update(variable, slots, gradient, scale, rate, terms, self.traits_of(path))
            for each, old in zip(changing, before, strict=True):
                each.assign(tf.where(is_changed, each, old))
        if self.loss_scale is not None:
            self.loss_scale.change(is_good)

    def updates_of(self, path: str, step):
        """The number of updates of a variable after `step` steps.

        The number is smaller than `step` if the variable was frozen at first.

        Args:
            path: path of the variable.
            step: int32 scalar.
        """
        return tf.maximum(step - self.first_steps[path], 0) if path in self.first_steps else step

    def without_frozen(self, gradients, step):
        """The gradients, with zeros for variables that are not trained yet.

        Args:
            gradients: tensors in the order of the variables.
            step: int32 scalar.
        """
        return [
            gradient * tf.cast(step >= self.first_steps[path], gradient.dtype) if path in self.first_steps else gradient
            for path, gradient in zip(self.variables_by_path, gradients, strict=True)
        ]

    def traits_of(self, path: str) -> Traits:
        """The Traits of a variable.

        Args:
            path: path of the variable.
        """
        is_excepted = bool(self.not_decayed.search(path))
        return Traits(0.0 if is_excepted else self.weight_decay_rate, is_excepted, num_matrices(path))

    def is_worth_compiling(self, path: str) -> bool:
        """Whether compiled parts include the update of a variable.

        Compiling is not worth it for updates that consist of matrix products.

        Args:
            path: path of the variable.
        """
        del path
        return True

    def slots_of(self, path: str) -> dict[str, tf.Variable]:
        """dict name -> slot of one variable.

        Args:
            path: path of the variable.
        """
        return {name: slots[path] for name, slots in self.slots.items() if path in slots}

    def _update(self, variable, slots, gradient, scale, learning_rate, terms, traits):
        self.update(variable, slots, gradient * scale, learning_rate, terms, traits)
        if "average_sum" in slots:
            move(slots["average_sum"], variable, self.average_decay)
            move(slots["average_share"], 1.0, self.average_decay)

    # One kernel reads and writes each array once. Variables with the same shape and traits share a kernel.
    _compiled_update = tf.function(_update, jit_compile=True, autograph=False)

    def _update_all(self, strategy, is_compiled, gradients, scale, rates, step, is_good):
        step = tf.convert_to_tensor(step)
        terms = self.step_terms(step)

        # Everything that may differ between the devices of the replicas is an argument of this function.
        def update(variable, slots, gradient, scale, rates, terms, step, path):
            rate, change = rates[self.learning_rate_factors[path]], self._update
            if is_compiled and self.is_worth_compiling(path):
                # A traced function would always use the copy of a mirrored variable that it saw first.
                copies = strategy.experimental_local_results
                index = next(
                    index for index, copy in enumerate(copies(self.variables_by_path[path])) if copy is variable
                )
                slots = {name: copies(slot)[index] for name, slot in slots.items()}
                change = self._compiled_update

            def changed(terms):
                change(variable, slots, gradient, scale, rate, terms, self.traits_of(path))

            if path in self.first_steps:
                tf.cond(
                    step >= self.first_steps[path],
                    lambda: changed(self.step_terms(self.updates_of(path, step))),
                    lambda: None,
                )
            else:
                changed(terms)

        def update_all():
            for (path, variable), gradient in zip(self.variables_by_path.items(), gradients, strict=True):
                strategy.extended.update(
                    variable, update, group=False, args=(self.slots_of(path), gradient, scale, rates, terms, step, path)
                )

        # TensorFlow traces two functions for a condition. One condition for each variable took as long to trace as BERT
        # base itself.
        tf.cond(strategy.experimental_local_results(is_good)[0], update_all, lambda: None)
        if self.loss_scale is not None:
            self.loss_scale.change_on(strategy, is_good)


def new_slot(shape: Any, name: str) -> tf.Variable:
    """Makes a slot of zeros.

    Args:
        shape: shape of the slot.
        name: name of the tf.Variable.
    """
    return tf.Variable(tf.zeros(shape), trainable=False, name=name)


def move(slot: tf.Variable, value, decay):
    """Moves a running mean towards a value.

    Args:
        slot: tf.Variable of the mean.
        value: tensor of the slot's shape.
        decay: share of the old mean in the new one.

    Returns:
        the new mean.
    """
    mean = decay * slot + (1.0 - decay) * value
    slot.assign(mean)
    return mean


def num_matrices(path: str) -> int:
    """The number of matrices side by side in a variable.

    A kernel of query, key and value has three matrices. A kernel of an LSTM has two, one for each direction.

    Args:
        path: path of the variable.
    """
    if path.endswith("query_key_value/kernel"):
        return 3
    return 2 if path.endswith(("lstm/kernel", "lstm/recurrent_kernel")) else 1


def matrices_shape(variable: tf.Variable, number: int) -> list[int]:
    """The shape [R, M, C] of a variable as M matrices side by side. A vector is one matrix of one column.

    Args:
        variable: tf.Variable.
        number: M.
    """
    if variable.shape.rank < 2:
        return [variable.shape.num_elements(), 1, 1]
    columns = variable.shape[-1]
    return [variable.shape.num_elements() // columns, number, columns // number]

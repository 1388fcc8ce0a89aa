"""What the optimizers share: slots for each variable, and an update by each replica that can be called off.

Slots and updates are written over tf.Variable: Keras' optimizers clip before the sum over replicas and sum once more.
"""

import contextlib
import re
from typing import NamedTuple

import tensorflow as tf

from keras_bert_app.config.training_config import TrainingConfig
from keras_bert_app.modeling import backend

NOT_DECAYED = TrainingConfig.not_decayed


class Traits(NamedTuple):
    """What an update needs to know of a variable besides its shape.

    Attributes:
        decay: its weight decay. is_excepted: whether it is one of those that are never decayed.
        num_matrices: as how many it is taken by an algorithm that takes each matrix by itself: query, key and value lie in
            one kernel [H, 3H] but are three.
    """

    decay: float
    is_excepted: bool
    num_matrices: int


class Optimizer(tf.Module):
    """Base of all kinds.

    A kind has make_slots(); step_terms(step), what its updates need of the step, worked out once for all variables;
    update(variable, slots, gradient, learning_rate, terms, traits), which changes one variable and its slots; and
    update_norms(learning_rate, step), for each variable the norm of its last update, the number `step`.

    Args:
        variables: dict path -> tf.Variable, made under the strategy's scope; the slots must be made there too.
        weight_decay_rate: of variables in whose path the regular expression not_decayed finds no match.
        learning_rate_factors: dict path -> factor of the rate; 1 for all by default.

    Attributes:
        slots: dict name -> dict path -> tf.Variable, under the names that checkpoints have for them. Not every variable
            has every slot.
        first_steps: dict path -> how many updates pass before a variable is trained (gradual unfreezing); until then
            neither it nor its slots change.
        average_decay: of the running means that keep_average began; 0 where none are kept.
    """

    def __init__(self, variables, weight_decay_rate=0.01, learning_rate_factors=None, not_decayed=NOT_DECAYED):
        super().__init__(name="optimizer")
        self.variables_by_path = variables
        self.weight_decay_rate = weight_decay_rate
        self.learning_rate_factors = learning_rate_factors or dict.fromkeys(variables, 1.0)
        self.first_steps = {}
        self.average_decay = 0.0
        self.not_decayed = re.compile(not_decayed)
        self.slots = self.make_slots()

    def keep_average(self, decay):
        """Keeps a running mean of the weights after each update (Polyak and Juditsky 1992); call it in the strategy's scope.

        The sums begin with zeros, and beside them grows what they are to be divided by: however many updates are skipped or
        come late, the mean is one of weights alone.
        """
        self.average_decay = decay
        for name, is_sum in (("average_sum", True), ("average_share", False)):
            self.slots[name] = {
                path: new_slot(variable.shape if is_sum else [], f"{name}/{path}")
                for path, variable in self.variables_by_path.items()
            }

    @contextlib.contextmanager
    def averaged_weights(self):
        """While it lasts the variables have their running means; as they are where none are kept or nothing was updated yet."""
        kept = {}
        try:
            for path, share in self.slots.get("average_share", {}).items():
                if share.numpy() > 0.0:
                    variable = self.variables_by_path[path]
                    kept[path] = variable.numpy()
                    variable.assign(self.slots["average_sum"][path].numpy() / share.numpy())
            yield
        finally:
            for path, value in kept.items():
                self.variables_by_path[path].assign(value)

    def apply(self, gradients, learning_rate, step=0, is_good=True, scale=1.0):
        """One update, called in replica context with gradients that are the same on every replica.

        Args:
            gradients: dense tensors in the order of the variables. learning_rate: float32 scalar.
            step: how many updates were made before.
            is_good: bool scalar; where it is False nothing changes.
            scale: float32 scalar, by which the gradients are multiplied.
        """
        # Asked here: replicas run in threads of their own, and what is merged in the one that began them.
        is_compiled = backend.compiles_parts()
        rates = {factor: learning_rate * factor for factor in set(self.learning_rate_factors.values())}
        tf.distribute.get_replica_context().merge_call(
            self._update_all, args=(is_compiled, gradients, scale, rates, step, tf.convert_to_tensor(is_good))
        )

    def updates_of(self, path, step):
        """How many updates a variable has had after so many steps: fewer where it was frozen at first."""
        return tf.maximum(step - self.first_steps[path], 0) if path in self.first_steps else step

    def without_frozen(self, gradients, step):
        """The gradients, 0 for variables that are not trained yet."""
        return [
            gradient * tf.cast(step >= self.first_steps[path], gradient.dtype) if path in self.first_steps else gradient
            for path, gradient in zip(self.variables_by_path, gradients)
        ]

    def traits_of(self, path):
        """Traits of a variable."""
        is_excepted = bool(self.not_decayed.search(path))
        return Traits(0.0 if is_excepted else self.weight_decay_rate, is_excepted, num_matrices(path))

    def is_worth_compiling(self, path):
        """Whether the update of a variable is one kernel where parts are compiled: not what is mostly matrix products."""
        del path
        return True

    def slots_of(self, path):
        """dict name -> slot of one variable."""
        return {name: slots[path] for name, slots in self.slots.items() if path in slots}

    def _update(self, variable, slots, gradient, scale, learning_rate, terms, traits):
        self.update(variable, slots, gradient * scale, learning_rate, terms, traits)
        if "average_sum" in slots:
            move(slots["average_sum"], variable, self.average_decay)
            move(slots["average_share"], 1.0, self.average_decay)

    # As one kernel it reads and writes each array once. Variables of one shape and like traits share it.
    _compiled_update = tf.function(_update, jit_compile=True, autograph=False)

    def _update_all(self, strategy, is_compiled, gradients, scale, rates, step, is_good):
        step = tf.convert_to_tensor(step)
        terms = self.step_terms(step)

        # All that may differ from one replica's device to the next is an argument here.
        def update(variable, slots, gradient, scale, rates, terms, step, path):
            rate, change = rates[self.learning_rate_factors[path]], self._update
            if is_compiled and self.is_worth_compiling(path):
                # A function that is traced takes a mirrored variable for the copy that it saw first.
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
            for (path, variable), gradient in zip(self.variables_by_path.items(), gradients):
                strategy.extended.update(
                    variable, update, group=False, args=(self.slots_of(path), gradient, scale, rates, terms, step, path)
                )

        # One condition for all variables: each makes two functions, which for base took as long to trace as the model.
        tf.cond(strategy.experimental_local_results(is_good)[0], update_all, lambda: None)


def new_slot(shape, name):
    """A slot of zeros."""
    return tf.Variable(tf.zeros(shape), trainable=False, name=name)


def move(slot, value, decay):
    """Moves a running mean towards a value; returns the new mean."""
    mean = decay * slot + (1.0 - decay) * value
    slot.assign(mean)
    return mean


def num_matrices(path):
    """How many matrices a variable is: query, key and value, or an LSTM's directions, lie side by side."""
    if path.endswith("query_key_value/kernel"):
        return 3
    return 2 if path.endswith(("lstm/kernel", "lstm/recurrent_kernel")) else 1


def matrices_shape(variable, number):
    """[R, M, C], as which a variable is M = number matrices. A vector is one matrix of one column."""
    if variable.shape.rank < 2:
        return [variable.shape.num_elements(), 1, 1]
    columns = variable.shape[-1]
    return [variable.shape.num_elements() // columns, number, columns // number]

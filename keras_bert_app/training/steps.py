"""One training step over all replicas, as a function of whole global batches."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert_app.config.training_config import TrainingConfig
from keras_bert_app.modeling import backend
from keras_bert_app.modeling.execution import Execution
from keras_bert_app.training.cached_gradients import forward_backward_in_parts
from keras_bert_app.training.compilation import training_execution
from keras_bert_app.training.optimizers.optimizer_base import Optimizer
from keras_bert_app.training.optimizers.schedules import learning_rate
from keras_bert_app.training.replicas import split_over_replicas, sum_over_replicas, tracer
from keras_bert_app.training.strategies import device_kind

# Number that makes the seed of dropout. The data pipeline uses other numbers (pipelines.examples).
_DROPOUT = 2
# A step reports these figures besides the sums of its objective.
# bad_variable: index of the first variable whose gradient is not finite, -1 for none.
# stop: number of replicas whose process received a signal to stop.
# progress: share of the run before the step, averaged over the processes.
# overflow: 1 for a step that was skipped because its scaled gradients were too large for float16; see loss_scale.
_BESIDE_SUMS = ("learning_rate", "gradient_norm", "bad_variable", "stop", "progress", "overflow")


def columns(objective: Any) -> dict[str, int]:
    """The column of each figure in the row that a step returns, as dict name -> column.

    Args:
        objective: see training.losses.
    """
    return {name: index for index, name in enumerate((*objective.sum_names, *_BESIDE_SUMS))}


def make_train_call(
    strategy: tf.distribute.Strategy,
    model: Any,
    optimizer: Optimizer,
    run: TrainingConfig,
    objective: Any,
    has_dynamic_length: bool = False,
    steps_per_call: int = 0,
    execution: Execution | None = None,
) -> Callable[..., np.ndarray]:
    """Makes the function that takes k training steps on k stacked global batches.

    The loop over the steps runs on the host, and each step sends its rows to the devices. Each loss is the sum over the
    global batch, divided by the global count. Each replica adds up the gradients of the parts of its rows
    (gradient_accumulation_steps). The step sums the gradients over the replicas and clips the sum by its global norm.
    Every replica then applies the result to its own copy of the weights. A step whose loss or gradient is not finite
    changes no weight.

    Args:
        strategy: the model's tf.distribute.Strategy.
        model: the model that objective.outputs calls. It needs the attribute has_dropout.
        optimizer: Optimizer over the variables that are trained.
        run: TrainingConfig, resolved.
        objective: see training.losses.
        has_dynamic_length: whether rows of many lengths share one compiled step.
        steps_per_call: the function pads each stack with zeros to this number of batches, and passes the number of
            steps separately. A call of fewer steps then needs no program of its own.
        execution: Execution of the step; by default training_execution(run, strategy).

    Returns:
        function call(batches, first_step, progress=None, stop=False) -> float32 [k, len(columns(objective))]. Its rows
        hold sums over the global batch. Its arguments are:
            batches: dict of tensors [k, B, ...].
            first_step: int. Number of the first step.
            progress: (share of the run that is over, share that a step adds), or None to count by steps.
            stop: bool. Whether this process has received a signal to stop.
    """
    call = train_function(strategy, model, optimizer, run, objective, has_dynamic_length, execution)
    trace = tracer(call, run.has_many_batch_sizes) if has_dynamic_length else None

    def train_call(batches, first_step, progress=None, stop=False):
        num_steps = next(iter(batches.values())).shape[0]
        batches = {name: _filled_up(values, steps_per_call) for name, values in batches.items()}
        batches = split_over_replicas(strategy, batches, row_axis=1)
        others = (
            tf.constant(num_steps),
            tf.constant(first_step, tf.int32),
            None if progress is None else tf.constant(progress, tf.float32),
            tf.constant(float(stop)),
        )
        if trace:
            trace(batches, *others)
        return call(batches, *others).numpy()[:num_steps]

    return train_call


def train_function(
    strategy: tf.distribute.Strategy,
    model: Any,
    optimizer: Optimizer,
    run: TrainingConfig,
    objective: Any,
    has_dynamic_length: bool = False,
    execution: Execution | None = None,
) -> Callable:
    """Makes the tf.function of make_train_call. The arguments are those of make_train_call.

    Returns:
        tf.function (batches, num_steps, first_step, progress, stop). The batches are split over the replicas; num_steps
        and first_step are int32, progress is float32 [2] or None, and stop is float32. The rows of batches beyond
        num_steps are zeros.
    """
    execution = execution or training_execution(run, strategy)
    replica_step = _replica_step(strategy, model, optimizer, run, objective, execution)
    num_columns = len(columns(objective))

    # With reduce_retracing, TensorFlow traces one graph for the first length of rows, and one for all other lengths.
    @tf.function(reduce_retracing=has_dynamic_length, autograph=False)
    def call(batches, num_steps, first_step, progress, stop):
        def take_step(index, rows):
            step = first_step + index
            done = (
                tf.cast(step, tf.float32) / run.num_train_steps
                if progress is None
                else progress[0] + tf.cast(index, tf.float32) * progress[1]
            )
            # expand_composites indexes each replica's value on its own device.
            batch = tf.nest.map_structure(lambda values: values[index], batches, expand_composites=True)
            results = strategy.run(replica_step, args=(batch, step, done, stop))
            return index + 1, rows.write(index, strategy.experimental_local_results(results)[0])

        most = tf.nest.flatten(strategy.experimental_local_results(batches)[0])[0].shape[0]
        rows = tf.TensorArray(tf.float32, most, element_shape=[num_columns])
        return tf.while_loop(lambda index, _: index < num_steps, take_step, (0, rows))[1].stack()

    return call


def _replica_step(strategy, model, optimizer, run, objective, execution):
    """Makes the function (batch, step, progress, stop) -> row of the step, which each replica runs."""
    is_tpu, num_replicas = device_kind(strategy) == "TPU", strategy.num_replicas_in_sync
    forward_backward = _forward_backward(model, optimizer, run, objective, execution, is_tpu, num_replicas)
    update = _update(optimizer, run, execution, strategy)
    num_gradients = len(optimizer.variables_by_path)

    def replica_step(batch, step, progress, stop):
        context = tf.distribute.get_replica_context()
        # Every process has its own clock, so the step averages their progress.
        *counts, progress, stop = sum_over_replicas(
            context, [*objective.counts(batch), progress / context.num_replicas_in_sync, tf.identity(stop)]
        )
        seed = step, tf.cast(context.replica_id_in_sync_group, tf.int32)
        gradients, sums = sum_over_replicas(context, forward_backward(batch, seed, *counts))
        gradients, new_states = gradients[:num_gradients], gradients[num_gradients:]
        for state in new_states:
            _carry(context, model.carried_states, state)
        return tf.concat([sums, update(gradients, sums, step, progress, stop)], axis=0)

    return replica_step


def _carry(context, variable, state):
    """Keeps the states after a step for the next one. States that are not finite are not kept."""

    def change(strategy, state):
        strategy.extended.update(variable, lambda each, new: each.assign(new), args=(state,), group=False)

    context.merge_call(change, args=(tf.where(tf.math.is_finite(tf.reduce_sum(state)), state, variable),))


def _update(optimizer, run, execution, strategy):
    """Makes the update of the weights: a function (gradients, sums, step, progress, stop) -> _BESIDE_SUMS."""
    is_program = execution.has_update_in_program and isinstance(strategy, tf.distribute.OneDeviceStrategy)

    def update(gradients, sums, step, progress, stop):
        gradients = optimizer.without_frozen(gradients, step)
        # The half squared norm of a gradient is not finite if an element of the gradient is not.
        half_squares = tf.stack([tf.nn.l2_loss(gradient) for gradient in gradients])
        scaled_norm = tf.sqrt(2.0 * tf.reduce_sum(half_squares))
        gradient_norm = optimizer.unscaled(scaled_norm)
        is_good = tf.math.is_finite(scaled_norm + tf.reduce_sum(sums))
        is_overflow = optimizer.is_overflow(is_good, sums)
        bad_variable = tf.where(is_good | is_overflow, -1, _first_not_finite(half_squares))
        # The factor of tf.clip_by_global_norm. The update reads the gradients anyway, so it also applies this factor.
        scale = optimizer.unscaled(run.clip_norm * tf.minimum(1.0 / gradient_norm, 1.0 / run.clip_norm))
        rate = learning_rate(run, step, progress)
        if is_program:
            optimizer.apply_in_program(gradients, rate, step, is_good, scale)
        else:
            optimizer.apply(gradients, rate, step, is_good, scale, execution)
        beside = (rate, gradient_norm, bad_variable, stop, progress, is_overflow)
        return tf.stack([tf.cast(each, tf.float32) for each in beside])

    return tf.function(update, jit_compile=True, autograph=False) if is_program else update


def _forward_backward(model, optimizer, run, objective, execution: Execution, is_tpu, num_replicas):
    """Makes the function (batch, seed, *counts) -> (gradients and new states, sums), compiled as execution says."""
    variables = list(optimizer.variables_by_path.values())
    if getattr(objective, "needs_whole_batch", False):
        # Replicas cannot gather inside a compiled program.
        is_split = execution.compiles_all and num_replicas > 1
        if is_split or run.gradient_accumulation_steps > 1:
            return _cached_forward_backward(model, optimizer, run, objective, execution, is_tpu)

    def forward_backward(batch, seed, *counts):
        with tf.GradientTape() as tape:
            outputs = objective.outputs(model, batch, _dropout_seed(run, seed, model), execution)
            sums = objective.loss_sums(outputs, batch, execution)
            loss = optimizer.scaled(objective.mean_loss(sums, *counts))
        gradients = [tf.convert_to_tensor(gradient) for gradient in tape.gradient(loss, variables)]
        # Parts and replicas add up new states like gradients, because each fills its own rows of the table.
        new_states = [outputs["new_states"]] if "new_states" in outputs else []
        return [*gradients, *new_states], tf.stack([sums[name] for name in objective.sum_names])

    # On a TPU the runtime compiles the program.
    if execution.compiles_all and not is_tpu:
        forward_backward = tf.function(forward_backward, jit_compile=True, autograph=False)
    elif run.gradient_accumulation_steps > 1:
        # In the loop over parts, this function must stay separate. TensorFlow sums three or more tensors in temporary
        # variables. After inlining, these variables outlive the last round of the loop, and the next step fails.
        forward_backward = tf.function(forward_backward, autograph=False, experimental_attributes={"_noinline": True})
    carried = getattr(model, "carried_states", None)
    added = [*variables, *([] if carried is None else [carried])]
    zeros = [(variable.shape, variable.dtype) for variable in added] + [((len(objective.sum_names),), tf.float32)]
    return _in_parts(forward_backward, run.gradient_accumulation_steps, zeros if execution.compiles_all else ())


def _dropout_seed(run, seed, model):
    """The seed of dropout from a tuple of numbers, or None for a model without dropout."""
    seed = functools.reduce(backend.fold_in, seed, tf.constant([run.seed, _DROPOUT], tf.int64))
    return seed if model.has_dropout else None


def _cached_forward_backward(model, optimizer, run, objective, execution, is_tpu):
    """The function of _forward_backward for an objective whose loss needs the vectors of all parts together."""
    variables = list(optimizer.variables_by_path.values())

    def vectors_of(rows, seed):
        return objective.outputs(model, rows, seed, execution)["vectors"]

    def gradients_of(rows, seed, of_vectors):
        with tf.GradientTape() as tape:
            product = tf.reduce_sum(vectors_of(rows, seed) * of_vectors)
        return [tf.convert_to_tensor(gradient) for gradient in tape.gradient(product, variables)]

    if not is_tpu:  # On a TPU the runtime compiles the program.
        # _noinline for the reason that _forward_backward gives.
        how = {"jit_compile": True} if execution.compiles_all else {"experimental_attributes": {"_noinline": True}}
        vectors_of, gradients_of = (tf.function(each, autograph=False, **how) for each in (vectors_of, gradients_of))

    def forward_backward(batch, seed, *counts):
        def loss_of(vectors, batch):
            sums = objective.loss_sums({"vectors": vectors}, batch, execution)
            loss = optimizer.scaled(objective.mean_loss(sums, *counts))
            return loss, tf.stack([sums[name] for name in objective.sum_names])

        def seed_of(part):
            return _dropout_seed(run, (*seed, part), model)

        return forward_backward_in_parts(
            lambda rows, part: vectors_of(rows, seed_of(part)),
            lambda rows, part, of_vectors: gradients_of(rows, seed_of(part), of_vectors),
            loss_of,
            run.gradient_accumulation_steps,
        )(batch)

    return forward_backward


def _filled_up(values, size):
    """Pads values [k, ...] with zeros to a first dimension of `size`, if k is smaller."""
    missing = size - values.shape[0]
    return tf.pad(values, [[0, missing], *[[0, 0]] * (values.shape.rank - 1)]) if missing > 0 else values


def _in_parts(forward_backward, num_parts, zeros=()):
    """Makes a function that runs forward_backward on equal parts of the rows and adds up the results.

    Each part divides its losses by the counts of the whole global batch, so the sum is the gradient of that batch.

    Args:
        forward_backward: function of (batch, seed, *counts). The seed is a tuple of numbers, which forward_backward
            folds into the seed of the run.
        num_parts: number of parts.
        zeros: (shape, dtype) of each result, to start the sums with zeros. The program is then half as long, which
            matters if XLA compiles it as a whole. Without zeros, the results of the first part start the sums.
    """
    if num_parts == 1:
        return forward_backward

    def in_parts(batch, seed, *counts):
        def part(index):
            rows = {}
            for name, values in batch.items():
                # Batches leave sizes open: the length of rows, the number of rows of a text, or the number of texts.
                sizes = [
                    tf.shape(values)[axis] if size is None else size for axis, size in enumerate(values.shape.as_list())
                ]
                rows[name] = tf.reshape(values, [num_parts, sizes[0] // num_parts, *sizes[1:]])[index]
            return tf.nest.flatten(forward_backward(rows, (*seed, index), *counts))

        def add(index, *sums):
            return index + 1, *(total + more for total, more in zip(sums, part(index), strict=True))

        start = (0, *(tf.zeros(*each) for each in zeros)) if zeros else (1, *part(0))
        _, *totals, sums = tf.while_loop(lambda index, *_: index < num_parts, add, start, parallel_iterations=1)
        return totals, sums

    return in_parts


def _first_not_finite(values):
    is_bad = ~tf.math.is_finite(values)
    # The sum of finite values, or the loss, may be too large for float32. Then no variable is to blame, and the
    # result is the number of variables.
    return tf.where(tf.reduce_any(is_bad), tf.argmax(is_bad, output_type=tf.int32), values.shape[0])

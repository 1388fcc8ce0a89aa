"""One training step over all replicas, as a function of whole global batches."""

import tensorflow as tf

from keras_bert_app.modeling import backend
from keras_bert_app.training.optimizers.schedules import learning_rate
from keras_bert_app.training.replicas import split_over_replicas, sum_over_replicas, tracer
from keras_bert_app.training.strategies import device_kind

_DROPOUT = 2  # purpose of the draws; 0 and 1 are the data pipeline's
# What a step tells besides its objective's sums. bad_variable: the first one whose gradient is not finite, -1 for none.
# stop: how many replicas are of processes that were asked to stop. progress: the share of the run before the step, as all processes see it.
_BESIDE_SUMS = ("learning_rate", "gradient_norm", "bad_variable", "stop", "progress")


def columns(objective):
    """dict name -> column of the row that a step returns."""
    return {name: index for index, name in enumerate((*objective.sum_names, *_BESIDE_SUMS))}


def make_train_call(strategy, model, optimizer, run, objective, has_dynamic_length=False, steps_per_call=0):
    """A function of k stacked global batches that takes k steps.

    The loop over them runs on the host, and each step gives the devices the rows of that step alone.

    The gradient is that of the summed losses over the global counts, added up over the parts of each replica's rows
    (gradient_accumulation_steps); it is summed over replicas, clipped by its global norm, and applied by each replica to
    its own copy. A step whose loss or gradient is not finite changes no weight.

    Args:
        strategy: the model's tf.distribute.Strategy. model: what objective.outputs calls; it has has_dropout. optimizer: of
            training.optimizers, over those of the model's variables that are trained. run: TrainingConfig, resolved.
            objective: see training.losses. has_dynamic_length: whether rows of many lengths share one compiled step.
        steps_per_call: fewer batches are filled up to so many, whose number is told beside them, so that a call of fewer steps
            is not compiled anew.

    Returns:
        call(batches, first_step, progress=None, stop=False): batches a dict of [k, B, ...], first_step an int, progress
        (the share of the run that is over, what a step adds to it) or None for by steps, stop whether this process was asked to; returns float32
        [k, len(columns(objective))], sums over the global batch.
    """
    call = train_function(strategy, model, optimizer, run, objective, has_dynamic_length)
    trace = tracer(call, num_fixed=2) if has_dynamic_length else None

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


def train_function(strategy, model, optimizer, run, objective, has_dynamic_length=False):
    """The tf.function that make_train_call calls: of batches given out to replicas, the number of them that are taken and
    first_step int32, progress float32 [2] or None, and stop float32. Its rows are zeros from the first batch on that is not taken."""
    variables = list(optimizer.variables_by_path.values())
    num_columns = len(columns(objective))

    # On a TPU all is compiled in any case, by whoever runs it there.
    is_tpu = device_kind(strategy) == "TPU"
    compiled = "step" if is_tpu else "none" if run.jit_compile == "auto" else run.jit_compile

    def forward_backward(batch, seed, *counts):
        with backend.compiled(compiled), tf.GradientTape() as tape:
            outputs = objective.outputs(model, batch, seed if model.has_dropout else None)
            sums = objective.loss_sums(outputs, batch)
            loss = objective.mean_loss(sums, *counts)
        gradients = [tf.convert_to_tensor(gradient) for gradient in tape.gradient(loss, variables)]
        return gradients, tf.stack([sums[name] for name in objective.sum_names])

    if compiled == "step" and not is_tpu:
        forward_backward = tf.function(forward_backward, jit_compile=True, autograph=False)
    elif run.gradient_accumulation_steps > 1:
        # Stays a function of its own in the loop over parts. Inlined, what TensorFlow adds there to save memory (temporary
        # variables for sums of three and more) is left over by the loop's last round, and the next step fails for it.
        forward_backward = tf.function(forward_backward, autograph=False, experimental_attributes={"_noinline": True})
    zeros = [(variable.shape, variable.dtype) for variable in variables] + [((len(objective.sum_names),), tf.float32)]
    forward_backward = _in_parts(forward_backward, run.gradient_accumulation_steps, zeros if compiled == "step" else ())

    def replica_step(batch, step, progress, stop):
        context = tf.distribute.get_replica_context()
        seed = backend.fold_in(tf.constant([run.seed, _DROPOUT], tf.int64), step)
        seed = backend.fold_in(seed, context.replica_id_in_sync_group)
        # Processes have clocks of their own, so that their progress is averaged.
        *counts, progress, stop = sum_over_replicas(
            context, [*objective.counts(batch), progress / context.num_replicas_in_sync, tf.identity(stop)]
        )
        gradients, sums = sum_over_replicas(context, forward_backward(batch, seed, *counts))
        gradients = optimizer.without_frozen(gradients, step)
        # Each variable's half squared norm, which is not finite where a value is not.
        halves = tf.stack([tf.nn.l2_loss(gradient) for gradient in gradients])
        gradient_norm = tf.sqrt(2.0 * tf.reduce_sum(halves))
        is_good = tf.math.is_finite(gradient_norm + tf.reduce_sum(sums))
        bad_variable = tf.where(is_good, -1, _first_not_finite(halves))
        # tf.clip_by_global_norm's factor, which is multiplied in where the gradients are read in any case.
        scale = run.clip_norm * tf.minimum(1.0 / gradient_norm, 1.0 / run.clip_norm)
        rate = learning_rate(run, step, progress)
        with backend.compiled(compiled):
            optimizer.apply(gradients, rate, step, is_good, scale)
        return tf.concat([sums, [rate, gradient_norm, tf.cast(bad_variable, tf.float32), stop, progress]], axis=0)

    # Of batches that differ in S alone TensorFlow compiles the first, then one more for any S.
    @tf.function(reduce_retracing=has_dynamic_length, autograph=False)
    def call(batches, num_steps, first_step, progress, stop):
        def take_step(index, rows):
            step = first_step + index
            done = (
                tf.cast(step, tf.float32) / run.num_train_steps
                if progress is None
                else progress[0] + tf.cast(index, tf.float32) * progress[1]
            )
            # Composites: each replica's value is indexed where it lies.
            batch = tf.nest.map_structure(lambda values: values[index], batches, expand_composites=True)
            results = strategy.run(replica_step, args=(batch, step, done, stop))
            return index + 1, rows.write(index, strategy.experimental_local_results(results)[0])

        most = tf.nest.flatten(strategy.experimental_local_results(batches)[0])[0].shape[0]
        rows = tf.TensorArray(tf.float32, most, element_shape=[num_columns])
        return tf.while_loop(lambda index, _: index < num_steps, take_step, (0, rows))[1].stack()

    return call


def _filled_up(values, size):
    """The values [k, ...] with zeros behind them up to a first dimension of `size`; as they are when k is not less."""
    missing = size - values.shape[0]
    return tf.pad(values, [[0, missing], *[[0, 0]] * (values.shape.rank - 1)]) if missing > 0 else values


def _in_parts(forward_backward, num_parts, zeros=()):
    """forward_backward over equal parts of the rows, one after the other, the results added up.

    Losses are divided by the counts of the whole global batch, so that the sum is the whole batch's gradient.

    Args:
        zeros: (shape, dtype) of each result, to begin with zeros: the program is half as long, which counts where it is compiled
            whole. By default the first part's results are what the others are added to.
    """
    if num_parts == 1:
        return forward_backward

    def in_parts(batch, seed, *counts):
        def part(index):
            # Batches of many lengths leave sizes open: that of the rows, and how many rows a text has.
            rows = {
                name: tf.reshape(
                    values,
                    [
                        num_parts,
                        values.shape[0] // num_parts,
                        *(
                            tf.shape(values)[axis] if values.shape[axis] is None else values.shape[axis]
                            for axis in range(1, values.shape.rank)
                        ),
                    ],
                )[index]
                for name, values in batch.items()
            }
            return tf.nest.flatten(forward_backward(rows, backend.fold_in(seed, index), *counts))

        def add(index, *sums):
            return index + 1, *(total + more for total, more in zip(sums, part(index)))

        start = (0, *(tf.zeros(*each) for each in zeros)) if zeros else (1, *part(0))
        _, *totals, sums = tf.while_loop(lambda index, *_: index < num_parts, add, start, parallel_iterations=1)
        return totals, sums

    return in_parts


def _first_not_finite(values):
    is_bad = ~tf.math.is_finite(values)
    # Finite values whose sum, or whose loss, is too large for float32: none of them alone.
    return tf.where(tf.reduce_any(is_bad), tf.argmax(is_bad, output_type=tf.int32), values.shape[0])

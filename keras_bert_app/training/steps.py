"""One training step and one evaluation step over all replicas, as functions of whole global batches."""

import tensorflow as tf

from keras_bert_app.modeling import backend
from keras_bert_app.training import losses
from keras_bert_app.training.optimizers import warmup_linear_decay

_DROPOUT = 2  # purpose of the draws; 0 and 1 are the data pipeline's
STEP_METRICS = (*losses.SUMS, "learning_rate", "gradient_norm")


def split_over_replicas(strategy, batch, row_axis):
    """The rows of a global batch given out to this process's replicas, each its own share.

    Every process makes the same global batch; worker w's replicas take their rows of it.
    """
    num_replicas = strategy.num_replicas_in_sync

    def rows_of(context):
        replica = context.replica_id_in_sync_group

        def take(values):
            size = values.shape[row_axis] // num_replicas
            return tf.gather(values, tf.range(replica * size, (replica + 1) * size), axis=row_axis)
        return {name: take(values) for name, values in batch.items()} if num_replicas > 1 else batch
    return strategy.experimental_distribute_values_from_function(rows_of)


def make_train_call(strategy, model, optimizer, run):
    """A function of k stacked global batches that takes k steps.

    The gradient is that of the summed losses over the global counts; it is summed over replicas, clipped by its
    global norm, and applied by each replica to its own copy.

    Args:
        strategy: the model's tf.distribute.Strategy. model: BertPretrainer. optimizer: AdamWeightDecay over the model's
            trainable variables. run: PretrainingConfig, resolved.

    Returns:
        call(batches, first_step): batches a dict of [k, B, ...], first_step an int; returns float32
        [k, len(STEP_METRICS)], sums over the global batch.
    """
    variables = list(optimizer.variables_by_path.values())
    has_dropout = max(model.config.hidden_dropout_prob, model.config.attention_probs_dropout_prob) > 0

    def forward_backward(batch, seed, masked_lm_count, next_sentence_count):
        with tf.GradientTape() as tape:
            outputs = model(batch, dropout_seed=seed if has_dropout else None)
            sums = losses.loss_sums(outputs, batch)
            loss = losses.mean_loss(sums, masked_lm_count, next_sentence_count)
        gradients = [tf.convert_to_tensor(gradient) for gradient in tape.gradient(loss, variables)]
        return gradients, tf.stack([sums[name] for name in losses.SUMS])

    if run.jit_compile:
        forward_backward = tf.function(forward_backward, jit_compile=True)

    def replica_step(batches, index, step):
        context = tf.distribute.get_replica_context()
        batch = {name: values[index] for name, values in batches.items()}
        seed = backend.fold_in(tf.constant([run.seed, _DROPOUT], tf.int64), step)
        seed = backend.fold_in(seed, context.replica_id_in_sync_group)
        masked_lm_count, next_sentence_count = _sum_over_replicas(context, losses.counts(batch))
        gradients, sums = forward_backward(batch, seed, masked_lm_count, next_sentence_count)
        gradients, sums = _sum_over_replicas(context, (gradients, sums))
        gradients, gradient_norm = tf.clip_by_global_norm(gradients, run.clip_norm)
        learning_rate = warmup_linear_decay(step, run.learning_rate, run.num_warmup_steps, run.num_train_steps)
        optimizer.apply(gradients, learning_rate)
        return tf.concat([sums, [learning_rate, gradient_norm]], axis=0)

    @tf.function(reduce_retracing=False)
    def call(batches, first_step):
        num_steps = tf.nest.flatten(strategy.experimental_local_results(batches)[0])[0].shape[0]
        rows = tf.TensorArray(tf.float32, num_steps, element_shape=[len(STEP_METRICS)])
        for index in tf.range(num_steps):
            results = strategy.run(replica_step, args=(batches, index, first_step + index))
            rows = rows.write(index, strategy.experimental_local_results(results)[0])
        return rows.stack()

    return lambda batches, first_step: call(
        split_over_replicas(strategy, batches, row_axis=1), tf.constant(first_step, tf.int32)).numpy()


def make_evaluation_call(strategy, model):
    """A function of one global batch that returns its sums, float32 [len(SUMS)]."""
    def replica_step(batch):
        sums = losses.loss_sums(model(batch), batch)
        return _sum_over_replicas(tf.distribute.get_replica_context(), tf.stack([sums[name] for name in losses.SUMS]))

    @tf.function
    def call(batch):
        return strategy.experimental_local_results(strategy.run(replica_step, args=(batch,)))[0]

    return lambda batch: call(split_over_replicas(strategy, batch, row_axis=0)).numpy()


def _sum_over_replicas(context, values):
    if context.num_replicas_in_sync == 1:
        return values
    return tf.nest.pack_sequence_as(
        values, context.all_reduce(tf.distribute.ReduceOp.SUM, tf.nest.flatten(values)))

"""Evaluations and predictions over all replicas, as functions of whole global batches."""

import tensorflow as tf

from keras_bert_app.modeling import backend
from keras_bert_app.training.replicas import split_over_replicas, sum_over_replicas, tracer
from keras_bert_app.training.strategies import device_kind


def forward_compilation(strategy, run, is_worth):
    """What XLA compiles of evaluations and predictions, as backend.compiled takes it.

    On a TPU that is all. In bfloat16 on a CPU kernels spare about half of the time, in float32 a tenth at most; each length of
    rows takes a second to compile (BUILD.md, "Beside the peers"). is_worth: whether there are rows enough for that.
    """
    device = device_kind(strategy)
    if device == "TPU":
        return "step"
    return "parts" if is_worth and run.precision == "bfloat16" and device == "CPU" else ""


def make_evaluation_call(strategy, model, objective, compiled=""):
    """A function of one global batch that returns its objective's sums, float32 [len(objective.sum_names)].

    Args:
        compiled: of forward_compilation.
    """
    call = evaluation_function(strategy, model, objective, compiled)
    return lambda batch: call(split_over_replicas(strategy, batch, row_axis=0)).numpy()


def evaluation_function(strategy, model, objective, compiled=""):
    """The tf.function that make_evaluation_call calls, of a batch given out to replicas."""

    def replica_step(batch):
        with backend.compiled(compiled):
            sums = objective.loss_sums(objective.outputs(model, batch), batch)
        return sum_over_replicas(
            tf.distribute.get_replica_context(), tf.stack([sums[name] for name in objective.sum_names])
        )

    @tf.function(autograph=False)
    def call(batch):
        return strategy.experimental_local_results(strategy.run(replica_step, args=(batch,)))[0]

    return call


def make_prediction_call(strategy, model, compiled=""):
    """A function of one global batch that returns the model's logits [B, ...], on every process those of all rows.

    Args:
        compiled: of forward_compilation.
    """
    call = prediction_function(strategy, model, compiled)
    # A TPU knows no sizes that are open, and compiles for each.
    trace = tracer(call, num_fixed=1 if compiled else 0) if device_kind(strategy) != "TPU" else None

    def predict_call(batch):
        batch = split_over_replicas(strategy, batch, row_axis=0)
        if trace:
            trace(batch)
        return call(batch).numpy()

    return predict_call


def prediction_function(strategy, model, compiled=""):
    """The tf.function that make_prediction_call calls, of a batch given out to replicas."""

    def replica_step(batch):
        with backend.compiled(compiled):
            logits = model(batch)["logits"]
        context = tf.distribute.get_replica_context()
        return logits if context.num_replicas_in_sync == 1 else context.all_gather(logits, axis=0)

    # A TPU knows no lengths that are open, and compiles for each.
    @tf.function(reduce_retracing=device_kind(strategy) != "TPU", autograph=False)
    def call(batch):
        return strategy.experimental_local_results(strategy.run(replica_step, args=(batch,)))[0]

    return call

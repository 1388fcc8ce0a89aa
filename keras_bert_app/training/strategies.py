"""The devices of a run, as a tf.distribute.Strategy."""

import contextlib
import json
import os
import signal

import tensorflow as tf

from keras_bert_app.config.training_config import TrainingConfig
from keras_bert_app.errors import UserError
from keras_bert_app.training import gpu, gpu_environment, tpu

KERAS_POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}
# A process reports this signal if only another process of the run got a signal.
STOP_ELSEWHERE = signal.SIGTERM
# Steps of one call, by kind of device. The overhead of a call is large on a TPU, and almost nothing on a CPU.
_ITERATIONS_PER_LOOP = {"TPU": 100, "GPU": 20, "CPU": 5}


def make_strategy(name: str) -> tf.distribute.Strategy:
    """Makes the strategy of a --strategy flag. Call this function before any other op of TensorFlow.

    Args:
        name: one of
            "auto": the machines of TF_CONFIG if it names several, else a TPU if the environment has one, else all GPUs,
                else the CPU;
            "one_device": the first GPU, or the CPU;
            "mirrored": all GPUs of this machine, or its logical CPUs;
            "multi_worker": the machines of TF_CONFIG;
            "tpu": all chips of a TPU.

    Raises:
        UserError: the devices are missing, or TF_CONFIG contradicts the name.
    """
    gpu_environment.prepare()
    num_machines = _machines_in_tf_config()
    if name == "multi_worker" or (name == "auto" and num_machines > 1):
        if not num_machines:
            raise UserError(
                "--strategy=multi_worker: the environment has no TF_CONFIG; set it on every machine to "
                '{"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", "index": 0}}'
            )
        _check_task_in_tf_config()
        return tf.distribute.MultiWorkerMirroredStrategy()
    if num_machines > 1:
        raise UserError(
            f"--strategy={name}, but TF_CONFIG names {num_machines} machines, which would all write the same "
            "files; take --strategy=multi_worker, or unset TF_CONFIG"
        )
    gpus = tf.config.list_physical_devices("GPU")
    if name == "auto":
        name = "tpu" if tpu.is_meant() else "mirrored" if len(gpus) > 1 else "one_device"
    if name == "one_device":
        return tf.distribute.OneDeviceStrategy("GPU:0" if gpus else "CPU:0")
    if name == "mirrored":
        devices = tf.config.list_logical_devices("GPU" if gpus else "CPU")
        return tf.distribute.MirroredStrategy([device.name for device in devices])
    return tpu.make_strategy()


def _machines_in_tf_config():
    """The number of tasks of the cluster in TF_CONFIG; 0 without a cluster."""
    try:
        cluster = json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster", {})
        return sum(len(addresses) for task, addresses in cluster.items() if task in ("chief", "worker"))
    except (ValueError, AttributeError, TypeError):
        raise UserError(
            f"the environment's TF_CONFIG is not a JSON object with a cluster ({os.environ['TF_CONFIG'][:60]!r}); "
            "mend or unset it"
        ) from None


def _check_task_in_tf_config():
    """Raises UserError if TF_CONFIG does not say which machine of the cluster this machine is."""
    environment = json.loads(os.environ["TF_CONFIG"])
    cluster, task = environment["cluster"], environment.get("task")
    kind, index = (task.get("type"), task.get("index")) if isinstance(task, dict) else (None, None)
    with contextlib.suppress(TypeError, ValueError):
        index = int(index)  # TensorFlow takes "1" too
    if kind not in cluster or type(index) is not int or not 0 <= index < len(cluster[kind]):
        raise UserError(
            f"the environment's TF_CONFIG has the task {json.dumps(task)}; expected the type and index of this "
            f'machine, such as {{"type": "{next(iter(cluster))}", "index": 0}}'
        )


def device_kind(strategy: tf.distribute.Strategy) -> str:
    """The kind of the strategy's devices: "TPU", "GPU" or "CPU".

    Args:
        strategy: the devices.
    """
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return "TPU"
    return "GPU" if tf.config.list_physical_devices("GPU") else "CPU"


def iterations_per_loop(strategy: tf.distribute.Strategy, wanted: int) -> int:
    """The number of steps of one call.

    Args:
        strategy: the devices.
        wanted: the number that the user has set; 0 for the number that suits the kind of device.
    """
    return wanted or _ITERATIONS_PER_LOOP[device_kind(strategy)]


def with_precision(run: TrainingConfig, strategy: tf.distribute.Strategy) -> TrainingConfig:
    """Replaces --precision=auto by the value that suits the devices.

    Args:
        run: TrainingConfig.
        strategy: the devices.
    """
    device = device_kind(strategy)
    return run.with_precision(
        "bfloat16" if device == "TPU" else gpu.first().precision if device == "GPU" else "float32"
    )


def with_compilation(run: TrainingConfig, strategy: tf.distribute.Strategy) -> TrainingConfig:
    """Replaces --jit_compile=auto by the value that suits the devices.

    With --deterministic on a GPU, the function also makes all ops of this process deterministic.

    Args:
        run: TrainingConfig.
        strategy: the devices.
    """
    device = device_kind(strategy)
    run = run.with_compilation(device)
    if run.deterministic and device == "GPU":
        gpu.make_deterministic(run)
    return run


def resolved(run: TrainingConfig, strategy: tf.distribute.Strategy) -> TrainingConfig:
    """Replaces --precision=auto and --jit_compile=auto by the values that suit the devices.

    Args:
        run: TrainingConfig.
        strategy: the devices.
    """
    return with_compilation(with_precision(run, strategy), strategy)


def check_batch_size(strategy: tf.distribute.Strategy, global_batch_size: int, num_parts: int = 1) -> None:
    """Checks that a global batch divides over the replicas.

    Args:
        strategy: the devices.
        global_batch_size: rows.
        num_parts: number of equal parts into which each replica splits its rows.

    Raises:
        UserError: the batch does not divide evenly.
    """
    replicas = strategy.num_replicas_in_sync
    if global_batch_size % (replicas * num_parts):
        parts = f" in {num_parts} parts (--gradient_accumulation_steps)" if num_parts > 1 else ""
        raise UserError(
            f"a global batch of {global_batch_size} (--global_batch_size, or the smallest batch of "
            f"--batch_ramp_steps or --batch_ramp_share) does not divide over {replicas} replicas{parts}; "
            f"take a multiple of {replicas * num_parts}"
        )


def describe(strategy: tf.distribute.Strategy, run: TrainingConfig) -> str:
    """Makes the line that names the strategy, its devices, the batch and the precision.

    Args:
        strategy: the devices.
        run: TrainingConfig, resolved.
    """
    replicas, parts = strategy.num_replicas_in_sync, ""
    if run.gradient_accumulation_steps > 1:
        parts = f", {run.gradient_accumulation_steps} parts one after the other"
    machines = f" on {num_machines(strategy)} machines" if num_machines(strategy) > 1 else ""
    # The class of a MultiWorkerMirroredStrategy has another name.
    name = (
        "MultiWorkerMirroredStrategy"
        if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        else type(strategy).__name__
    )
    return (
        f"{name}, {replicas} x {device_kind(strategy)}{machines}, batch {run.global_batch_size} "
        f"({run.global_batch_size // replicas} a replica{parts}), {run.precision}{_on_gpu(strategy, run)}"
    )


def _on_gpu(strategy, run):
    """Explains precision and compilation on the GPU, for the start line; "" on other devices."""
    if device_kind(strategy) != "GPU":
        return ""
    first = gpu.first()
    compiled = {
        "step": "XLA compiles the whole step, which takes some seconds for each length of rows",
        "parts": "XLA compiles everything except matrix products",
        "none": "nothing is compiled",
    }[run.jit_compile]
    return f" ({first.name}: {first.why(run.precision)}; --jit_compile={run.jit_compile}: {compiled})"


def num_machines(strategy: tf.distribute.Strategy) -> int:
    """The number of processes that train together.

    Args:
        strategy: the devices.
    """
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy) or strategy.cluster_resolver is None:
        return 1
    return max(
        1, sum(len(strategy.cluster_resolver.cluster_spec().as_dict().get(job, ())) for job in ("chief", "worker"))
    )


def wait_for_all(strategy: tf.distribute.Strategy) -> None:
    """Waits until every machine that trains with this one has called this function too.

    Args:
        strategy: the devices.
    """
    if num_machines(strategy) > 1:
        ones = strategy.run(
            tf.function(
                lambda: tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.constant(1.0))
            )
        )
        strategy.experimental_local_results(ones)[0].numpy()


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process writes the files of the run.

    The chief is the task "chief". Without such a task, worker 0 is the chief.

    Args:
        strategy: the devices.
    """
    resolver = strategy.cluster_resolver
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy) or resolver is None:
        return True
    first = "chief" if "chief" in resolver.cluster_spec().jobs else "worker"
    return (resolver.task_type, resolver.task_id) == (first, 0)

"""The TPU of a run: address, connection, and advice about the batch."""

import functools
import os
import re
import socket
import urllib.parse
from collections.abc import Mapping

import tensorflow as tf

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.training_config import TrainingConfig
from keras_bert_app.errors import UserError
from keras_bert_app.training import tpu_wheels

_SECONDS_TO_CONNECT = 10.0
_DEFAULT_PORT = 8470  # port of the TPU's server, for a grpc:// address without a port
_OTHER_WAYS = "use a machine with a TPU, or leave --strategy at auto"
# A register has eight sublanes, so a core should take a multiple of 8 rows (Cloud TPU's performance guide).
ROWS_MULTIPLE = 8
# Beginning of TPU_ACCELERATOR_TYPE -> name in estimation.hardware. These chips have one core each.
_CHIPS = {"v5litepod": "v5e", "v5e": "v5e", "v6e": "v6e"}


def is_meant(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether --strategy=auto selects a TPU.

    This is so if the machine has chips and TensorFlow's TPU wheel, or if a variable of the environment names a TPU.

    Args:
        environment: dict of environment variables.
    """
    return bool(_has_chips() or _naming_variable(environment))


def _has_chips():
    return tf.config.list_physical_devices("TPU") or (tpu_wheels.installed() and tpu_wheels.chips())


def _naming_variable(environment):
    """The first variable of the environment that names a TPU, or None."""
    return next(
        (
            name
            for name in ("TPU_NAME", "KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS", *tpu_wheels.SIGNS_OF_CHIPS)
            if environment.get(name)
        ),
        None,
    )


def address(environment: Mapping[str, str] = os.environ) -> str:
    """The address of the TPU for TensorFlow: "local", a name, or grpc://HOST:PORT.

    "local" means the chips of this machine. Machines of Colab and Kaggle and TPU VMs have chips. TPU_NAME counts only
    on machines without chips, because some images set it to the machine's own name. A machine of a pod has chips too;
    TPU_LOAD_LIBRARY=0 hides them.

    Args:
        environment: dict of environment variables.
    """
    if _has_chips() and environment.get("TPU_LOAD_LIBRARY") != "0":
        return "local"
    return environment.get("KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS") or environment.get("TPU_NAME") or "local"


def make_strategy(environment: Mapping[str, str] = os.environ) -> tf.distribute.TPUStrategy:
    """Connects to the TPU, initializes it and makes a TPUStrategy over all its chips.

    Args:
        environment: dict of environment variables.

    Raises:
        UserError: there is no TPU, the TPU does not answer, or it runs another version of TensorFlow.
    """
    name = address(environment)
    if name.startswith("grpc://"):
        _check_connection(name)
    elif name == "local" and not tpu_wheels.installed():
        sign = _naming_variable(environment)
        raise UserError(
            f"--strategy=tpu: TensorFlow {tf.__version__} here is built without TPUs"
            + (
                f", though {sign}={environment[sign]} says that there is one; install requirements-tpu.txt"
                if sign
                else f", and the environment names none; {_OTHER_WAYS}"
            )
        )
    hosts = environment.get("TPU_WORKER_HOSTNAMES", "").split(",")
    if name == "local" and len(hosts) > 1:
        raise UserError(
            f"--strategy=tpu: this machine is one of the {len(hosts)} machines of a pod (TPU_WORKER_HOSTNAMES), "
            "whose chips start only together; set TPU_NAME to the pod's name or grpc://HOST:PORT, and "
            "TPU_LOAD_LIBRARY=0"
        )
    try:
        return _connected(name)
    except Exception as error:  # the resolver passes on every exception of its transport
        raise UserError(f"--strategy=tpu: {_explanation(name, error)}") from None


@functools.cache
def _connected(name):
    """Connects to a TPU and returns its strategy.

    The function caches the strategy, because a second initialization clears the TPU's memory.
    """
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=name)
    # By default TensorFlow would place all other ops on the pod's first worker, which lacks the tokenizer's ops.
    tf.config.experimental_connect_to_cluster(resolver, make_master_device_default=False)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    return tf.distribute.TPUStrategy(resolver)


def _check_connection(name):
    """Raises UserError if nothing answers at an address. TensorFlow itself would wait forever."""
    first = urllib.parse.urlsplit(name.split(",")[0])
    try:
        place = first.hostname, first.port or _DEFAULT_PORT
        with socket.create_connection(place, _SECONDS_TO_CONNECT):
            pass
    except (OSError, ValueError, TypeError) as error:
        raise UserError(
            f"--strategy=tpu: nothing answers at {name} ({error}); expected TPU_NAME to be grpc://HOST:PORT of a "
            "running TPU, its name in Google Cloud, or local"
        ) from None


def _explanation(name, error):
    """Explains in one line why the connection to a TPU failed, with TensorFlow's first line."""
    text = str(error) or type(error).__name__
    reason = text.strip().splitlines()[0][:200]
    if "No matching devices found for '/device:TPU_SYSTEM" in text or "No OpKernel was registered" in text:
        way = "another process holds its TPU chips; end that process" if tpu_wheels.chips() else _OTHER_WAYS
        return f"TensorFlow {tf.__version__} finds no TPU on this machine; {way}"
    if "registered in binary" in text or "not in Op<" in text or "context_id" in text:
        return (
            f"the TPU {name} runs another version of TensorFlow than {tf.__version__} here ({reason}); create the "
            "TPU with the runtime of this version, or install the TPU's version of tensorflow and tensorflow-text here"
        )
    if "Google API client" in text:
        return (
            f"TensorFlow needs two more packages to find the TPU {name} by its name; pip install "
            "google-api-python-client oauth2client, or set TPU_NAME=grpc://HOST:PORT"
        )
    if isinstance(error, OSError) or "googleapiclient" in text:
        return (
            f"Google Cloud did not give the address of the TPU {name} ({reason}); run on a machine in the same "
            "project, or set TPU_NAME=grpc://HOST:PORT"
        )
    return f"the TPU {name} did not start ({reason}); {_OTHER_WAYS}"


def advice(
    strategy: tf.distribute.Strategy,
    run: TrainingConfig,
    model_config: BertConfig | None = None,
    environment: Mapping[str, str] = os.environ,
) -> list[str]:
    """Makes lines of advice about the batch on a TPU, and about the number of rows that fit.

    Args:
        strategy: the devices.
        run: TrainingConfig, resolved.
        model_config: BertConfig of a pre-training, for an estimate of its memory; None for no estimate.
        environment: dict whose TPU_ACCELERATOR_TYPE names the chip.

    Returns:
        Lines; [] for other devices.
    """
    if not isinstance(strategy, tf.distribute.TPUStrategy):
        return []
    from keras_bert_app.estimation import estimate, hardware  # other devices need no estimate

    rows, lines = run.rows_at_a_time(strategy.num_replicas_in_sync), []
    if rows % ROWS_MULTIPLE:
        good_rows = -(-rows // ROWS_MULTIPLE) * ROWS_MULTIPLE
        good_batch = good_rows * strategy.num_replicas_in_sync * run.gradient_accumulation_steps
        lines.append(
            f"advice: {rows} rows a core; a TPU is fastest with multiples of {ROWS_MULTIPLE}, such as "
            f"--global_batch_size={good_batch}"
        )
    if run.has_many_lengths:
        lines.append(
            "advice: the rows have several lengths, so each length needs its own program, and a call takes one step; "
            "--nolength_buckets pads all rows to one length"
        )
    kind = _CHIPS.get(re.match("[a-z0-9]*", environment.get("TPU_ACCELERATOR_TYPE", "").lower())[0])
    if kind and model_config:
        device = hardware.DEVICES[kind]
        most = estimate.most_rows(model_config, run, device)
        size = f"the {device.memory / 1e9:.0f} GB of a core of {kind}"
        lines.append(
            f"up to about {most:,} rows fit into {size} (estimated)"
            if rows <= most
            else f"advice: {rows:,} rows a core, of which about {most:,} fit into {size} (estimated); lower "
            "--global_batch_size, or take it in parts with --gradient_accumulation_steps"
        )
    return lines

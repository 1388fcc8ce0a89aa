"""The TPU of a run: which one is meant, the way to it, and what its failures mean to a person."""

import contextlib
import functools
import os
import re
import socket
import urllib.parse

import tensorflow as tf

from keras_bert_app.errors import DeviceLost, UserError
from keras_bert_app.estimation import estimate, hardware
from keras_bert_app.training import tpu_wheels

_SECONDS_TO_CONNECT = 10.0
_DEFAULT_PORT = 8470  # of the TPU's server, where a grpc:// address names none
_OTHER_WAYS = "take a TPU runtime, or leave --strategy at auto"
# Cloud TPU's performance guide: the rows of a core should be a multiple of 8, since its registers have eight sublanes.
ROWS_MULTIPLE = 8
_CHIPS = {"v5litepod": "v5e", "v5e": "v5e", "v6e": "v6e"}  # by the beginning of TPU_ACCELERATOR_TYPE; one core each


def is_meant(environment=os.environ):
    """Whether --strategy=auto means a TPU: chips are there, and TensorFlow's TPU wheel; or the environment names one."""
    return bool(_has_chips() or _named_by(environment))


def _has_chips():
    return tf.config.list_physical_devices("TPU") or (tpu_wheels.installed() and tpu_wheels.chips())


def _named_by(environment):
    return next(
        (
            name
            for name in ("TPU_NAME", "KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS", *tpu_wheels.SIGNS_OF_CHIPS)
            if environment.get(name)
        ),
        None,
    )


def address(environment=os.environ):
    """What TensorFlow calls the TPU: "local" for chips of this machine (Colab, Kaggle, a TPU VM), else a name or grpc://.

    TPU_NAME counts only where there are no chips: some images set it to the machine's own name. A pod's machine has chips too, which
    TPU_LOAD_LIBRARY=0 keeps TensorFlow from seeing.
    """
    if _has_chips() and environment.get("TPU_LOAD_LIBRARY") != "0":
        return "local"
    return environment.get("KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS") or environment.get("TPU_NAME") or "local"


def make_strategy(environment=os.environ):
    """TPUStrategy over all chips, connected and initialized.

    Raises:
        UserError: there is no TPU, it does not answer, or it runs another TensorFlow.
    """
    name = address(environment)
    if name.startswith("grpc://"):
        _check_that_it_answers(name)
    elif name == "local" and not tpu_wheels.installed():
        signs = _named_by(environment)
        raise UserError(
            f"--strategy=tpu: TensorFlow {tf.__version__} here is built without TPUs"
            + (
                f", though {signs}={environment[signs]} tells of one; install requirements-tpu.txt"
                if signs
                else f", and nothing tells of one; {_OTHER_WAYS}"
            )
        )
    hosts = environment.get("TPU_WORKER_HOSTNAMES", "").split(",")
    if name == "local" and len(hosts) > 1:
        raise UserError(
            f"--strategy=tpu: this machine is one of the {len(hosts)} of a pod (TPU_WORKER_HOSTNAMES), whose chips start "
            "together only; set TPU_NAME to the pod's name or grpc://HOST:PORT, and TPU_LOAD_LIBRARY=0"
        )
    try:
        return _connected(name)
    except Exception as error:  # the resolver raises whatever its transport does
        raise UserError(f"--strategy=tpu: {_what_it_means(name, error)}") from None


@functools.cache
def _connected(name):
    """Once in a process: a TPU that is initialized again loses what is on it."""
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=name)
    # By default all that is not for the chips would go to a pod's first worker too, which lacks the tokenizer's ops.
    tf.config.experimental_connect_to_cluster(resolver, make_master_device_default=False)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    return tf.distribute.TPUStrategy(resolver)


def _check_that_it_answers(name):
    """TensorFlow itself would wait for an address where nobody is without an end."""
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


def _what_it_means(name, error):
    """One line for what went wrong on the way to a TPU, with TensorFlow's own first line."""
    text = str(error) or type(error).__name__
    reason = text.strip().splitlines()[0][:200]
    if "No matching devices found for '/device:TPU_SYSTEM" in text or "No OpKernel was registered" in text:
        way = "its chips are there, so end the process that holds them" if tpu_wheels.chips() else _OTHER_WAYS
        return f"TensorFlow {tf.__version__} finds no TPU on this machine; {way}"
    if "registered in binary" in text or "not in Op<" in text or "context_id" in text:
        return (
            f"the TPU {name} runs another version of TensorFlow than {tf.__version__} here ({reason}); create it with the "
            "runtime of this version, or install that one's tensorflow and tensorflow-text"
        )
    if "Google API client" in text:
        return (
            f"to find the TPU {name} by its name TensorFlow wants two packages more; pip install google-api-python-client "
            "oauth2client, or set TPU_NAME=grpc://HOST:PORT"
        )
    if isinstance(error, OSError) or "googleapiclient" in text:
        return (
            f"Google Cloud could not be asked where the TPU {name} is ({reason}); expected a machine in the same project, "
            "or TPU_NAME=grpc://HOST:PORT"
        )
    return f"the TPU {name} did not start ({reason}); {_OTHER_WAYS}"


@contextlib.contextmanager
def named_faults(strategy, run):
    """Says in one line what a TPU's failures within the block mean; other devices' pass as they are.

    Raises:
        UserError: the batch is too large. DeviceLost: the TPU went away, as a preempted one does.
    """
    try:
        yield
    except tf.errors.OpError as error:
        if not isinstance(strategy, tf.distribute.TPUStrategy):
            raise
        reason = next(
            (line.strip() for line in error.message.splitlines() if "memory" in line), error.message.splitlines()[0]
        )
        if isinstance(error, tf.errors.ResourceExhaustedError) or "Ran out of memory" in error.message:
            raise UserError(
                f"{_rows(strategy, run)} rows a core do not fit into the TPU's memory ({reason[:200]}); lower --global_batch_size="
                f"{run.global_batch_size}, or take it in parts with --gradient_accumulation_steps"
            ) from None
        if isinstance(error, (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError)):
            raise DeviceLost(f"the TPU went away ({reason[:200]})") from None
        raise


def advice(strategy, run, model_config=None, environment=os.environ):
    """Lines about a batch that uses a TPU badly, and about how many rows fit.

    Args:
        model_config: BertConfig of a pre-training, whose memory is estimated. environment: names the chip.
    """
    if not isinstance(strategy, tf.distribute.TPUStrategy):
        return []
    rows, lines = _rows(strategy, run), []
    if rows % ROWS_MULTIPLE:
        good = -(-rows // ROWS_MULTIPLE) * ROWS_MULTIPLE
        whole = good * strategy.num_replicas_in_sync * run.gradient_accumulation_steps
        lines.append(
            f"advice: {rows} rows a core; a TPU likes multiples of {ROWS_MULTIPLE}, such as --global_batch_size={whole}"
        )
    if run.has_many_lengths:
        lines.append(
            "advice: rows of several lengths, each with a program of its own and one step a call; --nolength_buckets pads all to one"
        )
    kind = _CHIPS.get(re.match("[a-z0-9]*", environment.get("TPU_ACCELERATOR_TYPE", "").lower())[0])
    if kind and model_config:
        device = hardware.DEVICES[kind]
        most = estimate.most_rows(model_config, run, device)
        size = f"the {device.memory / 1e9:.0f} GB of a core of {kind}"
        lines.append(
            f"up to about {most:,} rows fit into {size} (estimated)"
            if rows <= most
            else f"advice: {rows:,} rows a core, of which about {most:,} fit into {size} (estimated); lower --global_batch_size, or "
            "take it in parts with --gradient_accumulation_steps"
        )
    return lines


def _rows(strategy, run):
    """Rows that a core takes at a time."""
    return run.global_batch_size // strategy.num_replicas_in_sync // run.gradient_accumulation_steps

"""Faults of GPUs and TPUs during a training, as errors of one line."""

import contextlib
import re
from collections.abc import Iterator

import tensorflow as tf

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.config.training_config import TrainingConfig
from keras_bert_app.errors import DeviceLost, UserError
from keras_bert_app.training import gpu

_OUT_OF_MEMORY = re.compile(r"\bOOM\b|[Oo]ut of memory")  # the words of TensorFlow and of XLA
_MOST_CHARACTERS = 200


@contextlib.contextmanager
def named(
    strategy: tf.distribute.Strategy, run: TrainingConfig, model_config: BertConfig | None = None
) -> Iterator[None]:
    """Turns faults of a device within the block into errors of one line. Other errors pass unchanged.

    Args:
        strategy: the devices.
        run: TrainingConfig, resolved.
        model_config: BertConfig of the model, for an estimate of the rows that fit into a GPU.

    Raises:
        UserError: the rows do not fit into the memory of a device.
        DeviceLost: the TPU went away, for instance because it was preempted.
    """
    try:
        yield
    except tf.errors.OpError as error:
        is_full = isinstance(error, tf.errors.ResourceExhaustedError) or _OUT_OF_MEMORY.search(error.message)
        lines = error.message.splitlines() or ["no message"]
        reason = next((line.strip() for line in lines if "memory" in line), lines[0])[:_MOST_CHARACTERS]
        rows = run.rows_at_a_time(strategy.num_replicas_in_sync)
        if isinstance(strategy, tf.distribute.TPUStrategy):
            if is_full:
                raise UserError(
                    f"{rows} rows a core do not fit into the TPU's memory ({reason}); {_lower(run)}"
                ) from None
            if isinstance(error, (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError)):
                raise DeviceLost(f"the TPU went away ({reason})") from None
        elif is_full and (card := gpu.first()):
            raise UserError(
                f"{rows} rows do not fit into the memory of the GPU ({card.name}: {reason}); "
                f"{_mend(card, run, model_config, strategy.num_replicas_in_sync)}"
            ) from None
        raise


def _lower(run):
    return f"lower --global_batch_size={run.global_batch_size}, or take it in parts with --gradient_accumulation_steps"


def _mend(card, run, model_config, num_replicas):
    """Advises a batch that should fit, by an estimate. Without an estimate it says what to lower."""
    from keras_bert_app.estimation import estimate, hardware  # only a run that lacks memory needs the estimate

    is_counted = isinstance(run, PretrainingConfig) and model_config and model_config.architecture == "bert"
    if not card.hardware or not is_counted:
        return _lower(run)
    device = hardware.DEVICES[card.hardware]
    most = estimate.most_rows(model_config, run, device)
    rows = run.rows_at_a_time(num_replicas)
    if rows <= most:
        return (
            f"by estimate {most:,} rows fit into its {device.memory / 1e9:.0f} GB, so another process may use the GPU; "
            f"find that process with nvidia-smi and end it, or {_lower(run)}"
        )
    share = run.global_batch_size // num_replicas
    if num_parts := next((parts for parts in range(1, share + 1) if share % parts == 0 and share // parts <= most), 0):
        return (
            f"by estimate at most {most:,} rows fit into its {device.memory / 1e9:.0f} GB: continue with "
            f"--gradient_accumulation_steps={num_parts}, or start with --global_batch_size={most * num_replicas} in "
            "another --workdir"
        )
    return f"by estimate not one row fits into its {device.memory / 1e9:.0f} GB: take shorter rows or a smaller model"

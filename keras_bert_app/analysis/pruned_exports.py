"""The cost of encoders in service: size of the exported files and time of a call."""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from keras_bert_app.export import saved_models
from keras_bert_app.export.encoder_signatures import EncoderModule
from keras_bert_app.modeling.encoder import BertEncoder

_WARM_UP, REPEATS = 3, 15


def costs(
    encoders: Sequence[BertEncoder], numbers_of_rows: Sequence[int], length: int
) -> list[tuple[int, list[float]]]:
    """Exports encoders over ids, loads them again, and measures size and latency.

    Args:
        encoders: sequence of BertEncoder.
        numbers_of_rows: sequence of int. The batch sizes to time.
        length: int. Tokens in each row.

    Returns:
        list of (int, list of float) for each encoder: bytes of all exported files, and the median milliseconds of a
        call for each batch size.
    """
    with tempfile.TemporaryDirectory() as directory:
        exports = [
            saved_models.write_saved_model(EncoderModule(encoder), os.path.join(directory, str(number)), 1, {})
            for number, encoder in enumerate(encoders)
        ]
        loaded = [
            saved_models.load(export) for export in exports
        ]  # keeps the variables alive: a signature alone does not
        calls = [model.signatures["serving_default"] for model in loaded]
        times = [latencies(calls, encoders[0].config.vocab_size, num_rows, length) for num_rows in numbers_of_rows]
        return [
            (_size(export), list(encoder_times))
            for export, encoder_times in zip(exports, zip(*times, strict=True), strict=True)
        ]


def latencies(calls: list[Callable], vocab_size: int, num_rows: int, length: int) -> list[float]:
    """Times signatures over ids on rows of random tokens.

    The signatures take turns, so that all of them meet the same conditions.

    Args:
        calls: list of Callable. The signatures.
        vocab_size: int.
        num_rows: int. Rows in a batch.
        length: int. Tokens in each row.

    Returns:
        list of float. The median time of each signature, in milliseconds.
    """
    ids = np.random.default_rng(0).integers(0, vocab_size, (num_rows, length)).astype(np.int32)
    inputs = {"input_word_ids": tf.constant(ids), "input_mask": tf.ones_like(ids), "input_type_ids": tf.zeros_like(ids)}
    times = [[] for _ in calls]
    for repeat in range(_WARM_UP + REPEATS):
        for call, call_times in zip(calls, times, strict=True):
            started = time.perf_counter()
            call(**inputs)["sequence_output"].numpy()
            if repeat >= _WARM_UP:
                call_times.append(1000 * (time.perf_counter() - started))
    return [statistics.median(call_times) for call_times in times]


def _size(directory: str) -> int:
    return sum(os.path.getsize(os.path.join(root, name)) for root, _, names in os.walk(directory) for name in names)

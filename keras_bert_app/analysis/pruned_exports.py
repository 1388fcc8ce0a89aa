"""What encoders cost as they are served: exported over ids, loaded again, their files weighed and their calls timed."""

import os
import statistics
import tempfile
import time

import numpy as np
import tensorflow as tf

from keras_bert_app.export import saved_models
from keras_bert_app.export.encoder_signatures import EncoderModule

_WARM_UP, REPEATS = 3, 15


def costs(encoders, numbers_of_rows, length):
    """For each encoder (bytes of all files of its export, milliseconds of a call: a median for each number of rows)."""
    with tempfile.TemporaryDirectory() as directory:
        exports = [
            saved_models.write_saved_model(EncoderModule(encoder), os.path.join(directory, str(number)), 1, {})
            for number, encoder in enumerate(encoders)
        ]
        loaded = [saved_models.load(export) for export in exports]  # a signature alone does not keep its variables
        calls = [model.signatures["serving_default"] for model in loaded]
        times = [latencies(calls, encoders[0].config.vocab_size, num_rows, length) for num_rows in numbers_of_rows]
        return [(_size(export), list(of_one)) for export, of_one in zip(exports, zip(*times))]


def latencies(calls, vocab_size, num_rows, length):
    """Milliseconds of each signature over ids for rows of random tokens, taken in turn: medians."""
    ids = np.random.default_rng(0).integers(0, vocab_size, (num_rows, length)).astype(np.int32)
    inputs = {"input_word_ids": tf.constant(ids), "input_mask": tf.ones_like(ids), "input_type_ids": tf.zeros_like(ids)}
    times = [[] for _ in calls]
    for repeat in range(_WARM_UP + REPEATS):
        for call, taken in zip(calls, times):
            started = time.perf_counter()
            call(**inputs)["sequence_output"].numpy()
            if repeat >= _WARM_UP:
                taken.append(1000 * (time.perf_counter() - started))
    return [statistics.median(taken) for taken in times]


def _size(directory):
    return sum(os.path.getsize(os.path.join(root, name)) for root, _, names in os.walk(directory) for name in names)

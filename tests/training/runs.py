"""Helpers for tests of runs: weights, rows of metrics.jsonl, and a stop in the middle."""

import json
import os
import signal

import numpy as np
import pytest

from keras_bert_app.errors import Interrupted
from keras_bert_app.interop import load
from keras_bert_app.runs import checkpoints
from keras_bert_app.training import reporting
from tests.training.conftest import train


def weights_of(workdir):
    """dict path -> array of the weights of a run. A model with these weights would take half a second to build."""
    return load.load_weights(workdir)[0].tensors


def largest_difference(workdir, other):
    """The largest absolute difference between the weights of two runs."""
    ours, theirs = weights_of(workdir), weights_of(other)
    return max(np.abs(ours[path] - theirs[path]).max() for path in ours)


def rows_of(workdir):
    with open(os.path.join(workdir, "metrics.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def interrupt_after(workdir, shards, step):
    """Trains up to the first call that ends at or after a step, then sends SIGTERM twice to this process."""
    real = reporting.Reporter.live

    def live(self, current_step, *figures):
        if current_step >= step:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
        return real(self, current_step, *figures)

    reporting.Reporter.live = live
    try:
        with pytest.raises(Interrupted) as stopped:
            train(workdir, shards)
    finally:
        reporting.Reporter.live = real
    assert stopped.value.number == signal.SIGTERM and stopped.value.step >= step and stopped.value.has_saved
    assert checkpoints.read_manifest(checkpoints.list_checkpoints(workdir)[-1])["step"] == stopped.value.step

"""The messages of a command for errors that TensorFlow raises."""

import contextlib
import signal

import pytest

from keras_bert_app.cli.common import app
from keras_bert_app.errors import Interrupted


@pytest.mark.parametrize(
    "message, advice",
    [
        ("OOM when allocating tensor with shape[32,512]", "lower --global_batch_size, or take it in parts"),
        ("Out of memory while trying to allocate 9663676416 bytes.", "lower --global_batch_size, or take it in parts"),
        ("No space left on device", "free some space"),
        ("gs://bucket/run: Permission denied", "give a path that can be read or written"),
    ],
)
def test_an_error_of_memory_disk_or_file_says_how_to_mend_it(message, advice):
    assert app._advice(message).startswith(advice)


@pytest.mark.parametrize(
    "step, has_saved, line",
    [
        (12, True, "stopped by SIGTERM after step 12, saved; the same command continues from there\n"),
        (12, False, "stopped by SIGTERM after step 12, the chief saves; this machine does not save\n"),
        (0, True, "stopped by SIGTERM before the first step; the same command begins anew\n"),
    ],
)
def test_a_stopped_run_says_where_it_continues(monkeypatch, capsys, step, has_saved, line):
    monkeypatch.setattr(app.signal, "signal", lambda number, handler: None)

    def main(arguments):
        raise Interrupted(signal.SIGTERM, step, has_saved)

    with pytest.raises(SystemExit) as end:
        app._guarded(main, [], contextlib.nullcontext())
    assert end.value.code == 143 and capsys.readouterr().err == line

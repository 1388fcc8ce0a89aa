"""The messages of a command for errors that TensorFlow raises."""

import pytest

from keras_bert_app.cli.common import app


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

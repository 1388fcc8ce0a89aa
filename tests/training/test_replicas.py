"""Graphs for batches of any length."""

import pytest
import tensorflow as tf

from keras_bert_app.training.replicas import tracer


@pytest.mark.parametrize("has_many_batch_sizes, rows", [(False, 2), (True, None)])
def test_an_array_without_one_number_a_token_keeps_its_size_even_if_rows_have_the_same_size(has_many_batch_sizes, rows):
    seen = []

    @tf.function
    def call(batch):
        seen.append({name: values.shape.as_list() for name, values in batch.items()})

    trace = tracer(call, has_many_batch_sizes, row_axis=0)
    batch = {
        name: tf.zeros([2, 8]) for name in ("input_word_ids", "input_mask", "token_labels", "labels", "teacher_logits")
    }
    trace(batch)
    trace(batch)
    assert seen == [
        {
            "input_word_ids": [rows, None],
            "input_mask": [rows, None],
            "token_labels": [rows, None],
            "labels": [rows, 8],
            "teacher_logits": [rows, 8],
        }
    ]

"""Graphs for batches of any length."""

import tensorflow as tf

from keras_bert_app.training.replicas import tracer


def test_an_array_without_one_number_a_token_keeps_its_size_even_if_rows_have_the_same_size():
    seen = []

    @tf.function
    def call(batch):
        seen.append({name: values.shape.as_list() for name, values in batch.items()})

    trace = tracer(call, num_fixed=1)
    batch = {
        name: tf.zeros([2, 8]) for name in ("input_word_ids", "input_mask", "token_labels", "labels", "teacher_logits")
    }
    trace(batch)
    trace(batch)
    assert seen == [
        {
            "input_word_ids": [2, None],
            "input_mask": [2, None],
            "token_labels": [2, None],
            "labels": [2, 8],
            "teacher_logits": [2, 8],
        }
    ]

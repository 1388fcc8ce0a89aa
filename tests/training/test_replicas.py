"""Graphs for batches of any length."""

import tensorflow as tf

from keras_bert_app.training.replicas import tracer


def test_a_size_that_happens_to_be_that_of_the_rows_is_left_as_it_is():
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

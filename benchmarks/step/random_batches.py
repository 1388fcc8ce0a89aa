"""Batches of random ids in which every row is full."""

import numpy as np


def random_batch(config, run, seed: int = 1) -> dict:
    """A global batch in the form of the data pipeline.

    Args:
        config: BertConfig.
        run: PretrainingConfig, resolved.
        seed: int. Seed of the random numbers.

    Returns:
        dict of tensors: input_word_ids, input_mask, input_type_ids int32 [B, S]; masked_lm_positions, masked_lm_ids
        int32 [B, P]; masked_lm_weights float32 [B, P]; next_sentence_labels int32 [B].
    """
    import tensorflow as tf

    generator = np.random.RandomState(seed)
    rows, length, predictions = run.global_batch_size, run.max_seq_length, run.max_predictions_per_seq

    def integers(high, *shape):
        return tf.constant(generator.randint(0, high, shape), tf.int32)

    return {
        "input_word_ids": integers(config.vocab_size, rows, length),
        "input_mask": tf.ones([rows, length], tf.int32),
        "input_type_ids": integers(2, rows, length),
        # argsort of random numbers gives a permutation, so no row has a position twice.
        "masked_lm_positions": tf.constant(generator.rand(rows, length).argsort(axis=1)[:, :predictions], tf.int32),
        "masked_lm_ids": integers(config.vocab_size, rows, predictions),
        "masked_lm_weights": tf.ones([rows, predictions]),
        "next_sentence_labels": integers(2, rows),
    }

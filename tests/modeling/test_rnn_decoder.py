"""Recurrent decoders equal Keras's unit and attention by hand. Place by place they give the same outputs."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.modeling.execution import UNCOMPILED
from keras_bert_app.modeling.gru import BiGru
from keras_bert_app.modeling.rnn_decoder import RnnDecoder
from keras_bert_app.modeling.text_decoding import DecodingOptions
from keras_bert_app.modeling.text_to_text_model import Decoder, TextToTextModel

BATCH_SIZE, SOURCE, TARGET, WIDTH, SIZE, PIECES = 3, 7, 5, 10, 12, 29
CONFIG = BertConfig(
    vocab_size=PIECES,
    hidden_size=SIZE,
    num_attention_heads=2,
    num_hidden_layers=0,
    intermediate_size=17,
    max_position_embeddings=13,
    hidden_dropout_prob=0.1,
    attention_probs_dropout_prob=0.0,
    initializer_range=0.4,
)
KINDS = [
    ("rnn_state", "none", "last"),
    ("rnn_context", "none", "mean"),
    ("rnn_feedback", "none", "projection"),
    ("rnn_context", "additive", "last"),
    ("rnn_feedback", "dot", "last"),
]


def batch():
    generator = np.random.default_rng(4)
    # The last row has no piece, like rows that fill up a batch.
    mask = (np.arange(SOURCE) < [[7], [4], [0]]).astype(np.int32)
    target = generator.integers(5, PIECES, (BATCH_SIZE, TARGET + 1)).astype(np.int32)
    target[:, 0] = 2
    ids = mask * generator.integers(5, PIECES, mask.shape).astype(np.int32)
    arrays = {"input_word_ids": ids, "input_mask": mask, "input_type_ids": mask * 0, "target_word_ids": target}
    return {name: tf.constant(values) for name, values in arrays.items()}


@pytest.mark.parametrize("kind, attention, context", KINDS)
def test_place_by_place_gives_the_outputs_of_the_whole_target_and_every_weight_learns(kind, attention, context):
    head = Decoder(kind, 0, "embeddings", 2, 3, (0,), attention=attention, context=context, bilstm_units=WIDTH // 2)
    model, inputs = TextToTextModel(CONFIG, head, seed=3), batch()
    whole = model(inputs, return_attention_scores=True)
    states = model._states(inputs, None, UNCOMPILED)
    cache, read_by_all = model.decoder.start(states, inputs["input_mask"], TARGET)
    for place in range(TARGET):
        ids = inputs["target_word_ids"][:, place]
        x, cache, shares = model.decoder.step(ids, tf.constant(place), cache, read_by_all)
        logits = model.output_head(x, model.decoder.word_table)[:, 0]
        np.testing.assert_allclose(logits, whole["logits"][:, place], atol=1e-5)
        np.testing.assert_allclose(shares, whole["attention_scores"][0][:, :, place], atol=1e-6)
    with tf.GradientTape() as tape:
        logits = model(inputs, dropout_seed=tf.constant([1, 2]), execution=UNCOMPILED)["logits"]
        loss = tf.reduce_sum(tf.nn.log_softmax(logits)[..., 5])
    gradients = tape.gradient(loss, model.trainable_variables)
    paths_without_gradient = [
        variable.path
        for variable, gradient in zip(model.trainable_weights, gradients, strict=True)
        if gradient is None or not np.any(tf.convert_to_tensor(gradient))
    ]
    assert paths_without_gradient == []
    assert model.decoded(inputs, DecodingOptions(4, 2)).ids.shape == (BATCH_SIZE, 2, 4)


def test_a_place_that_does_not_read_the_target_reads_the_most_probable_piece_of_the_place_before():
    head = Decoder("rnn_feedback", 0, "embeddings", 2, 3, (0, 7), attention="dot", bilstm_units=WIDTH // 2)
    model, inputs = TextToTextModel(CONFIG, head, seed=3), batch()
    reads = np.array([[1, 0, 1, 0, 0], [1, 1, 1, 1, 1], [1, 0, 0, 0, 0]], np.int32)
    logits = model({**inputs, "reads_target": tf.constant(reads)})["logits"].numpy()
    states = model._states(inputs, None, UNCOMPILED)
    cache, read_by_all = model.decoder.start(states, inputs["input_mask"], TARGET)
    target, own = inputs["target_word_ids"].numpy(), np.zeros(BATCH_SIZE, np.int32)
    for place in range(TARGET):
        ids = np.where(reads[:, place], target[:, place], own)
        x, cache, _ = model.decoder.step(tf.constant(ids), place, cache, read_by_all)
        right = model.output_head(x, model.decoder.word_table)[:, 0].numpy()
        np.testing.assert_allclose(logits[:, place], right, atol=1e-5)
        right[:, [0, 7]] = -np.inf  # pieces that the model never writes
        own = right.argmax(axis=1).astype(np.int32)
    assert np.any(own != target[:, TARGET])


def test_the_recurrent_unit_is_that_of_keras_with_reset_after():
    decoder = RnnDecoder(CONFIG, WIDTH, "rnn_context", seed=5)
    generator = np.random.default_rng(6)
    states = tf.constant(generator.normal(size=(BATCH_SIZE, SOURCE, WIDTH)).astype(np.float32))
    inputs = batch()
    cache, read_by_all = decoder.start(states, inputs["input_mask"], TARGET)
    unit = keras.layers.GRUCell(SIZE)
    unit.build((None, WIDTH))
    for index, layer in enumerate((decoder.from_context, decoder.recurrent)):
        layer.bias.assign(generator.normal(size=layer.bias.shape))
        unit.weights[index].assign(layer.kernel)
    unit.weights[2].assign(np.stack([decoder.from_context.bias.numpy(), decoder.recurrent.bias.numpy()]))
    right, _ = unit(states[:, 0], [cache[0]])
    _, (state,), _ = decoder.step(inputs["target_word_ids"][:, 0], 0, cache, read_by_all)
    np.testing.assert_allclose(state, right, atol=1e-5)


def test_a_bidirectional_gru_is_that_of_keras_for_each_row_without_its_padding():
    layer = BiGru(4, WIDTH, "random_normal", "random_normal")
    layer.build()
    generator = np.random.default_rng(7)
    for bias in (layer.bias, layer.recurrent_bias):
        bias.assign(generator.normal(size=bias.shape))
    x = generator.normal(size=(3, SOURCE, WIDTH)).astype(np.float32)
    mask = np.array([[1] * count + [0] * (SOURCE - count) for count in (SOURCE, 2, 1)])
    outputs = layer(tf.constant(x), tf.constant(mask)).numpy()
    kernel, recurrent, bias, recurrent_bias = (
        np.split(weight.numpy(), 2, axis=-1)
        for weight in (layer.kernel, layer.recurrent_kernel, layer.bias, layer.recurrent_bias)
    )
    for row, count in enumerate(mask.sum(axis=1)):
        for direction in (0, 1):
            theirs = keras.layers.GRU(4, return_sequences=True, go_backwards=direction == 1)
            theirs.build((None, None, WIDTH))
            theirs.set_weights(
                [kernel[direction], recurrent[direction], np.stack([bias[direction], recurrent_bias[direction]])]
            )
            right = theirs(x[row : row + 1, :count]).numpy()[0]
            right = right[::-1] if direction else right
            np.testing.assert_allclose(outputs[row, :count, 4 * direction : 4 * direction + 4], right, atol=1e-5)
        assert not outputs[row, count:].any()


@pytest.mark.parametrize("attention", ["additive", "dot"])
def test_attention_is_the_softmax_of_its_scores_over_the_states_that_are_not_masked(attention):
    decoder = RnnDecoder(CONFIG, WIDTH, "rnn_feedback", attention, seed=5)
    generator = np.random.default_rng(6)
    states, mask = generator.normal(size=(1, 3, WIDTH)).astype(np.float32), np.array([[1, 1, 0]])
    cache, read_by_all = decoder.start(tf.constant(states), tf.constant(mask), TARGET)
    _, _, shares = decoder.step(tf.constant([7]), 0, cache, read_by_all)
    state, keys = cache[0].numpy()[0], states[0] @ decoder.keys.kernel.numpy() + decoder.keys.bias.numpy()
    if attention == "dot":
        scores = keys @ state
    else:
        query = state @ decoder.query.kernel.numpy() + decoder.query.bias.numpy()
        scores = np.tanh(query + keys) @ decoder.score.kernel.numpy()[:, 0]
    weights = np.exp(scores[:2] - scores[:2].max())
    np.testing.assert_allclose(shares[0, 0], [*(weights / weights.sum()), 0.0], atol=1e-5)


def test_contexts_are_the_last_states_of_both_directions_or_the_mean():
    states = tf.constant(np.random.default_rng(6).normal(size=(2, SOURCE, WIDTH)).astype(np.float32))
    mask = tf.constant([[1] * 4 + [0] * 3, [1] * 7])
    half = WIDTH // 2
    last = RnnDecoder(CONFIG, WIDTH, "rnn_state", has_directions=True)._context(states, mask, UNCOMPILED)
    np.testing.assert_allclose(last[:, :half], [states[0, 3, :half], states[1, 6, :half]])
    np.testing.assert_allclose(last[:, half:], states[:, 0, half:])
    np.testing.assert_allclose(RnnDecoder(CONFIG, WIDTH, "rnn_state")._context(states, mask, UNCOMPILED), states[:, 0])
    mean = RnnDecoder(CONFIG, WIDTH, "rnn_state", context="mean")._context(states, mask, UNCOMPILED)
    np.testing.assert_allclose(mean, [states[0, :4].numpy().mean(axis=0), states[1].numpy().mean(axis=0)], atol=1e-6)

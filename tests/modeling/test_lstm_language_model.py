"""LSTMs of language models: Keras' cells and numbers by hand as references, directions, characters and dropout."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.lstm_config import LSTM_SIZES, LstmConfig
from keras_bert_app.config.weight_shapes import shapes
from keras_bert_app.errors import UserError
from keras_bert_app.modeling.architectures import make_encoder, make_pretrainer
from keras_bert_app.modeling.character_vectors import CharacterVectors, numbers_of_characters
from keras_bert_app.modeling.execution import PARTS, PLAIN, STEP, UNCOMPILED
from keras_bert_app.modeling.lstm import states_of_gates
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES

NO_DROPOUT = dict.fromkeys(
    [f"{name}_dropout_prob" for name in ("embedding", "input", "hidden", "output", "recurrent")], 0.0
)
SIZES = {"vocab_size": 23, "num_hidden_layers": 2, "max_position_embeddings": 17, **NO_DROPOUT}
AWD = LstmConfig.of_size("awd_lstm_tiny", hidden_size=7, intermediate_size=5, **SIZES)
ELMO = LstmConfig.of_size(
    "elmo_tiny", hidden_size=14, intermediate_size=5, character_filters=((1, 3), (2, 5)), character_size=4, **SIZES
)
PIECES = ELMO.replace(character_filters=())


def randomized(model, seed=0):
    """Gives every trained weight of a model random values that are large enough to see an error."""
    generator = np.random.RandomState(seed)
    for weight in model.trainable_weights:
        weight.assign(generator.normal(0.0, 0.5, weight.shape))
    for weight in model.non_trainable_weights:  # numbers of characters
        weight.assign(generator.randint(0, 260, weight.shape))
    return model


def batch_of(ids):
    return {"input_word_ids": ids, "input_mask": (ids > 0).astype(np.int32), "input_type_ids": ids * 0}


def random_ids(rows=2, length=11, seed=0):
    return np.random.RandomState(seed).randint(5, 23, (rows, length)).astype(np.int32)


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


@pytest.mark.parametrize("clip", [0.0, 0.2])
def test_a_projected_lstm_equals_its_equations_place_by_place(clip):
    """The equations of allennlp's LstmCellWithProjection: clipped cell, projected and clipped output."""
    generator = np.random.RandomState(0)
    gates, kernel = generator.normal(size=(6, 2, 3, 20)), generator.normal(size=(2, 4, 20))
    projection = generator.normal(size=(2, 5, 4))
    mask = np.ones((6, 2, 3, 1))
    mask[4:, :, 1] = 0.0
    output, cell = generator.normal(size=(2, 3, 4)), generator.normal(size=(2, 3, 5))
    arrays = [tf.constant(each, tf.float32) for each in (gates, kernel, mask, projection)]
    state = tf.constant(output, tf.float32), tf.constant(cell, tf.float32)
    outputs, cells = states_of_gates(*arrays, state, clip)
    limit = clip or np.inf
    for place in range(6):
        into, forget, candidate, out = np.split(gates[place] + output @ kernel, 4, axis=-1)
        cell = np.clip(sigmoid(forget) * cell + sigmoid(into) * np.tanh(candidate), -limit, limit) * mask[place]
        output = np.clip((sigmoid(out) * np.tanh(cell)) @ projection, -limit, limit)
        np.testing.assert_allclose(outputs[place], output, atol=1e-5)
        np.testing.assert_allclose(cells[place], cell, atol=1e-5)
    assert clip == 0.0 or (np.abs(outputs) == np.float32(clip)).mean() > 0.1


@pytest.mark.parametrize("execution", [UNCOMPILED, PARTS, STEP], ids=lambda each: each.mode)
@pytest.mark.parametrize("has_projection, clip", [(False, 0.0), (True, 0.3)])
def test_the_own_gradients_of_the_loop_are_those_that_tensorflow_derives(execution, has_projection, clip):
    generator = np.random.RandomState(1)
    width = 4 if has_projection else 5
    tensors = [
        tf.constant(generator.normal(size=size), tf.float32)
        for size in ((6, 1, 3, 20), (1, width, 20), *([(1, 5, 4)] if has_projection else []))
    ]
    mask = np.ones((6, 1, 3, 1), np.float32)
    mask[3:, :, 0] = 0.0
    upstream = tf.constant(generator.normal(size=(6, 1, 3, width)), tf.float32)
    state = tf.fill([1, 3, width], 0.5), tf.fill([1, 3, 5], -0.25)

    def gradients(how):
        def run(*tensors):
            with tf.GradientTape() as tape:
                tape.watch(tensors)
                gates, kernel, *projection = tensors
                outputs, _ = states_of_gates(gates, kernel, mask, *(projection or [None]), state, clip, how)
                loss = tf.reduce_sum(outputs * upstream)
            return tape.gradient(loss, tensors)

        return tf.function(run, jit_compile=how is STEP, autograph=False)(*tensors)

    for own, derived in zip(gradients(execution), gradients(PLAIN), strict=True):
        np.testing.assert_allclose(own, derived, atol=1e-5)


def test_a_layer_without_a_projection_equals_the_lstm_of_keras():
    encoder = randomized(make_encoder(AWD.replace(num_hidden_layers=1)))
    ids = random_ids()
    theirs = keras.layers.LSTM(7, return_sequences=True)
    theirs.build((None, None, 7))
    weights = encoder.lstm_layers[0].directions[0]
    theirs.set_weights([weights[name].numpy() for name in ("kernel", "recurrent_kernel", "bias")])
    outputs = encoder(batch_of(ids))
    np.testing.assert_allclose(outputs["sequence_output"], theirs(outputs["embedding_output"]), atol=1e-5)


@pytest.mark.parametrize("size", list(LSTM_SIZES))
def test_every_size_has_the_listed_variables_and_survives_its_file(size):
    config = LstmConfig.of_size(size, vocab_size=11, hidden_size=12, intermediate_size=6)
    model = make_pretrainer(config)
    assert {variable.path: tuple(variable.shape) for variable in model.weights} == shapes(config)
    assert [variable.path for variable in model.weights] == list(shapes(config))
    assert BertConfig.from_dict(config.to_dict()) == config == type(model).from_config(model.get_config()).config


@pytest.mark.parametrize("config", [ELMO, PIECES], ids=["characters", "pieces"])
def test_each_direction_sees_its_own_side_and_padding_changes_nothing(config):
    model, ids = randomized(make_pretrainer(config)), random_ids()
    before = model(batch_of(ids))
    changed = ids.copy()
    changed[:, 6] = ids[:, 6] % 18 + 5
    after = model(batch_of(changed))
    is_equal = np.isclose(before["lm_logits"], after["lm_logits"], atol=1e-6).all(axis=(0, 2))
    assert is_equal.tolist() == [True] * 6 + [False] * 5
    is_equal = np.isclose(before["backward_logits"], after["backward_logits"], atol=1e-6).all(axis=(0, 2))
    assert is_equal.tolist() == [False] * 7 + [True] * 4
    padded = np.pad(ids, [[0, 0], [0, 3]])
    states = model.encoder(batch_of(padded))["sequence_output"]
    np.testing.assert_allclose(states[:, :11], before["sequence_output"], atol=1e-6)
    assert not np.asarray(states)[:, 11:].any()


@pytest.mark.parametrize("number", [0, 1])
def test_the_second_layer_of_elmo_adds_its_input_and_no_other_layer_does(number):
    for config, adds in ((PIECES, number == 1), (AWD.replace(intermediate_size=7), False)):
        encoder = randomized(make_encoder(config))
        for weights in encoder.lstm_layers[number].directions:
            for name in ("kernel", "bias", "recurrent_kernel"):  # the output of this LSTM is then 0
                weights[name].assign(np.zeros(weights[name].shape))
        outputs = encoder(batch_of(random_ids()))["encoder_outputs"]
        expected = np.asarray(outputs[0]) if adds else np.zeros(outputs[number].shape)
        np.testing.assert_allclose(outputs[number], expected, atol=1e-6)


@pytest.mark.parametrize("num_read", [0, 1, 4, 10])
def test_reading_place_by_place_after_a_prompt_equals_the_whole_pass(num_read):
    model, ids = randomized(make_pretrainer(AWD)), random_ids()
    whole, columns = model(batch_of(ids))["lm_logits"], model.columns()
    cache = model.encoder.start(tf.constant(ids), 17, tf.constant(num_read))
    for place in range(num_read, ids.shape[1]):
        logits, cache = model.step(tf.constant(ids[:, place]), tf.constant(place), cache, columns)
        np.testing.assert_allclose(logits, whole[:, place], atol=1e-5)


def test_cells_stay_float32_from_place_to_place_in_bfloat16():
    encoder, ids = randomized(make_encoder(AWD, dtype="mixed_bfloat16")), random_ids()
    whole = encoder(batch_of(ids))["forward_states"]
    cache = encoder.start(tf.constant(ids), 17, tf.constant(3))
    for place in range(3, ids.shape[1]):
        _, cache = encoder.step(tf.constant(ids[:, place]), tf.constant(place), cache)
    for (_, cell), (_, cells) in zip(cache, whole, strict=True):
        assert cell.dtype == tf.float32
        np.testing.assert_allclose(cell, cells[-1], atol=1e-6)


def test_a_prompt_may_fill_all_positions():
    model, ids = randomized(make_pretrainer(AWD)), random_ids(length=17)
    cache = model.encoder.start(tf.constant(ids), 17, tf.constant(16))
    logits, _ = model.step(tf.constant(ids[:, 16]), tf.constant(16), cache, model.columns())
    np.testing.assert_allclose(logits, model(batch_of(ids))["lm_logits"][:, 16], atol=1e-5)


def test_the_vector_of_a_piece_is_that_of_its_characters_by_hand():
    layer = CharacterVectors(ELMO, seed=0)
    layer.build()
    randomized(layer)
    numbers = numbers_of_characters(
        [*SPECIAL_PIECES, "ab", "##ab", "abcdefghijklmnopqrstuvwxyz", "é"], ELMO, SPECIAL_PIECES
    )
    assert numbers[5, :5].tolist() == [256, 97, 98, 257, 258] and numbers[6, :4].tolist() == [256, 35, 35, 97]
    assert numbers[7].tolist() == [256, *b"abcdefghijklmnopqr", 257] and numbers[8, 1:3].tolist() == [0xC3, 0xA9]
    assert numbers[2, :4].tolist() == [256, 259, SPECIAL_PIECES.index("[CLS]"), 257] and (numbers[9:] == 258).all()
    layer.characters.assign(numbers)
    weights = {
        weight.name if weight.path.count("/") == 1 else weight.path.split("/", 1)[1]: weight.numpy()
        for weight in layer.weights
    }
    characters = weights["table"][numbers[5].astype(int)]
    one = (characters @ weights["filters_1"] + weights["bias_1"]).max(axis=0)
    pairs = np.concatenate([characters[:-1], characters[1:]], axis=1)
    x = np.maximum(np.concatenate([one, (pairs @ weights["filters_2"] + weights["bias_2"]).max(axis=0)]), 0.0)
    changed, carried = np.split(x @ weights["highway_0/kernel"] + weights["highway_0/bias"], 2)
    x = sigmoid(carried) * x + (1.0 - sigmoid(carried)) * np.maximum(changed, 0.0)
    expected = x @ weights["projection/kernel"] + weights["projection/bias"]
    np.testing.assert_allclose(layer(np.array([[5, 9]], np.int32))[0, 0], expected, atol=1e-5)


def test_locked_dropout_has_one_mask_for_all_places_of_a_row():
    config = AWD.replace(input_dropout_prob=0.5)
    encoder = randomized(make_encoder(config))
    x = tf.ones([2, 9, 7])
    for execution in (PLAIN, STEP):
        masks = np.asarray(encoder._dropped(x, encoder.input_dropout, tf.constant(3), execution))
        assert (masks == masks[:, :1]).all() and set(np.unique(masks)) == {0.0, 2.0}
        assert (masks[0] != masks[1]).any()
    free = make_encoder(config.replace(has_locked_dropout=False))
    masks = np.asarray(free._dropped(x, free.input_dropout, tf.constant(3), PLAIN))
    assert (masks != masks[:, :1]).any()


def test_recurrent_weights_are_dropped_once_for_all_places_and_rows():
    encoder = randomized(make_encoder(AWD.replace(num_hidden_layers=1, recurrent_dropout_prob=0.5)))
    dropout, kernel = (
        encoder.lstm_layers[0].weight_dropouts[0],
        encoder.lstm_layers[0].directions[0]["recurrent_kernel"],
    )
    ids, seed = random_ids(), tf.constant([5, 7])
    dropped = encoder(batch_of(ids), dropout_seed=seed)["sequence_output"]
    from keras_bert_app.modeling import backend

    kernel.assign(dropout(tf.constant(kernel.numpy()), backend.stem(seed)))
    np.testing.assert_allclose(encoder(batch_of(ids))["sequence_output"], dropped, atol=1e-6)
    assert (kernel.numpy() == 0).mean() > 0.3


def test_a_dropped_piece_is_dropped_wherever_it_stands():
    encoder = randomized(make_encoder(AWD.replace(embedding_dropout_prob=0.5)))
    ids = np.tile(np.arange(5, 16, dtype=np.int32), (3, 1))
    vectors = np.asarray(encoder(batch_of(ids), dropout_seed=tf.constant([1, 2]))["embedding_output"])
    is_dropped = (vectors == 0).all(axis=-1)
    assert 0 < is_dropped[0].sum() < 11 and (is_dropped == is_dropped[0]).all()


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"hidden_size": 13}, "config hidden_size 13 is odd; two directions need an even number"),
        ({"num_hidden_layers": 0}, "'num_hidden_layers' is 0; expected 1 or more layers of an LSTM"),
        ({"num_attention_heads": 2}, "'num_attention_heads' is 2; an LSTM has none, so leave it out"),
        ({"character_filters": ((1,),)}, "'character_filters' is ((1,),); expected pairs of a width and a number"),
        (
            {"character_filters": ((1, 3), (1, 5))},
            "'character_filters' has the widths [1, 1]; expected each width once",
        ),
        ({"num_heads_by_layer": 3}, "'num_heads_by_layer' is 3; an LSTM has none, so leave it out"),
        ({"max_characters": 2}, "'max_characters' is 2; expected 3 or more"),
        ({"recurrent_dropout_prob": 1.0}, "'recurrent_dropout_prob' is 1.0; expected 0 <= p < 1"),
        ({"state_clip": -1.0}, "'state_clip' is -1.0; expected 0 or more"),
        ({"architecture": "gpt"}, "config architecture 'gpt': an LSTM has other sizes than a Transformer"),
    ],
)
def test_values_out_of_range_are_refused(changes, message):
    with pytest.raises(UserError) as error:
        ELMO.replace(**changes)
    assert message in str(error.value)


def test_attention_probabilities_of_an_lstm_are_refused():
    with pytest.raises(ValueError, match="an LSTM has no attention, so give False"):
        make_encoder(AWD)(batch_of(random_ids()), return_attention_scores=True)

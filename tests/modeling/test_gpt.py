"""The GPT equals golden values of transformers' GPT-2 (tests/golden/generate_gpt2.py), place by place too."""

import functools
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.weight_shapes import shapes
from keras_bert_app.errors import UserError
from keras_bert_app.interop import load
from keras_bert_app.modeling import backend, text_generation
from keras_bert_app.modeling.architectures import make_encoder, make_pretrainer
from keras_bert_app.modeling.execution import PARTS, PLAIN, STEP, UNCOMPILED
from keras_bert_app.modeling.task_head import Head, without_cls
from keras_bert_app.modeling.task_model import BertTaskModel
from keras_bert_app.modeling.text_generation import Sampling
from tests.conftest import GOLDEN

CONFIG = BertConfig(
    architecture="gpt",
    vocab_size=23,
    hidden_size=14,
    num_hidden_layers=3,
    num_attention_heads=2,
    intermediate_size=13,
    max_position_embeddings=17,
    initializer_range=0.5,
)


@pytest.fixture(scope="module")
def case():
    return load.load_pretrained(GOLDEN / "gpt2"), np.load(GOLDEN / "gpt2.npz")


def batch_of(ids):
    return {"input_word_ids": ids, "input_mask": (ids > 0).astype(np.int32), "input_type_ids": ids * 0}


def random_ids(rows=2, length=11, seed=0):
    return np.random.RandomState(seed).randint(5, CONFIG.vocab_size, (rows, length)).astype(np.int32)


@functools.cache  # a new function would be traced again for prompts of the same shape
def continuation(model, length):
    """A function that continues prompts up to a length, with the never_written ids of the golden values."""
    columns, is_never = model.columns(), np.isin(np.arange(model.config.vocab_size), [0, 1, 2, 4])

    @tf.function(autograph=False)
    def run(prompt, prompt_lengths, seed, values):
        first_place = tf.reduce_min(prompt_lengths) - 1
        state = text_generation.begin(prompt, length, model.encoder.start(prompt, length), first_place)
        return text_generation.advance(
            lambda ids, place, cache: model.step(ids[:, place], place, cache, columns),
            state,
            prompt_lengths,
            tf.fill(tf.shape(prompt)[:1], length),
            tf.constant(length - 1),
            Sampling(seed, **values),
            end_id=3,
            is_never=is_never,
        ).ids

    return run


def continued(model, prompt, length, seed=None, **sampling):
    """The rows of a continuation, which is greedy unless the sampling says otherwise."""
    rows = len(prompt)
    values = {"temperature": 0.0, "top_k": 0, "top_p": 1.0, "repetition_penalty": 1.0} | sampling
    values = {name: tf.fill([rows], value) for name, value in values.items()}
    prompt_lengths = tf.constant((prompt > 0).sum(axis=1), tf.int32)
    seed = tf.range(rows) if seed is None else tf.constant(seed, tf.int32)
    return continuation(model, length)(tf.constant(prompt), prompt_lengths, seed, values).numpy()


def test_every_hidden_state_is_within_1e_5_and_the_logits_within_1e_4(case):
    model, arrays = case
    inputs = {name: arrays[f"inputs/{name}"] for name in ("input_word_ids", "input_mask", "input_type_ids")}
    outputs, is_piece = model(inputs, return_attention_scores=True), inputs["input_mask"] > 0
    states = [outputs["embedding_output"], *outputs["encoder_outputs"]]
    for layer, state in enumerate(states):
        expected = arrays[f"outputs/hidden_state_{layer}"]
        np.testing.assert_allclose(np.asarray(state)[is_piece], expected[is_piece], atol=1e-5, rtol=0)
    logits = np.asarray(outputs["lm_logits"])
    np.testing.assert_allclose(logits[is_piece], arrays["outputs/lm_logits"][is_piece], atol=1e-4, rtol=0)
    for layer, probabilities in enumerate(outputs["attention_scores"]):
        expected = np.swapaxes(arrays[f"outputs/attention_probs_{layer}"], 1, 2)
        found = np.swapaxes(np.asarray(probabilities), 1, 2)
        np.testing.assert_allclose(found[is_piece], expected[is_piece], atol=1e-5, rtol=0)


def test_greedy_continuations_with_and_without_a_penalty_equal_those_of_transformers(case):
    model, arrays = case
    new_tokens = json.loads(str(arrays["metadata"]))["new_tokens"]
    for row in range(3):
        length = int((arrays["inputs/input_mask"][row] > 0).sum())
        prompt = arrays["inputs/input_word_ids"][row : row + 1, :length]
        for penalty in (1.0, 1.3):
            found = continued(model, prompt, length + new_tokens, repetition_penalty=penalty)
            np.testing.assert_array_equal(found[0], arrays[f"generated/{penalty}_{row}"], err_msg=f"{penalty}")


@pytest.mark.parametrize("num_read", [1, 4, 11])
def test_decoding_place_by_place_after_a_read_prompt_equals_the_whole_pass(num_read):
    model, ids = make_pretrainer(CONFIG, seed=3), random_ids()
    whole = model(batch_of(ids))["lm_logits"]
    cache, columns = model.encoder.start(tf.constant(ids[:, :num_read]), 13), model.columns()
    for place in range(num_read - 1, ids.shape[1]):
        logits, cache = model.step(tf.constant(ids[:, place]), tf.constant(place), cache, columns)
        np.testing.assert_allclose(logits, whole[:, place], atol=1e-5)


def test_a_place_does_not_depend_on_later_places_or_on_padding():
    model, ids = make_pretrainer(CONFIG, seed=3), random_ids()
    changed = ids.copy()
    changed[:, 6:] = 0
    before, after = (np.asarray(model(batch_of(each))["lm_logits"])[:, :6] for each in (ids, changed))
    np.testing.assert_allclose(before, after, atol=1e-5)


def test_places_of_the_last_layer_equal_those_of_the_whole_layer():
    encoder, ids = make_encoder(CONFIG, seed=3), random_ids()
    positions = np.array([[3, 10], [7, 0]])
    whole = np.asarray(encoder(batch_of(ids))["sequence_output"])
    some = encoder(batch_of(ids), output_positions=positions)["sequence_output"]
    np.testing.assert_allclose(some, np.take_along_axis(whole, positions[..., None], axis=1), atol=1e-5)


def loss_and_gradients(model, execution):
    batch = batch_of(random_ids())

    def run():
        with tf.GradientTape() as tape:
            outputs = model(batch, dropout_seed=tf.constant([1, 2]), heads_only=True, execution=execution)
            loss = tf.reduce_mean(tf.square(outputs["lm_logits"]))
        return loss, tape.gradient(loss, [variable.value for variable in model.trainable_variables])

    loss, gradients = tf.function(run, jit_compile=execution.compiles_all)()
    return loss, [tf.convert_to_tensor(gradient) for gradient in gradients]


@pytest.fixture(scope="module")
def without_dropout():
    """(model without dropout, its loss, its gradients), computed by plain ops."""
    model = make_pretrainer(CONFIG.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0), seed=3)
    return model, *loss_and_gradients(model, PLAIN)


@pytest.mark.parametrize("execution", [UNCOMPILED, PARTS, STEP])
def test_every_execution_gives_the_same_logits_and_gradients(execution, without_dropout):
    model, expected, expected_gradients = without_dropout
    loss, gradients = loss_and_gradients(model, execution)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    for gradient, other in zip(gradients, expected_gradients, strict=True):
        np.testing.assert_allclose(gradient, other, atol=1e-4 * max(1.0, float(tf.reduce_max(abs(other)))))


@pytest.mark.parametrize("place", range(1 + 3 * CONFIG.num_hidden_layers))
def test_every_dropout_changes_the_logits_and_repeats_with_its_seed(place):
    model, batch = make_pretrainer(CONFIG, seed=3), batch_of(random_ids())
    encoder = model.encoder
    dropouts = [encoder.embeddings.dropout]
    for layer in encoder.transformer_layers:
        dropouts += [layer.attention.dropout, layer.attention_dropout, layer.output_dropout]
    assert sorted(dropout.place for dropout in dropouts) == list(range(len(dropouts)))
    for number, dropout in enumerate(dropouts):
        dropout.rate = 0.5 if number == place else 0.0
    plain, first, again, other = (
        np.asarray(model(batch, dropout_seed=seed)["lm_logits"]) for seed in (None, [1, 2], [1, 2], [1, 3])
    )
    np.testing.assert_array_equal(first, again)
    assert abs(first - plain).max() > 1e-2 and abs(first - other).max() > 1e-2


def test_in_bfloat16_logits_are_near_those_of_float32():
    ids = batch_of(random_ids())
    narrow, wide = (make_pretrainer(CONFIG, seed=3, dtype=dtype)(ids) for dtype in ("mixed_bfloat16", "float32"))
    assert narrow["sequence_output"].dtype == "bfloat16" and narrow["lm_logits"].dtype == "float32"
    largest = np.abs(wide["lm_logits"]).max()
    np.testing.assert_allclose(narrow["lm_logits"], wide["lm_logits"], atol=0.05 * largest)


def test_rows_that_are_longer_than_the_positions_are_refused():
    with pytest.raises(ValueError, match="rows of 18 tokens; this model takes at most 17"):
        make_encoder(CONFIG)(batch_of(random_ids(length=18)))


@pytest.mark.parametrize("changes", [{}, {"tie_word_embeddings": False}, {"num_heads_by_layer": (1, 2, 1)}])
def test_variables_have_the_listed_paths_and_shapes_and_survive_the_configuration(changes):
    config = CONFIG.replace(**changes)
    model = make_pretrainer(config, seed=3)
    assert {variable.path: tuple(variable.shape) for variable in model.weights} == shapes(config)
    assert BertConfig.from_dict(config.to_dict()) == config
    again = type(model).from_config(model.get_config())
    np.testing.assert_array_equal(
        model(batch_of(random_ids()))["lm_logits"], again(batch_of(random_ids()))["lm_logits"]
    )


def test_a_draw_does_not_depend_on_the_other_rows_and_repeats_with_its_seed():
    model = make_pretrainer(CONFIG, seed=3)
    prompt = np.array([[2, 7, 9, 11], [2, 5, 0, 0], [2, 7, 9, 11]], np.int32)
    together = continued(model, prompt, 15, seed=[4, 5, 6], temperature=1.5, top_p=0.9)
    for row in range(3):
        alone = prompt[row : row + 1, : (prompt[row] > 0).sum()]
        found = continued(model, alone, 15, seed=[4 + row], temperature=1.5, top_p=0.9)
        np.testing.assert_array_equal(found[0], together[row])
    assert (together[0] != together[2]).any() and (together[:, :1] == 2).all()
    assert not np.isin(together[:, 4:], [1, 2, 4]).any()


def test_draws_follow_the_probabilities_with_temperature_top_k_and_top_p():
    rows, logits = 20_000, tf.math.log(tf.constant([0.05, 0.5, 0.2, 0.15, 0.1]))

    def shares(temperature=1.0, top_p=1.0, top_k=0):
        values = (temperature, top_k, top_p, 1.0)
        sampling = Sampling(tf.range(rows), *(tf.fill([rows], value) for value in values))
        ids = tf.zeros([rows, 3], tf.int32)
        drawn = text_generation.next_pieces(tf.tile(logits[None], [rows, 1]), ids, tf.constant(7), sampling)
        return np.bincount(drawn.numpy(), minlength=5) / rows

    np.testing.assert_allclose(shares(), [0.05, 0.5, 0.2, 0.15, 0.1], atol=0.015)
    squares = np.array([0.05, 0.5, 0.2, 0.15, 0.1]) ** 2
    np.testing.assert_allclose(shares(temperature=0.5), squares / squares.sum(), atol=0.015)
    np.testing.assert_allclose(shares(top_k=2), [0, 5 / 7, 2 / 7, 0, 0], atol=0.015)
    np.testing.assert_allclose(shares(top_k=9), shares(), atol=0)
    np.testing.assert_allclose(shares(top_p=0.65), [0, 5 / 7, 2 / 7, 0, 0], atol=0.015)
    np.testing.assert_array_equal(shares(temperature=0.0), [0, 1, 0, 0, 0])


def test_gumbel_noise_has_the_mean_and_deviation_of_its_distribution():
    noise = backend.gumbel_noise(tf.range(50), tf.constant(3), 2000).numpy()
    assert abs(noise.mean() - np.euler_gamma) < 0.02 and abs(noise.std() - np.pi / np.sqrt(6)) < 0.02
    assert len(np.unique(noise[:, :5], axis=0)) == 50


@pytest.mark.parametrize("pooling", ["cls", "concat", "mean"])
def test_a_head_on_a_gpt_reads_the_last_token_where_it_would_read_cls(pooling):
    head = without_cls(Head("text", 2, pooling=pooling))
    assert not head.has_pooler and head.pooling == {"cls": "last", "concat": "concat_last"}.get(pooling, pooling)
    model = BertTaskModel(CONFIG.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0), head, seed=3)
    ids = random_ids()
    ids[0, 5:] = 0
    states = np.asarray(model.encoder(batch_of(ids))["sequence_output"])
    last, mask = np.stack([states[0, 4], states[1, -1]]), (ids > 0)[..., None]
    mean = (states * mask).sum(axis=1) / mask.sum(axis=1)
    largest = np.where(mask, states, -1e9).max(axis=1)
    vector = {"cls": last, "mean": mean, "concat": np.concatenate([last, largest, mean], axis=-1)}[pooling]
    expected = vector @ model.classifier.kernel.numpy() + model.classifier.bias.numpy()
    np.testing.assert_allclose(model(batch_of(ids))["logits"], expected, atol=1e-4)


def test_a_masked_language_model_continues_a_text_by_filling_in_masks():
    config = CONFIG.replace(architecture="bert", is_causal=False)
    model = make_pretrainer(config, seed=3, parts=("encoder", "masked_lm"))
    step = text_generation.masked_step(model, mask_id=4, sep_id=3)
    ids = np.array([[2, 7, 9, 0, 0]], np.int32)
    logits, _ = step(tf.constant(ids), tf.constant(2), ())
    row = np.array([[2, 7, 9, 4, 3]], np.int32)
    inputs = {**batch_of(row), "masked_lm_positions": np.array([[3]])}
    np.testing.assert_allclose(logits, model(inputs)["mlm_logits"][:, 0], atol=1e-5)


def test_an_unknown_architecture_and_a_pooler_are_refused():
    with pytest.raises(UserError, match="architecture 'gtp' is not known: did you mean 'gpt'"):
        CONFIG.replace(architecture="gtp")
    with pytest.raises(ValueError, match="a GPT has no pooler"):
        make_encoder(CONFIG, has_pooler=True)


def test_keras_trains_it_with_fit():
    model = make_pretrainer(CONFIG.replace(num_hidden_layers=1), seed=3)
    ids = random_ids(rows=8)

    class NextPiece(keras.Model):
        def __init__(self):
            super().__init__()
            self.model = model

        def call(self, inputs, training=None):
            return self.model(inputs, heads_only=True, training=training)["lm_logits"]

    trained = NextPiece()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    trained.compile(keras.optimizers.Adam(1e-2), loss=loss)
    losses = trained.fit(batch_of(ids), ids[:, 1:], epochs=12, batch_size=4, verbose=0).history["loss"]
    assert losses[-1] < 0.7 * losses[0]

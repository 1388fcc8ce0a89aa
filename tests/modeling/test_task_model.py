"""The heads of fine-tuning equal sums that NumPy computes from the outputs of the encoder."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.modeling.task_head import CHOICES, TEXT, TOKENS, Head
from keras_bert_app.modeling.task_model import BertTaskModel
from keras_bert_app.modeling.task_models import is_same_head
from keras_bert_app.modeling.text_to_text_model import Decoder
from tests.tasks.conftest import CONFIG

THREE_LAYERS = CONFIG.replace(num_hidden_layers=3)
LENGTHS = (11, 7, 3)
NEWER = ("context_units", "token_vector_size", "states_at", "has_layer_norm", "has_crf")  # fields of later versions


def batch_of(lengths=LENGTHS, width=13, seed=0):
    generator = np.random.default_rng(seed)
    mask = (np.arange(width) < np.array(lengths)[:, None]).astype(np.int32)
    ids = generator.integers(5, CONFIG.vocab_size, mask.shape).astype(np.int32) * mask
    return {"input_word_ids": tf.constant(ids), "input_mask": tf.constant(mask), "input_type_ids": tf.zeros_like(ids)}


def dense(model, x):
    return x @ model.classifier.kernel.numpy() + model.classifier.bias.numpy()


@pytest.mark.parametrize("pooling", ["cls", "mean", "max", "concat"])
@pytest.mark.parametrize("layers", ["last", "last_four", "scalar_mix"])
def test_a_text_s_vector_is_pooled_over_its_own_tokens(pooling, layers):
    config = CONFIG.replace(num_hidden_layers=5)
    model = BertTaskModel(config, Head(TEXT, 3, layers=layers, pooling=pooling))
    if layers == "scalar_mix":
        model.scalar_mix.scores.assign([0.3, -1.0, 0.2, 2.0, 0.1, 0.0])
        model.scalar_mix.gamma.assign([1.7])
    batch = batch_of()
    outputs = model.encoder(batch)
    states = [outputs["embedding_output"].numpy(), *(layer.numpy() for layer in outputs["encoder_outputs"])]
    if layers == "last":
        x = states[-1]
    elif layers == "last_four":
        x = np.concatenate(states[-4:], axis=-1)
    else:
        scores = np.exp(model.scalar_mix.scores.numpy())
        x = 1.7 * sum(share * state for share, state in zip(scores / scores.sum(), states, strict=True))
    rows = [row[:length] for row, length in zip(x, LENGTHS, strict=True)]
    pool = {"cls": lambda row: row[0], "mean": lambda row: row.mean(axis=0), "max": lambda row: row.max(axis=0)}
    pool["concat"] = lambda row: np.concatenate([pool["cls"](row), pool["max"](row), pool["mean"](row)])
    expected = np.stack([pool[pooling](row) for row in rows])
    if pooling == "cls" and layers == "last":
        expected = outputs["pooled_output"].numpy()
    np.testing.assert_allclose(model(batch)["logits"], dense(model, expected), atol=2e-5)


@pytest.mark.parametrize(
    "head",
    [
        Head(TEXT, 3),
        Head(TEXT, 3, pooling="concat", layers="scalar_mix"),
        Head(TEXT, 3, bilstm_units=7, pooling="max"),
        Head(TOKENS, 5),
        Head(TOKENS, 5, bilstm_units=7, layers="last_four"),
        Head(TEXT, 2, bilstm_units=7, pooling="concat"),
        Head(TOKENS, 5, bilstm_units=7, layers="scalar_mix", context_units=3),
        Head(TEXT, 3, pooling="concat", layers="last_four", context_units=3),
        Head(TOKENS, 5, bilstm_units=7, token_vector_size=6, layers="scalar_mix", states_at="both", has_crf=True),
    ],
    ids=repr,
)
def test_padding_changes_no_answer(head):
    model = BertTaskModel(CONFIG.replace(num_hidden_layers=4), head)
    short, long = batch_of(width=11), batch_of(width=11)
    long = {name: tf.pad(values, [[0, 0], [0, 8]]) for name, values in long.items()}
    ours, padded = model(short)["logits"].numpy(), model(long)["logits"].numpy()
    if head.stands_on == TOKENS:
        for row, other, length in zip(ours, padded, LENGTHS, strict=True):
            np.testing.assert_allclose(row[:length], other[:length], atol=2e-5)
    else:
        np.testing.assert_allclose(ours, padded, atol=2e-5)


def grouped(group_sizes, width=9):
    """Makes a batch [B, G, S]. Each text has as many rows as group_sizes says, and its other rows are empty."""
    group = max(group_sizes)
    flat = batch_of([4 + number % 5 for number in range(len(group_sizes) * group)], width)
    is_row = (np.arange(group) < np.array(group_sizes)[:, None]).astype(np.int32)[:, :, None]
    return {name: tf.reshape(values, [len(group_sizes), group, width]) * is_row for name, values in flat.items()}


def test_each_choice_gets_the_logit_that_it_would_get_alone():
    model = BertTaskModel(CONFIG, Head(CHOICES, 1))
    batch = grouped((4, 4))
    logits = model(batch)["logits"].numpy()
    for row in range(2):
        for choice in range(4):
            alone = {name: values[row : row + 1, choice : choice + 1] for name, values in batch.items()}
            assert logits[row, choice] == pytest.approx(float(model(alone)["logits"][0, 0]), abs=1e-5)


def test_the_logits_of_a_text_are_the_mean_over_its_windows():
    model = BertTaskModel(CONFIG, Head(TEXT, 3, windows="logits"))
    plain = BertTaskModel(CONFIG, Head(TEXT, 3))
    plain.set_weights(model.get_weights())
    batch = grouped((1, 3, 2))
    logits = model(batch)["logits"].numpy()
    for row, count in enumerate((1, 3, 2)):
        each = plain({name: values[row, :count] for name, values in batch.items()})["logits"].numpy()
        np.testing.assert_allclose(logits[row], each.mean(axis=0), atol=1e-5)


def test_empty_windows_do_not_reach_the_lstm_over_windows():
    model = BertTaskModel(CONFIG, Head(TEXT, 3, windows="lstm"))
    batch = grouped((1, 3, 2))
    logits = model(batch)["logits"].numpy()
    for row, count in enumerate((1, 3, 2)):
        alone = {name: values[row : row + 1, :count] for name, values in batch.items()}
        np.testing.assert_allclose(logits[row], model(alone)["logits"].numpy()[0], atol=1e-5)


def test_each_weight_has_its_own_path_and_the_same_seed_gives_the_same_weights():
    head = Head(TEXT, 3, "scalar_mix", "mean", "lstm", 7, context_units=5, token_vector_size=3, states_at="both")
    first, second, other = (BertTaskModel(THREE_LAYERS, head, seed=seed) for seed in (5, 5, 6))
    paths = [variable.path for variable in first.weights]
    assert len(set(paths)) == len(paths) and paths == [variable.path for variable in second.weights]
    assert all(np.array_equal(one, same) for one, same in zip(first.get_weights(), second.get_weights(), strict=True))
    kernels = [number for number, path in enumerate(paths) if path.endswith("kernel")]
    assert all(not np.array_equal(first.get_weights()[number], other.get_weights()[number]) for number in kernels)


def test_an_lstm_over_the_last_states_makes_context_vectors_beside_the_states_that_the_head_reads():
    model = BertTaskModel(THREE_LAYERS, Head(TEXT, 3, layers="scalar_mix", pooling="concat", context_units=5))
    batch = batch_of()
    outputs = model.encoder(batch)
    mixed = model.scalar_mix([outputs["embedding_output"], *outputs["encoder_outputs"]])
    context = model.context_lstm(outputs["sequence_output"], batch["input_mask"])
    rows = [row[:length] for row, length in zip(np.concatenate([mixed, context], axis=-1), LENGTHS, strict=True)]
    expected = np.stack([np.concatenate([row[0], row.max(axis=0), row.mean(axis=0)]) for row in rows])
    np.testing.assert_allclose(model(batch)["logits"], dense(model, expected), atol=2e-5)
    assert model.parts == ("encoder", "scalar_mix", "context_lstm", "classifier")


@pytest.mark.parametrize("states_at", ["input", "output", "both"])
def test_the_states_enter_the_bilstm_beside_the_head_s_own_vectors_or_its_output(states_at):
    head = Head(
        TOKENS, 3, bilstm_units=4, token_vector_size=6, states_at=states_at, layers="scalar_mix", has_layer_norm=True
    )
    model = BertTaskModel(THREE_LAYERS, head)
    mixes = {name: getattr(model, name) for name in ("scalar_mix", "output_mix") if name in model.parts}
    assert list(mixes) == ["scalar_mix", "output_mix"][: 2 if states_at == "both" else 1]
    for number, mix in enumerate(mixes.values()):
        mix.scores.assign([0.3, -1.0 - number, 0.2, 2.0])
    batch = batch_of()
    ids, mask = batch["input_word_ids"], batch["input_mask"]
    outputs = model.encoder(batch)
    layers = [outputs["embedding_output"], *outputs["encoder_outputs"]]
    normal = [(x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True) for x in (layer.numpy() for layer in layers)]
    mixed = []
    for mix in mixes.values():
        scores = np.exp(mix.scores.numpy())
        mixed.append(sum(share * x for share, x in zip(scores / scores.sum(), normal, strict=True)))
    features = model.token_features(ids, mask).numpy()
    words = model.token_features.word_embeddings.numpy()[ids]
    own = np.concatenate([words, model.token_features.characters(ids)], axis=-1)
    np.testing.assert_allclose(model.token_features.bilstm(own, mask), features, atol=1e-5)
    x = features if states_at == "output" else np.concatenate([features, mixed[0]], axis=-1)
    x = model.bilstm(x, mask).numpy()
    x = x if states_at == "input" else np.concatenate([x, mixed[-1]], axis=-1)
    np.testing.assert_allclose(model(batch)["logits"], dense(model, x), atol=2e-5)


@pytest.mark.parametrize(
    "fields",
    [
        {"stands_on": TEXT, "has_crf": True},
        {"stands_on": TOKENS, "states_at": "output", "bilstm_units": 4},
        {"stands_on": TOKENS, "states_at": "both"},
        {"stands_on": TOKENS, "token_vector_size": 4},
    ],
)
def test_a_head_whose_fields_contradict_each_other_is_refused(fields):
    with pytest.raises(UserError, match="the head of the model: .* needs?"):
        Head(num_outputs=3, **fields)


def test_the_head_of_an_earlier_version_is_the_same_without_the_fields_that_are_newer():
    head = Head(TEXT, 3, pooling="mean")
    earlier = {name: value for name, value in dataclasses.asdict(head).items() if name not in NEWER}
    assert is_same_head({**earlier, "dropout": 0.5}, head)
    assert not is_same_head(earlier, dataclasses.replace(head, context_units=5))
    decoder = Decoder("rnn_state", 0, "embeddings", 2, 3, never_ids=(0, 1))
    written = json.loads(json.dumps(dataclasses.asdict(decoder)))
    assert is_same_head(written, decoder) and not is_same_head(written, head)


def test_dropout_depends_on_the_seed_and_is_off_without_a_seed():
    model = BertTaskModel(
        CONFIG.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0), Head(TEXT, 3, dropout=0.5)
    )
    batch = batch_of()
    plain, one, same, other = (
        model(batch, dropout_seed=seed)["logits"].numpy()
        for seed in (None, tf.constant([1, 2], tf.int64), tf.constant([1, 2], tf.int64), tf.constant([1, 3], tf.int64))
    )
    assert np.array_equal(one, same) and not np.array_equal(one, other) and not np.array_equal(one, plain)
    assert model.has_dropout


def test_logits_are_computed_in_float32_even_if_the_encoder_has_bfloat16():
    model = BertTaskModel(CONFIG, Head(TEXT, 40), dtype="mixed_bfloat16")
    logits = model(batch_of())["logits"]
    assert logits.dtype == tf.float32
    assert np.mean(tf.cast(tf.cast(logits, tf.bfloat16), tf.float32) == logits) < 0.1


def test_an_encoder_that_is_not_trained_has_no_dropout_under_a_dropout_seed():
    model = BertTaskModel(CONFIG, Head(TEXT, 3, dropout=0.0), encoder_has_dropout=False)
    seed = tf.constant([3, 5])
    assert not model.has_dropout
    np.testing.assert_array_equal(model(batch_of(), dropout_seed=seed)["logits"], model(batch_of())["logits"])
    model = BertTaskModel(CONFIG, Head(TEXT, 3, dropout=0.5), encoder_has_dropout=False)
    assert model.has_dropout and not np.array_equal(
        model(batch_of(), dropout_seed=seed)["logits"], model(batch_of())["logits"]
    )


@pytest.mark.parametrize("head", [Head(TEXT, 3, pooling="mean"), Head(CHOICES, 1), Head(TOKENS, 5)], ids=repr)
def test_two_passes_give_the_logits_of_a_batch_twice_as_large(head):
    once, twice = (BertTaskModel(CONFIG, head, passes=passes) for passes in (1, 2))
    batch = grouped((4, 4)) if head.stands_on == CHOICES else batch_of()
    seed = tf.constant([5, 7], tf.int64)
    doubled = once({name: tf.concat([values, values], axis=0) for name, values in batch.items()}, dropout_seed=seed)[
        "logits"
    ]
    outputs = twice(batch, dropout_seed=seed)
    np.testing.assert_allclose(tf.concat([outputs["logits"], outputs["logits_again"]], axis=0), doubled, atol=1e-6)
    assert np.abs(outputs["logits"] - outputs["logits_again"]).max() > 1e-3
    # Inference has one pass and no dropout.
    np.testing.assert_allclose(twice(batch)["logits"], once(batch)["logits"], atol=1e-6)
    assert list(twice(batch)) == ["logits"]

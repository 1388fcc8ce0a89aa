"""Layers and models keep Keras' contract for dropout in training, configurations, saving and loading."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.modeling.encoder import BertEncoder, TransformerLayer
from keras_bert_app.modeling.layers import Dense, LayerNorm, activation
from keras_bert_app.modeling.pretrainer import BertPretrainer
from keras_bert_app.modeling.task_head import TEXT, Head
from keras_bert_app.modeling.task_model import BertTaskModel
from tests.modeling.test_task_model import batch_of
from tests.tasks.conftest import CONFIG
from tests.training.conftest import two_replicas

LARGE_HEAD = Head(
    TEXT, 3, "scalar_mix", "concat", "lstm", 7, 0.3, context_units=5, token_vector_size=3, states_at="both"
)
MODELS = {
    "encoder": lambda **arguments: BertEncoder(CONFIG, **arguments),
    "pretrainer": lambda **arguments: BertPretrainer(CONFIG, **arguments),
    "task_model": lambda **arguments: BertTaskModel(CONFIG, Head(TEXT, 3), **arguments),
}
ALL_MODELS = MODELS | {
    "encoder without pooler": lambda **arguments: BertEncoder(CONFIG, has_pooler=False, **arguments),
    "pretrainer of two parts": lambda **arguments: BertPretrainer(
        CONFIG.replace(tie_word_embeddings=False, hidden_act="relu"), parts=("encoder", "masked_lm"), **arguments
    ),
    "pruned encoder": lambda **arguments: BertEncoder(
        CONFIG.replace(num_heads_by_layer=(1,), hidden_act="gelu_exact"), **arguments
    ),
    "large head": lambda **arguments: BertTaskModel(CONFIG, LARGE_HEAD, encoder_has_dropout=False, **arguments),
}


def first_output(model, **arguments):
    outputs = model(batch_of(), **arguments)
    return np.array(outputs.get("mlm_logits", outputs.get("logits", outputs.get("pooled_output"))))


def layers_in(model):
    return [model, *model._flatten_layers(include_self=False)]


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_training_gives_dropout_with_different_masks_in_each_call(make):
    model = make()
    undropped = first_output(model)
    np.testing.assert_array_equal(undropped, first_output(model, training=False))
    first, second = first_output(model, training=True), first_output(model, training=True)
    assert np.abs(first - undropped).max() > 1e-3 and np.abs(first - second).max() > 1e-3
    np.testing.assert_array_equal(first, first_output(make(), training=True))  # the model's seed decides the masks
    assert np.abs(first - first_output(make(seed=1), training=True)).max() > 1e-3


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_a_given_dropout_seed_decides_the_masks_whatever_training_says(make):
    model, seed = make(), tf.constant([5, 7])
    expected = first_output(model, dropout_seed=seed)
    for training in (True, False):
        np.testing.assert_array_equal(expected, first_output(model, dropout_seed=seed, training=training))
    assert model.dropout_counter.state.numpy()[1] == 0


@pytest.mark.parametrize("make", ALL_MODELS.values(), ids=ALL_MODELS)
def test_the_dropout_counter_is_a_variable_but_no_weight(make):
    model = make()
    states = {id(variable) for variable in model.variables} - {id(weight) for weight in model.weights}
    assert id(model.dropout_counter.state) in states
    assert not any("counter" in variable.path for variable in model.weights + model.trainable_variables)


def test_a_frozen_encoder_has_no_dropout_in_training():
    model = BertTaskModel(CONFIG, Head(TEXT, 3, dropout=0.0), encoder_has_dropout=False)
    np.testing.assert_array_equal(first_output(model), first_output(model, training=True))


def test_a_model_without_dropout_has_the_same_output_in_training():
    model = BertEncoder(CONFIG.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))
    np.testing.assert_array_equal(first_output(model), first_output(model, training=True))


def test_training_reaches_the_encoder_in_a_subclassed_model_and_does_not_leak_out_of_it():
    class Classifier(keras.Model):
        def __init__(self):
            super().__init__()
            self.task_model = BertTaskModel(CONFIG, Head(TEXT, 3), encoder_has_dropout=False)
            self.encoder, self.dropout = BertEncoder(CONFIG), keras.layers.Dropout(0.5)

        def call(self, inputs):
            frozen = self.task_model(inputs)["logits"]
            return self.encoder(inputs)["pooled_output"], self.dropout(keras.ops.ones_like(frozen))

    model, batch = Classifier(), batch_of()
    undropped, ones = model(batch, training=False)
    first, dropped = model(batch, training=True)
    assert np.abs(first - undropped).max() > 1e-3
    assert np.unique(ones).tolist() == [1.0] and 0.0 in np.unique(dropped)
    np.testing.assert_array_equal(undropped, model(batch)[0])


def test_replicas_draw_different_masks():
    strategy, batch = two_replicas(), batch_of()
    with strategy.scope():
        encoder = BertEncoder(CONFIG)
        outputs = strategy.run(lambda: encoder(batch, training=True)["pooled_output"])
    first, second = strategy.experimental_local_results(outputs)
    assert np.abs(first - second).max() > 1e-3


@pytest.mark.parametrize("make", ALL_MODELS.values(), ids=ALL_MODELS)
def test_every_layer_and_model_is_made_again_from_its_configuration(make):
    for layer in layers_in(make(seed=3, dtype="mixed_bfloat16")):
        config = layer.get_config()
        again = type(layer).from_config(json.loads(json.dumps(config)))
        assert again.get_config() == config and again.dtype_policy == layer.dtype_policy
        serialized = json.loads(json.dumps(keras.saving.serialize_keras_object(layer)))
        assert keras.saving.deserialize_keras_object(serialized).get_config() == config


@pytest.mark.parametrize("make", ALL_MODELS.values(), ids=ALL_MODELS)
def test_a_model_survives_keras_and_weights_files(make, tmp_path):
    model = make(seed=3)
    for number, weight in enumerate(model.weights):
        weight.assign_add(tf.fill(weight.shape, 0.01 * number))
    model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    filled = type(model).from_config(model.get_config())
    filled.load_weights(tmp_path / "model.weights.h5")
    for restored in (loaded, filled):
        assert [weight.path for weight in restored.weights] == [weight.path for weight in model.weights]
        for weight, expected in zip(restored.weights, model.weights, strict=True):
            np.testing.assert_array_equal(weight, expected)


def test_a_functional_model_over_encoder_and_layers_survives_a_keras_file(tmp_path):
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in batch_of()}
    x = BertEncoder(CONFIG, seed=3)(inputs)["sequence_output"]
    x, _ = TransformerLayer(CONFIG, 5, 90, 2, name="further")(x, keras.ops.zeros_like(x[:, None, None, :, 0]))
    x = LayerNorm(CONFIG.hidden_size, 1e-5)(x[:, 0])
    initializer = keras.initializers.TruncatedNormal(seed=1)
    model = keras.Model(inputs, Dense(CONFIG.hidden_size, 7, initializer, activation("gelu_exact"))(x))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(model(batch_of()), again(batch_of()))
    assert np.abs(model(batch_of(), training=True) - model(batch_of(), training=True)).max() > 1e-3


def test_frozen_layers_stay_frozen_in_a_configuration():
    model = BertTaskModel(CONFIG.replace(num_hidden_layers=3), Head(TEXT, 3))
    model.encoder.embeddings.trainable = model.encoder.transformer_layers[1].trainable = False
    again = BertTaskModel.from_config(model.get_config())
    paths = [weight.path for weight in again.trainable_weights]
    assert paths == [weight.path for weight in model.trainable_weights] and len(paths) < len(model.weights)
    model.trainable = False
    assert not BertTaskModel.from_config(model.get_config()).trainable_weights


def test_a_configuration_out_of_range_is_refused_by_name():
    config = BertEncoder(CONFIG).get_config()
    config["config"]["num_attention_heads"] = 0
    with pytest.raises(ValueError, match="'num_attention_heads' is 0; expected 1 to"):
        BertEncoder.from_config(config)

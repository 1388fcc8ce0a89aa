"""The encoder has the outputs of keras_hub's BertBackbone, an independent implementation that is always installed."""

import keras
import keras_hub
import numpy as np
import pytest

from keras_bert_app import BertConfig, BertEncoder

# These dimensions differ, so that a test notices exchanged dimensions.
CONFIG = BertConfig(
    vocab_size=97,
    hidden_size=26,
    num_attention_heads=2,
    num_hidden_layers=3,
    intermediate_size=37,
    max_position_embeddings=41,
    hidden_act="gelu_tanh",
)


def random_backbone():
    """Makes a BertBackbone whose weights are all random, biases and LayerNorms included."""
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=CONFIG.vocab_size,
        num_layers=CONFIG.num_hidden_layers,
        num_heads=CONFIG.num_attention_heads,
        hidden_dim=CONFIG.hidden_size,
        intermediate_dim=CONFIG.intermediate_size,
        dropout=0.0,
        max_sequence_length=CONFIG.max_position_embeddings,
        num_segments=CONFIG.type_vocab_size,
    )
    generator = np.random.RandomState(3)
    for weight in backbone.weights:
        weight.assign(generator.normal(1.0 if weight.name == "gamma" else 0.0, 0.2, weight.shape))
    return backbone


def copy_weights(backbone, encoder):
    """Copies every weight of the backbone into the encoder, by explicit names."""
    size = CONFIG.hidden_size
    ours = {weight.path: weight for weight in encoder.weights}

    def put(path, value):
        ours.pop(f"encoder/{path}").assign(keras.ops.convert_to_numpy(value))

    def put_dense(path, layer):
        put(f"{path}/kernel", np.reshape(layer.kernel, (-1, *ours[f"encoder/{path}/bias"].shape)))
        put(f"{path}/bias", layer.bias)

    def put_norm(path, layer):
        put(f"{path}/gamma", layer.gamma)
        put(f"{path}/beta", layer.beta)

    put("embeddings/word_embeddings", backbone.get_layer("token_embedding").embeddings)
    put("embeddings/position_embeddings", backbone.get_layer("position_embedding").position_embeddings)
    put("embeddings/token_type_embeddings", backbone.get_layer("segment_embedding").embeddings)
    put_norm("embeddings/layer_norm", backbone.get_layer("embeddings_layer_norm"))
    for i in range(CONFIG.num_hidden_layers):
        theirs, prefix = backbone.get_layer(f"transformer_layer_{i}"), f"layer_{i}"
        attention = theirs._self_attention_layer
        parts = attention.query_dense, attention.key_dense, attention.value_dense
        put(
            f"{prefix}/attention/query_key_value/kernel",
            np.concatenate([np.reshape(part.kernel, (size, size)) for part in parts], axis=1),
        )
        put(f"{prefix}/attention/query_key_value/bias", np.concatenate([np.ravel(part.bias) for part in parts]))
        put_dense(f"{prefix}/attention/output", attention.output_dense)
        put_norm(f"{prefix}/attention_layer_norm", theirs._self_attention_layer_norm)
        put_dense(f"{prefix}/intermediate", theirs._feedforward_intermediate_dense)
        put_dense(f"{prefix}/output", theirs._feedforward_output_dense)
        put_norm(f"{prefix}/output_layer_norm", theirs._feedforward_layer_norm)
    put_dense("pooler", backbone.get_layer("pooled_dense"))
    assert not ours, f"never assigned: {sorted(ours)}"


@pytest.fixture(scope="module")
def pair():
    backbone, encoder = random_backbone(), BertEncoder(CONFIG)
    copy_weights(backbone, encoder)
    return backbone, encoder


@pytest.mark.parametrize("length", [41, 17, 1])
def test_sequence_and_pooled_output_are_within_1e_5_with_padding_and_segments(pair, length):
    backbone, encoder = pair
    generator = np.random.RandomState(length)
    ids = generator.randint(0, CONFIG.vocab_size, (5, length))
    mask = (np.arange(length) < generator.randint(1, length + 1, (5, 1))).astype(np.int32)
    types = generator.randint(0, 2, (5, length))
    theirs = backbone({"token_ids": ids, "padding_mask": mask, "segment_ids": types})
    ours = encoder({"input_word_ids": ids, "input_mask": mask, "input_type_ids": types})
    # The outputs at padded positions have no meaning.
    real = mask.astype(bool)
    np.testing.assert_allclose(
        np.array(ours["sequence_output"])[real], np.array(theirs["sequence_output"])[real], atol=1e-5
    )
    np.testing.assert_allclose(ours["pooled_output"], theirs["pooled_output"], atol=1e-5)


def test_a_row_of_padding_only_stays_finite(pair):
    ids = np.zeros((1, 7), np.int32)
    outputs = pair[1]({"input_word_ids": ids, "input_mask": ids, "input_type_ids": ids})
    assert np.isfinite(outputs["sequence_output"]).all()


def test_a_sequence_beyond_the_position_embeddings_is_refused_with_both_lengths(pair):
    ids = np.zeros((1, 42), np.int32)
    with pytest.raises(ValueError, match="42 tokens.*at most 41 .max_position_embeddings"):
        pair[1]({"input_word_ids": ids, "input_mask": ids, "input_type_ids": ids})

"""Builds small random models for the tests of every layout."""

import numpy as np
import pytest

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.weight_shapes import shapes
from keras_bert_app.interop.weights import Weights
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES

# All dimensions have different sizes, so that a test notices exchanged dimensions.
CONFIGS = {
    "one_layer": BertConfig(
        vocab_size=13,
        hidden_size=22,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=37,
        max_position_embeddings=17,
        type_vocab_size=2,
    ),
    "three_layers": BertConfig(
        vocab_size=19,
        hidden_size=33,
        num_hidden_layers=3,
        num_attention_heads=3,
        intermediate_size=29,
        max_position_embeddings=23,
        type_vocab_size=2,
        hidden_act="gelu_exact",
    ),
    "seven_heads": BertConfig(
        vocab_size=11,
        hidden_size=35,
        num_hidden_layers=2,
        num_attention_heads=7,
        intermediate_size=31,
        max_position_embeddings=41,
        type_vocab_size=3,
        do_lower_case=False,
    ),
}


def make_weights(config, seed=0):
    """Draws random Weights with all parts. Biases and LayerNorms are random too, so that no two tensors are equal."""
    generator = np.random.RandomState(seed)
    tensors = {path: generator.normal(0.0, 0.1, shape).astype(np.float32) for path, shape in shapes(config).items()}
    letters = "Abcdefghijklmnop" if not config.do_lower_case else "abcdefghijklmnop"
    pieces = [*SPECIAL_PIECES, *letters][: config.vocab_size]
    vocabulary = "".join(f"{piece}\n" for piece in pieces).encode()
    return Weights(config, tensors, vocabulary=vocabulary, origin="random")


@pytest.fixture
def random_weights():
    """The function make_weights."""
    return make_weights


@pytest.fixture(params=CONFIGS)
def config(request):
    """Each of CONFIGS in turn."""
    return CONFIGS[request.param]


def assert_same(actual, expected):
    """Asserts that two Weights are the same, with tensors bit for bit."""
    assert actual.tensors.keys() == expected.tensors.keys()
    for path, tensor in expected.tensors.items():
        np.testing.assert_array_equal(actual.tensors[path], tensor, err_msg=path)
    assert actual.config == expected.config
    assert actual.vocabulary == expected.vocabulary
    assert (actual.task, actual.labels) == (expected.task, expected.labels)

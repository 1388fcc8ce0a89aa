"""In the causal encoder, a token attends only to itself and to earlier tokens."""

import numpy as np
import pytest

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.errors import UserError
from keras_bert_app.interop.load import write_weights
from keras_bert_app.interop.weights import Weights
from keras_bert_app.modeling.encoder import BertEncoder

CONFIG = BertConfig(
    vocab_size=23,
    hidden_size=14,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=13,
    max_position_embeddings=11,
    initializer_range=0.5,
)
IDS = np.array([[2, 7, 11, 5, 3], [2, 9, 3, 0, 0]], np.int32)


def states(ids, **changes):
    inputs = {"input_word_ids": ids, "input_mask": (ids > 0).astype(np.int32), "input_type_ids": ids * 0}
    outputs = BertEncoder(CONFIG.replace(**changes), seed=3)(inputs, return_attention_scores=True)
    return outputs["sequence_output"].numpy(), outputs["attention_scores"][-1].numpy()


def test_no_token_attends_to_later_tokens():
    before, attention = states(IDS, num_hidden_layers=3, is_causal=True)
    changed = IDS.copy()
    changed[:, 2] = 17
    after, _ = states(changed, num_hidden_layers=3, is_causal=True)
    np.testing.assert_array_equal(before[:, :2], after[:, :2])
    assert abs(before[0, 2:] - after[0, 2:]).min(axis=-1).max() > 1e-4
    assert not np.triu(attention[0], 1).any() and np.isfinite(before).all()
    np.testing.assert_allclose(attention.sum(axis=-1), 1, atol=1e-6)


def test_the_last_token_of_one_layer_equals_that_of_bert():
    np.testing.assert_allclose(states(IDS[:1], is_causal=True)[0][:, -1], states(IDS[:1])[0][:, -1], atol=1e-6)
    assert abs(states(IDS[:1], is_causal=True)[0][:, 0] - states(IDS[:1])[0][:, 0]).max() > 1e-3


def test_the_configuration_keeps_is_causal_and_the_hugging_face_layout_refuses_it(tmp_path):
    causal = CONFIG.replace(is_causal=True)
    assert BertConfig.from_dict(causal.to_dict()) == causal and "is_causal" not in CONFIG.to_dict()
    weights = Weights(causal, {}, origin="mine")
    with pytest.raises(UserError, match="mine: is causal .* huggingface cannot store this"):
        write_weights(weights, "huggingface", str(tmp_path / "out"))

"""LiteRT models of what takes ids."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.export import finetuned, litert
from keras_bert_app.export.encoder import EncoderModule
from keras_bert_app.export.finetuned import IdsModule
from keras_bert_app.litert_model import LiteRTModel
from keras_bert_app.modeling.encoder import BertEncoder
from tests.export.untrained import CONFIG, untrained

def rows(*shape):
    generator = np.random.default_rng(0)
    ids = generator.integers(0, CONFIG.vocab_size, shape)
    return {"input_word_ids": ids, "input_mask": ids * 0 + 1, "input_type_ids": ids % 2}


def check_same(module, *inputs):
    """The converted module answers what it answers itself."""
    run, function = LiteRTModel(litert.convert(module)), module.exported["serving_default"]
    for one in inputs:
        one = {name: values.astype(np.int32) for name, values in one.items()}
        expected = function(**{name: tf.constant(values) for name, values in one.items()})
        found = run(**one)
        assert found.keys() == expected.keys()
        for name, values in expected.items():
            if values.dtype == tf.string:
                assert found[name].tolist() == values.numpy().tolist(), name
            else:
                np.testing.assert_allclose(found[name], values, atol=1e-5, err_msg=name)


def test_the_encoder_gives_the_same_states_for_batches_of_any_shape():
    check_same(EncoderModule(BertEncoder(CONFIG, seed=1)), rows(1, 3), rows(5, 41))


@pytest.mark.parametrize("task, labels, inputs, shape", [
    ("sst-2", ("0", "1"), ["text"], (4, 9)), ("codah", (), ["question", "choices"], (3, 4, 9))], ids=["classes", "choices"])
def test_fine_tuned_heads_give_the_same_answers(task, labels, inputs, shape):
    check_same(IdsModule(finetuned._module(untrained(task, labels), inputs, 4)), rows(*shape))


def test_what_has_no_place_in_litert_is_refused_in_a_line():
    class Words(tf.Module):
        def __init__(self):
            super().__init__()
            self.exported = {"serving_default": tf.function(
                lambda text: {"length": tf.strings.length(text)}, input_signature=[tf.TensorSpec([None], tf.string, name="text")])}
    with pytest.raises(UserError, match=r"--litert: this model cannot be converted \(tf.StringLength\); leave the flag out"):
        litert.convert(Words())

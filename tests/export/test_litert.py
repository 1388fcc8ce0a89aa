"""LiteRT models of what takes ids."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.export import finetuned_export, litert_export
from keras_bert_app.export.encoder_signatures import EncoderModule
from keras_bert_app.export.finetuned_export import IdsModule
from keras_bert_app.modeling.encoder import BertEncoder
from keras_bert_app.serving.litert_model import LiteRTModel
from tests.export.untrained import CONFIG, untrained


def rows(*shape):
    generator = np.random.default_rng(0)
    ids = generator.integers(0, CONFIG.vocab_size, shape)
    return {"input_word_ids": ids, "input_mask": ids * 0 + 1, "input_type_ids": ids % 2}


def check_same(make_module, *inputs):
    """The converted module answers what it answers itself. Returns the former's bytes."""
    model = litert_export.convert(make_module)
    run, function = LiteRTModel(model), make_module().exported["serving_default"]
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
    return model


def test_the_encoder_gives_the_same_states_for_batches_of_any_shape():
    encoder = BertEncoder(CONFIG, seed=1)
    model = check_same(lambda: EncoderModule(encoder), rows(1, 3), rows(5, 41))
    # Query, key and value are products of their own, and no parts of one that would have to be cut out of it.
    shapes = [
        tensor["shape_signature"].tolist() for tensor in tf.lite.Interpreter(model_content=model).get_tensor_details()
    ]
    assert [CONFIG.hidden_size] * 2 in shapes
    assert not [shape for shape in shapes if 3 * CONFIG.hidden_size in shape]


@pytest.mark.parametrize(
    "task, labels, inputs, shape",
    [("sst-2", ("0", "1"), ["text"], (4, 9)), ("codah", (), ["question", "choices"], (3, 4, 9))],
    ids=["classes", "choices"],
)
def test_fine_tuned_heads_give_the_same_answers(task, labels, inputs, shape):
    run = untrained(task, labels)
    check_same(lambda: IdsModule(finetuned_export._module(run, inputs, 4)), rows(*shape))


def test_what_has_no_place_in_litert_is_refused_in_a_line():
    class Words(tf.Module):
        def __init__(self):
            super().__init__()
            self.exported = {
                "serving_default": tf.function(
                    lambda text: {"length": tf.strings.length(text)},
                    input_signature=[tf.TensorSpec([None], tf.string, name="text")],
                )
            }

    with pytest.raises(
        UserError, match=r"--litert: this model cannot be converted \(tf.StringLength\); leave the flag out"
    ):
        litert_export.convert(Words)

"""LiteRT models give the same answers as the signatures that read rows of ids."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.export import finetuned_export, litert_export
from keras_bert_app.export.encoder_signatures import EncoderModule
from keras_bert_app.export.finetuned_export import IdsModule
from keras_bert_app.modeling.encoder import BertEncoder
from keras_bert_app.modeling.execution import PLAIN
from keras_bert_app.serving.litert_model import LiteRTModel
from tests.export.untrained import CONFIG, untrained


def rows(*shape):
    generator = np.random.default_rng(0)
    ids = generator.integers(0, CONFIG.vocab_size, shape)
    return {"input_word_ids": ids, "input_mask": ids * 0 + 1, "input_type_ids": ids % 2}


def check_same(make_module, *inputs):
    """Checks that the converted module gives the same answers as the module. Returns the converted model."""
    model = litert_export.convert(make_module)
    run, function = LiteRTModel(model), make_module(PLAIN).exported["serving_default"]
    for batch in inputs:
        batch = {name: values.astype(np.int32) for name, values in batch.items()}
        expected = function(**{name: tf.constant(values) for name, values in batch.items()})
        outputs = run(**batch)
        assert outputs.keys() == expected.keys()
        for name, values in expected.items():
            if values.dtype == tf.string:
                assert outputs[name].tolist() == values.numpy().tolist(), name
            else:
                np.testing.assert_allclose(outputs[name], values, atol=1e-5, err_msg=name)
    return model


def test_the_encoder_gives_the_same_states_for_batches_of_any_shape():
    encoder = BertEncoder(CONFIG, seed=1)
    model = check_same(lambda execution: EncoderModule(encoder, execution=execution), rows(1, 3), rows(5, 41))
    # Query, key and value are separate products, so that no runtime must split one tensor.
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
    check_same(lambda execution: IdsModule(finetuned_export._module(run, inputs, 4, execution)), rows(*shape))


def test_a_model_with_an_op_that_litert_lacks_is_refused_in_one_line():
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
        litert_export.convert(lambda execution: Words())

"""Tests the report and the errors of a load, which are the same for every layout."""

import dataclasses
import json

import numpy as np
import pytest

from keras_bert_app.config.weight_shapes import shapes
from keras_bert_app.errors import UserError
from keras_bert_app.interop import own_layout
from keras_bert_app.interop.load import with_vocabulary
from keras_bert_app.interop.weights import checked, join_attention, split_attention
from keras_bert_app.modeling.pretrainer import BertPretrainer
from pipelines.data_error import DataError
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES
from tests.interop.conftest import CONFIGS, make_weights


def test_the_paths_and_shapes_are_those_of_the_model(config):
    for each in (config, config.replace(tie_word_embeddings=False)):
        model_shapes = {variable.path: tuple(variable.shape) for variable in BertPretrainer(each).weights}
        assert model_shapes == shapes(each)


def test_the_report_names_a_head_that_learned_the_order_of_sentences(tmp_path):
    own_layout.write(make_weights(CONFIGS["one_layer"]), str(tmp_path / "run"))
    path = tmp_path / "run" / "config.json"
    values = json.loads(path.read_text())
    for objective, count in (("nsp", 0), ("sop", 1)):
        path.write_text(json.dumps({**values, "pretraining": {"sentence_objective": objective}}))
        _, lines = checked(own_layout.read(str(tmp_path / "run")))
        assert sum("this head learned the order of two texts" in line for line in lines) == count


def test_splitting_and_joining_query_key_and_value_is_bit_for_bit(config, random_weights):
    tensors = random_weights(config).tensors
    split = split_attention(tensors)
    hidden = config.hidden_size
    assert split["encoder/layer_0/attention/key/kernel"].shape == (hidden, hidden)
    np.testing.assert_array_equal(
        split["encoder/layer_0/attention/key/bias"],
        tensors["encoder/layer_0/attention/query_key_value/bias"][hidden : 2 * hidden],
    )
    assert split_attention(shapes(config)) == {path: tensor.shape for path, tensor in split.items()}
    joined = join_attention(split)
    assert joined.keys() == tensors.keys()
    for path, tensor in tensors.items():
        np.testing.assert_array_equal(joined[path], tensor)


def test_a_query_is_not_joined_if_its_key_is_missing_or_has_another_shape(random_weights):
    split = split_attention(random_weights(CONFIGS["one_layer"]).tensors)
    path = "encoder/layer_0/attention/key/kernel"
    for changed in ({**split, path: split[path][:-1]}, {name: value for name, value in split.items() if name != path}):
        joined = join_attention(changed)
        assert "encoder/layer_0/attention/query/kernel" in joined
        assert "encoder/layer_0/attention/query_key_value/kernel" not in joined


def test_one_error_names_every_fault_with_the_expected_and_the_found_shape(random_weights):
    weights = random_weights(CONFIGS["one_layer"])
    weights.tensors["encoder/layer_0/output/bias"] = np.zeros(5, np.float32)
    weights.tensors["encoder/layer_7/output/bias"] = np.zeros(22, np.float32)
    del weights.tensors["masked_lm/output_bias"]
    weights = dataclasses.replace(weights, unexpected={"bert/memory": (3, 4)})
    with pytest.raises(UserError) as refusal:
        checked(weights)
    for fault in (
        r"encoder/layer_0/output/bias: expected [22], found [5]",
        "encoder/layer_7/output/bias [22]: unexpected",
        "masked_lm/output_bias: missing (--allow_missing=masked_lm",
        "bert/memory [3, 4]: unexpected",
    ):
        assert fault in str(refusal.value)
    with pytest.raises(UserError, match=r"expected \[22\], found \[5\]"):
        checked(weights, ("masked_lm",), allow_unexpected=True)


def test_an_incomplete_part_that_may_be_missing_is_left_out_completely_and_reported(random_weights):
    weights = random_weights(CONFIGS["one_layer"])
    del weights.tensors["masked_lm/output_bias"]
    loaded, lines = checked(dataclasses.replace(weights, unused={"adam": "2 slots"}), ("masked_lm",))
    assert loaded.parts() == ("encoder", "pooler", "next_sentence")
    assert not [path for path in loaded.tensors if path.startswith("masked_lm")]
    assert "21 tensors match (encoder 17, pooler 2, next_sentence 2)" in lines[0]
    assert any("missing: masked_lm" in line for line in lines) and any("adam (2 slots)" in line for line in lines)


def test_a_vocabulary_of_another_model_is_refused_and_an_added_vocabulary_decides_the_casing(random_weights):
    weights = random_weights(CONFIGS["one_layer"])
    with pytest.raises(UserError, match="vocab.txt: 15 entries for a table of 13 rows"):
        checked(dataclasses.replace(weights, vocabulary=weights.vocabulary + b"q\nr\n"))
    assert checked(dataclasses.replace(weights, vocabulary=weights.vocabulary.rstrip(b"\n")))
    bare = dataclasses.replace(weights, vocabulary=None)
    cased = b"".join(b"%s\n" % piece.encode() for piece in (*SPECIAL_PIECES, *"ABCDabcd"))
    assert bare.config.do_lower_case and not with_vocabulary(bare, cased).config.do_lower_case
    with pytest.raises(DataError, match="is cased"):
        with_vocabulary(weights, cased)  # These weights have a vocabulary already, so their casing stays.
    with pytest.raises(DataError, match="is cased"):
        with_vocabulary(dataclasses.replace(bare, says_casing=True), cased)


def test_the_encoder_may_never_be_missing(random_weights):
    weights = random_weights(CONFIGS["one_layer"])
    del weights.tensors["encoder/layer_0/output/bias"]
    with pytest.raises(UserError, match="--allow_missing=encoder is none of"):
        checked(weights, ("encoder",))
    with pytest.raises(UserError, match="encoder/layer_0/output/bias: missing$"):
        checked(weights)

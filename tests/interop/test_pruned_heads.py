"""Tests that a pruned model computes the same as the whole model with gates of 0 on the pruned heads."""

import json
import os

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.weight_shapes import shapes
from keras_bert_app.errors import UserError
from keras_bert_app.interop import load, surgery
from keras_bert_app.interop.parity import probe_batch
from keras_bert_app.modeling.encoder import gated_heads
from tests.interop.conftest import CONFIGS, make_weights

HEADS = {0: [1], 2: [2, 0]}
GATES = [[1.0, 0.0, 1.0], [1.0, 1.0, 1.0], [0.0, 1.0, 0.0]]


@pytest.fixture(scope="module")
def whole():
    return make_weights(CONFIGS["three_layers"])


def batch_of(config):
    return {name: tf.constant(values) for name, values in probe_batch(config).items()}


def test_a_pruned_model_computes_the_same_as_the_whole_model_with_closed_heads(whole):
    pruned, line = surgery.prune_heads(whole, HEADS)
    assert line == "heads 9 -> 6: by layer 2, 3, 1"
    batch, model = batch_of(whole.config), load.build_model(whole)
    with gated_heads(model.encoder, [tf.constant(gates) for gates in GATES]):
        closed_outputs = model(batch)
    pruned_outputs, open_outputs = load.build_model(pruned)(batch), model(batch)
    for name in ("sequence_output", "pooled_output", "mlm_logits", "nsp_logits"):
        np.testing.assert_allclose(pruned_outputs[name], closed_outputs[name], atol=1e-5, err_msg=name)
        # The gates change the outputs, and all heads are open after the block.
        assert np.abs(pruned_outputs[name] - open_outputs[name]).max() > 1e-3


def test_closing_a_head_equals_zeros_in_its_rows_of_the_output_kernel(whole):
    model, batch = load.build_model(whole), batch_of(whole.config)
    with gated_heads(model.encoder, [tf.constant(gates) for gates in GATES]):
        closed = model(batch)["sequence_output"]
    for layer, heads in HEADS.items():
        kernel = whole.tensors[f"encoder/layer_{layer}/attention/output/kernel"].copy()
        for head in heads:
            kernel[11 * head : 11 * (head + 1)] = 0.0  # A head has 33 / 3 rows.
        model.encoder.transformer_layers[layer].attention.output_projection.kernel.assign(kernel)
    np.testing.assert_allclose(model(batch)["sequence_output"], closed, atol=1e-6)


def test_each_row_has_its_own_gates_and_an_error_removes_them(whole):
    model, batch = load.build_model(whole), batch_of(whole.config)
    before = model(batch)["sequence_output"]
    by_row = [tf.constant([gates, [1.0] * 3, gates]) for gates in GATES]
    with gated_heads(model.encoder, by_row):
        gated = model(batch)["sequence_output"]
    np.testing.assert_array_equal(gated[1], before[1])
    assert np.abs(gated[0] - before[0]).max() > 1e-3
    with pytest.raises(ZeroDivisionError), gated_heads(model.encoder, by_row):
        raise ZeroDivisionError
    np.testing.assert_array_equal(model(batch)["sequence_output"], before)


def test_the_columns_and_rows_of_the_heads_that_stay_are_kept_bit_for_bit(whole):
    pruned, _ = surgery.prune_heads(whole, HEADS)
    assert {path: tensor.shape for path, tensor in pruned.tensors.items()} == shapes(pruned.config)
    # Layer 2 keeps head 1. Its columns are 11 to 21 for the query, 44 to 54 for the key, 77 to 87 for the value.
    columns = [*range(11, 22), *range(44, 55), *range(77, 88)]
    attention = "encoder/layer_2/attention"
    np.testing.assert_array_equal(
        pruned.tensors[f"{attention}/query_key_value/kernel"],
        whole.tensors[f"{attention}/query_key_value/kernel"][:, columns],
    )
    np.testing.assert_array_equal(
        pruned.tensors[f"{attention}/query_key_value/bias"], whole.tensors[f"{attention}/query_key_value/bias"][columns]
    )
    np.testing.assert_array_equal(
        pruned.tensors[f"{attention}/output/kernel"], whole.tensors[f"{attention}/output/kernel"][11:22]
    )
    changed = {path for path in whole.tensors if pruned.tensors[path].shape != whole.tensors[path].shape}
    assert len(changed) == 6 and all("layer_0/attention/" in path or "layer_2/attention/" in path for path in changed)


def test_a_pruned_model_numbers_its_heads_from_0_and_kept_layers_keep_their_heads(whole):
    once, _ = surgery.prune_heads(whole, HEADS)
    twice, _ = surgery.prune_heads(once, {0: [1]})  # This is head 2 of the whole model.
    at_once, _ = surgery.prune_heads(whole, {**HEADS, 0: [1, 2]})
    assert twice.config == at_once.config and twice.config.head_counts == (1, 3, 1)
    for path, tensor in at_once.tensors.items():
        np.testing.assert_array_equal(twice.tensors[path], tensor)
    fewer, _ = surgery.keep_layers(once, [1, 2])
    assert fewer.config.num_heads_by_layer == (3, 1)


@pytest.mark.parametrize(
    "heads, message",
    [
        ({3: [0]}, "no layer 3; expected 0 to 2"),
        ({1: [0, 3]}, "layer 1 has no head 3; expected 0 to 2"),
        ({1: [2, 0, 1]}, "layer 1 would have none left of 3; keep at least one"),
    ],
)
def test_heads_that_do_not_exist_and_all_heads_of_a_layer_are_refused(whole, heads, message):
    with pytest.raises(UserError, match=message):
        surgery.prune_heads(whole, heads)


@pytest.mark.parametrize("layout", ["huggingface", "google_tf1", "model_garden", "keras_hub"])
def test_layouts_that_cannot_store_a_pruned_model_refuse_it(whole, layout, tmp_path):
    # KerasHub supports only the tanh form of gelu.
    config = whole.config.replace(hidden_act="gelu_tanh")
    pruned, _ = surgery.prune_heads(make_weights(config), {1: [0]})
    with pytest.raises(UserError, match=r"layer_1.*pruned.*--to=workdir"):
        load.write_weights(pruned, layout, str(tmp_path / "out"))
    assert os.listdir(tmp_path) == []


def test_a_work_directory_holds_a_pruned_model(whole, tmp_path):
    pruned, _ = surgery.prune_heads(whole, HEADS)
    load.write_weights(pruned, "workdir", str(tmp_path / "run"))
    batch, model = batch_of(whole.config), load.load_pretrained(tmp_path / "run")
    assert model.config.head_counts == (2, 3, 1)
    np.testing.assert_array_equal(model(batch)["mlm_logits"], load.build_model(pruned)(batch)["mlm_logits"])


def test_num_heads_by_layer_is_written_only_for_a_pruned_model(whole):
    assert "num_heads_by_layer" not in whole.config.to_dict()
    config = surgery.prune_heads(whole, HEADS)[0].config
    values = json.loads(json.dumps(config.to_dict()))
    assert values["num_heads_by_layer"] == [2, 3, 1] and BertConfig.from_dict(values) == config
    assert config.replace(num_heads_by_layer=["3", "3", "3"]) == whole.config  # A flag gives strings.


@pytest.mark.parametrize(
    "value, message",
    [
        ([2, 3], "expected a number from 1 to 3 for each of 3 layers"),
        ([2, 0, 3], "expected a number from 1 to 3"),
        ([4, 3, 3], "expected a number from 1 to 3"),
        ([2.0, 3, 3], "expected a list of numbers"),
        (7, "expected a list of numbers"),
    ],
)
def test_impossible_numbers_of_heads_are_refused(whole, value, message):
    with pytest.raises(UserError, match=f"num_heads_by_layer.*{message}"):
        BertConfig.from_dict({**whole.config.to_dict(), "num_heads_by_layer": value})

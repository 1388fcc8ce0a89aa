"""Configurations: each library's file keeps its own meaning, and errors name the fault."""

import dataclasses
import json

import pytest

from keras_bert_app import BertConfig
from keras_bert_app.config import published_keys
from keras_bert_app.config.bert_config import SIZES
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.errors import UserError

GOOGLE = {
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 768,
    "initializer_range": 0.02,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "type_vocab_size": 2,
    "vocab_size": 30522,
}


def test_gelu_means_tanh_in_google_s_file_and_exact_in_hugging_face_s():
    assert BertConfig.from_dict(GOOGLE).hidden_act == "gelu_tanh"
    assert BertConfig.from_dict({**GOOGLE, "model_type": "bert"}).hidden_act == "gelu_exact"
    assert BertConfig.from_dict({**GOOGLE, "layer_norm_eps": 1e-12}).hidden_act == "gelu_exact"
    for name in ("gelu_new", "gelu_pytorch_tanh"):
        assert BertConfig.from_dict({**GOOGLE, "model_type": "bert", "hidden_act": name}).hidden_act == "gelu_tanh"
    with pytest.raises(UserError, match="gelu_tanh .Google's. or gelu_exact"):
        BertConfig(hidden_act="gelu")


@pytest.mark.parametrize("extra", [{"model_type": "bert"}, {"output_past": True}, {"layer_norm_eps": 1e-12}])
def test_the_layout_of_a_file_decides_which_gelu_it_means_and_an_extra_key_does_not(extra, tmp_path):
    assert BertConfig.from_dict({**GOOGLE, **extra}, published_keys.GOOGLE).hidden_act == "gelu_tanh"
    assert BertConfig.from_dict(GOOGLE, published_keys.HUGGINGFACE).hidden_act == "gelu_exact"
    path, lines = tmp_path / "bert_config.json", []
    path.write_text(json.dumps({**GOOGLE, **extra}))
    assert BertConfig.from_json_file(str(path), lines.append).hidden_act == "gelu_tanh"
    assert lines == [
        f"{path}: hidden_act gelu is gelu_tanh, Google's tanh form, as in every model of layout google_tf1; its key "
        f"{next(iter(extra))!r} changes nothing"
    ]


def test_a_line_says_which_gelu_the_keys_imply_if_the_layout_is_not_known(tmp_path):
    path, lines = tmp_path / "mine.json", []
    for values in (GOOGLE, {**GOOGLE, "model_type": "bert"}, {**GOOGLE, "hidden_act": "gelu_new"}):
        path.write_text(json.dumps(values))
        BertConfig.from_json_file(str(path), lines.append)
    assert [line.removeprefix(f"{path}: hidden_act gelu is ") for line in lines] == [
        "gelu_tanh, Google's tanh form, since no key is from Hugging Face's library",
        "gelu_exact, Hugging Face's exact form, as its key 'model_type' says",
    ]


@pytest.mark.parametrize("hidden_act", ["gelu_exact", "gelu_tanh", "relu"])
def test_a_config_survives_the_round_trip_through_json(tmp_path, hidden_act):
    config = BertConfig.of_size("mini", vocab_size=997, hidden_act=hidden_act, do_lower_case=False)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config.to_dict()))
    assert BertConfig.from_json_file(path) == config


def test_published_sizes_are_those_of_the_paper_and_its_miniatures():
    assert SIZES["base"] == (12, 768, 12) and SIZES["tiny"] == (2, 128, 2)
    assert BertConfig.of_size("large").intermediate_size == 4096


@pytest.mark.parametrize(
    "values, message",
    [
        ({"hiden_size": 5}, "did you mean 'hidden_size'"),
        ({"model_type": "distilbert"}, "expected 'bert'"),
        ({"position_embedding_type": "relative_key"}, "expected 'absolute'"),
        ({"hidden_size": 770}, "not a multiple of num_attention_heads 12"),
        ({"hidden_act": "gelu_tan"}, "did you mean 'gelu_tanh'"),
        ({"hidden_dropout_prob": 1.0}, "0 <= p < 1"),
        ({"num_hidden_layers": -1}, "expected 0 to"),
        ({"vocab_size": "many"}, "expected int"),
    ],
)
def test_a_fault_is_named_with_its_key_and_what_was_expected(values, message):
    with pytest.raises(UserError, match=message):
        BertConfig.from_dict({**GOOGLE, **values})


def test_a_file_without_a_json_object_is_refused_with_its_name(tmp_path):
    for content in ("", "[1]", "{"):
        path = tmp_path / "config.json"
        path.write_text(content)
        with pytest.raises(UserError, match="config.json"):
            BertConfig.from_json_file(path)


def test_resolved_computes_the_dependent_values_and_a_second_call_changes_nothing():
    run = PretrainingConfig(max_seq_length=128, num_train_steps=1000).resolved()
    assert (run.max_predictions_per_seq, run.num_warmup_steps) == (20, 100)
    assert run.resolved() == run and PretrainingConfig.from_dict(json.loads(json.dumps(run.to_dict()))) == run


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"precision": "bfloat61"}, "did you mean 'bfloat16'"),
        ({"strategy": "everything"}, "auto, one_device"),
        ({"masked_lm_prob": 1.5}, "less than 1.0"),
        ({"global_batch_size": 0}, "1 or more"),
    ],
)
def test_a_wrong_value_of_a_run_is_refused_with_what_was_expected(changes, message):
    with pytest.raises(UserError, match=message):
        PretrainingConfig(**changes)


def test_a_run_with_two_segments_needs_a_model_with_two_segment_types():
    run = PretrainingConfig(max_seq_length=128).resolved()
    with pytest.raises(
        UserError, match="--sentence_objective=nsp: has two segments, but the model's type_vocab_size is 1"
    ):
        run.checked_against(BertConfig(type_vocab_size=1))
    dataclasses.replace(run, sentence_objective="none").checked_against(BertConfig(type_vocab_size=1))


def test_rows_longer_than_the_positions_are_refused():
    run = PretrainingConfig(max_seq_length=513).resolved()
    with pytest.raises(UserError, match="max_position_embeddings 512"):
        run.checked_against(BertConfig())
    with pytest.raises(UserError, match="max_predictions_per_seq=200"):
        dataclasses.replace(run, max_seq_length=64, max_predictions_per_seq=200).checked_against(BertConfig())

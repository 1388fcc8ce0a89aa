"""The reloaded encoder and preprocessor through TF-Hub's interface."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.export.encoder_signatures import EncoderModule
from keras_bert_app.export.preprocessor import PreprocessorModule
from keras_bert_app.interop import load
from tests.export.small_model import PIECES, TEXTS, TOKENIZER, WEIGHTS, rows_of

NAMES = ("input_word_ids", "input_mask", "input_type_ids")


@pytest.fixture(scope="module")
def model():
    return load.build_model(WEIGHTS)


@pytest.fixture(scope="module")
def encoder(model, tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("exports") / "encoder")
    module = EncoderModule(model.encoder)
    tf.saved_model.save(module, directory, signatures=module.exported)
    return tf.saved_model.load(directory)


@pytest.fixture(scope="module")
def preprocessor(tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("exports") / "preprocessor")
    module = PreprocessorModule(TOKENIZER, seq_length=13)
    tf.saved_model.save(module, directory, signatures=module.exported)
    return tf.saved_model.load(directory)


def test_text_goes_through_preprocessor_and_encoder_to_the_live_models_states(model, preprocessor, encoder):
    inputs = preprocessor(tf.constant(TEXTS))
    assert all(inputs[name].shape == (5, 13) and inputs[name].dtype == tf.int32 for name in NAMES)
    expected = [row + [0] * (13 - len(row)) for row in rows_of(TEXTS, 13)]
    assert inputs["input_word_ids"].numpy().tolist() == expected
    assert inputs["input_mask"].numpy().sum(axis=1).tolist() == [len(row) for row in rows_of(TEXTS, 13)]
    outputs, live = encoder(inputs), model.encoder(inputs)
    assert set(outputs) == {"sequence_output", "pooled_output", "encoder_outputs"}
    assert len(outputs["encoder_outputs"]) == 3
    for actual, wanted in zip(
        tf.nest.flatten(outputs), tf.nest.flatten({name: live[name] for name in outputs}), strict=True
    ):
        np.testing.assert_allclose(actual, wanted, atol=1e-6)
    served = encoder.signatures["serving_default"](**inputs)
    np.testing.assert_array_equal(served["encoder_outputs_1"], outputs["encoder_outputs"][1])
    served = preprocessor.signatures["serving_default"](text=tf.constant(TEXTS))
    assert served["input_word_ids"].numpy().tolist() == expected


def test_the_loaded_encoder_can_be_trained_on(encoder, preprocessor):
    with tf.GradientTape() as tape:
        outputs = encoder(preprocessor(tf.constant(["a b"])))
        loss = tf.reduce_sum(outputs["pooled_output"])
    gradients = tape.gradient(loss, encoder.trainable_variables)
    assert len(gradients) == 5 + 3 * 12 + 2 and None not in gradients
    assert [id(variable) for variable in encoder.variables] == [
        id(variable) for variable in encoder.trainable_variables
    ]


def test_tokenize_gives_words_of_pieces(preprocessor):
    ids = preprocessor.tokenize(tf.constant(["abh c.a", "", "zz ab"]))
    pieces = [[[PIECES[i] for i in word] for word in text] for text in ids.to_list()]
    assert pieces == [[["a", "##b", "##h"], ["c"], ["."], ["a"]], [], [["[UNK]"], ["a", "##b"]]]
    values = {name: int(value) for name, value in preprocessor.tokenize.get_special_tokens_dict().items()}
    assert values == {
        "padding_id": 0,
        "start_of_sequence_id": 2,
        "end_of_segment_id": 3,
        "mask_id": 4,
        "vocab_size": 19,
    }


@pytest.mark.parametrize("has_words", [True, False])
def test_segments_are_packed_and_the_longer_one_loses_its_end(preprocessor, has_words):
    segments = [preprocessor.tokenize(tf.constant(texts)) for texts in (["ab c", "a b c d e f g"], ["d", "h g f e d"])]
    if not has_words:
        segments = [segment.merge_dims(1, 2) for segment in segments]
    single = preprocessor.bert_pack_inputs(segments[:1], seq_length=6)
    assert shown(single["input_word_ids"]) == ["[CLS] a ##b c [SEP] [PAD]", "[CLS] a b c d [SEP]"]
    assert single["input_type_ids"].numpy().sum() == 0
    pair = preprocessor.bert_pack_inputs(segments, seq_length=tf.constant(10))
    assert shown(pair["input_word_ids"]) == [
        "[CLS] a ##b c [SEP] d [SEP] [PAD] [PAD] [PAD]",
        "[CLS] a b c d [SEP] h g f [SEP]",
    ]
    assert pair["input_type_ids"].numpy().tolist() == [[0, 0, 0, 0, 0, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0, 1, 1, 1, 1]]
    assert pair["input_mask"].numpy().sum(axis=1).tolist() == [7, 10]
    assert preprocessor.bert_pack_inputs(segments)["input_mask"].shape == (2, 13)


def shown(rows):
    return [" ".join(PIECES[i] for i in row) for row in rows.numpy()]


@pytest.mark.parametrize("texts", [[], ["x" * 1_000_000], [b"\xff\xfe"]], ids=["empty", "1 MB", "bad utf-8"])
def test_odd_batches_are_preprocessed(preprocessor, texts):
    assert preprocessor(tf.constant(texts, tf.string))["input_mask"].shape == (len(texts), 13)
    assert preprocessor.tokenize(tf.constant(texts, tf.string)).nrows() == len(texts)

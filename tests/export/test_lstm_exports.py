"""Exports of LSTMs. Expected values come from whole passes in this process."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.config.lstm_config import LstmConfig
from keras_bert_app.errors import UserError
from keras_bert_app.export import litert_export, pretrained_export, saved_models, sentence_vectors
from keras_bert_app.export.continuation import Continuation
from keras_bert_app.export.encoder_signatures import EncoderModule
from keras_bert_app.export.sentence_vectors import Pooling
from keras_bert_app.interop import load
from keras_bert_app.interop.weights import Weights
from keras_bert_app.modeling.architectures import make_pretrainer
from tests.export.small_model import TOKENIZER, WEIGHTS
from tests.modeling.test_lstm_language_model import NO_DROPOUT, randomized

SIZES = {"vocab_size": WEIGHTS.config.vocab_size, "max_position_embeddings": 23, "intermediate_size": 9, **NO_DROPOUT}
AWD = LstmConfig.of_size("awd_lstm_tiny", hidden_size=7, **SIZES)
ELMO = LstmConfig.of_size("elmo_tiny", hidden_size=14, character_filters=((1, 3), (2, 5)), **SIZES)


def weights_of(config):
    model = randomized(make_pretrainer(config), seed=4)
    tensors = {variable.path: np.asarray(variable.value) for variable in model.weights}
    return model, Weights(config, tensors, WEIGHTS.vocabulary, origin="random")


def exported(config, directory):
    model, weights = weights_of(config)
    load.write_weights(weights, "workdir", str(directory / "model"))
    return model, pretrained_export.export_pretrained(str(directory / "model"), str(directory / "lstm"))


def row(ids):
    ids = np.array([ids], np.int32)
    return {"input_word_ids": ids, "input_mask": ids * 0 + 1, "input_type_ids": ids * 0}


@pytest.mark.slow
def test_the_export_of_one_direction_continues_and_scores_texts(tmp_path):
    model, written = exported(AWD, tmp_path)
    assert [path.removeprefix(str(tmp_path)) for path in written] == ["/lstm/1", "/lstm_ids/1", "/lstm_preprocess/1"]
    signatures = saved_models.load(str(tmp_path / "lstm")).signatures
    texts, expected = ["a b", "d e f g h", ""], []
    for text in texts:
        ids = [TOKENIZER.cls_id, *TOKENIZER.tokenize([text]).to_list()[0]]
        start = len(ids)
        while len(ids) < start + 6 and ids[-1] != TOKENIZER.sep_id:
            logits = model(row(ids))["lm_logits"][0, -1].numpy()
            logits[[*TOKENIZER.never_written, *range(TOKENIZER.vocab_size, len(logits))]] = -1e9
            ids.append(int(logits.argmax()))
        expected.append([TOKENIZER.vocabulary[piece] for piece in ids[start:] if piece != TOKENIZER.sep_id])
    numbers = {"max_new_tokens": 6, "seed": 0, "temperature": 0.0, "top_k": 0, "top_p": 1.0, "repetition_penalty": 1.0}
    arguments = {name: tf.fill([3], value) for name, value in numbers.items()}
    found = signatures["generate"](text=tf.constant(texts), **arguments)["continuation"].numpy()
    assert [text.decode().replace(" ", "") for text in found] == ["".join(each).replace("##", "") for each in expected]
    assert sum(map(len, expected)) > 6
    outputs = signatures["log_likelihood"](text=tf.constant(["d e f"]))
    pieces = TOKENIZER.tokenize(["d e f"]).to_list()[0]
    log_p = tf.nn.log_softmax(model(row([TOKENIZER.cls_id, *pieces]))["lm_logits"][0, :, : TOKENIZER.vocab_size])
    np.testing.assert_allclose(outputs["score"][0], sum(log_p[i, piece] for i, piece in enumerate(pieces)), rtol=1e-4)


@pytest.mark.slow
def test_both_directions_have_no_raw_export_and_the_layers_over_ids(tmp_path):
    model, written = exported(ELMO, tmp_path)
    assert written[0] is None and [path.removeprefix(str(tmp_path)) for path in written[1:]] == [
        "/lstm_ids/1",
        "/lstm_preprocess/1",
    ]
    loaded, inputs = saved_models.load(str(tmp_path / "lstm_ids")), row([2, 7, 9, 3])
    outputs = loaded.signatures["serving_default"](**{name: tf.constant(value) for name, value in inputs.items()})
    expected = model.encoder(inputs)["encoder_outputs"]
    for number, layer in enumerate(expected):
        np.testing.assert_allclose(outputs[f"encoder_outputs_{number}"], layer, atol=1e-5)
    assert len(loaded.trainable_variables) == len(model.encoder.trainable_weights)
    with pytest.raises(UserError, match="LSTMs of both directions cannot continue a text"):
        Continuation(model, TOKENIZER, 23)


def test_sentence_vectors_are_means_of_the_states_and_never_that_of_cls(tmp_path):
    model, weights = weights_of(ELMO)
    load.write_weights(weights, "workdir", str(tmp_path / "model"))
    module, _ = sentence_vectors.embedding_module(str(tmp_path / "model"), Pooling("mean", layer=-1, normalize=False))
    pieces = TOKENIZER.tokenize(["a b d"]).to_list()[0]
    states = model.encoder(row([TOKENIZER.cls_id, *pieces, TOKENIZER.sep_id]))["sequence_output"][0]
    found = module.exported["serving_default"](tf.constant(["a b d"]))
    vector = next(iter(found.values())) if "embeddings" not in found else found["embeddings"]
    means = [np.mean(states[first:last], axis=0) for first, last in ((0, None), (1, -1))]
    assert any(np.allclose(vector[0], mean, atol=1e-5) for mean in means)
    for config, reason in ((ELMO, "does not see the text from left to right"), (AWD, "sees no text")):
        _, weights = weights_of(config)
        load.write_weights(weights, "workdir", str(tmp_path / reason))
        with pytest.raises(
            UserError, match=f"--pooling=cls: in a lstm_lm \\[CLS\\] {reason}; give --pooling=mean or max"
        ):
            sentence_vectors.embedding_module(str(tmp_path / reason), Pooling("cls"))


def test_litert_refuses_the_loop_of_an_lstm():
    encoder = weights_of(AWD)[0].encoder
    with pytest.raises(
        UserError, match="LiteRT cannot run the converted model, such as one with an LSTM or a CRF; leave"
    ):
        litert_export.convert(lambda execution: EncoderModule(encoder, [2, 7, 3], execution=execution))


def test_an_lstm_cannot_be_written_in_the_layout_of_another_library(tmp_path):
    _, weights = weights_of(AWD)
    with pytest.raises(UserError, match="is an LSTM, which huggingface cannot store; write --to=workdir"):
        load.write_weights(dataclasses.replace(weights), "huggingface", str(tmp_path / "out"))

"""Analyses of vectors run on a GPT and on LSTMs, also on layers of different widths."""

import functools

import numpy as np
import pytest

from keras_bert_app.analysis.encoded_sentences import encode
from keras_bert_app.analysis.encoders import Subject
from keras_bert_app.analysis.options import Options
from keras_bert_app.analysis.studies import edge_probing, structural_probe, word_senses
from keras_bert_app.config.lstm_config import LstmConfig
from keras_bert_app.modeling.architectures import make_encoder
from pipelines.wordpiece.tokenizer import BertTokenizer
from tests.analysis import toy
from tests.analysis.studies.test_probes import TREES
from tests.analysis.studies.test_senses import corpus_file
from tests.analysis.tiny_subject import VOCABULARY, tiny_subject

_SIZES = {"vocab_size": len(VOCABULARY), "hidden_size": 14, "intermediate_size": 19, "max_position_embeddings": 23}
CONFIGS = {
    "gpt": tiny_subject().config.replace(architecture="gpt", num_hidden_layers=2),
    "elmo": LstmConfig.of_size("elmo_tiny", character_filters=((1, 3), (2, 5)), **_SIZES),
    "awd": LstmConfig.of_size("awd_lstm_tiny", **_SIZES),
}


@functools.cache  # the first call of an encoder takes seconds
def subject(name):
    vocabulary = "".join(f"{piece}\n" for piece in VOCABULARY).encode()
    return Subject(name, make_encoder(CONFIGS[name], seed=3), BertTokenizer(vocabulary, True))


@pytest.fixture
def options(tmp_path):
    for name in ("train", "dev"):
        (tmp_path / f"{name}.conllu").write_text(toy.conllu(TREES))
    files = {f"{name}_file": str(tmp_path / f"{name}.conllu") for name in ("train", "dev")}
    return Options(num_seeds=1, input_file=corpus_file(tmp_path), words=("bank",), **files)


def test_the_vectors_of_narrower_layers_end_with_zeros():
    (encoded,) = encode(subject("awd"), [["the", "cat", "sat"]])
    assert encoded.states.shape == (3, 5, 19)
    assert not encoded.states[[0, 2], :, 14:].any() and encoded.states[:, :, :14].all() and encoded.states[1].all()


def test_edge_probing_reads_layers_of_different_widths(options):
    findings = edge_probing.run(subject("awd"), options, lambda line: None)
    assert [np.shape(own) for own in findings.values["shares"].values()] == [(1, 3), (1, 3)]


@pytest.mark.slow
def test_a_structural_probe_reads_a_gpt(options):
    findings = structural_probe.run(subject("gpt"), options, lambda line: None)
    assert np.shape(findings.values["trained"]) == (3, 1, 4)


@pytest.mark.slow
def test_the_words_of_an_lstm_have_no_senses_at_layer_0(options):
    findings = word_senses.run(subject("elmo"), options, lambda line: None)
    first, *others = findings.values["scores"]["bank"]["silhouette"]
    assert first is None and None not in others
    assert "At layer 0 all vectors of a word are equal" in findings.remarks[0]

"""Commands and LSTMs: pre-training from flags, and one line where a command knows no LSTM."""

import numpy as np
import pytest

from keras_bert_app.config.lstm_config import LstmConfig
from keras_bert_app.interop import load
from keras_bert_app.interop.weights import Weights
from keras_bert_app.modeling.architectures import make_pretrainer
from tests.cli.test_gpt_commands import assert_refused
from tests.export.small_model import WEIGHTS

CONFIG = LstmConfig.of_size(
    "elmo_tiny",
    vocab_size=WEIGHTS.config.vocab_size,
    hidden_size=14,
    intermediate_size=9,
    character_filters=((1, 3), (2, 5)),
    max_position_embeddings=23,
)


@pytest.fixture(scope="module")
def lstm(tmp_path_factory):
    directory = tmp_path_factory.mktemp("my models")
    tensors = {variable.path: np.asarray(variable.value) for variable in make_pretrainer(CONFIG).weights}
    weights = Weights(CONFIG, tensors, WEIGHTS.vocabulary, origin="random")
    load.write_weights(weights, "workdir", str(directory / "elmo"))
    return directory / "elmo"


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--num_attention_heads=2"], "config key 'num_attention_heads' is 2; an LSTM has none, so leave it out"),
        (["--position_initializer=normal"], "--position_initializer: an LSTM has no positions; leave"),
        (["--layer_norm_eps=0.1"], "--layer_norm_eps: an LSTM has no mask of attention and no LayerNorm; leave"),
        (["--dupe_factor=2"], "--dupe_factor=2: rows that continue each other are the same in all epochs; leave out"),
        (["--language_model=masked"], "--language_model=masked: does not fit a model of architecture lstm_lm"),
        (["--architecture=gpt"], "config architecture 'gpt': an LSTM has other sizes than a Transformer; leave out"),
    ],
)
def test_pretrain_refuses_what_does_not_fit_an_lstm(run, texts, tmp_path, flags, message):
    files = f"--input_files={texts / 'text.txt'}", f"--vocab_file={texts / 'vocab.txt'}"
    flags = ["--language_model=causal", *flags]
    assert_refused(run("pretrain", "--config=awd_lstm_tiny", *flags, *files, f"--workdir={tmp_path / 'run'}"), message)


def test_a_bert_with_the_architecture_of_an_lstm_is_refused(run, texts, tmp_path):
    files = f"--input_files={texts / 'text.txt'}", f"--vocab_file={texts / 'vocab.txt'}"
    done = run("pretrain", "--config=tiny", "--architecture=lstm_lm", *files, f"--workdir={tmp_path / 'run'}")
    assert_refused(done, "config architecture 'lstm_lm': an LSTM has other sizes than a Transformer; leave out")


def test_estimate_refuses_an_lstm(run):
    done = run("estimate", "--config=elmo", "--hardware=a100")
    assert_refused(done, "is a lstm_lm; estimate knows BERT alone, so give a bert")


def test_two_directions_do_not_continue_a_text(run, lstm):
    done = run("generate", f"--workdir={lstm}", "--max_new_tokens=5", "a b")
    assert_refused(done, "LSTMs of both directions cannot continue a text, because one of them reads it from its end")


def test_heads_of_an_lstm_cannot_be_pruned(run, lstm, tmp_path):
    done = run("convert", f"--input={lstm}", "--to=workdir", f"--output={tmp_path / 'out'}", "--prune_heads=0:0")
    assert_refused(done, "is an LSTM, which has no attention heads to prune; give a bert or a gpt")


def test_an_analysis_of_attention_refuses_an_lstm(run, lstm, tmp_path):
    flags = f"--init_checkpoint={lstm}", f"--output_dir={tmp_path / 'out'}"
    done = run("analyze", "--what=attention", "--text=a b", *flags)
    assert_refused(done, "an LSTM has no attention; give a model of architecture bert or gpt")


def test_the_vocabulary_of_an_lstm_is_replaced_with_its_characters(lstm):
    from keras_bert_app.interop import vocabulary_surgery

    weights, _ = load.load_weights(str(lstm))
    pieces = weights.vocabulary.decode().split()
    changed, _ = vocabulary_surgery.replace_vocabulary(weights, "\n".join([*pieces[:5], "zoo", *pieces[5:]]).encode())
    before, after = (each.tensors["encoder/embeddings/characters"] for each in (weights, changed))
    assert after[5, :5].tolist() == [256, *b"zoo", 257] and len(after) == len(pieces) + 1
    bias = "language_model/output_bias"
    assert changed.tensors[bias].shape == (len(pieces) + 1,)
    assert before.shape[1] == after.shape[1] == CONFIG.max_characters

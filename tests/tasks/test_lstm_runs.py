"""Fine-tuning of LSTM language models: ELMo's and ULMFiT's heads, tuning on the texts, and refusals."""

import json
import os

import numpy as np
import pytest

from keras_bert_app.config.lstm_config import LstmConfig
from keras_bert_app.errors import UserError
from keras_bert_app.interop import load
from keras_bert_app.interop.weights import Weights
from keras_bert_app.modeling.architectures import make_pretrainer
from keras_bert_app.modeling.task_head import Head, without_cls
from keras_bert_app.tasks.scoring import FinetunedRun
from tests.tasks.conftest import CONFIG, VOCABULARY, launched, newest, run_on, weights_of

SIZES = {"vocab_size": CONFIG.vocab_size, "max_position_embeddings": CONFIG.max_position_embeddings}
AWD = LstmConfig.of_size("awd_lstm_tiny", hidden_size=14, intermediate_size=24, **SIZES)
ELMO = LstmConfig.of_size(
    "elmo_tiny", hidden_size=24, intermediate_size=17, character_filters=((1, 6), (3, 10)), **SIZES
)


def write_pretrained(config, directory, vocabulary=VOCABULARY):
    model = make_pretrainer(config, seed=5)
    tensors = {variable.path: np.asarray(variable.value) for variable in model.weights}
    load.write_weights(Weights(config, tensors, vocabulary, origin="random"), "workdir", str(directory))
    return str(directory)


@pytest.mark.parametrize(
    "config, pooling",
    [
        (AWD.replace(num_hidden_layers=1), "last"),
        pytest.param(ELMO.replace(character_filters=()), "max", marks=pytest.mark.slow),
    ],
)
def test_an_lstm_learns_a_classification_and_answers_again_from_its_directory(config, pooling, table_dir, tmp_path):
    figures, _ = run_on(tmp_path / "run", table_dir, config, num_train_epochs=8.0, learning_rate=2e-2)
    assert figures["reported"]["score"] > 0.85 and not figures["no_better_than_baseline"]
    with open(tmp_path / "run" / "config.json", encoding="utf-8") as file:
        values = json.load(file)
    assert values["architecture"] == "lstm_lm" and values["head"]["pooling"] == pooling
    (scores, *_) = FinetunedRun(str(tmp_path / "run")).evaluate(os.path.join(table_dir, "dev.tsv"))
    assert scores["accuracy"] > 0.85


def test_the_characters_of_pieces_are_set_in_a_run_from_random_weights_and_stay(table_dir, tmp_path):
    run_on(tmp_path / "run", table_dir, ELMO, num_train_steps=1, layers="scalar_mix", learning_rate=1e-2)
    tensors = weights_of(newest(str(tmp_path / "run")))
    pieces = VOCABULARY.decode().split("\n")
    characters = tensors["encoder/embeddings/characters"][5]
    assert characters[: len(pieces[5]) + 2].tolist() == [256, *pieces[5].encode(), 257]
    assert tensors["scalar_mix/scores"].shape == (3,)


@pytest.mark.slow
def test_both_directions_are_tuned_on_the_texts_of_the_task_first(table_dir, tmp_path):
    pretrained = write_pretrained(ELMO, tmp_path / "lstm")
    wanted = {"data_dir": table_dir, "init_checkpoint": pretrained, "num_train_steps": 1, "mlm_tuning_steps": 2}
    _, output = launched(tmp_path / "run", wanted)
    assert "tuned by 2 steps of bidirectional LM" in output and "from scratch, seed 3: classifier" in output


def test_a_frozen_encoder_keeps_every_weight(table_dir, tmp_path):
    pretrained = write_pretrained(ELMO, tmp_path / "lstm")
    wanted = {"data_dir": table_dir, "init_checkpoint": pretrained, "num_train_steps": 1, "freeze_layers": -1}
    launched(tmp_path / "run", wanted)
    before, after = (weights_of(newest(directory)) for directory in (pretrained, str(tmp_path / "run")))
    changed = [path for path, tensor in after.items() if path not in before or (tensor != before[path]).any()]
    assert sorted(changed) == ["classifier/bias", "classifier/kernel"]


def test_ulmfit_thaws_the_head_first_and_lower_layers_learn_less(table_dir, tmp_path):
    pretrained = write_pretrained(AWD, tmp_path / "lstm")
    wanted = {"data_dir": table_dir, "init_checkpoint": pretrained, "num_train_steps": 6, "pooling": "concat"}
    wanted |= {"gradual_unfreezing": 2, "layer_decay": 1 / 2.6, "learning_rate_schedule": "slanted_triangular"}
    launched(tmp_path / "run", wanted)
    before, after = (weights_of(newest(directory)) for directory in (pretrained, str(tmp_path / "run")))
    changes = [
        max(np.abs(after[path] - before[path]).max() for path in before if part in path)
        for part in ("embeddings", "layer_0", "layer_1")
    ]
    assert changes[0] == 0  # the embeddings would thaw after step 6
    assert changes[2] > 5 * changes[1] > 0  # with one rate for all layers the factor is 3.3


@pytest.mark.parametrize(
    "settings, message",
    [
        (
            {"layers": "scalar_mix"},
            "--layers=scalar_mix: the layers of this LSTM have different widths; give --layers=last",
        ),
        (
            {"task": "rewrite", "text_columns": ("sentence",), "label_column": "label"},
            "--task=rewrite: needs an encoder that reads both sides, but the model is a lstm_lm",
        ),
    ],
)
def test_tasks_that_do_not_fit_are_refused(settings, message, table_dir, tmp_path):
    with pytest.raises(UserError, match=message):
        run_on(tmp_path / "run", table_dir, AWD, num_train_steps=1, **settings)


def test_layers_of_different_widths_cannot_be_left_out(table_dir, tmp_path):
    pretrained = write_pretrained(AWD, tmp_path / "lstm")
    wanted = {"data_dir": table_dir, "init_checkpoint": pretrained, "num_train_steps": 1, "encoder_layers": 1}
    with pytest.raises(UserError, match="its LSTM layers have different widths, so none can be left out; keep all 2"):
        launched(tmp_path / "run", wanted)


@pytest.mark.parametrize("pooling, expected", [("cls", "max"), ("concat", "concat_last"), ("mean", "mean")])
def test_a_head_on_both_directions_does_not_read_cls(pooling, expected):
    assert without_cls(Head("text", 2, pooling=pooling), reads_both_sides=True).pooling == expected
    assert without_cls(Head("tokens", 2), reads_both_sides=True) == Head("tokens", 2)

"""Fine-tuning of a GPT: its head reads the last token, and its language model can be tuned on the texts first."""

import json
import os

import numpy as np
import pytest

from keras_bert_app.errors import UserError
from keras_bert_app.interop import load
from keras_bert_app.interop.weights import Weights
from keras_bert_app.modeling.architectures import make_pretrainer
from keras_bert_app.tasks.scoring import FinetunedRun
from tests.tasks.conftest import CONFIG, VOCABULARY, at_start, launched, newest, run_on, weights_of

GPT = CONFIG.replace(architecture="gpt")


@pytest.fixture
def pretrained(tmp_path):
    model = make_pretrainer(GPT, seed=5)
    tensors = {variable.path: np.asarray(variable.value) for variable in model.weights}
    load.write_weights(Weights(GPT, tensors, VOCABULARY, origin="random"), "workdir", str(tmp_path / "gpt"))
    return str(tmp_path / "gpt")


def test_a_gpt_learns_a_classification_and_answers_again_from_its_directory(table_dir, tmp_path):
    figures, _ = run_on(tmp_path / "run", table_dir, GPT, num_train_epochs=8.0, learning_rate=5e-3)
    assert figures["reported"]["score"] > 0.85 and not figures["no_better_than_baseline"]
    with open(tmp_path / "run" / "config.json", encoding="utf-8") as file:
        values = json.load(file)
    assert values["architecture"] == "gpt" and values["head"]["pooling"] == "last"
    finetuned = FinetunedRun(str(tmp_path / "run"))
    (scores, *_) = finetuned.evaluate(os.path.join(table_dir, "dev.tsv"))
    assert scores["accuracy"] > 0.85


def test_its_language_model_is_tuned_on_the_texts_of_the_task_first(pretrained, table_dir, tmp_path):
    wanted = {"data_dir": table_dir, "init_checkpoint": pretrained, "num_train_steps": 1, "mlm_tuning_steps": 2}
    weights, output = at_start(tmp_path / "run", wanted)
    assert "tuned by 2 steps of causal LM" in output and "from scratch, seed 3: classifier" in output
    with open(tmp_path / "run" / "mlm_tuning" / "run" / "config.json", encoding="utf-8") as file:
        assert json.load(file)["pretraining"]["language_model"] == "causal"
    tuned, path = weights_of(newest(tmp_path / "run" / "mlm_tuning" / "run")), "encoder/layer_0/output/kernel"
    np.testing.assert_array_equal(weights[path], tuned[path])
    assert not np.array_equal(tuned[path], weights_of(newest(pretrained))[path])


def test_a_gpt_cannot_be_the_encoder_of_a_translation(table_dir, tmp_path):
    settings = {"task": "rewrite", "text_columns": ("sentence",), "label_column": "label", "num_train_steps": 1}
    with pytest.raises(UserError, match="--task=rewrite: needs an encoder that reads both sides, but"):
        run_on(tmp_path / "run", table_dir, GPT, **settings)


def test_a_frozen_encoder_is_frozen_with_its_last_layer_norm(pretrained, table_dir, tmp_path):
    wanted = {"data_dir": table_dir, "init_checkpoint": pretrained, "num_train_steps": 1, "freeze_layers": -1}
    launched(tmp_path / "run", wanted)
    before, after = (weights_of(newest(directory)) for directory in (pretrained, str(tmp_path / "run")))
    changed = [path for path, tensor in after.items() if path not in before or (tensor != before[path]).any()]
    assert sorted(changed) == ["classifier/bias", "classifier/kernel"]


def test_an_encoder_without_layers_needs_another_pooling(pretrained, table_dir, tmp_path):
    wanted = {"data_dir": table_dir, "init_checkpoint": pretrained, "num_train_steps": 1, "encoder_layers": 0}
    with pytest.raises(UserError, match="the encoder has no layers, so the vector of a special piece does not depend"):
        launched(tmp_path / "run", wanted)

"""Fine-tuning of a GPT: its head reads the last token, and its language model can be tuned on the texts first."""

import json
import os

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.config.bert_config import INPUTS
from keras_bert_app.errors import UserError
from keras_bert_app.interop import load
from keras_bert_app.interop.weights import Weights
from keras_bert_app.modeling.architectures import make_pretrainer
from keras_bert_app.modeling.task_head import CHOICES, TEXT, Head
from keras_bert_app.modeling.task_model import BertTaskModel
from keras_bert_app.tasks import objectives
from keras_bert_app.tasks.scoring import FinetunedRun
from tests.modeling.test_task_model import batch_of, grouped
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


@pytest.mark.slow
def test_its_language_model_is_tuned_on_the_texts_of_the_task_first(pretrained, table_dir, tmp_path):
    wanted = {"data_dir": table_dir, "init_checkpoint": pretrained, "num_train_steps": 1, "mlm_tuning_steps": 2}
    weights, output = at_start(tmp_path / "run", wanted)
    assert "tuned by 2 steps of causal LM" in output and "from scratch, seed 3: classifier" in output
    with open(tmp_path / "run" / "mlm_tuning" / "run" / "config.json", encoding="utf-8") as file:
        assert json.load(file)["pretraining"]["language_model"] == "causal"
    tuned, path = weights_of(newest(tmp_path / "run" / "mlm_tuning" / "run")), "encoder/layer_0/output/kernel"
    np.testing.assert_array_equal(weights[path], tuned[path])
    assert not np.array_equal(tuned[path], weights_of(newest(pretrained))[path])


@pytest.mark.parametrize("head", [Head(TEXT, 3, pooling="last"), Head(CHOICES, 1, pooling="last")], ids=repr)
def test_the_loss_of_the_next_piece_is_that_of_the_language_model_with_the_same_encoder(head):
    model, plain = (BertTaskModel(GPT, head, has_language_model=has) for has in (True, False))
    language_model = make_pretrainer(GPT)
    for other in (plain, language_model):
        values = {variable.path: variable for variable in model.weights}
        for variable in other.weights:
            variable.assign(values[variable.path])
    batch = grouped((3, 2)) if head.stands_on == CHOICES else batch_of()
    size = len(batch["input_mask"])
    batch |= {"labels": tf.constant([1, 0, 2][:size]), "example_weights": tf.ones(size)}
    outputs = model(batch)
    np.testing.assert_allclose(outputs["logits"], plain(batch)["logits"], atol=1e-5)
    rows = {name: tf.reshape(batch[name], (-1, batch[name].shape[-1])) for name in INPUTS}
    log_shares = tf.nn.log_softmax(language_model(rows)["lm_logits"][:, :-1]).numpy()
    labels, is_piece = rows["input_word_ids"].numpy()[:, 1:], rows["input_mask"].numpy()[:, 1:] > 0
    expected = -np.take_along_axis(log_shares, labels[:, :, None], axis=2)[:, :, 0][is_piece].mean()
    task, both = objectives.Classification(), objectives.WithLanguageModel(objectives.Classification(), 0.5)
    losses = [float(each.mean_loss(each.loss_sums(outputs, batch), *each.counts(batch))) for each in (task, both)]
    assert losses[1] - losses[0] == pytest.approx(0.5 * expected, rel=1e-4)


def test_a_run_learns_the_next_piece_beside_its_task(table_dir, tmp_path):
    settings = {"num_train_epochs": 8.0, "learning_rate": 5e-3, "language_model_weight": 0.5}
    figures, output = run_on(tmp_path / "run", table_dir, GPT, **settings)
    assert figures["reported"]["score"] > 0.85 and "  perplexity " in output
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    perplexities = [row["perplexity"] for row in rows if "perplexity" in row]
    assert perplexities[-1] < 0.7 * perplexities[0]
    assert {path.split("/")[0] for path in weights_of(newest(str(tmp_path / "run")))} == {"encoder", "classifier"}
    scores, *_ = FinetunedRun(str(tmp_path / "run")).evaluate(os.path.join(table_dir, "dev.tsv"))
    assert scores["accuracy"] > 0.85


@pytest.mark.parametrize(
    "config, settings, message",
    [
        (CONFIG, {}, "needs a GPT whose output layer is its table of word embeddings, but the model is a bert"),
        (GPT.replace(tie_word_embeddings=False), {}, "needs a GPT .* but the model has tie_word_embeddings=false"),
        (GPT, {"consistency_weight": 1.0}, "does not go together with --consistency_weight; leave one of them out"),
        (GPT, {"freeze_layers": -1}, "does not go together with --freeze_layers=-1; leave one of them out"),
    ],
)
def test_the_loss_of_the_next_piece_is_refused_where_it_has_no_meaning(config, settings, message, table_dir, tmp_path):
    wanted = {"data_dir": table_dir, "num_train_steps": 1, "language_model_weight": 0.5, **settings}
    with pytest.raises(UserError, match=f"--language_model_weight=0.5: {message}"):
        launched(tmp_path / "run", wanted, start=(None, True, config, VOCABULARY))


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

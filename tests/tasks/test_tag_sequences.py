"""Tagging as in TagLM: the frozen states of a language model beside the head's own vectors, and a CRF over the tags."""

import json
import os

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.config.lstm_config import LstmConfig
from keras_bert_app.errors import UserError
from keras_bert_app.export.tagging_answers import TaggingModule
from keras_bert_app.tasks.scoring import FinetunedRun
from keras_bert_app.vectors.static.word_vector_files import write_word_vectors
from tests.tasks.conftest import CONFIG, at_start, launched, newest, weights_of
from tests.tasks.families.test_tagging import PIECES, VOCABULARY, write_split
from tests.tasks.test_lstm_runs import write_pretrained

ELMO = LstmConfig.of_size(
    "elmo_tiny",
    hidden_size=24,
    intermediate_size=17,
    character_filters=((1, 6), (3, 10)),
    vocab_size=len(PIECES),
    max_position_embeddings=CONFIG.max_position_embeddings,
)
WORDS = "token_features/word_embeddings"
TAGLM = {
    "task": "ner",
    "freeze_layers": -1,
    "layers": "scalar_mix",
    "mix_layer_norm": True,
    "states_at": "both",
    "bilstm_units": 8,
    "token_vector_size": 6,
    "tag_layer": "crf",
    "learning_rate": 3e-2,
    "bias_correction": True,
    "num_train_steps": 48,
    "eval_steps": 24,
    "length_buckets": False,
    "jit_compile": "none",
}


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """(directory of the data, flags of a run) with a pre-trained ELMo and a file of vectors."""
    directory = tmp_path_factory.mktemp("taglm")
    write_split(directory, "train.txt", 96, 1)
    write_split(directory, "valid.txt", 48, 2)
    vectors = np.random.default_rng(0).normal(size=(3, 6)).astype(np.float32)
    write_word_vectors(str(directory / "v.txt"), ["anna", "ben", "rome"], vectors)
    pretrained = write_pretrained(ELMO, directory / "elmo", VOCABULARY)
    return directory, {
        **TAGLM,
        "data_dir": str(directory),
        "init_checkpoint": pretrained,
        "init_vectors": str(directory / "v.txt"),
    }


@pytest.fixture(scope="module")
def learned(started):
    directory, wanted = started
    return directory / "run", *launched(directory / "run", wanted)


def test_a_run_learns_beside_a_frozen_language_model_and_answers_again(started, learned):
    workdir, figures, output = learned
    assert figures["reported"]["score"] > 0.95 and figures["baseline"]["score"] < 0.9
    assert f"vectors: 3 of {len(PIECES) - 5} pieces have a vector" in output
    scores, *_ = FinetunedRun(str(workdir)).evaluate(str(started[0] / "valid.txt"), has_chosen=True)
    assert scores == pytest.approx(figures["reported"]["metrics"], abs=1e-6)
    before, after = weights_of(newest(started[1]["init_checkpoint"])), weights_of(newest(str(workdir)))
    encoder = [path for path in before if path.startswith("encoder/")]
    assert encoder and all((before[path] == after[path]).all() for path in encoder)
    characters = after["token_features/characters/characters"]
    assert characters[PIECES.index("anna"), :6].tolist() == [256, *b"anna", 257]
    assert {path.split("/")[0] for path in after} - {path.split("/")[0] for path in before} == {
        "scalar_mix",
        "output_mix",
        "token_features",
        "bilstm",
        "classifier",
        "crf",
    }
    head = json.loads((workdir / "config.json").read_text())["head"]
    assert (
        head.items() >= {"token_vector_size": 6, "states_at": "both", "has_layer_norm": True, "has_crf": True}.items()
    )
    assert {"scalar_mix/scores", "output_mix/scores"} <= set(after)  # optimizers.choice knows them by these paths
    assert len(figures["layer_shares"]) == len(figures["output_layer_shares"]) == 3
    for name in ("transitions", "first_tags", "last_tags"):
        assert np.abs(after[f"crf/{name}"]).max() > 1e-3


def test_the_vectors_of_a_file_take_the_place_of_those_of_an_earlier_run(learned, started, tmp_path):
    vectors = np.full((1, 6), 7.0, np.float32)
    write_word_vectors(str(tmp_path / "v.txt"), ["anna"], vectors)
    wanted = {**started[1], "init_checkpoint": str(learned[0]), "init_vectors": str(tmp_path / "v.txt")}
    table = at_start(tmp_path / "run", wanted)[0][WORDS]
    assert (table[PIECES.index("anna")] == 7.0).all()


def test_the_export_answers_as_predict_does(learned, started, tmp_path):
    finetuned = FinetunedRun(str(learned[0]))
    words = ["anna", "smith", "met", "in", "anna", "."]
    answers = TaggingModule(finetuned, max_windows=2).exported["words"](tf.constant([words]))
    (tmp_path / "words.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    examples = finetuned.task.read_file(str(tmp_path / "words.txt"), finetuned.run, has_labels=False)
    (expected,), _ = finetuned.predictions(examples)
    assert [tag.decode() for tag in answers["tags"].numpy()[0]] == expected["tags"]
    np.testing.assert_allclose(answers["word_probabilities"][0], expected["probabilities"], atol=1e-5)


@pytest.mark.parametrize(
    "settings, message",
    [
        (
            {"bilstm_units": 0, "states_at": "input"},
            "--token_vector_size=6: has an effect only with another --bilstm_units",
        ),
        ({"token_vector_size": 0, "states_at": "output"}, "--states_at=output: the BiLSTM would have no input"),
        ({"layers": "last"}, "--mix_layer_norm=True: has an effect only with --layers=scalar_mix"),
        ({"consistency_weight": 1.0}, "--consistency_weight=1.0: compares the probabilities of single tags"),
        ({"token_vector_size": 5}, "has vectors of 6 numbers, expected 5, --token_vector_size; give vectors of this"),
    ],
)
def test_options_without_an_effect_are_refused(started, tmp_path, settings, message):
    with pytest.raises(UserError, match=message):
        launched(tmp_path / "run", {**started[1], **settings})
    assert not os.path.exists(tmp_path / "run")

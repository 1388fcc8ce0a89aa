"""--init_vectors: the word embeddings of a run begin with the vectors of a file, and unknown pieces follow a policy."""

import dataclasses
import json
import os
import shutil

import numpy as np
import pytest

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.config.lstm_config import LstmConfig
from keras_bert_app.errors import UserError
from keras_bert_app.tasks import vector_start
from keras_bert_app.vectors.static.word_vector_files import write_word_vectors
from pipelines.data_error import DataError
from tests.tasks.conftest import BAD, CONFIG, GOOD, VOCABULARY, at_start, launched, newest, weights_of

PIECES = VOCABULARY.decode().split()
TABLE = "encoder/embeddings/word_embeddings"
START = (None, False, CONFIG, VOCABULARY)
# The classic BiLSTM over word vectors that stay as they are.
BILSTM = {
    "encoder_layers": 0,
    "bilstm_units": 5,
    "freeze_layers": -1,
    "pooling": "max",
    "classifier_dropout": 0.0,
    "length_buckets": False,
    "num_train_steps": 24,
    "eval_steps": 12,
    "save_checkpoints_steps": 12,
    "keep_checkpoints": 9,
    "learning_rate": 2e-2,
    "jit_compile": "none",
}
MISSING = ("kind", "mean", ".")  # words without a vector


@pytest.fixture(scope="module")
def vectors_file(tmp_path_factory):
    """A file in which the good words differ from the bad ones in the first number, and `unseen` is in no vocabulary."""
    generator, words = np.random.RandomState(0), [piece for piece in PIECES[5:] if piece not in MISSING] + ["unseen"]
    vectors = generator.normal(scale=0.5, size=(len(words), CONFIG.hidden_size)).astype(np.float32)
    for row, word in enumerate(words):
        vectors[row, 0] += 6 * (word in GOOD) - 6 * (word in BAD)
    path = str(tmp_path_factory.mktemp("vectors") / "v.txt")
    write_word_vectors(path, words, vectors)
    return path, dict(zip(words, vectors, strict=True))


@pytest.mark.parametrize("policy", ["random", "unk", "shape", "characters"])
def test_known_pieces_have_the_vectors_of_the_file_and_the_others_follow_the_policy(
    vectors_file, table_dir, tmp_path, policy
):
    path, vectors = vectors_file
    wanted = {"data_dir": table_dir, "init_vectors": path, "unknown_vectors": policy, **BILSTM}
    table = at_start(tmp_path / "run", wanted, START)[0][TABLE]
    for piece, row in zip(PIECES, table, strict=True):
        if piece in vectors:
            np.testing.assert_array_equal(row, vectors[piece])
    mean = np.mean([*vectors.values()], axis=0)
    np.testing.assert_allclose(table[PIECES.index("[UNK]")], mean, atol=1e-6)
    kind, point = table[PIECES.index("kind")], table[PIECES.index(".")]
    if policy == "random":
        assert np.abs(kind - mean).max() > 0.1 and np.abs(kind - point).max() > 0.1
    elif policy == "unk":
        np.testing.assert_allclose([kind, point], [mean, mean], atol=1e-6)
    elif policy == "shape":  # words of four letters or more have the shape xxxx; no other piece has that of the point
        long_words = [vector for word, vector in vectors.items() if len(word) >= 4]
        np.testing.assert_allclose([kind, point], [np.mean(long_words, axis=0), mean], atol=1e-6)
    else:  # among the known words, only "and" shares n-grams with "kind" (nd>), and none with the point
        np.testing.assert_allclose([kind, point], [vectors["and"], mean], atol=1e-6)


def test_a_run_over_fixed_vectors_learns_says_what_it_found_and_resumes_bit_for_bit(vectors_file, table_dir, tmp_path):
    path, vectors = vectors_file
    wanted = {"data_dir": table_dir, "init_vectors": path, "unknown_vectors": "unk", **BILSTM}
    figures, text = launched(tmp_path / "whole", wanted, start=START)
    num_known = len(PIECES) - 5 - len(MISSING)
    counts = {"pieces": len(PIECES) - 5, "found": num_known, "not_in_training": 0, "filled_by": "unk"}
    assert f"vectors: {num_known} of {len(PIECES) - 5} pieces have a vector in {path}, the other 3 by unk" in text
    assert figures["init_vectors"].items() >= counts.items() and "from scratch, seed 3" in text
    values = json.loads((tmp_path / "whole" / "config.json").read_text())
    assert values["init_vectors"] == figures["init_vectors"] and values["finetuning"]["init_vectors"] == path
    trained = weights_of(newest(tmp_path / "whole"))
    np.testing.assert_array_equal(trained[TABLE][PIECES.index("fine")], vectors["fine"])  # frozen
    assert figures["reported"]["score"] > 0.9

    # The checkpoint has the table, so a resumed run does not need the file.
    shutil.copytree(tmp_path / "whole", tmp_path / "parts")
    shutil.rmtree(newest(tmp_path / "parts"))
    os.rename(path, f"{path}.moved")
    resumed, text = launched(tmp_path / "parts", BILSTM, start=(None, True, None, None))
    os.rename(f"{path}.moved", path)
    assert "resumed at step 12" in text and "vectors: " not in text
    assert resumed["init_vectors"] == figures["init_vectors"]
    again = weights_of(newest(tmp_path / "parts"))
    assert again.keys() == trained.keys() and all((again[path] == trained[path]).all() for path in trained)


@pytest.mark.parametrize(
    "wanted, message",
    [
        ({"init_vectors": "small.txt"}, "small.txt: has vectors of 2 numbers, expected 22, the size of the model"),
        (
            {"init_vectors": "other.txt"},
            "has a vector for none of the 17 pieces of the vocabulary .its first words: 東京, 大阪",
        ),
        ({"init_vectors": "none.txt"}, "none.txt: cannot be read"),
        ({"unknown_vectors": "shape"}, "--unknown_vectors=shape: has an effect only with another --init_vectors"),
        ({"init_vectors": "other.txt", "unknown_vectors": "zero"}, "--unknown_vectors=zero is not known"),
        ({"init_vectors": "other.txt", "mlm_tuning_steps": 3}, "the tuning of --mlm_tuning_steps begins with random"),
    ],
)
def test_vectors_that_do_not_fit_are_refused_before_a_run_begins(table_dir, tmp_path, monkeypatch, wanted, message):
    write_word_vectors(str(tmp_path / "small.txt"), ["fine"], np.ones((1, 2)))
    write_word_vectors(str(tmp_path / "other.txt"), ["東京", "大阪"], np.ones((2, CONFIG.hidden_size)))
    monkeypatch.chdir(tmp_path)
    with pytest.raises((UserError, DataError), match=message):
        at_start("run", {"data_dir": table_dir, **wanted}, START)
    assert not (tmp_path / "run").exists()


def test_a_model_of_characters_has_no_table_for_vectors_unless_its_head_has_one(tmp_path):
    path = str(tmp_path / "v.txt")
    write_word_vectors(path, ["fine"], np.ones((1, 4)))
    model = LstmConfig.of_size("elmo_tiny", vocab_size=17)
    run = FinetuningConfig(task="sst-2", init_vectors=path)
    with pytest.raises(UserError, match="makes the vectors of pieces from characters .* with --token_vector_size"):
        vector_start.read(run, model)
    with_table = dataclasses.replace(run, token_vector_size=4, bilstm_units=3)
    assert vector_start.read(with_table, model).vectors.shape == (1, 4)


def test_vectors_and_weights_contradict_each_other_unless_only_the_shape_is_taken(
    finished, vectors_file, table_dir, tmp_path
):
    wanted = {"data_dir": table_dir, "init_vectors": vectors_file[0], "init_checkpoint": finished[0]}
    with pytest.raises(UserError, match="--init_checkpoint=.* have word embeddings; add --random_init to take only"):
        at_start(tmp_path / "run", wanted)
    text = at_start(tmp_path / "run", wanted, (finished[0], False, None, None))[1]
    assert "vectors: 14 of 17 pieces" in text
    with pytest.raises(UserError, match="holds a run with init_vectors=, but --init_vectors=.* was given"):
        at_start(finished[0], {"init_vectors": vectors_file[0]}, (None, False, None, None))

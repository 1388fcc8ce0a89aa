"""TSDAE: which words are deleted, what the decoder learns, and a whole run with its export."""

import dataclasses
import shutil

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.export.sentence_vectors import embedding_module
from keras_bert_app.modeling.vector_model import VectorHead, VectorModel
from keras_bert_app.runs.shared_tokenizer import tokenizer_of
from keras_bert_app.tasks import registry
from keras_bert_app.tasks.denoising_objective import WORDS, Denoising, without_words
from keras_bert_app.tasks.families import text_vectors
from keras_bert_app.tasks.families.text_vectors import Example
from keras_bert_app.tasks.scoring import FinetunedRun
from keras_bert_app.vectors.embedding import Embedder
from tests.tasks.conftest import BAD, CONFIG, FILLERS, GOOD, VOCABULARY, launched, newest, weights_of
from tests.tasks.families.test_text_vectors import write

TASK = registry.find("similarity")
TEXTS = [f"the {a} {b} was {c}" for a in (*GOOD, *BAD) for b, c in zip(FILLERS[:4], FILLERS[4:], strict=True)]
PIECES = (*VOCABULARY.decode().split(), "##est", "##ly")
START = (None, False, CONFIG, VOCABULARY)


def batch_of(ids, words):
    ids = np.array(ids, np.int32)
    return {
        "input_word_ids": ids[:, None],
        "input_mask": (ids > 0).astype(np.int32)[:, None],
        WORDS: np.array(words, np.int32)[:, None],
    }


def test_words_are_deleted_whole_and_one_of_them_always_stays():
    ids = [[2, 11, 12, 13, 14, 15, 3, 0], [2, 21, 3, 0, 0, 0, 0, 0], [2, 3, 0, 0, 0, 0, 0, 0]]
    words = [[0, 1, 1, 2, 3, 3, 0, -1], [0, 1, 0, -1, -1, -1, -1, -1], [0, 0, -1, -1, -1, -1, -1, -1]]
    counts = np.zeros(3)
    for seed in range(200):
        left = without_words(batch_of(ids, words), tf.constant([seed, 1]), 0.6)
        rows, masks = left["input_word_ids"][:, 0].numpy().tolist(), left["input_mask"][:, 0].numpy()
        kept = [piece for piece in rows[0] if piece]
        assert kept[0] == 2 and kept[-1] == 3 and kept == [piece for piece in ids[0] if piece in kept]
        assert (11 in kept) == (12 in kept) and (14 in kept) == (15 in kept) and len(kept) > 2
        assert rows[1:] == ids[1:]  # the only word, and no word at all
        np.testing.assert_array_equal(masks, np.array(rows) > 0)
        counts += [11 in kept, 13 in kept, 14 in kept]
    # 0.4, and the one that stays if all would be deleted: 0.4 + 0.6^3 / 3
    np.testing.assert_allclose(counts / 200, 0.472, atol=0.1)
    every = without_words(batch_of(ids, words), tf.constant([1, 1]), 0.0)["input_word_ids"][:, 0]
    np.testing.assert_array_equal(every, ids)


def test_pieces_have_the_numbers_of_their_words():
    vocabulary = "".join(f"{piece}\n" for piece in PIECES).encode()
    config = CONFIG.replace(vocab_size=len(PIECES))
    run = FinetuningConfig(task="similarity", vector_loss="tsdae", max_seq_length=8)
    examples = [Example("", (text,), None, "") for text in ("warmest day", "kindly", "the")]
    features = text_vectors.featurize(TASK, examples, tokenizer_of(vocabulary, config), run, ())
    assert features.token_labels[WORDS].tolist() == [0, 1, 1, 2, 0, 0, 1, 1, 0, 0, 1, 0]
    # The pieces of a prompt are no words that are deleted.
    run = dataclasses.replace(run, document_prompt="very kindly ")
    features = text_vectors.featurize(TASK, examples, tokenizer_of(vocabulary, config), run, ())
    assert features.token_labels[WORDS].tolist() == [0, 0, 0, 0, 3, 3, 4, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 3, 0]


def test_the_decoder_reads_the_text_from_the_vector_alone():
    model = VectorModel(CONFIG, VectorHead("mean"), seed=1, has_decoder=True)
    ids = [[2, 6, 7, 8, 3], [2, 9, 10, 3, 0]]
    batch = {**batch_of(ids, [[0, 1, 2, 3, 0], [0, 1, 2, 0, -1]]), "input_type_ids": np.zeros([2, 1, 5], np.int32)}
    batch["example_weights"] = np.ones(2, np.float32)
    batch = {name: tf.constant(values) for name, values in batch.items()}
    objective = Denoising(0.6)
    outputs = objective.outputs(model, batch)
    assert outputs["logits"].shape == (2, 4, CONFIG.vocab_size)
    sums = objective.loss_sums(outputs, batch)
    losses = -np.log(
        [
            tf.nn.softmax(outputs["logits"])[row, place, ids[row][place + 1]]
            for row, place in [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2)]
        ]
    )
    assert float(sums["loss_sum"]) == pytest.approx(losses.sum(), rel=1e-4)
    assert float(sums["count"]) == float(objective.counts(batch)[0]) == 7.0
    # Every place of the decoder sees the vector, and no place sees a later piece.
    longer = {**batch, "target_word_ids": tf.constant([[2, 6, 9, 9, 3], [2, 9, 10, 3, 0]])}
    again = model(longer)["logits"]
    np.testing.assert_allclose(again[0, :2], outputs["logits"][0, :2], atol=1e-5)
    other = {**longer, "input_word_ids": tf.constant([[[2, 12, 12, 12, 3]], [[2, 9, 10, 3, 0]]])}
    changed = np.abs(model(other)["logits"] - again).max(axis=-1)
    assert (changed[0] > 1e-3).all() and changed[1].max() < 1e-5
    assert set(model(batch)) == {"vectors"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """(work directory, output, wanted)"""
    directory = tmp_path_factory.mktemp("tsdae")
    scored = [
        "text_a\ttext_b\tscore",
        *(f"{a}\t{b}\t{n % 5}" for n, (a, b) in enumerate(zip(TEXTS[:-1], TEXTS[1:], strict=True))),
    ]
    wanted = {
        "task": "similarity",
        "vector_loss": "tsdae",
        "data_dir": write(directory, train=["text", *TEXTS], dev=scored[:20]),
        "max_seq_length": 16,
        "num_train_steps": 60,
        "eval_steps": 30,
        "save_checkpoints_steps": 30,
        "keep_checkpoints": 9,
        "learning_rate": 1e-2,
        "log_steps": 10,
        "pooling": "mean",
        "jit_compile": "none",
    }
    return str(directory / "run"), launched(directory / "run", wanted, start=START)[1], wanted


def test_a_run_learns_resumes_bit_for_bit_and_its_vectors_are_exported(finished, tmp_path):
    workdir, output, wanted = finished
    assert "loss tsdae: a decoder rebuilds each text from the vector of the text without 60% of its words" in output
    figures = [line for line in output.splitlines() if "perplexity" in line]
    first, last = (float(line.split("loss ")[1].split()[0]) for line in (figures[0], figures[-1]))
    assert last < first - 0.5
    part = str(tmp_path / "part")
    shutil.copytree(workdir, part)
    shutil.rmtree(newest(part))
    launched(part, wanted, start=START)
    whole, again = weights_of(newest(workdir)), weights_of(newest(part))
    assert all(np.array_equal(whole[path], again[path]) for path in whole)
    assert any(path.startswith("decoder/layer_0/cross_attention/") for path in whole)
    assert not any(path.startswith("decoder/layer_0/attention/") for path in whole)  # those of the encoder
    expected = np.concatenate(FinetunedRun(workdir).logits([Example("", (text,), None, "") for text in TEXTS[:5]]))
    vectors, _ = Embedder(embedding_module(workdir)[0].exported)([text.encode() for text in TEXTS[:5]])
    np.testing.assert_allclose(vectors, expected, atol=1e-6)


def test_what_has_no_decoder_is_refused(finished, tmp_path):
    _, _, wanted = finished
    gpt = CONFIG.replace(architecture="gpt")
    with pytest.raises(UserError, match="--vector_loss=tsdae: its decoder has the layers of a bert, but the model is"):
        launched(tmp_path / "run", wanted, start=(None, False, gpt, VOCABULARY))
    data = write(tmp_path, train=["text_a\ttext_b", "a\tb"])
    with pytest.raises(UserError, match="--vector_loss=tsdae: .* has an anchor, its positive, .* in each row; give"):
        TASK.settled(FinetuningConfig(task="similarity", data_dir=data, vector_loss="tsdae"))
    with pytest.raises(UserError, match="--deletion_ratio=0.5: has an effect only with --vector_loss=auto or tsdae"):
        FinetuningConfig(vector_loss="simcse", deletion_ratio=0.5).check_read(("deletion_ratio",))

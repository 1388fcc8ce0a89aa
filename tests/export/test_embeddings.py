"""Sentence vectors against the states of the whole model, live exports against reloaded ones, and odd inputs."""

import json
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.export import saved_models, sentence_vectors
from keras_bert_app.export.sentence_vectors import Pooling
from keras_bert_app.interop import load, own_layout
from keras_bert_app.interop.huggingface import huggingface_layout
from keras_bert_app.vectors import embedding
from tests.export.small_model import ONE_LAYER, TEXTS, TOKENIZER, TWO_LAYERS, WEIGHTS, rows_of
from tests.export.test_export import run_python
from tests.interop.huggingface.test_sentence_transformers_files import write as write_modules


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The directory of the small model."""
    directory = str(tmp_path_factory.mktemp("models") / "small")
    own_layout.write(WEIGHTS, directory)
    return directory


@pytest.fixture(scope="module")
def states():
    """For each of TEXTS, the states of every layer [4, S, H]. The whole model computes each text alone."""
    whole = load.build_model(WEIGHTS)

    def states_of(row):
        ids = np.array([row])
        outputs = whole.encoder({"input_word_ids": ids, "input_mask": ids * 0 + 1, "input_type_ids": ids * 0})
        return np.concatenate([outputs["embedding_output"], *outputs["encoder_outputs"]])

    return [states_of(row) for row in rows_of(TEXTS)]


@pytest.fixture(scope="module")
def live(model):
    return sentence_vectors.embedding_module(model, Pooling(normalize=True))[0]


def in_numpy(states, pooling, layer):
    """Computes the vector of a text from its states [4, S, H]."""
    x = states[layer]
    inner = x[1:-1] if len(x) > 2 else x
    return {
        "cls": x[0],
        "mean": inner.mean(0),
        "max": inner.max(0),
        "mean_max": np.r_[inner.mean(0), inner.max(0)],
        "cls_mean": np.r_[x[0], inner.mean(0)],
    }[pooling]


@pytest.mark.parametrize(
    "pooling, layer", [("cls", None), ("mean", 0), ("max", 3), ("mean_max", -1), ("cls_mean", 1), ("mean", -2)]
)
def test_vectors_are_the_pooled_states_of_the_layer_and_higher_layers_are_left_out(model, states, pooling, layer):
    module, _ = sentence_vectors.embedding_module(model, Pooling(pooling, layer))
    number = 2 if layer is None else layer % 4
    rows = tf.ragged.constant(rows_of(TEXTS), dtype=tf.int32)
    ids, mask = rows.to_tensor(), tf.cast(tf.sequence_mask(rows.row_lengths()), tf.int32)
    vectors = module.exported["ids"](ids, mask, tf.zeros_like(ids))["embedding"]
    np.testing.assert_allclose(vectors, [in_numpy(text_states, pooling, number) for text_states in states], atol=2e-6)
    assert len(module.model_variables) == 5 + 12 * number
    assert module.about.how.layer == number


def test_first_last_reads_layer_1_and_the_last(model, states):
    module, _ = sentence_vectors.embedding_module(model, Pooling("first_last"))
    ids = tf.constant([rows_of(TEXTS)[2]])
    vectors = module.exported["ids"](ids, tf.ones_like(ids), tf.zeros_like(ids))["embedding"]
    expected = (in_numpy(states[2], "mean", 1) + in_numpy(states[2], "mean", 3)) / 2
    np.testing.assert_allclose(vectors[0], expected, atol=2e-6)


def test_special_tokens_are_pooled_and_long_texts_cut_when_asked_for(model, states):
    module, _ = sentence_vectors.embedding_module(model, Pooling(layer=-1, pool_special_tokens=True, max_seq_length=7))
    outputs = module.exported["serving_default"](tf.constant(TEXTS[:4]))
    assert outputs["truncated"].numpy().tolist() == [False, False, True, False]
    np.testing.assert_allclose(outputs["embedding"][3], states[3][3].mean(0), atol=2e-6)
    ids = np.array([[*rows_of(TEXTS)[2][:6], TOKENIZER.sep_id]])
    cut = module.exported["ids"](tf.constant(ids, tf.int32), tf.ones_like(ids, tf.int32), tf.zeros_like(ids, tf.int32))
    np.testing.assert_allclose(outputs["embedding"][2], cut["embedding"][0], atol=2e-6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The small model as a folder of sentence-transformers, with normalized means of all tokens of the last layer."""
    directory = tmp_path_factory.mktemp("sentence transformers") / "small"
    huggingface_layout.write(WEIGHTS, directory)
    write_modules(directory, sentence_bert_config={"max_seq_length": 11})
    return directory


def test_a_folder_of_sentence_transformers_is_pooled_as_its_files_say(folder, states, tmp_path):
    lines = []
    written = sentence_vectors.export_embeddings(str(folder), str(tmp_path / "vectors"), log=lines.append)
    assert lines[-1] == (
        "vectors: mean of layer 3, [CLS] and [SEP] are pooled too, of length 1, of 3 layers; rows of 11 tokens; as "
        "modules.json, 1_Pooling/config.json, sentence_bert_config.json say"
    )
    outputs = saved_models.load(written).signatures["serving_default"](text=tf.constant(TEXTS[:4]))
    means = np.array([text_states[3].mean(0) for text_states in states[:4]])
    expected = means / np.linalg.norm(means, axis=1, keepdims=True)
    np.testing.assert_allclose(outputs["embedding"], expected, atol=2e-6)
    how = json.loads(open(os.path.join(written, "export.json"), encoding="utf-8").read())["how"]
    assert how == {
        "pooling": "mean",
        "layer": 3,
        "normalize": True,
        "pool_special_tokens": True,
        "max_seq_length": 11,
        "vector_size": 0,
        "query_prompt": "",
        "document_prompt": "",
    }


def test_a_truncate_dim_of_the_folder_is_followed_unless_a_flag_says_otherwise(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "cut")
    (copy / "config_sentence_transformers.json").write_text('{"truncate_dim": 700}')
    assert sentence_vectors.embedding_module(str(copy))[0].about.how.vector_size == 0
    (copy / "config_sentence_transformers.json").write_text('{"truncate_dim": 7}')
    modules = [
        sentence_vectors.embedding_module(str(path), how)[0]
        for path, how in ((folder, Pooling()), (copy, Pooling()), (copy, Pooling(vector_size=0)))
    ]
    whole, cut, uncut = (
        module.exported["serving_default"](tf.constant(TEXTS))["embedding"].numpy() for module in modules
    )
    np.testing.assert_array_equal(uncut, whole)
    np.testing.assert_allclose(cut, whole[:, :7] / np.linalg.norm(whole[:, :7], axis=1, keepdims=True), atol=1e-6)


@pytest.mark.parametrize("name", ["new", "old"])
def test_vectors_are_those_of_sentence_transformers_with_each_prompt(golden, name):
    lines = []
    module, _ = sentence_vectors.embedding_module(str(golden / "sentence_transformers" / name), log=lines.append)
    with np.load(golden / "sentence_transformers" / "vectors.npz") as stored:
        texts = [text.encode() for text in stored["texts"]]
        theirs = {role: stored[f"{name}/{role}" if role else name] for role in ("", "query", "document")}
    embed = embedding.embedder_of_module(module)
    for role, expected in theirs.items():
        vectors, _ = (embedding.for_role(embed, role) if role else embed)(texts)
        np.testing.assert_allclose(vectors, expected, atol=1e-5)
        outputs = module.exported[role or "serving_default"](tf.constant(texts))
        np.testing.assert_allclose(outputs["embedding"], expected, atol=1e-5)
    assert np.abs(theirs["query"] - theirs["document"]).max() > 0.1
    assert "query 'query: '" in lines[-1] and "document 'text a: '" in lines[-1]
    assert ("by default document" in lines[-1]) == (name == "old")
    assert ("its similarity function is dot, but search" in lines[-1]) == (name == "old")


def test_flags_override_the_files_of_a_folder_and_the_line_says_so(folder, states):
    lines = []
    module, _ = sentence_vectors.embedding_module(str(folder), Pooling("cls", -2, normalize=False), lines.append)
    assert "cls of layer 2" in lines[-1] and lines[-1].endswith("say, but for --pooling, --layer, --normalize")
    vectors = module.exported["serving_default"](tf.constant(TEXTS[:4]))["embedding"]
    np.testing.assert_allclose(vectors, [text_states[2][0] for text_states in states[:4]], atol=2e-6)
    sentence_vectors.embedding_module(str(folder), Pooling("first_last"), lines.append)
    assert "first_last of layers 1 and 3" in lines[-1]


def test_a_model_in_a_subfolder_is_found(folder, tmp_path):
    write_modules(tmp_path, folder="0_BERT")
    shutil.copytree(folder, tmp_path / "0_BERT")
    module, _ = sentence_vectors.embedding_module(str(tmp_path))
    assert module.about.how == Pooling("mean", 3, True, True, 11, 0, query_prompt="", document_prompt="")


def test_for_other_models_one_line_names_the_choice_and_the_alternative(model):
    lines = []
    sentence_vectors.embedding_module(model, log=lines.append)
    assert lines[-1] == (
        "vectors: mean of layer 2, [CLS] and [SEP] are not pooled, unless a text has nothing else, of any length, of 3 "
        "layers; rows of 23 tokens; if the model was made for vectors (sentence-transformers), give --layer=-1 "
        "--pool_special_tokens --normalize, and the --pooling that its makers name"
    )


def test_a_text_has_the_same_vector_alone_and_in_a_batch(live):
    together = live.exported["serving_default"](tf.constant(TEXTS))
    assert live.exported["num_tokens"](tf.constant(TEXTS))["num_tokens"].numpy().tolist() == [
        len(row) for row in rows_of(TEXTS, 100)
    ]
    assert together["truncated"].numpy().tolist() == [False] * 4 + [True]
    for text, vector in zip(TEXTS, together["embedding"].numpy(), strict=True):
        alone = live.exported["serving_default"](tf.constant([text]))["embedding"][0]
        np.testing.assert_allclose(alone, vector, atol=1e-6)
        np.testing.assert_allclose(np.linalg.norm(vector), 1.0, atol=1e-6)


@pytest.mark.parametrize(
    "weights, how",
    [
        pytest.param(ONE_LAYER, Pooling("mean_max", layer=-1, normalize=True), marks=pytest.mark.slow),
        (TWO_LAYERS, Pooling("first_last", pool_special_tokens=True)),
    ],
    ids=["mean_max", "first_last"],
)
def test_litert_gives_the_same_vectors_for_batches_of_every_shape(tmp_path, weights, how):
    own_layout.write(weights, str(tmp_path / "model"))
    directory = sentence_vectors.export_embeddings(
        str(tmp_path / "model"), str(tmp_path / "vectors"), how, has_litert=True
    )
    fast = embedding.load_embedder(directory)
    os.remove(os.path.join(directory, "model.tflite"))
    os.remove(os.path.join(directory, "manifest.json"))
    plain = embedding.Embedder(tf.saved_model.load(directory).signatures)
    for texts in (TEXTS, TEXTS[:1], ["", " ".join(TEXTS * 9)], []):
        texts = [text.encode() for text in texts]
        for actual, expected in zip(fast(texts), plain(texts), strict=True):
            np.testing.assert_allclose(actual, expected, atol=2e-6)
    assert fast([b" ".join(text.encode() for text in TEXTS * 9)])[1].all()


def test_a_moved_export_gives_the_vectors_of_the_live_model_in_a_fresh_process(model, live, tmp_path):
    written = sentence_vectors.export_embeddings(model, str(tmp_path / "vectors"), Pooling(normalize=True))
    assert os.path.relpath(written, tmp_path) == os.path.join("vectors", "1")
    moved = str(tmp_path / "with space")
    shutil.move(tmp_path / "vectors", moved)
    code = (
        "import sys, json; from keras_bert_app.vectors import embedding; "
        "print(json.dumps(embedding.load_embedder(sys.argv[1])(json.loads(sys.argv[2]))[0].tolist()))"
    )
    vectors = json.loads(run_python(code, moved, json.dumps(TEXTS)))
    np.testing.assert_allclose(vectors, live.exported["serving_default"](tf.constant(TEXTS))["embedding"], atol=1e-6)
    about = json.loads(saved_models.read_file(moved, 1, "export.json"))
    assert about["kind"] == "embeddings" and about["max_seq_length"] == 23
    assert about["how"] == {
        "pooling": "mean",
        "layer": 2,
        "normalize": True,
        "pool_special_tokens": False,
        "max_seq_length": 23,
        "vector_size": 0,
        "query_prompt": "",
        "document_prompt": "",
    }
    assert json.loads(saved_models.read_file(moved, 1, "config.json"))["num_hidden_layers"] == 2
    assert b"- mean of layer 2\n- [CLS] and [SEP] are not pooled" in saved_models.read_file(moved, 1, "README.md")
    signatures = saved_models.load(moved).signatures
    for name, inputs in about["examples"].items():
        values = {key: tf.constant(value, tf.string if key == "text" else tf.int32) for key, value in inputs.items()}
        outputs = signatures[name](**values)
        if name == "num_tokens":
            assert outputs["num_tokens"].numpy().tolist() == [9]
        elif name == "tokenize":
            assert outputs["input_word_ids"].shape == (1, 9) and not outputs["truncated"].numpy().any()
        else:
            assert outputs["embedding"].shape == (1, 33)


@pytest.mark.parametrize(
    "texts",
    [[], [""], ["x" * 1_000_000], ["a " * 500_000], [b"\xff\xfe a"], ["", "\x00"]],
    ids=["empty", "blank", "1 MB word", "1 MB of words", "bad utf-8", "nul"],
)
def test_odd_batches_get_finite_vectors(live, texts):
    outputs = live.exported["serving_default"](tf.constant(texts, tf.string))
    assert outputs["embedding"].shape == (len(texts), 33) and np.isfinite(outputs["embedding"]).all()


def test_a_row_of_padding_gets_a_finite_vector(live):
    zeros = tf.zeros([2, 5], tf.int32)
    assert np.isfinite(live.exported["ids"](zeros, zeros, zeros)["embedding"]).all()


def test_a_scalar_is_refused(live):
    with pytest.raises((ValueError, TypeError)):
        live.exported["serving_default"](tf.constant("scalar"))


@pytest.mark.parametrize(
    "how, message",
    [
        (Pooling(layer=4), "layers 1 to 3"),
        (Pooling(max_seq_length=24), "23 positions"),
        (Pooling(max_seq_length=2), "give 3 to 23"),
        (Pooling("first_last", 1), "leave one"),
    ],
)
def test_a_pooling_that_does_not_fit_the_model_is_refused(model, how, message):
    with pytest.raises(UserError, match=message):
        sentence_vectors.embedding_module(model, how)

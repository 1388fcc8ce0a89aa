"""The functions for Python programs: every block of docs/python.md runs, and errors name arguments."""

import importlib.util
import json
import pathlib
import re

import keras
import numpy as np
import pytest

import keras_bert_app
from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.weight_shapes import shapes
from keras_bert_app.errors import UserError
from keras_bert_app.interop import load
from keras_bert_app.interop.weights import Weights
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES

PAGE = pathlib.Path(__file__).parents[1] / "docs" / "python.md"
VOCABULARY = "".join(f"{piece}\n" for piece in (*SPECIAL_PIECES, *"a the on cat dog mat sat good bad".split())).encode()
CONFIG = BertConfig(
    vocab_size=VOCABULARY.count(b"\n"),
    hidden_size=22,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=37,
    max_position_embeddings=17,
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A directory with runs/mine, runs/headless (which has only the encoder) and a table of moods."""
    directory = tmp_path_factory.mktemp("python")
    generator = np.random.default_rng(0)
    tensors = {path: generator.normal(0.0, 0.2, shape).astype(np.float32) for path, shape in shapes(CONFIG).items()}
    encoder = {path: tensor for path, tensor in tensors.items() if path.startswith("encoder/")}
    for name, kept in (("mine", tensors), ("headless", encoder)):
        weights = Weights(CONFIG, kept, vocabulary=VOCABULARY, origin=name)
        load.write_weights(weights, "workdir", str(directory / "runs" / name))
    (directory / "moods").mkdir()
    for split, count in (("train", 20), ("dev", 8)):
        rows = [f"the {'good' if number % 2 else 'bad'} {'cat sat on ' * number}mat" for number in range(count)]
        table = "".join(f"{text}\t{text.split()[1]}\n" for text in rows)
        (directory / "moods" / f"{split}.tsv").write_text("text\tlabel\n" + table)
    return directory


@pytest.mark.long
def test_every_block_of_the_page_runs_from_top_to_bottom(directory, monkeypatch):
    for name in (
        "keras_bert_app.tasks.finetune.draw_curves",
        "keras_bert_app.drawing.finetuning_pictures.draw_answers",
    ):
        monkeypatch.setattr(name, lambda *_: b"")
    monkeypatch.chdir(directory)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) >= 10
    names = {"__name__": "python_documentation"}
    for block in blocks:
        # The application requires neither package. requirements-dev.txt has only pandas.
        if any(f"import {name}\n" in block and not importlib.util.find_spec(name) for name in ("pandas", "datasets")):
            continue
        exec(compile(block, str(PAGE), "exec"), names)
    assert names["encoder"].dropout_counter.state.numpy()[1] > 4  # each step of fit drew dropout
    np.testing.assert_allclose(
        names["vectors"] @ names["vectors"][0], [1.0, *names["vectors"][1:] @ names["vectors"][0]], rtol=1e-6
    )
    started = json.loads((directory / "runs/moods/config.json").read_text())["finetuning"]
    paths = [str(directory / name) for name in ("runs/mine", "moods")]
    assert [started[name] for name in ("init_checkpoint", "data_dir")] == paths
    assert names["cosines"].shape == (3, 1) and names["scores"].keys() <= names["results"]["reported"]["metrics"].keys()
    rows = names["rows"]
    np.testing.assert_array_equal(names["classifier"](rows), names["again"](rows))
    subclassed = names["Classifier"](names["encoder"])
    assert np.abs(subclassed(rows, training=True) - subclassed(rows)).max() > 1e-3


def test_vectors_are_the_mean_of_the_states_of_the_pieces(directory):
    texts = ["the good cat", "a mat", "cat"]
    lines = []
    vectors = keras_bert_app.load_embedder(directory / "runs" / "mine", lines.append, layer=1)(texts, batch_size=2)
    assert "--" not in "".join(lines) and any(line.startswith("vectors: mean") for line in lines)
    encoder = keras_bert_app.load_pretrained(directory / "runs" / "mine").encoder
    from pipelines import BertTokenizer

    rows = BertTokenizer.from_directory(str(directory / "runs" / "mine")).pack(texts, seq_length=9)
    states = encoder(rows)["sequence_output"].numpy()
    expected = [states[row, 1 : 1 + len(text.split())].mean(axis=0) for row, text in enumerate(texts)]
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda at: keras_bert_app.load_pretrained(at / "runs/headless"), r"\(allow_missing=masked_lm continues"),
        (lambda at: keras_bert_app.load_pretrained(at / "runs/mine", allow_missing="head"), "^allow_missing=head is"),
        (lambda at: keras_bert_app.load_embedder(at / "runs/mine", pooling="sum"), "^pooling=sum is not known"),
        (lambda at: keras_bert_app.load_embedder(at / "runs/mine", layer=7), "^layer=7: this model has layers 1 to 1"),
        (lambda at: keras_bert_app.load_embedder(at / "runs/mine", polling="cls"), "^polling is not an .*'pooling'"),
        (lambda at: keras_bert_app.load_embedder(at / "runs/mine")([]), "^there are no texts"),
        (lambda at: keras_bert_app.finetune(at / "x", "cola", at), "^init_checkpoint is missing; .* config and vocab_"),
        (lambda at: keras_bert_app.finetune(at / "x", data_dir=at), "^task is missing; list_tasks names all"),
        (lambda at: keras_bert_app.finetune(at / "x", "cola", at, lr=1.0), "^lr is not an argument of finetune: "),
        (lambda at: keras_bert_app.finetune(at / "x", "cola", at, learning_rate=-1), "^learning_rate=-1.0: expected"),
        (lambda at: keras_bert_app.finetune(at / "x", "cola", at, config="tiny"), "^config and vocab_file go together"),
        (
            lambda at: keras_bert_app.finetune(at / "x", "cola", at, at / "runs/mine", config=CONFIG),
            "^init_checkpoint has its own configuration and vocabulary; leave out config",
        ),
        (
            lambda at: keras_bert_app.finetune(
                at / "x", "classification", at / "moods", at / "runs/mine", text_columns=5, max_seq_length=16
            ),
            "moods/train.tsv",
        ),
    ],
)
def test_errors_from_python_name_arguments_and_no_flags_in_one_line(directory, call, message):
    with pytest.raises(UserError, match=message) as error:
        call(directory)
    assert "--" not in str(error.value) and "\n" not in str(error.value)


def test_one_missing_part_may_be_named_without_a_tuple(directory):
    parts = ("pooler", "masked_lm", "next_sentence")
    assert keras_bert_app.load_pretrained(directory / "runs/headless", allow_missing=parts).parts[0] == "encoder"
    assert keras_bert_app.load_pretrained(directory / "runs/mine", allow_missing="pooler").encoder.pooler


def test_the_seed_decides_the_dropout_of_fit(directory):
    parts = ("pooler", "masked_lm", "next_sentence")
    inputs = {name: np.ones((1, 8), np.int32) for name in ("input_word_ids", "input_mask", "input_type_ids")}

    def states(seed):
        model = keras_bert_app.load_pretrained(directory / "runs/headless", allow_missing=parts, seed=seed)
        return np.asarray(model.encoder(inputs, training=True)["sequence_output"])

    np.testing.assert_array_equal(states(1), states(1))
    assert np.abs(states(1) - states(2)).max() > 0.01


def test_a_run_without_a_sentence_objective_loads_without_a_pooler(directory, tmp_path):
    generator = np.random.default_rng(0)
    tensors = {path: generator.normal(0.0, 0.2, shape).astype(np.float32) for path, shape in shapes(CONFIG).items()}
    kept = {path: tensor for path, tensor in tensors.items() if "pooler" not in path and "next_sentence" not in path}
    load.write_weights(Weights(CONFIG, kept, vocabulary=VOCABULARY, origin="a"), "workdir", str(tmp_path / "run"))
    with pytest.raises(ValueError, match="missing .allow_missing=pooler continues without pooler.; next_sentence"):
        keras_bert_app.load_pretrained(tmp_path / "run")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    config["pretraining"] = {"sentence_objective": "none"}
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    assert keras_bert_app.load_pretrained(tmp_path / "run").parts == ("encoder", "masked_lm")


def test_the_error_of_the_same_function_names_flags_if_a_command_calls_it(directory):
    with pytest.raises(UserError, match=r"\(--allow_missing=masked_lm continues"):
        load.load_pretrained(directory / "runs/headless")
    assert isinstance(keras_bert_app.load_pretrained(directory / "runs/mine"), keras.Model)

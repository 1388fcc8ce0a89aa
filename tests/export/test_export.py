"""Exports: live models against exports reloaded in a fresh process after a move, odd inputs, and damage."""

import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import types

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app import load_pretrained
from keras_bert_app.errors import UserError
from keras_bert_app.export import answers, chunks, saved_models
from keras_bert_app.export.fill_mask_signatures import FillMaskModule
from keras_bert_app.export.pretrained_export import export_pretrained
from keras_bert_app.interop import load, own_layout, surgery
from keras_bert_app.modeling.pretrainer import BertPretrainer
from keras_bert_app.runs import checkpoints
from pipelines import BertTokenizer
from tests.export.small_model import ONE_LAYER
from tests.export.test_together import doubled
from tests.interop.conftest import CONFIGS, make_weights
from tests.training.conftest import CONFIG, VOCABULARY, plain_run, shards, write_workdir  # noqa: F401  fixtures

ROOT = pathlib.Path(__file__).parents[2]
TEXTS = ["the [MASK] sat on a [MASK].", "birds [MASK]", "no mask here"]


@pytest.fixture(scope="session")
def exported(plain_run, tmp_path_factory):  # noqa: F811
    """(work directory, raw-text export, ids export). The exports were moved after they were written."""
    written = tmp_path_factory.mktemp("written")
    export_pretrained(plain_run[0], str(written / "with space"))
    moved = tmp_path_factory.mktemp("moved") / "elsewhere"
    shutil.move(written, moved)
    return plain_run[0], str(moved / "with space"), str(moved / "with space_ids")


# Keras imports these packages if they are installed, which takes as long as the import of TensorFlow itself.
WITHOUT_EXTRAS_OF_KERAS = "import sys; sys.modules.update(dict.fromkeys(('sklearn', 'pandas', 'matplotlib')))\n"


def run_python(code, *arguments):
    """Returns the standard output of a fresh process in another directory."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS_OF_KERAS + code, *arguments],
        check=True,
        capture_output=True,
        text=True,
        cwd="/",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ).stdout


INPUT_WORD_IDS = np.array([[2, 7, 8, 3, 0], [2, 9, 3, 10, 3]], np.int32)
INPUTS = {
    "input_word_ids": INPUT_WORD_IDS,
    "input_mask": (INPUT_WORD_IDS > 0).astype(np.int32),
    "input_type_ids": np.array([[0] * 5, [0, 0, 0, 1, 1]], np.int32),
}
# Plain TensorFlow loads the ids export first, without tensorflow_text. A crash at the scalar would end the process.
ASK = """
import json, sys
import tensorflow as tf

text_export, ids_export, texts, inputs = sys.argv[1], sys.argv[2], *map(json.loads, sys.argv[3:])
ids = tf.saved_model.load(ids_export).signatures["serving_default"]
answer = {"pooled_output": ids(**{k: tf.constant(v, tf.int32) for k, v in inputs.items()})["pooled_output"]}
assert "tensorflow_text" not in sys.modules
from keras_bert_app.export import answers, saved_models

signatures = saved_models.load(text_export).signatures
answer["log_p"] = signatures["pseudo_log_likelihood"](text=tf.constant(texts))["token_log_probabilities"]
pairs = signatures["next_sentence"](text_a=tf.constant(texts), text_b=tf.constant(texts[::-1]))
answer = {name: values.numpy().tolist() for name, values in {**answer, "pairs": pairs["is_next_probability"]}.items()}
try:
    signatures["serving_default"](text=tf.constant("scalar"))
except (ValueError, TypeError, tf.errors.InvalidArgumentError):
    answer["scalar"] = "refused"
print(json.dumps({**answer, "fill_mask": answers.fill_mask(text_export, texts)}))
"""


@pytest.fixture(scope="session")
def live(exported):
    """The model of the exports, in this process."""
    return load_pretrained(exported[0])


@pytest.fixture(scope="session")
def answer(exported):
    """The answers of both exports in a fresh process."""
    listed = {name: values.tolist() for name, values in INPUTS.items()}
    return json.loads(
        run_python(ASK, exported[1], saved_models.find(exported[2]), json.dumps(TEXTS), json.dumps(listed))
    )


def test_answers_of_a_fresh_process_are_those_of_the_live_model(exported, live, answer):
    answers_of_texts, truncated = answer["fill_mask"]
    assert [len(masks) for masks in answers_of_texts] == [2, 1, 0] and truncated == [False] * 3
    tokenizer = BertTokenizer(os.path.join(exported[0], "vocab.txt"), special_tokens_in_text=True)
    for text, masks in zip(TEXTS, answers_of_texts, strict=True):
        ids = np.array([[tokenizer.cls_id, *tokenizer.tokenize([text]).to_list()[0], tokenizer.sep_id]])
        logits = live({"input_word_ids": ids, "input_mask": ids * 0 + 1, "input_type_ids": ids * 0})["mlm_logits"]
        expected = tf.nn.softmax(logits[0]).numpy()[ids[0] == tokenizer.mask_id]
        for mask, probabilities in zip(masks, expected, strict=True):
            best = np.argsort(-probabilities)[:5]
            assert [piece for piece, _ in mask] == [VOCABULARY[i] for i in best]
            np.testing.assert_allclose([probability for _, probability in mask], probabilities[best], atol=1e-6)
    signatures = FillMaskModule(live, tokenizer).exported
    expected = signatures["pseudo_log_likelihood"](tf.constant(TEXTS))["token_log_probabilities"]
    np.testing.assert_allclose(answer["log_p"], expected, atol=1e-6)
    expected = signatures["next_sentence"](tf.constant(TEXTS), tf.constant(TEXTS[::-1]))["is_next_probability"]
    np.testing.assert_allclose(answer["pairs"], expected, atol=1e-6)


def test_a_scalar_string_gives_an_error_and_not_a_crash(answer):
    assert answer["scalar"] == "refused"


def test_ids_signatures_equal_the_live_model_and_need_no_text_kernels(live, answer, loaded):
    expected = live({**INPUTS, "masked_lm_positions": np.array([[1], [3]])})
    constants = {name: tf.constant(values) for name, values in INPUTS.items()}
    outputs = loaded.signatures["ids"](**constants)
    for name in ("sequence_output", "pooled_output", "nsp_logits"):
        np.testing.assert_allclose(outputs[name], expected[name], atol=1e-6)
    logits = loaded.signatures["masked_lm"](**constants, masked_lm_positions=tf.constant([[1], [3]]))["mlm_logits"]
    np.testing.assert_allclose(logits, expected["mlm_logits"], atol=1e-6)
    np.testing.assert_allclose(answer["pooled_output"], expected["pooled_output"], atol=1e-6)
    # test_checked_ids has the other refusals. This one shows that the loaded graph keeps its checks.
    with pytest.raises(tf.errors.InvalidArgumentError, match="masked_lm_positions: expected numbers from 0"):
        loaded.signatures["masked_lm"](**constants, masked_lm_positions=tf.constant([[5], [3]]))


def test_config_vocabulary_and_hashes_lie_beside_the_model(exported):
    directory = pathlib.Path(saved_models.find(exported[1]))
    assert directory.name == "1"
    assert (directory / "vocab.txt").read_text().split() == VOCABULARY
    assert json.loads((directory / "config.json").read_text())["hidden_size"] == 22
    assert "saved_model.pb" in json.loads((directory / "manifest.json").read_text())["sha256"]
    card = (directory / "README.md").read_text()
    assert "20 steps of 8 rows" in card and "held-out masked LM: accuracy" in card


@pytest.fixture(scope="session")
def loaded(exported):
    """The raw-text export after loading."""
    return saved_models.load(exported[1])


@pytest.mark.parametrize(
    "texts",
    [[], [""], ["[MASK]" * 100], ["x" * 1_000_000], [b"\xff\xfe [MASK]"], ["", "the [MASK]"]],
    ids=["empty", "blank", "masks", "1 MB", "bad utf-8", "mixed"],
)
def test_odd_batches_get_an_answer(loaded, texts):
    outputs = loaded.signatures["serving_default"](text=tf.constant(texts, tf.string))
    assert outputs["tokens"].shape[0] == len(texts) and outputs["tokens"].shape[2] == 5
    if texts == ["[MASK]" * 100]:
        assert outputs["truncated"].numpy().tolist() == [True]


def test_the_next_export_gets_a_free_version_and_top_k_pieces_for_each_mask(tmp_path):
    own_layout.write(ONE_LAYER, str(tmp_path / "model"))
    (tmp_path / "bert_preprocess" / "4").mkdir(parents=True)
    for top_k in (0, 1000):
        with pytest.raises(UserError, match=f"--top_k={top_k}"):
            export_pretrained(str(tmp_path / "model"), str(tmp_path / "bert"), top_k=top_k)
    written = export_pretrained(str(tmp_path / "model"), str(tmp_path / "bert"), top_k=2)
    assert [os.path.relpath(path, tmp_path) for path in written] == ["bert/5", "bert_ids/5", "bert_preprocess/5"]
    assert os.listdir(tmp_path / "bert") == ["5"]
    (masks, *_), _ = answers.fill_mask(written[0], TEXTS)
    assert [len(mask) for mask in masks] == [2, 2]


def test_remains_of_a_killed_export_are_removed_and_those_of_others_are_kept(tmp_path):
    dead = subprocess.Popen(["true"])
    dead.wait()
    here, place = platform.node(), tmp_path / "bert"
    for process in (dead.pid, os.getppid()):
        (place / f"writing-1-{process}-{here}").mkdir(parents=True)
    (place / "writing-notes").mkdir()
    # In containers, two processes may have the same process number.
    same_process = place / f"writing-1-{os.getpid()}-{here}"
    same_process.mkdir()
    (same_process / "model.tflite").write_bytes(b"of another model")
    # A process number of another machine cannot be checked, so a directory that is a day old counts as abandoned.
    for age in ("old", "new"):
        (place / f"writing-1-{dead.pid}-other-{age}").mkdir()
    os.utime(place / f"writing-1-{dead.pid}-other-old", (0, 0))
    saved_models.write_together([str(place)], saved_models.next_version(str(place)), [doubled(place)])
    assert not (place / "1" / "model.tflite").exists()
    assert sorted(os.listdir(place)) == sorted(
        ["1", f"writing-1-{os.getppid()}-{here}", f"writing-1-{dead.pid}-other-new", "writing-notes"]
    )
    (place / "1").rename(place / "007")
    assert saved_models.find(place) == str(place / "007")


def test_an_export_does_not_name_a_later_step_of_the_run(tmp_path, monkeypatch):
    # A model without heads has no export for raw text, which takes the most time.
    workdir, variables = write_workdir(tmp_path / "run", CONFIG), checkpoints.model_variables(BertPretrainer(CONFIG))
    encoder = {path: variable for path, variable in variables.items() if path.startswith("encoder/")}
    before, newest = (checkpoints.save_variables(workdir, encoder, step=step) for step in (10, 20))
    shutil.move(newest, tmp_path / "later")
    build = load.build_model

    def saved_meanwhile(weights):
        shutil.move(tmp_path / "later", newest)
        return build(weights)

    monkeypatch.setattr(load, "build_model", saved_meanwhile)
    _, ids, _ = export_pretrained(workdir, str(tmp_path / "bert"))
    step = json.loads((pathlib.Path(ids) / "training.json").read_text())["step"]
    assert checkpoints.read_manifest(before)["step"] == step < checkpoints.read_manifest(newest)["step"]
    assert f"{step} steps of 8 rows" in (pathlib.Path(ids) / "README.md").read_text()


@pytest.mark.parametrize("count", [0, 1, 5, 6])
def test_logits_of_many_rows_are_computed_in_parts(monkeypatch, count):
    monkeypatch.setattr(chunks, "_PLACES_AT_A_TIME", 8)  # two rows of four
    model = types.SimpleNamespace(classifier=types.SimpleNamespace(bias=np.zeros(2)))
    seen = []

    class Model:
        classifier = model.classifier

        def __call__(self, inputs):
            tf.py_function(lambda rows: seen.append(int(rows)), [tf.shape(inputs["input_word_ids"])[0]], [])
            ids = tf.cast(inputs["input_word_ids"], tf.float32)
            return {"logits": tf.stack([ids, -ids], axis=2)}

    ids = np.arange(4 * count, dtype=np.int32).reshape(count, 4)
    logits = tf.function(lambda ids: chunks.logits_of_rows(Model(), {"input_word_ids": ids}))(ids)
    np.testing.assert_array_equal(logits, np.stack([ids, -ids], axis=2))
    assert max(seen, default=0) <= 2 and sum(seen) == count


def test_a_changed_an_added_and_a_missing_file_are_refused_by_name(exported, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(saved_models.find(exported[1]), copy)
    vocab = copy / "vocab.txt"
    content = vocab.read_bytes()
    vocab.write_bytes(content[:-2] + b"X\n")
    with pytest.raises(UserError, match="vocab.txt: is not as it was exported"):
        answers.fill_mask(str(copy), ["[MASK]"])
    vocab.write_bytes(content)
    (copy / "extra").write_text("x")
    with pytest.raises(UserError, match="extra"):
        saved_models.load(str(copy))
    (copy / "extra").unlink()
    vocab.unlink()
    with pytest.raises(UserError, match="vocab.txt.*missing found"):
        saved_models.load(str(copy))
    with pytest.raises(UserError, match="no SavedModel there"):
        saved_models.load(str(tmp_path / "nothing"))


def test_an_ids_export_that_gets_a_question_with_text_is_refused(exported):
    with pytest.raises(UserError, match="give the export without _ids"):
        answers.fill_mask(exported[2], ["[MASK]"])


def test_a_model_without_heads_is_exported_only_over_ids_and_without_the_outputs_of_missing_heads(golden, tmp_path):
    source = str(golden / "huggingface_files" / "encoder")
    fill_mask, ids_export, _ = export_pretrained(source, str(tmp_path / "encoder"))
    assert fill_mask is None and not (tmp_path / "encoder").exists()
    assert "nsp_logits" not in saved_models.load(ids_export).signatures["serving_default"].structured_outputs
    weights, _ = surgery.drop_parts(make_weights(CONFIGS["one_layer"]), ["pooler", "next_sentence"])
    own_layout.write(weights, str(tmp_path / "without pairs"))
    fill_mask, ids_export, _ = export_pretrained(str(tmp_path / "without pairs"), str(tmp_path / "masked"))
    signatures = saved_models.load(fill_mask).signatures
    assert set(signatures["ids"].structured_outputs) == {"sequence_output"}
    assert set(signatures["masked_lm"].structured_outputs) == {"mlm_logits"}
    assert "pooled_output" not in saved_models.load(ids_export).signatures["serving_default"].structured_outputs

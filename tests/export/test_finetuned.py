"""Exports of fine-tuned runs as directories: complete, movable, and with the files that users and servers need."""

import json
import os
import pathlib
import shutil
import subprocess

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import prediction_log_pb2

from keras_bert_app.errors import UserError
from keras_bert_app.export import saved_models
from keras_bert_app.export.finetuned_export import export_finetuned, is_finetuned, refuse_single_checkpoint
from keras_bert_app.export.sentence_vectors import embedding_module
from keras_bert_app.runs import checkpoints
from keras_bert_app.tasks import results
from keras_bert_app.tasks.scoring import FinetunedRun
from tests.cli.conftest import run  # noqa: F401  fixture
from tests.export.test_export import run_python
from tests.tasks.conftest import finished, table_dir  # noqa: F401  fixtures

TENSORFLOW = pathlib.Path(tf.__file__).parent
# The kernel libraries of the ops in the tokenizer's graph.
KERNELS = [
    pathlib.Path(tensorflow_text.__file__).parent / "python" / "ops" / f"_{name}.so"
    for name in ("fast_wordpiece_tokenizer", "normalize_ops", "whitespace_tokenizer")
]
_ASK = """
import json, sys
from keras_bert_app.export import saved_models
import tensorflow as tf
serve = saved_models.load(sys.argv[1]).signatures["serving_default"]
outputs = serve(text=tf.constant(json.loads(sys.argv[2])))
print(json.dumps({name: value.numpy().tolist() for name, value in outputs.items() if value.dtype != tf.string}))
"""


@pytest.fixture(scope="module")
def exported(finished, tmp_path_factory):  # noqa: F811
    """(work directory, raw-text export, ids export). The exports were moved after they were written."""
    written = tmp_path_factory.mktemp("written")
    export_finetuned(finished[0], str(written / "good or bad"))
    moved = tmp_path_factory.mktemp("moved") / "elsewhere"
    shutil.move(written, moved)
    return finished[0], str(moved / "good or bad"), str(moved / "good or bad_ids")


def test_a_fresh_process_answers_what_predict_writes(exported, tmp_path):
    workdir, raw, _ = exported
    texts = ["the day was warm.", "a very grim day", "", "so " * 60 + "kind"]
    file = tmp_path / "texts.tsv"
    file.write_text("sentence\n" + "".join(f"{text}\n" for text in texts))
    FinetunedRun(workdir).predict(str(file), str(tmp_path / "answers"))
    expected = [json.loads(line) for line in (tmp_path / "answers" / "probabilities.jsonl").read_text().splitlines()]
    outputs = json.loads(run_python(_ASK, raw, json.dumps(texts)))
    np.testing.assert_allclose(
        outputs["probabilities"], [list(prediction["probabilities"].values()) for prediction in expected], atol=1e-6
    )
    assert outputs["truncated"] == [False, False, False, True]


def test_the_ids_export_answers_the_same_from_ids(exported):
    _, raw, ids = exported
    rows = np.array([[2, 7, 8, 3, 0], [2, 9, 3, 0, 0]], np.int32)
    inputs = {"input_word_ids": rows, "input_mask": (rows > 0).astype(np.int32), "input_type_ids": rows * 0}
    inputs = {name: tf.constant(values) for name, values in inputs.items()}
    outputs = [
        saved_models.load(raw).signatures["ids"](**inputs),
        saved_models.load(ids).signatures["serving_default"](**inputs),
    ]
    np.testing.assert_array_equal(*(answers["probabilities"] for answers in outputs))
    assert set(saved_models.load(ids).signatures) == {"serving_default"}


def test_an_export_holds_the_files_that_programs_people_and_servers_need(exported):
    directory = pathlib.Path(saved_models.find(exported[1]))
    description = json.loads((directory / "export.json").read_text())
    assert (description["kind"], description["task"], description["labels"], description["max_seq_length"]) == (
        "classification",
        "classification",
        ["0", "1"],
        29,
    )
    card = (directory / "README.md").read_text()
    assert card.startswith("# good or bad\n") and "accuracy" in card and "always" in card
    assert "curl -H 'Content-Type: application/json' http" in card
    assert "`text` string [?]" in card and "`probabilities` float32 [?, 2]" in card
    requests = list(
        tf.data.TFRecordDataset(str(directory / "assets.extra" / "tf_serving_warmup_requests")).as_numpy_iterator()
    )
    request = prediction_log_pb2.PredictionLog.FromString(requests[0]).predict_log.request
    assert request.model_spec.signature_name == "serving_default"
    inputs = {name: tf.constant(tf.make_ndarray(value)) for name, value in request.inputs.items()}
    outputs = saved_models.load(exported[1]).signatures["serving_default"](**inputs)
    np.testing.assert_allclose(tf.reduce_sum(outputs["probabilities"], axis=1), 1.0, atol=1e-6)
    names = set(json.loads((directory / "manifest.json").read_text())["sha256"])
    assert {"export.json", "README.md", "vocab.txt", "config.json", "assets.extra/tf_serving_warmup_requests"} <= names


def test_only_a_fine_tuned_run_is_recognized_and_exported_as_one(exported, tmp_path):
    assert is_finetuned(exported[0]) and not is_finetuned(tmp_path)
    with pytest.raises(UserError, match="holds no fine-tuning run"):
        export_finetuned(str(tmp_path), str(tmp_path / "out"))
    assert not os.path.exists(tmp_path / "out")


def test_a_single_checkpoint_of_a_fine_tuned_run_and_an_empty_export_name_are_refused(exported):
    (best,) = checkpoints.best_checkpoints(exported[0])
    with pytest.raises(
        UserError,
        match=f"is one checkpoint of a fine-tuned run, but the export takes the run's best weights; give "
        f"--workdir={exported[0]}",
    ):
        refuse_single_checkpoint(best)
    refuse_single_checkpoint(exported[0])
    with pytest.raises(UserError, match="--export_dir is empty"):
        export_finetuned(exported[0], "/")


def test_vectors_of_several_seeds_are_those_of_the_best_seed(exported, tmp_path):
    shutil.copytree(exported[0], tmp_path / "seeds" / "seed-3")
    values = {"metric": "accuracy", "runs": [{"seed": 3, "best": {"score": 0.9}}, {"seed": 4, "failed": "step 1"}]}
    (tmp_path / "seeds" / "results.json").write_text(json.dumps(values))
    vectors = [
        embedding_module(str(path))[0].exported["serving_default"](["so kind"])["embedding"]
        for path in (tmp_path / "seeds", exported[0])
    ]
    np.testing.assert_array_equal(*vectors)


def test_scores_and_tuned_values_are_ignored_if_they_belong_to_other_weights(exported, tmp_path):
    shutil.copytree(exported[0], tmp_path / "run")
    path = tmp_path / "run" / "results.json"
    results_of_run = {**json.loads(path.read_text()), "tuned": {"n_best_size": 3}}
    path.write_text(json.dumps(results_of_run))
    assert results.tuned(str(tmp_path / "run")) == {"n_best_size": 3}
    best = results_of_run["best"]
    # The file now looks as if the run had continued after the export.
    path.write_text(json.dumps({**results_of_run, "best": {**best, "step": best["step"] + 1}}))
    assert results.read_best_weights(str(tmp_path / "run")) == results.tuned(str(tmp_path / "run")) == {}


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_a_program_in_c_gets_the_same_probabilities(exported, tmp_path):
    directory = saved_models.find(exported[1])
    program = tmp_path / "ask"
    # The default linker takes five times as long to read TensorFlow's library of a gigabyte.
    linker = ["-fuse-ld=gold"] if shutil.which("ld.gold") else []
    subprocess.run(
        [
            "gcc",
            *linker,
            "-o",
            str(program),
            str(pathlib.Path(__file__).with_name("ask_saved_model.c")),
            f"-I{TENSORFLOW / 'include'}",
            str(TENSORFLOW / "libtensorflow_cc.so.2"),
            str(TENSORFLOW / "libtensorflow_framework.so.2"),
            f"-Wl,-rpath,{TENSORFLOW}",
        ],
        check=True,
    )
    model = saved_model_pb2.SavedModel.FromString((pathlib.Path(directory) / "saved_model.pb").read_bytes())
    signature = model.meta_graphs[0].signature_def["serving_default"]
    input_operation = signature.inputs["text"].name.split(":")[0]
    output_operation, index = signature.outputs["probabilities"].name.split(":")
    text = "the day was very warm."
    done = subprocess.run(
        [str(program), directory, input_operation, output_operation, index, text, *map(str, KERNELS)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    expected = saved_models.load(directory).signatures["serving_default"](text=tf.constant([text]))["probabilities"]
    np.testing.assert_allclose([float(line) for line in done.stdout.split()], expected[0], atol=1e-6)


def test_a_fine_tuned_run_is_exported_for_its_task_or_for_vectors(run, exported, tmp_path):  # noqa: F811
    result = run("export", f"--workdir={exported[0]}", f"--export_dir={tmp_path}/my task")
    assert result.returncode == 0 and result.stdout == (
        f"exported {tmp_path}/my task/1\nexported {tmp_path}/my task_ids/1\n"
    ), result.stderr
    assert json.loads((tmp_path / "my task/1/export.json").read_text())["kind"] == "classification"
    result = run(
        "export", f"--workdir={exported[0]}", f"--export_dir={tmp_path}/vectors", "--kind=embeddings", "--layer=-1"
    )
    assert result.returncode == 0 and result.stdout.endswith(f"exported {tmp_path}/vectors/1\n"), result.stderr
    assert json.loads((tmp_path / "vectors/1/export.json").read_text())["kind"] == "embeddings"
    result = run("export", f"--workdir={exported[0]}", f"--export_dir={tmp_path}/my task", "--top_k=3")
    assert result.returncode == 2 and "has no meaning for a fine-tuned run" in result.stderr

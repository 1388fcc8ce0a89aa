"""The road of symbols with channels through the commands: corpus, training, answers, export."""

import json
import random

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.export import saved_models
from keras_bert_app.serving.litert_model import LiteRTModel
from pipelines.corpus.manifest import load_manifest
from pipelines.wordpiece.tokenizer import BertTokenizer

CODES = [f"C{number}" for number in range(12)]
CONFIG = {
    "tokenizer": "symbols",
    "channels": ["age:100", "dose:v2:masked"],
    "positions": "lines",
    "vocab_size": 5 + len(CODES),
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 32,
}
CHANNELS = "--channels=age:100,dose:v2"


@pytest.fixture(scope="module")
def patients(tmp_path_factory):
    """A directory with visits.jsonl, examples whose label depends on the age alone, and a configuration."""
    directory, draw = tmp_path_factory.mktemp("my patients"), random.Random(1)
    records = []
    for _ in range(60):
        visits = [draw.sample(CODES, draw.randint(1, 4)) for _ in range(draw.randint(2, 4))]
        ages = [draw.randrange(100) for _ in visits]
        doses = [[[draw.random(), 1] if draw.random() < 0.5 else None for _ in visit] for visit in visits]
        records.append({"text": [*map(" ".join, visits), ""], "age": [*ages, None], "dose": [*doses, []]})
    (directory / "visits.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    for split, number in (("train", 160), ("dev", 20)):
        examples = []
        for _ in range(number):
            age = draw.choice([20, 21, 70, 71])
            examples.append(f"{draw.choice(CODES)}|{age}| {draw.choice(CODES)}||\t{'old' if age > 50 else 'young'}\n")
        (directory / f"{split}.tsv").write_text("text\tlabel\n" + "".join(examples))
    (directory / "config.json").write_text(json.dumps(CONFIG))
    return directory


@pytest.fixture
def trained(run, patients):
    """The work directory of a pre-training of two steps."""
    workdir = patients / "run"
    if workdir.exists():
        return workdir
    source = f"--input_files={patients / 'visits.jsonl'}"
    done = run("learn_vocab", "--tokenizer=symbols", CHANNELS, source, f"--vocab_file={patients / 'codes.txt'}")
    assert done.returncode == 0, done.stderr
    done = run(
        "pretrain",
        f"--config={patients / 'config.json'}",
        source,
        f"--vocab_file={patients / 'codes.txt'}",
        "--max_seq_length=32",
        "--max_predictions_per_seq=5",
        "--global_batch_size=8",
        "--num_train_steps=2",
        "--holdout_fraction=0.1",
        "--jit_compile=none",
        f"--workdir={workdir}",
    )
    assert done.returncode == 0, done.stderr
    assert "60 lines of JSON records, or FASTA records, that have no symbol; left out" in done.stdout
    return workdir


def test_a_run_with_channels_goes_on_and_tells_its_channels(run, trained):
    manifest = load_manifest(str(trained / "corpus"))
    assert manifest["channels"] == ["age:100", "dose:v2:masked"] and manifest["counts"]["empty_lines"] == 60
    config = json.loads((trained / "config.json").read_text())
    assert (config["channels"], config["positions"]) == (CONFIG["channels"], "lines")
    done = run("pretrain", f"--workdir={trained}", "--num_train_steps=3")
    assert done.returncode == 0 and "3/3" in done.stdout, done.stderr
    done = run("inspect_data", f"--workdir={trained}", "--num=1", "--statistics_batches=1")
    assert done.returncode == 0 and "  age  - " in done.stdout and "  positions  0 1 " in done.stdout, done.stderr


def test_a_corpus_with_other_channels_is_refused_in_one_line(run, patients, trained, tmp_path):
    source, corpus = f"--input_files={patients / 'visits.jsonl'}", f"--output_dir={tmp_path / 'corpus'}"
    done = run("prepare_corpus", source, corpus, "--channels=age:100")
    assert done.returncode == 2 and "text of the format auto has no channels" in done.stderr
    done = run("prepare_corpus", source, corpus, "--input_format=symbols", "--channels=years:30")
    assert done.returncode == 2 and "visits.jsonl:1: no field 'years'; it has text, age, dose; give" in done.stderr
    done = run("prepare_corpus", source, corpus, "--input_format=symbols", "--channels=age:30")
    assert done.returncode == 2 and "visits.jsonl:1: age is '" in done.stderr and done.stderr.count("\n") == 1
    assert run("prepare_corpus", source, corpus, "--input_format=symbols", "--channels=age:100").returncode == 0
    done = run(
        "pretrain",
        f"--config={patients / 'config.json'}",
        f"--corpus_dir={tmp_path / 'corpus'}",
        f"--vocab_file={patients / 'codes.txt'}",
        "--max_seq_length=32",
        f"--workdir={tmp_path / 'run'}",
    )
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "has the channels age:100, and the model has the channels age:100,dose:v2;" in done.stderr
    both = f"--corpus_dir={trained / 'corpus'},{tmp_path / 'corpus'}"
    done = run("inspect_data", both, f"--vocab_file={patients / 'codes.txt'}", "--tokenizer=symbols")
    assert done.returncode == 2 and "the corpora have different channels" in done.stderr


def test_an_export_reads_values_in_texts_and_as_inputs(run, trained, tmp_path):
    done = run("export", f"--workdir={trained}", f"--export_dir={tmp_path / 'sm'}")
    assert done.returncode == 0, done.stderr
    done = run("fill_mask", f"--saved_model={tmp_path / 'sm'}", "C1|45|0.5,0.5 [MASK]|45|")
    assert done.returncode == 0 and sum(code in done.stdout for code in CODES) > 2, done.stderr
    done = run("fill_mask", f"--saved_model={tmp_path / 'sm'}", "C1|450| [MASK]")
    expected = "error: expected as age a whole number from 0 to 99, or nothing; got 450\n"
    assert done.returncode == 2 and done.stderr == expected
    # The signature over ids gives the states of the same text, and refuses a number outside of the table.
    rows = BertTokenizer.from_directory(str(trained)).pack(["C1|45|0.5,0.5\nC2|46|"], seq_length=6)
    encoder = saved_models.load(str(tmp_path / "sm_ids")).signatures["serving_default"]
    assert set(rows) == set(encoder.structured_input_signature[1])
    states = encoder(**rows)["sequence_output"]
    weights_model = saved_models.load(str(tmp_path / "sm")).signatures["ids"](**rows)["sequence_output"]
    np.testing.assert_allclose(states, weights_model, atol=1e-6)
    for name in ("input_age", "input_positions", "input_dose"):
        changed = encoder(**rows | {name: tf.zeros_like(rows[name])})["sequence_output"]
        assert np.abs(changed - states).max() > 1e-4, name
    preprocess = saved_models.load(str(tmp_path / "sm_preprocess"))(tf.constant(["C1|45|0.5,0.5\nC2|46|"]))
    np.testing.assert_array_equal(preprocess["input_dose"][:, :6], rows["input_dose"])
    with pytest.raises(tf.errors.InvalidArgumentError, match="input_age: expected numbers from 0 to"):
        encoder(**rows | {"input_age": rows["input_age"] + 200})


def test_a_task_learns_from_a_channel_and_its_export_gives_the_answers_of_the_run(run, patients, trained, tmp_path):
    done = run(
        "finetune",
        "--task=classification",
        f"--data_dir={patients}",
        f"--init_checkpoint={trained}",
        "--num_train_epochs=15",
        "--learning_rate=1e-2",
        "--pooling=mean",
        "--jit_compile=none",
        "--length_buckets=false",
        "--max_seq_length=8",
        f"--workdir={tmp_path / 'task'}",
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "task" / "results.json").read_text())["last"]["score"] == 1.0
    done = run("export", f"--workdir={tmp_path / 'task'}", f"--export_dir={tmp_path / 'sm'}")
    assert done.returncode == 0, done.stderr
    answer = saved_models.load(str(tmp_path / "sm")).signatures["serving_default"]
    texts = ["C3|20| C4||", "C3|71| C4||"]
    assert answer(text=tf.constant(texts))["label"].numpy().tolist() == [b"young", b"old"]
    done = run("predict", f"--workdir={tmp_path / 'task'}", "--text", "C3|20")
    assert done.returncode == 2 and done.stderr.endswith("with values for age, dose, each after a |; got C3|20\n")
    (tmp_path / "texts.tsv").write_text("text\nC3|200|\n")
    done = run(
        "predict",
        f"--workdir={tmp_path / 'task'}",
        f"--input_file={tmp_path / 'texts.tsv'}",
        f"--output_dir={tmp_path}",
    )
    assert done.returncode == 2 and "the text that begins 'C3|200|': 'C3|200|': age is '200'" in done.stderr


def test_commands_that_cannot_give_the_values_say_so_in_one_line(run, patients, trained, tmp_path):
    tree_config = tmp_path / "tree.json"
    tree_config.write_text(json.dumps({**CONFIG, "token_vectors": "groups", "token_vectors_shape": [2, 1]}))
    cases = [
        (("convert", f"--input={trained}", "--to=huggingface", f"--output={tmp_path / 'hf'}"), "write --to=workdir"),
        (("generate", f"--workdir={trained}", "C1"), "reads channels or positions of lines"),
        (
            (
                "finetune",
                "--task=rewrite",
                f"--data_dir={patients}",
                f"--init_checkpoint={trained}",
                "--max_seq_length=16",
                f"--workdir={tmp_path / 'w'}",
            ),
            "--task=rewrite: does not read channels",
        ),
        (
            (
                "finetune",
                "--task=pos",
                f"--data_dir={patients}",
                f"--init_checkpoint={trained}",
                "--max_seq_length=16",
                f"--workdir={tmp_path / 'w'}",
            ),
            "--task=pos: reads words without their lines",
        ),
        (
            (
                "finetune",
                "--task=classification",
                f"--data_dir={patients}",
                f"--config={tree_config}",
                f"--vocab_file={patients / 'codes.txt'}",
                f"--workdir={tmp_path / 'w'}",
            ),
            "--config: this model has groups vectors from a file",
        ),
        (
            (
                "pretrain",
                f"--config={tree_config}",
                f"--vocab_file={patients / 'codes.txt'}",
                f"--input_files={patients / 'visits.jsonl'}",
                "--max_seq_length=16",
                f"--workdir={tmp_path / 'w'}",
            ),
            "no file gives these vectors; add --token_groups or --given_vectors",
        ),
    ]
    for arguments, words in cases:
        done = run(*arguments)
        assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1, done.stderr


@pytest.mark.slow
def test_litert_takes_the_values_as_inputs(run, trained, tmp_path):
    done = run("export", f"--workdir={trained}", f"--export_dir={tmp_path / 'sm'}", "--litert")
    assert done.returncode == 0, done.stderr
    rows = BertTokenizer.from_directory(str(trained)).pack(["C1|45|0.5,0.5\nC2|46|"], seq_length=6)
    states = saved_models.load(str(tmp_path / "sm_ids")).signatures["serving_default"](**rows)["sequence_output"]
    model = LiteRTModel((tmp_path / "sm_ids" / "1" / "model.tflite").read_bytes())
    outputs = model(**{name: values.numpy() for name, values in rows.items()})
    np.testing.assert_allclose(outputs["sequence_output"], states, atol=1e-5)

"""The convert command, and training that starts from the models that it reads."""

import json
import pathlib
import shutil

import numpy as np
import pytest

from keras_bert_app import load_pretrained
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.config.prompts import Prompts
from keras_bert_app.config.weight_shapes import part_of, shapes
from keras_bert_app.interop import load, own_layout
from keras_bert_app.interop.huggingface import sentence_transformers_files
from keras_bert_app.interop.huggingface.sentence_transformers_files import SentenceTransformer
from keras_bert_app.runs import checkpoints
from keras_bert_app.training import initialization, pretraining_start
from tests.cli.test_commands import assert_refused
from tests.interop.conftest import CONFIGS, assert_same, make_weights
from tests.random_models import write_random_model

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
TEXT = "".join(f"a b c {letter}\nd e f g\nh i {letter} j\n\n" for letter in "abcdefghijklmnop")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A work directory with random weights. Its name has a space."""
    directory = str(tmp_path_factory.mktemp("my models") / "a source")
    own_layout.write(make_weights(CONFIGS["three_layers"]), directory)
    return directory


def test_a_folder_of_sentence_transformers_loses_its_steps_in_another_layout_and_a_line_says_so(run, tmp_path):
    folder = tmp_path / "vectors"
    write_random_model(folder, ["a", "b"])
    prompts = Prompts({"query": "a "})
    sentence_transformers_files.write(
        str(folder), SentenceTransformer("mean", True, 12, "", (), prompts=prompts), 22, 40
    )
    result = run("convert", f"--input={folder}", "--to=workdir", f"--output={tmp_path}/out")
    assert result.returncode == 0, result.stderr
    said = "(mean of the last layer, of length 1; prompts query 'a '); --to=sentence_transformers keeps it"
    assert f"left out: how a text gets its vector {said}" in " ".join(result.stdout.split())
    result = run("convert", f"--input={folder}", "--to=sentence_transformers", f"--output={tmp_path}/kept")
    assert result.returncode == 0 and "left out: how" not in result.stdout


@pytest.mark.parametrize(
    "layout, dropped",
    [("workdir", ""), ("huggingface", ""), ("google_tf1", ""), ("keras_hub", "next_sentence"), ("model_garden", "")],
)
def test_each_layout_gives_the_same_bits_back_and_convert_names_the_part_that_is_left_out(
    run, source, tmp_path, layout, dropped
):
    out, back = str(tmp_path / "out"), str(tmp_path / "back")
    result = run("convert", f"--input={source}", f"--to={layout}", f"--output={out}")
    assert result.returncode == 0, result.stderr
    assert "read back bit for bit" in result.stdout and (not dropped or f"{dropped} is left out" in result.stdout)
    # A KerasHub preset never has next_sentence, so convert needs no --allow_missing.
    result = run("convert", f"--input={out}", "--to=workdir", f"--output={back}")
    assert result.returncode == 0, result.stderr
    first, last = own_layout.read(source), own_layout.read(back)
    kept = [path for path in first.tensors if not dropped or not path.startswith(dropped)]
    assert set(last.tensors) == set(kept)
    for path in kept:
        np.testing.assert_array_equal(last.tensors[path], first.tensors[path], err_msg=path)
    assert last.vocabulary == first.vocabulary


def test_check_compares_with_stored_values_and_a_changed_weight_gives_exit_code_1(run, source, tmp_path):
    out = tmp_path / "out"
    run("convert", f"--input={source}", "--to=google_tf1", f"--output={out}", "--write_parity")
    result = run("convert", f"--input={out}", "--check")
    assert result.returncode == 0 and "layer_2" in result.stdout and "outputs are the same" in result.stdout
    weights = load.format_module("google_tf1").read(str(out))
    weights.tensors["encoder/layer_1/output/bias"][3] += 0.01
    shutil.move(out / "parity.npz", tmp_path)
    shutil.rmtree(out)
    load.write_weights(weights, "google_tf1", str(out))
    shutil.move(tmp_path / "parity.npz", out)
    result = run("convert", f"--input={out}", "--check")
    assert result.returncode == 1 and "first layer_1" in result.stdout


def test_one_command_makes_several_changes_to_a_model_and_reports_each(run, source, tmp_path):
    out = str(tmp_path / "out")
    vocabulary = tmp_path / "larger.txt"
    vocabulary.write_bytes(own_layout.read(source).vocabulary.replace(b"a\n", b"a\nzz\n"))
    result = run(
        "convert",
        f"--input={source}",
        "--to=workdir",
        f"--output={out}",
        "--keep_layers=0,2",
        "--max_position_embeddings=40",
        "--tie_word_embeddings=false",
        "--drop_parts=next_sentence",
        f"--vocab_file={vocabulary}",
    )
    assert result.returncode == 0, result.stderr
    for change in ("layers 3 -> 2", "positions 23 -> 40", "untied", "dropped: next_sentence", "entries:"):
        assert change in result.stdout
    weights = own_layout.read(out)
    assert weights.config.num_hidden_layers == 2 and weights.parts() == ("encoder", "pooler", "masked_lm")


@pytest.mark.parametrize(
    "arguments, parts",
    [
        (["--input="], ["--input is missing"]),
        (["--input={source}", "--to=huggingface"], ["--output", "belong together"]),
        (["--input={tmp}/nothing"], ["no such file or directory", "huggingface"]),
        (["--input={tmp}"], ["in none of the layouts", "other.txt"]),
        (["--input={source}", "--allow_missing=encoder"], ["--allow_missing=encoder", "pooler"]),
        (["--input={source}", "--to=workdir", "--output={tmp}"], ["not empty"]),
        (["--input={source}", "--keep_layers=first"], ["--keep_layers=first"]),
        (["--input={source}", "--vocab_file={tmp}/none.txt"], ["none.txt", "cannot be read"]),
        (["--input=hf://nobody/nothing"], ["hf://nobody/nothing", "cannot be fetched"]),
    ],
)
def test_wrong_flags_are_refused_in_one_line(run, source, tmp_path, monkeypatch, arguments, parts):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")  # so that the test does not wait for a network
    (tmp_path / "other.txt").touch()
    assert_refused(run("convert", *(argument.format(source=source, tmp=tmp_path) for argument in arguments)), *parts)


def test_a_head_that_is_missing_is_refused_unless_allowed_and_then_has_no_outputs(tmp_path):
    encoder = str(GOLDEN / "huggingface_files" / "encoder")
    with pytest.raises(Exception, match="allow_missing=masked_lm continues"):
        load_pretrained(encoder)
    model = load_pretrained(encoder, allow_missing=("masked_lm", "next_sentence"))
    ids = np.array([[1, 2, 3]])
    outputs = model({"input_word_ids": ids, "input_mask": ids * 0 + 1, "input_type_ids": ids * 0})
    assert "pooled_output" in outputs and {"mlm_logits", "nsp_logits"}.isdisjoint(outputs)


@pytest.mark.parametrize("layout", ["huggingface", "google_tf1", "workdir"])
def test_a_model_without_heads_needs_a_flag_only_in_the_layout_of_google(run, source, tmp_path, layout):
    parts, model, workdir = ["masked_lm", "next_sentence"], str(tmp_path / "model"), str(tmp_path / "ours")
    run("convert", f"--input={source}", f"--to={layout}", f"--output={model}", f"--drop_parts={','.join(parts)}")
    result = run("convert", f"--input={model}", "--to=workdir", f"--output={workdir}")
    if layout == "google_tf1":  # Google's pre-trained checkpoints have both heads, so the heads may have been lost
        assert_refused(result, "--allow_missing=masked_lm", "--allow_missing=next_sentence")
        return
    assert result.returncode == 0 and "  has no masked_lm: " in result.stdout, result.stderr
    weights, lines = pretraining_start.load_initial(PretrainingConfig(init_checkpoint=workdir))
    assert weights.parts() == ("encoder", "pooler")
    assert lines[1:3] == [f"  has no {part}: the work directory was made without one" for part in parts]
    # check_fits accepts absent parts, which start from scratch.
    initialization.check_fits(shapes(weights.config), weights, workdir)


def test_pretraining_starts_from_another_layout_with_its_configuration_and_vocabulary(run, source, tmp_path):
    start = str(tmp_path / "hf")
    flags = ("--drop_parts=next_sentence", "--keep_layers=0")  # a run of one layer takes a third of the time
    run("convert", f"--input={source}", "--to=huggingface", f"--output={start}", *flags)
    (tmp_path / "text.txt").write_text(TEXT)
    arguments = [
        f"--init_checkpoint={start}",
        f"--input_files={tmp_path}/text.txt",
        f"--workdir={tmp_path}/run",
        "--max_seq_length=16",
        "--global_batch_size=4",
        "--num_train_steps=2",
        "--learning_rate=0",
        "--holdout_fraction=0",
    ]
    result = run("pretrain", *arguments)  # BertForMaskedLM never has a pooler or a next-sentence head
    assert result.returncode == 0, result.stderr
    assert "has no next_sentence: BertForMaskedLM never has one" in result.stdout
    assert "from scratch, seed 12345: next_sentence, pooler" in result.stdout
    first, trained = own_layout.read(source), own_layout.read(f"{tmp_path}/run")
    assert trained.parts() == ("encoder", "pooler", "masked_lm", "next_sentence")
    assert trained.vocabulary == first.vocabulary and trained.config.hidden_act == first.config.hidden_act
    for path, tensor in trained.tensors.items():
        assert part_of(path) in ("next_sentence", "pooler") or np.array_equal(tensor, first.tensors[path]), path


def test_an_activation_other_than_that_of_the_start_is_refused_and_leaves_no_run(run, source, tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    result = run(
        "pretrain",
        f"--init_checkpoint={source}",
        f"--input_files={tmp_path}/text.txt",
        f"--workdir={tmp_path}/run",
        "--max_seq_length=16",
        "--hidden_act=gelu_tanh",
    )
    assert_refused(result, "hidden_act", "gelu_exact", "gelu_tanh")
    assert not (tmp_path / "run" / "config.json").exists()


def test_pretrain_refuses_a_converted_directory_as_workdir_and_says_how_to_continue(run, source, tmp_path):
    result = run("pretrain", f"--workdir={source}", "--num_train_steps=2")
    assert_refused(result, "so it is not a run", "--init_checkpoint")


def test_a_work_directory_keeps_task_and_labels(tmp_path):
    weights = make_weights(CONFIGS["one_layer"])
    hidden = weights.config.hidden_size
    weights.tensors.update(
        {"classifier/kernel": np.ones((hidden, 3), np.float32), "classifier/bias": np.zeros(3, np.float32)}
    )
    weights = weights.__class__(
        **{**vars(weights), "task": "sequence_classification", "labels": ("no", "maybe", "yes")}
    )
    own_layout.write(weights, str(tmp_path / "classes"))
    assert_same(own_layout.read(str(tmp_path / "classes")), weights)
    with open(tmp_path / "classes" / "config.json", encoding="utf-8") as file:
        assert json.load(file)["id2label"] == {"0": "no", "1": "maybe", "2": "yes"}


def test_a_changed_byte_of_a_converted_directory_is_named(source, tmp_path):
    copy = str(tmp_path / "copy")
    shutil.copytree(source, copy)
    path = next(pathlib.Path(checkpoints.list_checkpoints(copy)[0]).glob("*.data-*"))
    content = bytearray(path.read_bytes())
    content[7] ^= 1
    path.write_bytes(content)
    with pytest.raises(Exception, match="data-00000-of-00001 is damaged"):
        load_pretrained(copy)


def test_load_pretrained_accepts_a_path_object(source):
    assert load_pretrained(pathlib.Path(source)).parts == ("encoder", "pooler", "masked_lm", "next_sentence")


def test_a_directory_of_the_user_beside_the_output_is_not_deleted(run, source, tmp_path):
    (tmp_path / "new.writing").mkdir()
    (tmp_path / "new.writing" / "thesis.txt").touch()
    assert run("convert", f"--input={source}", "--to=workdir", f"--output={tmp_path}/new").returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "new.writing"]
    assert (tmp_path / "new.writing" / "thesis.txt").exists()


@pytest.mark.parametrize(
    "flag, part",
    [
        ("--num_hidden_layers=1", "layer_1"),
        ("--num_hidden_layers=5", "layer_3"),
        ("--tie_word_embeddings=false", "output_embeddings"),
        ("--max_position_embeddings=40", "position_embeddings"),
    ],
)
def test_flags_that_would_silently_drop_or_reinitialize_weights_are_refused(run, source, tmp_path, flag, part):
    (tmp_path / "text.txt").write_text(TEXT)
    result = run(
        "pretrain",
        f"--init_checkpoint={source}",
        f"--input_files={tmp_path}/text.txt",
        f"--workdir={tmp_path}/run",
        "--max_seq_length=16",
        "--num_train_steps=1",
        flag,
    )
    assert_refused(result, part, "convert")


@pytest.mark.parametrize(
    "flag, key",
    [
        ("--is_causal", "is_causal"),
        ("--hidden_act=relu", "hidden_act"),
        ("--num_attention_heads=1", "num_attention_heads"),
    ],
)
def test_flags_that_change_the_computation_of_the_start_are_refused(run, source, tmp_path, flag, key):
    (tmp_path / "text.txt").write_text(TEXT)
    result = run(
        "pretrain",
        f"--init_checkpoint={source}",
        f"--input_files={tmp_path}/text.txt",
        f"--workdir={tmp_path}/run",
        "--max_seq_length=16",
        "--num_train_steps=1",
        flag,
    )
    assert_refused(result, f"{key} ", "was given", "leave out --config")


def test_a_vocabulary_larger_than_the_table_of_the_start_is_refused(run, tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{number}" for number in range(100))]
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    start = GOLDEN / "huggingface_files" / "pretraining"
    assert_refused(
        run(
            "pretrain",
            f"--init_checkpoint={start}",
            f"--vocab_file={tmp_path}/vocab.txt",
            f"--input_files={tmp_path}/text.txt",
            f"--workdir={tmp_path}/run",
            "--max_seq_length=8",
        ),
        "105 entries",
        "convert --vocab_file",
    )


def test_a_preset_name_reaches_the_hub_unchanged(run, monkeypatch, tmp_path):
    monkeypatch.setattr("keras_bert_app.interop.hub._keras_hub_preset", lambda handle: 1 / 0)
    result = run(
        "pretrain", "--init_checkpoint=bert_tiny_en_uncased", f"--input_files={tmp_path}", f"--workdir={tmp_path}/run"
    )
    assert_refused(result, "bert_tiny_en_uncased: cannot be fetched (division by zero)")


@pytest.mark.parametrize(
    "arguments, parts",
    [
        (["--to=workdir", "--output=ram://x/y"], ["ram://x/y", "not a local directory"]),
        (["--keep_layers=²"], ["--keep_layers=²"]),
        (["--write_parity"], ["--write_parity", "--output"]),
        (["--reference_python=python"], ["--reference_python", "--check"]),
    ],
)
def test_flags_that_convert_cannot_follow_are_refused(run, source, arguments, parts):
    assert_refused(run("convert", f"--input={source}", *arguments), *parts)


def test_vocab_file_becomes_the_vocabulary_of_weights_that_have_none(run, tmp_path):
    encoder, out = GOLDEN / "huggingface_files" / "encoder", tmp_path / "out"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    result = run(
        "convert",
        f"--input={encoder}",
        "--to=workdir",
        f"--output={out}",
        f"--vocab_file={tmp_path}/vocab.txt",
    )
    assert result.returncode == 0 and "so --vocab_file becomes its vocabulary" in result.stdout, result.stderr
    assert own_layout.read(str(out)).vocabulary == (tmp_path / "vocab.txt").read_bytes()


def test_a_model_whose_untied_head_is_dropped_can_be_written_for_google_tf1(run, source, tmp_path):
    result = run(
        "convert", f"--input={source}", "--tie_word_embeddings=false", "--to=workdir", f"--output={tmp_path}/untied"
    )
    assert result.returncode == 0, result.stderr
    result = run(
        "convert", f"--input={tmp_path}/untied", "--drop_parts=masked_lm", "--to=google_tf1", f"--output={tmp_path}/out"
    )
    assert result.returncode == 0, result.stderr


def test_the_start_may_lack_a_part_that_the_run_does_not_train(run, source, tmp_path):
    result = run(
        "convert",
        f"--input={source}",
        "--drop_parts=pooler,next_sentence",
        "--keep_layers=0",
        "--to=workdir",
        f"--output={tmp_path}/start",
    )
    assert result.returncode == 0, result.stderr
    (tmp_path / "text.txt").write_text(TEXT)
    result = run(
        "pretrain",
        f"--init_checkpoint={tmp_path}/start",
        f"--input_files={tmp_path}/text.txt",
        f"--workdir={tmp_path}/run",
        "--max_seq_length=16",
        "--sentence_objective=none",
        "--num_train_steps=1",
        "--global_batch_size=2",
        "--holdout_fraction=0",
        "--jit_compile=none",
    )
    assert result.returncode == 0 and "step 1/1" in result.stdout, result.stderr

"""Runs that stop and continue, that start from other runs, and that keep their checkpoints."""

import dataclasses
import json
import os
import shutil

import numpy as np
import pytest

from keras_bert_app import load_pretrained
from keras_bert_app.errors import UserError
from keras_bert_app.runs import checkpoint_manifests, checkpoints
from keras_bert_app.runs.work_directory import ExistingRun
from keras_bert_app.training import pretrain, pretraining_corpora, pretraining_data, pretraining_start
from pipelines.corpus import preparation
from pipelines.examples.units import Lexicon
from pipelines.wordpiece.tokenizer import BertTokenizer
from tests.interop.conftest import make_weights
from tests.training.conftest import CONFIG, RUN, VOCABULARY, WITH_DROPOUT, WORDS, finished, train
from tests.training.runs import interrupt_after, largest_difference, rows_of, weights_of


def test_a_resumed_run_ends_with_the_same_bits(dropout_run, make_workdir, training_shards):
    # A signal stops the run as a user would. Fewer num_train_steps would change the schedule.
    parts = make_workdir("parts", WITH_DROPOUT)
    interrupt_after(parts, training_shards, 3)
    train(parts, training_shards)
    assert largest_difference(dropout_run[0], parts) == 0.0
    assert rows_of(dropout_run[0])[-1]["loss"] == rows_of(parts)[-1]["loss"]
    assert [row["step"] for row in rows_of(parts)] == sorted(row["step"] for row in rows_of(parts))


def test_a_run_may_continue_with_gradient_accumulation(plain_run, make_workdir, training_shards):
    workdir = make_workdir("in parts")
    interrupt_after(workdir, training_shards, 3)
    _, run = ExistingRun.read(workdir).resumed(None, {"gradient_accumulation_steps": 2})
    make_workdir("in parts", run=run)
    train(workdir, training_shards)
    assert 0.0 < largest_difference(plain_run[0], workdir) < 1e-4


def test_a_finished_run_evaluates_again_and_keeps_its_metrics(plain_run, tmp_path, shards):
    workdir = str(tmp_path / "finished")
    shutil.copytree(plain_run[0], workdir)
    assert train(workdir, shards)[0] == plain_run[1]
    assert rows_of(workdir) == rows_of(plain_run[0])


def test_a_run_takes_its_weights_from_another_run_and_counts_its_steps_from_zero(
    plain_run, make_workdir, training_shards
):
    second = make_workdir(
        "second", run=dataclasses.replace(RUN, init_checkpoint=plain_run[0], learning_rate=0.0, num_train_steps=1)
    )
    _, output = train(second, training_shards)
    assert largest_difference(plain_run[0], second) == 0.0
    assert f"weights from {plain_run[0]}, optimizer and steps new" in output
    assert f"{checkpoints.list_checkpoints(plain_run[0])[-1]}: " in output


def test_load_pretrained_and_a_resumed_run_refuse_a_damaged_or_missing_checkpoint_file_by_name(
    plain_run, tmp_path, shards
):
    workdir = str(tmp_path / "damaged")
    shutil.copytree(plain_run[0], workdir)
    checkpoint = checkpoints.list_checkpoints(workdir)[-1]
    data_file = next(name for name in sorted(os.listdir(checkpoint)) if ".data-" in name)
    path = os.path.join(checkpoint, data_file)
    with open(path, "rb") as file:
        content = file.read()
    for damaged in (content[:-1], content[:100] + bytes([content[100] ^ 1]) + content[101:]):
        with open(path, "wb") as file:
            file.write(damaged)
        with pytest.raises(UserError, match=data_file):
            load_pretrained(workdir)
    with pytest.raises(UserError, match=data_file):
        train(workdir, shards)
    os.remove(path)
    with pytest.raises(UserError, match=data_file):
        load_pretrained(workdir)
    os.remove(os.path.join(checkpoint, "manifest.json"))
    with pytest.raises(UserError, match="manifest.json"):
        load_pretrained(workdir)


@pytest.fixture(scope="module")
def saved_often(tmp_path_factory, shards):
    """The work directory of a run with several checkpoints. No test may change it."""
    run = dataclasses.replace(RUN, save_checkpoints_steps=3, keep_checkpoints=3, keep_every_steps=9)
    return finished(tmp_path_factory, (shards[0], []), "often", run=run)[0]


def test_a_checkpoint_of_another_stream_of_examples_is_refused(saved_often, tmp_path, shards):
    workdir = str(tmp_path / "other")
    shutil.copytree(saved_often, workdir)
    path = os.path.join(checkpoints.list_checkpoints(workdir)[-1], "manifest.json")
    with open(path, encoding="utf-8") as file:
        manifest = json.load(file)
    manifest["stream"] += 1
    del manifest["sha256"]
    with open(path, "w", encoding="utf-8") as file:
        file.write(checkpoint_manifests.manifest_text(manifest))
    with pytest.raises(UserError, match="counts the examples of stream 3, but this version .* makes stream 2"):
        train(workdir, shards)


def test_the_newest_checkpoints_and_those_of_every_ninth_step_are_kept(saved_often):
    assert [int(path[-8:]) for path in checkpoints.list_checkpoints(saved_often)] == [9, 15, 18, 20]


def prepared_corpora(workdir, run):
    return pretraining_corpora.prepared_corpora(ExistingRun.read(workdir), run)


def test_another_corpus_is_refused_on_resume(make_workdir, tmp_path):
    for name, words in (("a", "one two three."), ("b", "four five six.")):
        preparation.prepare_corpus(str(tmp_path / name), documents=iter([[words, words]] * 3), holdout_fraction=0.0)
    run = dataclasses.replace(RUN, corpus_dir=(str(tmp_path / "a"),))
    workdir = make_workdir("corpus", run=run)
    prepared_corpora(workdir, run)
    os.makedirs(os.path.join(workdir, "checkpoints", "step-00000001"))  # the run has begun
    with pytest.raises(UserError, match="another corpus"):
        prepared_corpora(workdir, dataclasses.replace(run, corpus_dir=(str(tmp_path / "b"),)))


def test_changed_text_of_a_run_is_refused_at_every_start(make_workdir, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("one two three.\nfour five six.\n\none one.\nsix six.\n", encoding="utf-8")
    run = dataclasses.replace(RUN, input_files=(str(text),), corpus_dir=(), holdout_fraction=0.0)
    workdir = make_workdir("changed", run=run)
    prepared_corpora(workdir, run)
    os.makedirs(os.path.join(workdir, "checkpoints", "step-00000001"))  # the run has begun
    shutil.rmtree(os.path.join(workdir, "corpus"))
    text.write_text("seven eight.\nnine ten.\n\neight eight.\nten ten.\n", encoding="utf-8")
    for _ in range(3):
        with pytest.raises(UserError, match="another corpus"):
            prepared_corpora(workdir, run)


def test_changed_text_is_prepared_again_only_before_the_first_checkpoint_and_only_if_its_files_exist(
    make_workdir, tmp_path, capsys
):
    text = tmp_path / "text.txt"

    def write(*words):
        text.write_text("".join(f"one {word}.\ntwo {word}.\n\n" for word in words), encoding="utf-8")

    write("day", "night")
    run = dataclasses.replace(RUN, input_files=(str(tmp_path / "*.txt"),), corpus_dir=(), holdout_fraction=0.0)
    workdir = make_workdir("mended", run=run)

    def documents():
        (manifest,) = prepared_corpora(workdir, run).values()
        return manifest["train"]["documents"], "have changed since" in capsys.readouterr().out

    assert documents() == (2, False) == documents()
    write("day", "night", "morning")
    assert documents() == (3, True) and documents() == (3, False)
    (tmp_path / "more.txt").write_text("one noon.\ntwo noon.\n\none dawn.\ntwo dawn.\n", encoding="utf-8")
    assert documents() == (5, True)
    text.rename(tmp_path / "text.old")
    (tmp_path / "more.txt").unlink()
    assert documents() == (5, False)  # the corpus still holds the text of the missing file
    (tmp_path / "text.old").rename(text)
    os.makedirs(os.path.join(workdir, "checkpoints", "step-00000001"))  # the run has begun
    assert documents() == (5, False)


def test_a_corpus_that_a_start_did_not_prepare_is_never_deleted(make_workdir, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("one two three.\nfour five six.\n\none one.\nsix six.\n", encoding="utf-8")
    workdir = make_workdir("own", run=RUN)
    directory = os.path.join(workdir, "corpus")
    preparation.prepare_corpus(directory, documents=iter([["one two.", "three four."]] * 3), holdout_fraction=0.0)
    run = dataclasses.replace(RUN, input_files=(), corpus_dir=(directory,))
    prepared_corpora(workdir, run)
    # The first start saved no checkpoint. The second start has another seed.
    assert prepared_corpora(workdir, dataclasses.replace(run, seed=run.seed + 1))
    # A corpus that a start has prepared may be given as --corpus_dir.
    shutil.rmtree(workdir)
    run_of_text = dataclasses.replace(RUN, input_files=(str(text),), corpus_dir=(), holdout_fraction=0.0)
    prepared_corpora(workdir, run_of_text)
    assert prepared_corpora(workdir, run)
    assert os.path.exists(os.path.join(directory, "manifest.json"))


@pytest.mark.parametrize(
    "changes, phrases, message",
    [
        ({"hidden_size": 33, "num_attention_heads": 3}, "", "does not fit this run's model: .* expected"),
        ({}, "\n \n", "holds no phrase"),
    ],
)
def test_a_start_that_is_refused_prepares_nothing_and_leaves_no_run(tmp_path, changes, phrases, message):
    (tmp_path / "text.txt").write_text("one two.\nthree four.\n", encoding="utf-8")
    (tmp_path / "phrases.txt").write_text(phrases, encoding="utf-8")
    run = dataclasses.replace(
        RUN,
        input_files=(str(tmp_path / "text.txt"),),
        corpus_dir=(),
        init_checkpoint="" if phrases else "there",
        **({"masking": "lexicon", "lexicon_file": str(tmp_path / "phrases.txt")} if phrases else {}),
    )
    weights = None if phrases else (dataclasses.replace(make_weights(CONFIG.replace(**changes)), vocabulary=None), [])
    with pytest.raises(UserError, match=message):
        pretraining_start.launch(
            str(tmp_path / "run"), CONFIG, run, "".join(f"{piece}\n" for piece in VOCABULARY).encode(), initial=weights
        )
    assert not os.path.exists(tmp_path / "run")


def test_phrases_that_the_vocabulary_cannot_write_are_counted(make_workdir):
    tokenizer = BertTokenizer(os.path.join(make_workdir("phrases"), "vocab.txt"), True)
    (line,) = pretraining_data.unused_phrases(Lexicon(["the cat", "\u2603", "the " * 65], tokenizer))
    assert line.endswith("pieces: 2; in use: 1")
    assert not pretraining_data.unused_phrases(Lexicon(["the cat"], tokenizer))


@pytest.mark.parametrize(
    "changes, shapes",
    [
        ({"batch_ramp_steps": 6}, [(2, 32)] * 2 + [(4, 32)] * 2 + [(8, 32)] * 2 + [(16, 32)] * 2),
        ({"length_ramp_steps": 6}, [(64, 8)] * 3 + [(32, 16)] * 3 + [(16, 32)] * 2),
        ({"length_ramp_share": 0.3}, [(64, 8)] * 3 + [(32, 16)] * 3 + [(16, 32)] * 2),
        ({"batch_ramp_share": 0.3}, [(2, 32)] * 2 + [(4, 32)] * 2 + [(8, 32)] * 2 + [(16, 32)] * 2),
        (
            {"length_ramp_steps": 4, "batch_ramp_steps": 6},
            [(8, 8)] * 2 + [(8, 16)] * 2 + [(8, 32)] * 2 + [(16, 32)] * 2,
        ),
    ],
)
def test_ramps_set_the_shape_of_each_step(changes, shapes):
    run = dataclasses.replace(RUN, global_batch_size=16, max_seq_length=32, **changes)
    assert [pretraining_data.batch_shape_at(run, step) for step in range(8)] == shapes


def test_a_ramp_that_is_a_share_of_the_minutes_follows_the_clock_and_not_the_steps():
    run = dataclasses.replace(
        RUN, global_batch_size=16, max_seq_length=32, train_minutes=5.0, length_ramp_share=0.5, batch_ramp_share=0.3
    )
    for step in (0, 10**6):
        shapes = [pretraining_data.batch_shape_at(run, step, share) for share in (0.0, 0.15, 0.25, 0.35, 0.5, 1.0)]
        assert shapes == [(8, 8), (16, 8), (16, 16), (32, 16), (16, 32), (16, 32)]


def test_a_batch_has_the_shape_of_its_step(make_workdir, shards):
    run = dataclasses.replace(
        RUN, max_seq_length=32, max_predictions_per_seq=5, global_batch_size=4, length_ramp_steps=4
    )
    tokenizer = BertTokenizer(os.path.join(make_workdir("ramp", run=run), "vocab.txt"), True)
    stream = pretraining_data.training_batches(
        run, [[shards[0][0]]], tokenizer, None, pretraining_data.example_arguments(run, tokenizer, ""), 0
    )
    batches = [next(stream)[0] for _ in range(5)]
    assert [batch["input_word_ids"].shape for batch in batches] == [(16, 8)] * 2 + [(8, 16)] * 2 + [(4, 32)]
    assert [batch["masked_lm_ids"].shape[1] for batch in batches] == [2, 2, 3, 3, 5]


@pytest.mark.slow
def test_lamb_learns_a_mixture_of_corpora_by_a_lexicon_and_resumes_bit_for_bit(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(pretrain, "_draw", lambda rows, title: b"")
    generator = np.random.RandomState(4)
    for name, count in (("large", 60), ("small", 10)):
        documents = [[" ".join(generator.choice(WORDS, 6)) + "." for _ in range(5)] for _ in range(count)]
        preparation.prepare_corpus(str(tmp_path / name), documents=iter(documents), holdout_fraction=0.0)
    vocabulary = "".join(f"{piece}\n" for piece in VOCABULARY).encode()
    (tmp_path / "phrases.txt").write_text("the cat\nhills while rain\n\n\u2603\n")
    run = dataclasses.replace(
        RUN,
        corpus_dir=(str(tmp_path / "large"), str(tmp_path / "small")),
        sampling_exponent=0.5,
        masking="lexicon",
        lexicon_file=str(tmp_path / "phrases.txt"),
        optimizer="lamb",
        bias_correction=True,
        learning_rate_schedule="cosine",
        layer_decay=0.9,
        learning_rate=1e-3,
        num_train_steps=12,
        save_checkpoints_steps=6,
    )
    workdir = str(tmp_path / "run")
    pretraining_start.launch(workdir, CONFIG, run, vocabulary)
    printed = capsys.readouterr().out
    assert "mixture:" in printed and printed.count("of the examples") == 2
    assert "pieces: 1; in use: 2" in printed
    weights = weights_of(workdir)
    middle, last = checkpoints.list_checkpoints(workdir)
    with open(os.path.join(middle, "manifest.json"), encoding="utf-8") as file:
        position = json.load(file)["position"]
    assert len(position) == 7 and position[0] == 6 * RUN.global_batch_size
    shutil.rmtree(last)
    (tmp_path / "phrases.txt").unlink()  # the work directory has a copy
    with open(os.path.join(workdir, "lexicon.txt"), encoding="utf-8") as file:
        assert file.read() == "the cat\nhills while rain\n\u2603\n"
    pretraining_start.launch(workdir, CONFIG, run)
    resumed_weights = weights_of(workdir)
    assert all(np.array_equal(weights[path], resumed_weights[path]) for path in weights)
    rows = [row for row in rows_of(workdir) if "loss" in row]
    assert rows[-1]["loss"] < rows[0]["loss"] and rows[-1]["update_norm"] > 0


def test_a_value_that_contradicts_the_run_is_refused_and_a_changeable_value_is_taken(make_workdir):
    workdir = make_workdir("contradiction")
    with pytest.raises(UserError, match="learning_rate=0.0001, but --learning_rate=0.5"):
        ExistingRun.read(workdir).resumed(None, {"learning_rate": 0.5})
    with pytest.raises(UserError, match="hidden_size 22, but 24"):
        ExistingRun.read(workdir).resumed(CONFIG.replace(hidden_size=24), {})
    with pytest.raises(UserError, match="another vocabulary"):
        ExistingRun.read(workdir).resumed(None, {}, b"[PAD]\n")
    assert ExistingRun.read(workdir).resumed(CONFIG, {"num_train_steps": 77})[1].num_train_steps == 77


def test_a_refusal_lists_what_may_change_when_a_run_is_resumed(make_workdir):
    for wanted_model, wanted in ((None, {"learning_rate": 0.5}), (CONFIG.replace(hidden_size=24), {})):
        with pytest.raises(UserError) as refused:
            ExistingRun.read(make_workdir("refused")).resumed(wanted_model, wanted)
        assert "the flags that may change are --allow_missing, --batch_ramp_share" in str(refused.value)
        assert all(f"--{name}" in str(refused.value) for name in RUN.CHANGEABLE_ON_RESUME)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "begun, wanted, expected",
    [
        ({"length_ramp_steps": 12}, {"length_ramp_share": 0.2}, (0, 0.2)),
        ({"length_ramp_steps": 12}, {"length_ramp_steps": 4}, (4, 0.0)),
        ({"length_ramp_share": 0.2}, {"length_ramp_steps": 0}, (0, 0.0)),
    ],
)
def test_a_ramp_may_change_when_a_run_is_resumed_and_the_new_way_replaces_the_old(
    make_workdir, begun, wanted, expected
):
    run = dataclasses.replace(RUN, max_seq_length=32, **begun)
    resumed = ExistingRun.read(make_workdir("ramp", run=run)).resumed(CONFIG, wanted)[1]
    assert (resumed.length_ramp_steps, resumed.length_ramp_share) == expected


def test_checkpoints_are_listed_in_the_order_of_their_steps_with_any_number_of_digits(tmp_path):
    for step in (99_999_000, 100_000_000, 5):
        (tmp_path / "checkpoints" / f"step-{step:08d}").mkdir(parents=True)
    names = [os.path.basename(directory) for directory in checkpoints.list_checkpoints(str(tmp_path))]
    assert names == ["step-00000005", "step-99999000", "step-100000000"]

"""Runs whose model finds hard negatives between epochs, and how such a run resumes."""

import os
import shutil
import signal

import numpy as np
import pytest

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import Interrupted, UserError
from keras_bert_app.runs import checkpoints
from keras_bert_app.tasks import batches, mined_epochs, predicting, registry
from tests.tasks.conftest import BAD, CONFIG, FILLERS, GOOD, newest, run_on, weights_of
from tests.tasks.families.test_text_vectors import write
from tests.training.conftest import two_replicas

WORDS = (*GOOD, *BAD, *FILLERS)
PAIRS = [(f"{a} {b}", f"{b} {a} very {c}") for a, b, c in zip(WORDS, WORDS[3:], WORDS[5:], strict=False)]
SETTINGS = {
    "task": "similarity",
    "vector_loss": "contrastive",
    "similarity_metric": "mrr",
    "pooling": "mean",
    "max_seq_length": 16,
    "global_batch_size": 4,
    "num_train_steps": 10,
    "num_train_epochs": 0.0,
    "eval_steps": 10,
    "save_checkpoints_steps": 1,
    "keep_checkpoints": 99,
    "learning_rate": 1e-2,
    "mine_negatives": 2,
    "mine_range": ("1", "9"),
    "mine_margin": -2.0,
    "jit_compile": "none",
}


@pytest.fixture(scope="module")
def pairs_dir(tmp_path_factory):
    rows = ["anchor\tpositive\tnegative", *(f"{a}\t{b}\t{'cold' if n == 1 else ''}" for n, (a, b) in enumerate(PAIRS))]
    return write(tmp_path_factory.mktemp("pairs"), train=rows, dev=rows[:6])


@pytest.fixture(scope="module")
def mined_run(tmp_path_factory, pairs_dir):
    """(work directory, output, shapes of the batches) of a run of 10 steps, 3 an epoch."""
    workdir, shapes = str(tmp_path_factory.mktemp("mined") / "run"), []
    make_batch = batches.make_batch

    def noted(*arguments, **options):
        batch = make_batch(*arguments, **options)
        if "text_numbers" in batch and batch["example_weights"].shape == (4,):
            shapes.append(batch["input_mask"].shape[1])
        return batch

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(batches, "make_batch", noted)
        output = run_on(workdir, pairs_dir, **SETTINGS)[1]
    return workdir, output, shapes


def test_epochs_from_the_second_on_have_the_models_own_negatives(mined_run):
    workdir, output, shapes = mined_run
    lines = [line for line in output.splitlines() if line.startswith("epoch ")]
    assert [line.split(":")[0] for line in lines] == ["epoch 2", "epoch 3", "epoch 4"]
    num_pairs = len(PAIRS)
    assert f"epoch 2: {2 * num_pairs} new negatives, mean cosine 0." in lines[0]
    assert f"for {num_pairs} of {num_pairs} pairs (positives 0." in lines[0]
    assert sorted(os.listdir(f"{workdir}/negatives")) == [f"epoch-0000{number}.npy" for number in (2, 3, 4)]
    # Every batch of the first epoch has room for a text, its positive and one negative; later epochs have two more.
    assert set(shapes) == {3, 5} and shapes.count(3) >= 3 and shapes.count(5) >= 7
    kept = [np.load(f"{workdir}/negatives/epoch-0000{number}.npy") for number in (2, 4)]
    assert (kept[0] != kept[1]).any()


@pytest.mark.parametrize("step", [5, 6, *(pytest.param(step, marks=pytest.mark.slow) for step in (2, 3, 4, 8))])
def test_a_run_that_was_cut_off_at_any_place_of_an_epoch_ends_bit_for_bit_the_same(
    mined_run, pairs_dir, tmp_path, step
):
    workdir, *_ = mined_run
    part = str(tmp_path / "part")
    shutil.copytree(workdir, part)
    for path in checkpoints.list_checkpoints(part):
        if (at := checkpoints.read_manifest(path, verify=False))["step"] > step:
            shutil.rmtree(path)
    at = checkpoints.read_manifest(newest(part))["position"]
    for name in os.listdir(f"{part}/negatives"):  # a run that was cut off here had not mined later epochs
        if int(name[6:11]) - 1 > at[0] or (int(name[6:11]) - 1 == at[0] and at[1] == 0):
            os.remove(f"{part}/negatives/{name}")
    _, output = run_on(part, pairs_dir, **SETTINGS)
    assert f"resumed at step {step}" in output
    whole, again = weights_of(newest(workdir)), weights_of(newest(part))
    assert all(np.array_equal(whole[path], again[path]) for path in whole)
    for name in os.listdir(f"{workdir}/negatives"):
        assert open(f"{workdir}/negatives/{name}", "rb").read() == open(f"{part}/negatives/{name}", "rb").read()


@pytest.mark.parametrize("first_epoch", [0, 1])
def test_a_signal_stops_the_mining_and_the_run_goes_on_bit_for_bit(mined_run, pairs_dir, tmp_path, first_epoch):
    settings = {**SETTINGS, "mine_after": first_epoch, "num_train_steps": 10 if first_epoch else 2}
    unit_logits, calls = predicting.unit_logits, []

    def interrupted(*arguments, **options):
        calls.append(None)
        os.kill(os.getpid(), signal.SIGINT)
        return unit_logits(*arguments, **options)

    part, step = str(tmp_path / "part"), 3 * first_epoch
    with pytest.MonkeyPatch.context() as patched, pytest.raises(Interrupted) as stop:
        patched.setattr(mined_epochs.predicting, "unit_logits", interrupted)
        run_on(part, pairs_dir, **settings)
    assert (stop.value.number, stop.value.step, len(calls)) == (signal.SIGINT, step, 1)
    assert not os.path.exists(f"{part}/negatives")
    _, output = run_on(part, pairs_dir, **settings)
    assert ("resumed at step 3" in output) == bool(first_epoch)
    whole = mined_run[0]
    if not first_epoch:
        whole = str(tmp_path / "whole")
        run_on(whole, pairs_dir, **settings)
    name = f"checkpoints/step-{settings['num_train_steps']:08d}"
    again = weights_of(f"{part}/{name}")
    assert all(np.array_equal(tensor, again[path]) for path, tensor in weights_of(f"{whole}/{name}").items())


def test_other_negatives_give_other_weights_and_a_lost_file_is_named(mined_run, pairs_dir, tmp_path):
    workdir, *_ = mined_run
    part = str(tmp_path / "part")
    shutil.copytree(workdir, part)
    while checkpoints.read_manifest(newest(part))["position"] != [2, 1]:
        shutil.rmtree(newest(part))
    path = f"{part}/negatives/epoch-00003.npy"
    numbers = np.load(path)
    for content, message in (
        (None, "epoch-00003.npy: the negatives of the epoch in which the run stopped cannot be read .FileNotFound"),
        (b"x", "cannot be read .ValueError"),
        (numbers[1:], "does not hold the negatives of"),
        (numbers + 99, "does not hold the negatives of"),
    ):
        os.remove(path)
        if isinstance(content, bytes):
            open(path, "wb").write(content)
        elif content is not None:
            np.save(path, content)
        with pytest.raises(UserError, match=message):
            run_on(part, pairs_dir, **SETTINGS)
        np.save(path, numbers)
    np.save(path, numbers[::-1])
    run_on(part, pairs_dir, **SETTINGS)
    whole, again = weights_of(newest(workdir)), weights_of(newest(part))
    assert any(not np.array_equal(whole[path], again[path]) for path in whole)


@pytest.mark.slow
def test_two_replicas_mine_the_negatives_of_one(pairs_dir, tmp_path):
    config = CONFIG.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    settings = {**SETTINGS, "num_train_steps": 4, "learning_rate": 1e-4, "mine_after": 0}
    for name, strategy in (("one", None), ("two", two_replicas())):
        run_on(tmp_path / name, pairs_dir, config, strategy=strategy, **settings)
    one, two = (np.load(tmp_path / name / "negatives" / "epoch-00001.npy") for name in ("one", "two"))
    np.testing.assert_array_equal(one, two)
    one, two = (weights_of(newest(str(tmp_path / name))) for name in ("one", "two"))
    assert all(np.abs(tensor - two[path]).max() < 1e-6 for path, tensor in one.items())


@pytest.mark.parametrize(
    "changes, message",
    [
        (
            {"num_train_steps": 3},
            "--mine_negatives=2: the run ends after 3 steps, before the first mining after 1 epoch",
        ),
        ({"mine_range": ("9", "9")}, "--mine_range=9,9: expected two rising whole numbers, such as 10,50"),
        ({"mine_range": ("1", "x")}, "--mine_range=1,x: expected two rising whole numbers"),
        ({"mine_range": ("1",)}, "--mine_range=1: expected two rising whole numbers"),
        ({"length_buckets": False}, "--mine_negatives=2: needs calls of one step each; leave out --nolength_buckets"),
        ({"mine_margin": 3.0}, "--mine_margin=3.0"),
    ],
)
def test_what_cannot_be_mined_is_refused(pairs_dir, tmp_path, changes, message):
    with pytest.raises(UserError, match=message):
        run_on(tmp_path / "run", pairs_dir, **{**SETTINGS, **changes})
    assert not (tmp_path / "run" / "config.json").exists()


def test_only_pairs_have_mined_negatives(tmp_path):
    rows = ["text_a\ttext_b\tscore", "a\tb\t1"]
    data = write(tmp_path, train=rows, dev=rows)
    run = FinetuningConfig(task="similarity", data_dir=data, mine_negatives=2)
    with pytest.raises(UserError, match="--mine_negatives=2: has an effect only with .* --vector_loss=cosent"):
        registry.find("similarity").settled(run)
    with pytest.raises(UserError, match="--mine_after=2: has an effect only with another --mine_negatives"):
        FinetuningConfig(mine_after=2).check_read(("mine_after",))

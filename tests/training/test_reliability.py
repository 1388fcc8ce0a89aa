"""Short tests of the reliability goals R1, R2 and R5. benchmarks/reliability/reliability.py has the long tests."""

import dataclasses
import json
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.step.random_batches import random_batch
from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.errors import UserError
from keras_bert_app.modeling.pretrainer import BertPretrainer
from keras_bert_app.runs import checkpoints
from keras_bert_app.training import evaluation, pretraining_data, steps, strategies
from keras_bert_app.training.losses import PretrainingObjective
from keras_bert_app.training.optimizers import choice
from keras_bert_app.training.optimizers.adafactor import Adafactor
from keras_bert_app.training.optimizers.muon import Muon
from keras_bert_app.training.window import Window
from pipelines import BertTokenizer, storage
from tests.training.conftest import CONFIG, RUN, WITH_DROPOUT, train, write_workdir

STEPS = 6
MODEL = WITH_DROPOUT.replace(num_hidden_layers=1)
EVERY_STEP = dataclasses.replace(
    RUN,
    num_train_steps=STEPS,
    iterations_per_loop=1,
    save_checkpoints_steps=1,
    eval_steps=3,
    log_steps=1,
    keep_checkpoints=STEPS,
)
CLOCKS = ("tokens_per_second", "input_wait_share", "seconds", "memory_mb")


def rows_of(workdir):
    """The rows of metrics.jsonl without the figures that depend on the clock."""
    with open(os.path.join(workdir, "metrics.jsonl"), encoding="utf-8") as file:
        return [{name: value for name, value in json.loads(line).items() if name not in CLOCKS} for line in file]


def checkpoint_of(workdir, step):
    return os.path.join(workdir, "checkpoints", f"step-{step:08d}")


def state_of(workdir, step=STEPS):
    """(weights and slots of the optimizer, manifest without the time) of a checkpoint."""
    directory = checkpoint_of(workdir, step)
    reader = tf.train.load_checkpoint(os.path.join(directory, "checkpoint"))
    tensors = {
        name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map() if name.endswith("VARIABLE_VALUE")
    }
    manifest = checkpoints.read_manifest(directory)
    return tensors, {key: manifest[key] for key in ("step", "position", "unlogged")}


def assert_same(workdir, other):
    (tensors, manifest), (others, other_manifest) = state_of(workdir), state_of(other)
    assert manifest == other_manifest and tensors.keys() == others.keys() and any("adam_v" in name for name in tensors)
    assert [name for name in tensors if tensors[name].tobytes() != others[name].tobytes()] == []
    assert rows_of(workdir) == rows_of(other)


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory, shards):
    """The work directory of a run with dropout that has kept the checkpoint of every step."""
    workdir = write_workdir(tmp_path_factory.mktemp("whole_run") / "run", MODEL, EVERY_STEP)
    train(workdir, shards)
    return workdir


@pytest.fixture
def stopped(whole_run, tmp_path):
    """A function that copies the work directory of `whole_run` without the checkpoints after a step."""

    def make(step, name="stopped"):
        workdir = str(tmp_path / name)
        shutil.copytree(whole_run, workdir)
        for directory in checkpoints.list_checkpoints(workdir)[step:]:
            shutil.rmtree(directory)
        return workdir

    return make


@pytest.fixture(scope="module")
def trainer(shards, whole_run):
    """(model, optimizer, train call, function position -> batches after it), compiled once for several tests."""
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    with strategy.scope():
        model = BertPretrainer(MODEL, seed=RUN.seed)
        optimizer = choice.make_optimizer(
            EVERY_STEP, {variable.path: variable.value for variable in model.trainable_variables}, 1
        )
    tokenizer = BertTokenizer(os.path.join(whole_run, "vocab.txt"))
    examples = pretraining_data.example_arguments(EVERY_STEP, tokenizer, None)
    return (
        model,
        optimizer,
        steps.make_train_call(strategy, model, optimizer, EVERY_STEP, PretrainingObjective()),
        lambda position: iter(
            pretraining_data.training_dataset(EVERY_STEP, [shards[0]], tokenizer, position, examples)
        ),
    )


@pytest.mark.parametrize("step", range(1, STEPS))
def test_training_from_each_checkpoint_gives_all_later_checkpoints_bit_for_bit(whole_run, trainer, step):
    model, optimizer, call, batches_after = trainer
    manifest = checkpoints.restore(checkpoint_of(whole_run, step), model, optimizer)
    losses = {row["step"]: row["loss"] for row in rows_of(whole_run) if "loss" in row}
    endless_batches = batches_after(tuple(manifest["position"]))
    for current_step, (batch, position) in zip(range(step, STEPS), endless_batches, strict=False):
        row = call({name: values[tf.newaxis] for name, values in batch.items()}, current_step)
        figures = Window(PretrainingObjective(), row).close()
        assert float(f"{figures['loss']:.7g}") == losses[current_step + 1]
        expected, expected_manifest = state_of(whole_run, current_step + 1)
        assert position.numpy().tolist() == expected_manifest["position"]
        for kind, variables in {"model": checkpoints.model_variables(model), **optimizer.slots}.items():
            for path, variable in variables.items():
                name = f"{kind}/{path.replace('/', '.S')}/.ATTRIBUTES/VARIABLE_VALUE"
                assert variable.numpy().tobytes() == expected[name].tobytes(), name


def test_a_run_that_is_killed_in_an_evaluation_resumes_to_the_same_end(whole_run, stopped, shards):
    workdir = stopped(3)
    path = os.path.join(workdir, "metrics.jsonl")
    with open(path, encoding="utf-8") as file:
        lines = file.readlines()
    index = next(i for i, line in enumerate(lines) if "eval_loss" in line and json.loads(line)["step"] == 3)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines([*lines[:index], lines[index][:20]])  # the kill has cut the line
    _, output = train(workdir, shards)
    assert "resumed at step 3 " in output
    assert_same(workdir, whole_run)


@pytest.mark.parametrize("step, evaluates_first, is_chief", [(2, False, False), (3, True, False), (3, True, True)])
def test_each_of_several_machines_repeats_an_evaluation_that_was_cut_off(
    stopped, shards, monkeypatch, step, evaluates_first, is_chief
):
    workdir, begun = stopped(step), []

    class Reached(Exception):
        pass

    def reached(name):
        def stop(*arguments, **options):
            begun.append(name)
            raise Reached

        return stop

    monkeypatch.setattr(strategies, "num_machines", lambda strategy: 2)
    monkeypatch.setattr(strategies, "is_chief", lambda strategy: is_chief)
    monkeypatch.setattr(pretraining_data, "heldout_dataset", lambda *arguments: "some text")
    monkeypatch.setattr(evaluation, "evaluate", reached("evaluation"))
    monkeypatch.setattr(pretraining_data, "training_dataset", reached("training"))
    with pytest.raises(Reached):
        train(workdir, shards)
    assert begun == ["evaluation" if evaluates_first else "training"]


def test_a_checkpoint_says_whether_an_evaluation_comes_next(whole_run):
    assert [checkpoints.read_manifest(path)["evaluation_due"] for path in checkpoints.list_checkpoints(whole_run)] == [
        False,
        False,
        True,
        False,
        False,
        True,
    ]


@pytest.mark.parametrize("kind", [Adafactor, Muon])
def test_adafactor_and_muon_continue_from_a_checkpoint_bit_for_bit(tmp_path, kind):
    generator = np.random.RandomState(2)
    model = BertPretrainer(CONFIG, seed=1)
    variables = {variable.path: variable.value for variable in model.trainable_variables}
    gradients = [
        [tf.constant(generator.normal(size=variable.shape), tf.float32) for variable in variables.values()]
        for _ in range(3)
    ]

    def state_after_three_steps(model, optimizer, first):
        for step in range(first, 3):
            optimizer.apply(gradients[step], tf.constant(1e-2), tf.constant(step))
            if step == 1 and not first:
                checkpoints.save(str(tmp_path), model, optimizer, 2, (0, 0, 0), keep=1)
        return {
            **checkpoints.model_variables(model),
            **{f"{name} {path}": slot for name, slots in optimizer.slots.items() for path, slot in slots.items()},
        }

    expected = state_after_three_steps(model, kind(variables), 0)
    new_model = BertPretrainer(CONFIG, seed=2)
    optimizer = kind({variable.path: variable.value for variable in new_model.trainable_variables})
    checkpoints.restore(checkpoint_of(str(tmp_path), 2), new_model, optimizer)
    resumed = state_after_three_steps(new_model, optimizer, 2)
    assert expected.keys() == resumed.keys()
    assert [path for path in expected if expected[path].numpy().tobytes() != resumed[path].numpy().tobytes()] == []


def flipped(share):
    """A function that flips a bit of one byte: of the first byte for share 0, of the last byte for share 1."""

    def change(content):
        index = int(share * (len(content) - 1))
        return content[:index] + bytes([content[index] ^ 1]) + content[index + 1 :]

    return change


DAMAGES = {
    "emptied": lambda content: b"",
    "cut by a byte": lambda content: content[:-1],
    "cut in half": lambda content: content[: len(content) // 2],
    "a byte more": lambda content: content + b"\0",
    "flipped at the beginning": flipped(0.0),
    "flipped in the middle": flipped(0.5),
    "flipped at the end": flipped(1.0),
}


@pytest.mark.parametrize("name", ["checkpoint.data-00000-of-00001", "checkpoint.index", "manifest.json"])
def test_a_damaged_or_missing_file_of_a_checkpoint_is_refused_by_name(stopped, shards, name):
    workdir = stopped(3)
    directory = checkpoints.list_checkpoints(workdir)[-1]
    path = os.path.join(directory, name)
    with open(path, "rb") as file:
        content = file.read()
    for damage in DAMAGES.values():
        with open(path, "wb") as file:
            file.write(damage(content))
        with pytest.raises(UserError, match=name):
            checkpoints.read_manifest(directory)
    os.remove(path)
    with pytest.raises(UserError, match=name):
        train(workdir, shards)
    assert rows_of(workdir) and len(checkpoints.list_checkpoints(workdir)) == 3  # the run did not start again


def test_a_changed_digit_in_a_manifest_is_refused(stopped):
    directory = checkpoints.list_checkpoints(stopped(3))[-1]
    path = os.path.join(directory, "manifest.json")
    with open(path, "rb") as file:
        content = file.read()
    for index in [index for index, byte in enumerate(content) if chr(byte).isdigit()][::7]:
        with open(path, "wb") as file:
            file.write(content[:index] + bytes([content[index] ^ 1]) + content[index + 1 :])
        with pytest.raises(UserError, match="manifest.json|damaged"):
            checkpoints.read_manifest(directory)


@pytest.mark.parametrize(
    "module, interrupted", [(checkpoints, "_tracked"), (checkpoints, "fingerprint"), (storage, "_to_disk")]
)
def test_a_save_that_fails_keeps_the_earlier_checkpoints_and_the_next_save_removes_its_remains(
    stopped, trainer, monkeypatch, module, interrupted
):
    workdir, (model, optimizer, _, _) = stopped(2), trainer
    position = checkpoints.restore(checkpoints.list_checkpoints(workdir)[-1], model, optimizer)["position"]

    def breaks(*arguments):
        raise OSError(28, "No space left on device", "checkpoint")

    monkeypatch.setattr(module, interrupted, breaks)
    with pytest.raises(OSError, match="No space left"):
        checkpoints.save(workdir, model, optimizer, 3, position, keep=1)
    monkeypatch.undo()
    assert [checkpoints.read_manifest(path)["step"] for path in checkpoints.list_checkpoints(workdir)] == [1, 2]
    checkpoints.save(workdir, model, optimizer, 4, position, keep=1)
    assert os.listdir(os.path.join(workdir, "checkpoints")) == ["step-00000004"]


def test_a_step_that_is_saved_again_has_a_whole_checkpoint_at_every_moment(stopped, trainer, monkeypatch):
    workdir, (model, optimizer, _, _) = stopped(2), trainer
    position = checkpoints.restore(checkpoints.list_checkpoints(workdir)[-1], model, optimizer)["position"]

    def assert_step_2_is_whole():
        assert 2 in [checkpoints.read_manifest(path)["step"] for path in checkpoints.list_checkpoints(workdir)]

    def watched(real):
        def call(*arguments, **options):
            calls.append(real)
            assert_step_2_is_whole()  # a kill may come before the call or after it
            real(*arguments, **options)
            assert_step_2_is_whole()

        return call

    calls = []
    monkeypatch.setattr(shutil, "rmtree", watched(shutil.rmtree))
    monkeypatch.setattr(os, "rename", watched(os.rename))
    checkpoints.save(workdir, model, optimizer, 2, position, keep=1)
    assert_step_2_is_whole()
    assert calls


def test_weights_are_finite_and_have_moved(whole_run):
    (first, _), (last, _) = state_of(whole_run, 1), state_of(whole_run)
    assert all(np.isfinite(values).all() for values in last.values())
    assert any(first[name].tobytes() != last[name].tobytes() for name in first)


@pytest.mark.slow
def test_gradient_accumulation_works_in_graphs_that_tensorflow_treats_as_large():
    # In graphs with more than some 200 MB of arrays, TensorFlow rewrites sums of three arrays in loops. This once broke
    # the second step.
    config = BertConfig(
        hidden_size=256, num_attention_heads=2, num_hidden_layers=1, intermediate_size=17, max_position_embeddings=64
    )
    run = PretrainingConfig(
        max_seq_length=64, global_batch_size=32, gradient_accumulation_steps=2, precision="float32", jit_compile="none"
    ).resolved()
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    model = BertPretrainer(config)
    variables = {variable.path: variable.value for variable in model.trainable_variables}
    call = steps.make_train_call(strategy, model, choice.make_optimizer(run, variables, 1), run, PretrainingObjective())
    batches = {name: tf.stack([values] * 2) for name, values in random_batch(config, run).items()}
    assert np.isfinite([call(batches, 0), call(batches, 2)]).all()

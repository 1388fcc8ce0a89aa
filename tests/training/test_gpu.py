"""The settings that the trainer chooses for a GPU, and its training step, which these tests compile for the CPU."""

import dataclasses
import functools
import os

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.step.random_batches import random_batch
from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.errors import UserError
from keras_bert_app.modeling.execution import GPU_STEP, UNCOMPILED
from keras_bert_app.modeling.pretrainer import BertPretrainer
from keras_bert_app.training import compilation, device_faults, gpu, gpu_environment, steps, strategies
from keras_bert_app.training.losses import PretrainingObjective
from keras_bert_app.training.optimizers import choice
from keras_bert_app.training.optimizers.loss_scale import LossScale
from tests.training.conftest import CONFIG, RUN, two_replicas

H200 = gpu.Gpu("NVIDIA H200", (9, 0))


@pytest.fixture
def on_a_gpu(monkeypatch):
    monkeypatch.setattr(strategies, "device_kind", lambda strategy: "GPU")
    monkeypatch.setattr(compilation, "device_kind", lambda strategy: "GPU")
    monkeypatch.setattr(gpu, "first", lambda: H200)
    return tf.distribute.get_strategy()


@pytest.mark.parametrize(
    "capability, precision",
    (
        ((6, 1), "float32"),
        ((7, 0), "float16"),
        ((7, 5), "float16"),
        ((8, 0), "bfloat16"),
        ((8, 9), "bfloat16"),
        ((9, 0), "bfloat16"),
    ),
)
def test_the_default_precision_follows_the_tensor_cores_of_the_gpu(capability, precision, on_a_gpu, monkeypatch):
    monkeypatch.setattr(gpu, "first", lambda: gpu.Gpu("a GPU", capability))
    run = dataclasses.replace(RUN, precision="auto")
    assert strategies.with_precision(run, on_a_gpu).precision == precision
    assert strategies.with_precision(dataclasses.replace(run, precision="float32"), on_a_gpu).precision == "float32"


def test_a_long_run_compiles_the_whole_step_and_the_start_line_says_what_was_chosen_and_why(on_a_gpu):
    run = dataclasses.replace(RUN, precision="auto", jit_compile="auto", num_train_steps=1000)
    assert strategies.resolved(dataclasses.replace(run, num_train_steps=100), on_a_gpu).jit_compile == "none"
    run = strategies.resolved(run, on_a_gpu)
    assert (run.precision, run.jit_compile) == ("bfloat16", "step")
    assert compilation.training_execution(run, on_a_gpu) == GPU_STEP
    line = strategies.describe(on_a_gpu, run)
    assert "bfloat16 (NVIDIA H200: its tensor cores multiply bfloat16" in line and "--jit_compile=step" in line


@pytest.mark.parametrize(
    "name, batch, advice",
    (
        ("Tesla T4", 512, "512 rows do not fit into the memory of the GPU (Tesla T4: OOM when allocating memory); "),
        (
            "Tesla T4",
            512,
            "into its 16 GB: continue with --gradient_accumulation_steps=2, or start with --global_batch_size=359 in",
        ),
        ("NVIDIA A100-SXM4-80GB", 32, "fit into its 80 GB, so another process may use the GPU"),
        ("NVIDIA L40S", 32, "; lower --global_batch_size=32, or take it in parts"),
    ),
)
def test_a_batch_that_a_gpu_cannot_hold_is_refused_in_one_line_with_advice(name, batch, advice, monkeypatch):
    monkeypatch.setattr(gpu, "first", lambda: gpu.Gpu(name, (8, 0)))
    run = PretrainingConfig(global_batch_size=batch, max_seq_length=128, precision="float16", jit_compile="step")
    full = tf.errors.ResourceExhaustedError(None, None, "a step\nOOM when allocating memory\nmore")
    strategy = tf.distribute.get_strategy()
    with pytest.raises(UserError) as refused, device_faults.named(strategy, run, BertConfig.of_size("base")):
        raise full
    assert advice in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize("message", ("there is no room for this file", ""))
def test_other_faults_of_a_run_on_a_gpu_pass_unchanged(message, monkeypatch):
    monkeypatch.setattr(gpu, "first", lambda: H200)
    with pytest.raises(tf.errors.DataLossError), device_faults.named(tf.distribute.get_strategy(), RUN):
        raise tf.errors.DataLossError(None, None, message)


@pytest.mark.parametrize(
    "name, hardware",
    (
        ("NVIDIA A100-SXM4-40GB", "a100"),
        ("NVIDIA A100 80GB PCIe", "a100-80gb"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
        ("Tesla V100-SXM2-16GB", "v100"),
        ("NVIDIA L40", ""),
    ),
)
def test_the_product_name_of_a_gpu_gives_its_name_in_estimate(name, hardware):
    assert gpu.Gpu(name, (8, 0)).hardware == hardware


def test_a_deterministic_run_is_compiled_whole_and_refuses_anything_else(on_a_gpu, monkeypatch):
    switched = []
    monkeypatch.setattr(tf.config.experimental, "enable_op_determinism", lambda: switched.append(True))
    run = dataclasses.replace(RUN, jit_compile="auto", num_train_steps=10, deterministic=True)
    run = strategies.with_compilation(run, on_a_gpu)
    assert run.jit_compile == "step" and switched
    assert compilation.training_execution(run, on_a_gpu).is_deterministic
    with pytest.raises(UserError, match="leave --jit_compile out"):
        strategies.with_compilation(dataclasses.replace(run, jit_compile="parts"), on_a_gpu)


def test_environment_variables_are_set_for_a_gpu_and_those_of_the_user_are_kept(monkeypatch, tmp_path):
    names = ("XLA_FLAGS", "TF_XLA_FLAGS", "TF_FORCE_GPU_ALLOW_GROWTH")
    for name in names:
        monkeypatch.setenv(name, "")  # so that monkeypatch undoes later changes
        monkeypatch.delenv(name)
    monkeypatch.setattr(gpu_environment, "_devices", list)
    gpu_environment.prepare()
    assert not any(name in os.environ for name in names)
    monkeypatch.setattr(gpu_environment, "_devices", lambda: ["/dev/nvidia0"])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_autotune_level=4")
    gpu_environment.prepare()
    gpu_environment.prepare()
    assert os.environ["XLA_FLAGS"] == "--xla_gpu_autotune_level=4 --xla_gpu_enable_triton_gemm=false"
    assert os.environ["TF_XLA_FLAGS"].count(str(gpu_environment.cache_directory())) == 1
    assert gpu_environment.cache_directory().is_dir() and os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"


@pytest.mark.parametrize("cache", ["file/cache", "~"])
def test_a_place_that_cannot_be_written_keeps_no_compiled_programs_and_says_so(monkeypatch, tmp_path, capsys, cache):
    for name in ("XLA_FLAGS", "TF_XLA_FLAGS", "TF_FORCE_GPU_ALLOW_GROWTH"):
        monkeypatch.setenv(name, "")
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gpu_environment, "_devices", lambda: ["/dev/nvidia0"])
    monkeypatch.setenv("XDG_CACHE_HOME", cache if cache == "~" else str(tmp_path / cache))
    gpu_environment.prepare()
    assert os.environ["TF_XLA_FLAGS"] == "" and "--xla_gpu" in os.environ["XLA_FLAGS"]
    line = capsys.readouterr().err
    assert "cannot be written, so each start compiles anew; XDG_CACHE_HOME names" in line and line.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_gpu_that_cuda_visible_devices_hides_does_not_count(monkeypatch):
    monkeypatch.setattr(gpu_environment.glob, "glob", lambda pattern: ["/dev/nvidia0", "/dev/nvidia1"])
    for visible, number in ((None, 2), ("", 0), ("-1", 0), ("1", 1), ("0,1", 2)):
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert len(gpu_environment._devices()) == number


def test_the_oldest_compiled_programs_are_deleted_first(tmp_path, monkeypatch):
    for number in range(4):
        path = tmp_path / f"key {number % 2}" / f"{number}.pb"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x" * 100)
        os.utime(path, (number, number))
    (tmp_path / "key 0" / "renamed.pb").symlink_to("gone")  # as if another process renamed the file
    monkeypatch.setattr(gpu_environment.pathlib.Path, "is_file", lambda path: True)
    gpu_environment.keep_newest(tmp_path, 250)
    monkeypatch.undo()
    (tmp_path / "key 0" / "renamed.pb").unlink()
    assert sorted(path.name for path in tmp_path.glob("*/*")) == ["2.pb", "3.pb"]


@functools.cache
def trainer(execution, precision, strategy, has_scale):
    """(optimizer, train call, weights by path, function that resets all variables), traced once for several tests."""
    run = dataclasses.replace(RUN, precision=precision, bias_correction=True)
    strategy = strategy or tf.distribute.OneDeviceStrategy("CPU:0")
    with strategy.scope():
        model = BertPretrainer(CONFIG, dtype=strategies.KERAS_POLICIES[precision])
        variables = {variable.path: variable.value for variable in model.trainable_variables}
        optimizer = choice.make_optimizer(run, variables, CONFIG.num_hidden_layers)
    optimizer.first_steps = {path: 2 for path in variables if "layer_0/attention" in path}
    if has_scale:
        with strategy.scope():
            optimizer.scale_loss()
    call = steps.make_train_call(strategy, model, optimizer, run, PretrainingObjective(), execution=execution)
    slots = [slot for by_path in optimizer.slots.values() for slot in by_path.values()]
    first_values = [(variable, variable.numpy()) for variable in (*variables.values(), *slots)]

    def reset():
        for variable, value in first_values:
            variable.assign(value)

    return optimizer, call, variables, reset


def take_steps(execution, num_steps=3, strategy=None, scale=None, bad_step=None, precision="float32"):
    """Trains a model without dropout. Returns (figures of each step by name, weights by path, optimizer)."""
    run = dataclasses.replace(RUN, precision=precision)
    optimizer, call, variables, reset = trainer(execution, precision, strategy, bool(scale))
    reset()
    if scale:
        optimizer.loss_scale.scale.assign(scale)
    if not num_steps:
        return {}, {path: variable.numpy() for path, variable in variables.items()}, optimizer
    batch_by_step = [random_batch(CONFIG, run, seed) for seed in range(num_steps)]
    batches = {name: tf.stack([batch[name] for batch in batch_by_step]) for name in batch_by_step[0]}
    if bad_step is not None:
        weights = batches["masked_lm_weights"].numpy()
        weights[bad_step] = np.nan
        batches["masked_lm_weights"] = tf.constant(weights)
    rows = call(batches, 0)
    figures = {name: rows[:, index] for name, index in steps.columns(PretrainingObjective()).items()}
    return figures, {path: variable.numpy() for path, variable in variables.items()}, optimizer


def test_the_step_of_a_gpu_gives_the_weights_of_the_uncompiled_step():
    """The steps include layers that are still frozen, a step that is skipped, and a scaled loss."""
    plain, expected, _ = take_steps(UNCOMPILED, bad_step=1)
    figures, weights, optimizer = take_steps(GPU_STEP, bad_step=1, scale=2.0**9)
    assert figures["bad_variable"][1] == plain["bad_variable"][1] >= 0
    np.testing.assert_allclose(figures["masked_lm_loss_sum"], plain["masked_lm_loss_sum"], rtol=1e-5)
    for path, values in expected.items():
        np.testing.assert_allclose(weights[path], values, atol=2e-6, err_msg=path)
    assert optimizer.loss_scale.scale.numpy() == 2.0**8 and optimizer.loss_scale.good_steps.numpy() == 1


def test_an_overflow_in_float16_skips_the_step_and_halves_the_scale():
    figures, weights, optimizer = take_steps(UNCOMPILED, precision="float16", scale=2.0**24)
    scale = optimizer.loss_scale.scale.numpy()
    _, untrained, _ = take_steps(UNCOMPILED, num_steps=0, precision="float16", scale=2.0**24)
    skipped = int(figures["overflow"].sum())
    assert skipped >= 2 and (figures["bad_variable"] == -1).all()
    assert scale == 2.0 ** (24 - skipped)
    assert skipped < 3 or all(np.array_equal(weights[path], untrained[path]) for path in weights)


def test_the_scale_of_float16_changes_no_gradient_and_is_saved_with_the_slots():
    figures, weights, optimizer = take_steps(UNCOMPILED, precision="float16", scale=2.0**9)
    plain, expected, _ = take_steps(UNCOMPILED)
    np.testing.assert_allclose(figures["gradient_norm"], plain["gradient_norm"], rtol=2e-2)
    for path, values in expected.items():
        np.testing.assert_allclose(weights[path], values, atol=3e-4, err_msg=path)
    assert optimizer.slots["loss_scale"]["scale"] is optimizer.loss_scale.scale


def test_the_scale_doubles_after_2000_good_steps_and_has_bounds():
    loss_scale = LossScale()

    def changed(scale, good_steps, is_good):
        return [float(value) for value in loss_scale.changed(tf.constant(scale), tf.constant(good_steps), is_good)]

    assert changed(8.0, 1998.0, True) == [8.0, 1999.0]
    assert changed(8.0, 1999.0, True) == [16.0, 0.0]
    assert changed(8.0, 1999.0, False) == [4.0, 0.0]
    assert changed(1.0, 5.0, False) == [1.0, 0.0] and changed(2.0**24, 1999.0, True) == [2.0**24, 0.0]


@pytest.mark.slow
def test_two_replicas_share_one_loss_scale():
    strategy = two_replicas()
    figures, _, optimizer = take_steps(UNCOMPILED, strategy=strategy, precision="float16", scale=2.0**24)
    assert figures["overflow"].sum() >= 2
    scales = {float(copy) for copy in strategy.experimental_local_results(optimizer.loss_scale.scale)}
    assert scales == {2.0 ** (24 - figures["overflow"].sum())}

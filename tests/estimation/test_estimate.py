"""Names of devices, times and costs that were computed by hand, and the largest batch."""

import dataclasses
import json
import subprocess
import sys

import pytest

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.errors import UserError
from keras_bert_app.estimation import hardware
from keras_bert_app.estimation.counts import optimizer_flop
from keras_bert_app.estimation.estimate import USABLE_SHARE, Work, estimate, positions_per_word
from keras_bert_app.estimation.estimate_report import report_lines

TINY = BertConfig.of_size("tiny")
RUN = PretrainingConfig(global_batch_size=96, max_seq_length=128, max_predictions_per_seq=20, precision="float32")
ROUND = hardware.Device({"float32": 1e12, "bfloat16": 2e12}, 10**9)  # a device of round numbers


@pytest.mark.parametrize(
    "name, count, peak",
    [
        ("v5e-8", 8, 197e12),
        ("V6E-4", 4, 918e12),
        ("v5e", 1, 197e12),
        ("a100-80gb", 1, 312e12),
        ("a100-80gb-16", 16, 312e12),
        ("v4-8", 4, 275e12),  # 8 TensorCores are 4 chips
        ("v4", 1, 275e12),
    ],
)
def test_the_name_of_hardware_gives_the_device_and_the_number_of_devices(name, count, peak):
    device, number = hardware.parse(name)
    assert (number, device.peaks["bfloat16"]) == (count, peak)


def test_the_default_precision_of_a_device_is_that_of_training():
    names = ("v5e-8", "l4", "t4", "v100", "h200")
    precisions = [
        PretrainingConfig().with_precision(hardware.DEVICES[name.split("-")[0]].automatic_precision).precision
        for name in names
    ]
    assert precisions == ["bfloat16", "bfloat16", "float16", "float16", "bfloat16"]


@pytest.mark.parametrize(
    "name, message",
    [
        ("v5f-8", "did you mean 'v5e'"),
        ("v4-3", "multiple of 2"),
        ("h100-0", "1 or more"),
        ("cpu", "--peak_gflops"),
        ("", "is not known"),
    ],
)
def test_a_wrong_device_is_named_with_what_was_expected(name, message):
    with pytest.raises(UserError, match=message):
        hardware.parse(name)


def test_a_given_peak_and_memory_replace_the_published_ones():
    device, _ = hardware.parse("cpu-2", peak_gflops=70, memory_gb=16)
    assert device.peaks == dict.fromkeys(("bfloat16", "float16", "float32"), 70e9) and device.memory == 16 * 10**9


def test_time_and_cost_follow_from_flop_and_peak():
    figures = estimate(TINY, RUN, ROUND, 2, Work(num_train_steps=1000), utilization=0.5, price_per_hour=3.0)
    assert figures["step_seconds"] == pytest.approx(figures["flop_per_step"] / 1e12)  # two devices at half of 10^12
    assert figures["days"] * 86_400 == pytest.approx(1000 * figures["step_seconds"])
    assert figures["cost"] == pytest.approx(3.0 * 2 * 1000 * figures["step_seconds"] / 3600)
    faster = estimate(TINY, dataclasses.replace(RUN, precision="bfloat16"), ROUND, 2, Work(), utilization=0.5)
    assert faster["step_seconds"] == pytest.approx(figures["step_seconds"] / 2) and "days" not in faster


def test_every_device_computes_all_matrix_products_of_muon():
    run, work = dataclasses.replace(RUN, precision="bfloat16"), Work(num_train_steps=10)
    adamw, muon = (
        estimate(TINY, dataclasses.replace(run, optimizer=name), ROUND, 3, work, utilization=0.5)
        for name in ("adamw", "muon")
    )
    flop = optimizer_flop(TINY, "muon")
    assert muon["optimizer_flop_per_step"] == flop > 0 == adamw["optimizer_flop_per_step"]
    assert muon["step_seconds"] - adamw["step_seconds"] == pytest.approx(flop / 1e12)  # half of 2 x 10^12
    assert muon["flop"] - adamw["flop"] == pytest.approx(10 * 3 * flop)
    shown, not_shown = (
        "\n".join(report_lines(figures, TINY, dataclasses.replace(run, optimizer=name), "round"))
        for name, figures in (("muon", muon), ("adamw", adamw))
    )
    assert "muon, a step on each device" in shown and "a step on each device" not in not_shown


def test_positions_per_word_have_a_default_only_for_measured_settings_and_are_shown():
    assert [positions_per_word("nsp", length) for length in (128, 512)] == [2.28, 4.78]
    for objective, length in (("nsp", 256), ("none", 128)):
        with pytest.raises(
            UserError,
            match=f"--positions_per_word is missing.*--sentence_objective={objective} --max_seq_length={length}",
        ):
            positions_per_word(objective, length)
    figures = estimate(TINY, RUN, ROUND, 1, Work(corpus_words=1e6, positions_per_word=3.5), utilization=0.5)
    assert figures["num_train_steps"] == round(3.5e6 / (96 * 128))
    assert "3.5 (--positions_per_word)" in "\n".join(report_lines(figures, TINY, RUN, "round"))


@pytest.mark.parametrize(
    "arguments, compiled",
    [
        (["--hardware=cpu", "--peak_gflops=70"], "parts"),
        (["--hardware=cpu", "--peak_gflops=70", "--num_train_steps=100"], "none"),
        (["--hardware=cpu", "--peak_gflops=70", "--jit_compile=step"], "step"),
        (["--hardware=v5e", "--jit_compile=parts"], "step"),
        (["--hardware=l4"], "step"),
        (["--hardware=l4", "--num_train_steps=100"], "none"),
    ],
)
def test_the_estimate_assumes_the_compilation_that_training_would_use(arguments, compiled, tmp_path):
    command = [
        sys.executable,
        "-m",
        "keras_bert_app.cli.estimate",
        "--config=tiny",
        f"--output_file={tmp_path}/figures.json",
    ]
    subprocess.run([*command, *arguments], check=True, capture_output=True)
    assert json.loads((tmp_path / "figures.json").read_text())["jit_compile"] == compiled


def test_words_and_minutes_become_steps():
    # 40 epochs of 3.3e9 words, one position each, take a million steps of 256 x 512 (Devlin et al. 2018, A.2).
    paper = Work(corpus_words=3.3e9, num_epochs=40, positions_per_word=1.0)
    assert paper.steps(256 * 512, 1.0) == 1_007_080
    assert dataclasses.replace(paper, positions_per_word=2.0).steps(256 * 512, 1.0) == 2 * 1_007_080
    assert Work(minutes=2).steps(1, 0.5) == 240 and Work().steps(1, 0.5) is None


@pytest.mark.parametrize(
    "changes", [{}, {"gradient_accumulation_steps": 3}, {"precision": "bfloat16", "optimizer": "adafactor"}]
)
def test_one_row_more_than_the_largest_batch_does_not_fit(changes):
    run = dataclasses.replace(RUN, **changes)
    figures = estimate(TINY, run, ROUND, 2, Work(), 0.5)
    share = 2 * run.gradient_accumulation_steps
    largest = figures["largest_global_batch_size"]
    assert largest == share * figures["largest_rows_at_a_time"] > 0
    for size, fits in ((largest, True), (largest + share, False)):
        resized = estimate(TINY, dataclasses.replace(run, global_batch_size=size), ROUND, 2, Work(), 0.5)
        assert resized["fits"] is fits and (resized["memory"]["peak"] <= USABLE_SHARE * 10**9) is fits


def test_a_batch_that_devices_cannot_share_is_refused():
    with pytest.raises(UserError, match="multiple of 5"):
        estimate(TINY, RUN, ROUND, 5, Work(), 0.5)


def test_the_report_says_that_a_model_too_large_for_the_device_does_not_fit():
    figures = estimate(BertConfig.of_size("large"), RUN, ROUND, 1, Work(num_train_steps=10), 0.5)
    assert not figures["fits"] and figures["largest_global_batch_size"] == 0
    text = "\n".join(report_lines(figures, BertConfig.of_size("large"), RUN, "round"))
    assert "DOES NOT FIT" in text and "not one row" in text and "--price_per_hour" in text

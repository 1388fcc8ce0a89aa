"""What benchmarks.step.training_step stands on: contenders that do not do the same work are refused, and the tables of the rest."""

import contextlib
import math
import os
import pathlib
import subprocess
import sys

import pytest

from benchmarks.common import this_machine
from benchmarks.common.resumable import alike, results_of
from benchmarks.step import step_contenders, training_step_table
from keras_bert_app.errors import UserError

ROOT = pathlib.Path(__file__).parents[1]
SAME = {"losses": [11.25, 10.5, 9.75], "losses_with_dropout": [11.26, 10.52, 9.8]}
LOOKS = {
    "ours none float32": SAME,
    "model_garden step float32": SAME,
    "keras_hub none float32": {**SAME, "losses": [11.25, 10.501, 9.755]},
    "ours none bfloat16": {**SAME, "losses": [11.2504, 10.501, 9.752]},
    "model_garden step bfloat16": SAME,
}


@pytest.mark.parametrize(
    "entry, size, cpu_flags, precisions",
    [
        ("tiny:32:128", (2, 128, 2), "flags\t\t: fma avx2 avx512_bf16", ("float32", "bfloat16")),
        ("tiny:32:128", (2, 128, 2), "Features\t: asimd bf16", ("float32", "bfloat16")),
        ("tiny:32:128", (2, 128, 2), "flags\t\t: fma avx2", ("float32",)),
        ("4x384:8:64:bfloat16", (4, 384, 6), "flags\t\t: fma avx2", ("bfloat16",)),
    ],
)
def test_an_entry_without_a_precision_is_measured_in_those_that_the_cpu_multiplies(
    monkeypatch, tmp_path, entry, size, cpu_flags, precisions
):
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\nmodel name\t: of a test\n{cpu_flags}\n")
    monkeypatch.setattr(this_machine, "_CPUINFO", str(tmp_path / "cpuinfo"))
    config, rows, length, found = step_contenders.parsed(entry)
    assert (config.num_hidden_layers, config.hidden_size, config.num_attention_heads) == size
    assert [rows, length] == [int(number) for number in entry.split(":")[1:3]] and found == precisions


@pytest.mark.parametrize(
    "entry",
    [
        "tiny:32",
        "tyny:32:128",
        "2x100:8:64",
        "tiny:0:128",
        "tiny:8:513",
        "tiny:8:64:float16",
        "tiny:8:64:float32:bfloat16",
    ],
)
def test_a_wrong_entry_is_named_with_what_was_expected(entry):
    with pytest.raises(UserError, match=f"--steps={entry}: expected SIZE:ROWS:LENGTH"):
        step_contenders.parsed(entry)


def test_losses_that_go_up_and_come_back_are_progress():
    step_contenders.check_same({"ours none float32": {**SAME, "losses": [11.25, 11.5, 11.25]}}, 2)


def test_precisions_are_compared_each_within_itself_bfloat16_and_keras_more_loosely():
    step_contenders.check_same(LOOKS, 2)


def test_bfloat16_may_differ_more_where_there_are_more_layers_and_float32_may_not():
    for precision, num_layers, is_refused in (("bfloat16", 2, True), ("bfloat16", 12, False), ("float32", 12, True)):
        looks = {
            f"ours none {precision}": SAME,
            f"model_garden none {precision}": {**SAME, "losses": [11.25, 10.57, 9.8]},
        }
        with pytest.raises(UserError, match="not the same work") if is_refused else contextlib.nullcontext():
            step_contenders.check_same(looks, num_layers)


@pytest.mark.parametrize(
    "name, changes, message",
    [
        (
            "model_garden step float32",
            {"losses": [11.25, 10.5, 9.7505]},
            "where ours none float32 has 11.25000 10.50000 9.75000",
        ),
        ("model_garden step bfloat16", {"losses": [11.25, 10.5, 9.79]}, "not the same work"),
        ("model_garden step float32", {"losses": [11.25, 10.5, math.nan]}, "no time is told"),
        ("keras_hub none float32", {"losses": [11.25, 10.5, 9.77]}, "expected the same within 0.001"),
        ("ours none float32", {"losses": [11.25] * 3}, "they update nothing"),
        # Of an optimizer with other numbers, without dropout.
        ("model_garden step float32", {"losses_with_dropout": [SAME["losses"][0], 9.0, 8.0]}, "it has no dropout"),
    ],
)
def test_other_losses_idle_steps_and_missing_dropout_are_refused(name, changes, message):
    with pytest.raises(UserError, match=message) as refused:
        step_contenders.check_same({**LOOKS, name: {**LOOKS[name], **changes}}, 2)
    assert str(refused.value).startswith(name)


def test_all_precisions_of_a_side_are_in_one_contest():
    alone = {
        "ours none float32": 3.0,
        "ours parts float32": 2.5,
        "ours parts bfloat16": 2.0,
        "keras_hub none float32": 9.0,
        "model_garden none bfloat16": 7.0,
        "transformers none bfloat16": 7.7,
    }
    figures = {name: {**SAME, "seconds_alone": seconds, "resident_alone": 10} for name, seconds in alone.items()}
    # Both sides' fastest first, in memory for three; two take turns in any case.
    assert training_step_table.finalists(figures, 1.25, 35) == [
        "ours parts float32",
        "ours parts bfloat16",
        "model_garden none bfloat16",
    ]
    assert training_step_table.finalists(figures, 1.25, 1) == ["ours parts bfloat16", "model_garden none bfloat16"]
    chosen = training_step_table.finalists(figures, 1.25)
    assert chosen == [
        "ours parts float32",
        "ours parts bfloat16",
        "model_garden none bfloat16",
        "transformers none bfloat16",
    ]
    for name in chosen:
        figures[name] |= {"rounds": [[alone[name]] * 3] * 2, "seconds_to_first_step": 1.0, "resident_bytes": 10**9}
    *_, last = lines = list(training_step_table.table({"small:2:100": figures}))
    assert last == (
        "small:2:100: ours parts bfloat16 is 3.50 (3.50 - 3.50) times as fast as model_garden none bfloat16, the fastest "
        "peer"
    )
    assert (
        "| small:2:100 | ours | parts | bfloat16 | 2,000 (2,000 - 2,000) | 100 | 11.2500 10.5000 9.7500 | 1.0 | 1.00 |"
        in lines
    )
    assert "| small:2:100 | keras_hub | none | float32 | 9,000, alone |  | 11.2500 10.5000 9.7500 |  |  |" in lines


def test_a_result_of_other_settings_is_refused_and_one_of_the_same_is_taken(tmp_path):
    path, settings = os.path.join(tmp_path, "out", "table.json"), {"rounds": 5, "versions": ("a", "b")}
    assert results_of(["x"], len, path, settings) == {"x": 1}
    assert results_of(["x", "yy"], len, path, settings) == {"x": 1, "yy": 2}
    with pytest.raises(UserError, match=r"row x was measured with rounds 5, this run has 3; take another directory"):
        results_of(["x"], len, path, {**settings, "rounds": 3})
    with pytest.raises(UserError, match="row x was measured with machine None, this run has other"):
        results_of(["x"], len, path, {**settings, "machine": "other"})
    assert results_of(["zzz"], len, path, {"rounds": 3}) == {"zzz": 3}
    assert alike(path, settings, ("versions",)) == {"x": 1, "yy": 2} and alike(path, {"rounds": 3}, ("rounds",)) == {
        "zzz": 3
    }
    plain = os.path.join(tmp_path, "plain.json")
    assert results_of(["x"], len, plain) == {"x": 1} == results_of(["x"], len, plain)
    with pytest.raises(UserError, match="does not say with what settings"):
        results_of(["x"], list, plain, settings)


def test_a_series_doubles_one_number_and_the_length_up_to_the_longest():
    code = "from benchmarks.step.training_slopes import series_of; print(*series_of('2x64:3:32', 1, 200).values())"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert found.stdout.strip() == str(
        [
            ["2x64:3:32", "4x64:3:32"],
            ["2x64:3:32", "2x128:3:32"],
            ["2x64:3:32", "2x64:6:32"],
            ["2x64:3:32", "2x64:3:64", "2x64:3:128"],
        ]
    )[1:-1].replace("], [", "] ["), found.stderr

"""The estimate command as a user runs it."""

import json

import pytest

from tests.cli.test_commands import assert_refused

BASE = ("estimate", "--config=base", "--max_seq_length=128", "--global_batch_size=256", "--hardware=v5e-8")


def test_estimate_prints_a_table_and_writes_the_same_figures_to_a_file(run, tmp_path):
    path = tmp_path / "estimate.json"
    result = run(*BASE, "--num_train_steps=1000", "--price_per_hour=2", f"--output_file={path}")
    assert result.returncode == 0 and result.stderr == ""
    for part in ("110,106,428", "515.7 MFLOP", "assumed: --utilization"):
        assert part in result.stdout
    saved = json.loads(path.read_text())
    assert saved["parameters"]["total"] == 110_106_428 and saved["num_devices"] == 8 and saved["rows_at_a_time"] == 32
    assert f"{saved['cost']:,.2f} at 2 a device hour" in result.stdout
    assert saved["config"]["hidden_size"] == 768


def test_a_recipe_sets_the_values_that_no_flag_sets(run, tmp_path):
    result = run(
        "estimate", "--recipe=original", "--config=tiny", "--hidden_size=64", "--hardware=cpu", "--peak_gflops=70"
    )
    assert result.returncode == 0, result.stderr
    assert "hidden 64" in result.stdout and "256 rows of 128 tokens with 20 predictions" in result.stdout
    assert "900,000, 29.49 billion tokens" in result.stdout
    assert "positions a word" not in result.stdout
    assert "with original_long_rows" in result.stdout
    long_rows = run("estimate", "--recipe=original_long_rows", "--config=tiny", "--hardware=l4", "--corpus_words=1e9")
    assert "4.78 (--positions_per_word)" in long_rows.stdout, long_rows.stderr
    time_limited = run("estimate", "--recipe=small_budget", "--hardware=l4")
    assert " 1.0 hours" in time_limited.stdout or " 60.0 minutes" in time_limited.stdout, time_limited.stderr


@pytest.mark.parametrize(
    "flags, parts",
    [
        (["--config=bsae"], ["did you mean 'base'"]),
        (["--precision=bfloat61"], ["bfloat61", "did you mean 'bfloat16'"]),
        (["--hardware="], ["--hardware is missing"]),
        (["--max_seq_length=513"], ["513", "512"]),
        (["--utilization=0"], ["--utilization=0"]),
        (["--corpus_words=3e9", "--num_train_steps=10"], ["--corpus_words and --num_train_steps", "one of them"]),
        (
            ["--corpus_words=3e9", "--max_seq_length=256"],
            ["--positions_per_word is missing", "2.28", "--max_seq_length=256"],
        ),
        (["--memory_gb=inf"], ["--memory_gb=inf", "expected a finite number"]),
        (["--utilization=nan"], ["--utilization=nan", "expected a finite number"]),
        (["--num_epochs=40"], ["--num_epochs", "without --corpus_words"]),
    ],
)
def test_a_wrong_flag_gives_one_line_and_exit_code_2(run, flags, parts):
    assert_refused(run(*BASE, *flags), *parts)

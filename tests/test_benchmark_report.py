"""What benchmarks keep of a run: figures, table and picture under one name."""

import io
import json
import subprocess
import sys

import pytest
from matplotlib import image

from benchmarks.common import count_flags, report, turns

FIGURES = {"machine": {"cores": 2, "cpu": "x86_64"}, "rounds": [1.0, 2.0]}
PANELS = {
    "1 x 16": {"ours": (2.0, 1.0, 3.0), "a peer": (1234.0, 1200.0, 1300.0)},
    "32 x 16": {f"contender {number}": (0.5, 0.6, 0.7) for number in range(20)},
}  # a median of all calls below every round's


def test_a_run_is_kept_as_json_table_and_picture(tmp_path):
    report.keep(
        str(tmp_path / "new" / "part.json"),
        FIGURES,
        ["| a |", "|---|"],
        lambda path: report.draw_bars(PANELS, "What\nseconds", path),
    )
    assert json.loads((tmp_path / "new" / "part.json").read_text()) == FIGURES
    assert (tmp_path / "new" / "part.md").read_text() == "cores 2, cpu x86_64\n\n| a |\n|---|\n"
    height, width, _ = image.imread(io.BytesIO((tmp_path / "new" / "part.png").read_bytes())).shape
    assert width > height > 500  # room for twenty bars


def test_without_a_file_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report.keep("", FIGURES, [], pytest.fail)
    assert not list(tmp_path.iterdir())


def test_milliseconds_are_those_of_all_calls_between_those_of_the_rounds():
    assert turns.milliseconds([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6, 0.7, 0.8]]) == pytest.approx((450, 200, 600))


@pytest.mark.parametrize("given", ["", "1,x", "0", "1,,2", "1.5"])
def test_numbers_in_a_flag_are_whole_and_at_least_one(given):
    assert count_flags.Counts().parse("1,32") == [1, 32]
    with pytest.raises(ValueError, match="expected whole numbers from 1 on, joined by commas, as in 1,32"):
        count_flags.Counts().parse(given)


def test_help_has_the_flags_that_hold_numbers():
    result = subprocess.run(
        [sys.executable, "-m", "benchmarks.serving.serving_latency", "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0 and "  --batches: Batch sizes.\n    (default: '1,32')" in result.stdout, result.stdout

import json

import pytest

from benchmarks.common.resumable import results_of
from keras_bert_app.errors import UserError


def test_a_row_runs_once_and_keeps_its_result(tmp_path):
    path, ran = str(tmp_path / "runs" / "table.json"), []

    def run(row):
        ran.append(row)
        return len(ran)

    assert results_of(["a", "b"], run, path, {"steps": 10}) == {"a": 1, "b": 2}
    assert results_of(["b", "c"], run, path, {"steps": 10}) == {"b": 2, "c": 3}
    assert ran == ["a", "b", "c"]


def test_another_process_may_add_rows_meanwhile(tmp_path):
    path = str(tmp_path / "table.json")

    def run(row):
        if row == "slow":
            results_of(["fast"], lambda _: "theirs", path, {})
        return "ours"

    results_of(["slow"], run, path, {})
    kept = json.loads((tmp_path / "table.json").read_text())
    assert {row: entry["result"] for row, entry in kept.items()} == {"fast": "theirs", "slow": "ours"}


def test_a_row_with_other_settings_is_refused_before_anything_runs(tmp_path):
    path = str(tmp_path / "table.json")
    results_of(["b"], str.upper, path, {"steps": 10})

    def run(row):
        raise AssertionError(f"{row} ran")

    with pytest.raises(UserError, match="row b was measured with steps 10, this run has 20"):
        results_of(["a", "b"], run, path, {"steps": 20})

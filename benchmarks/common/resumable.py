"""Runs the rows of long tables. A stopped table continues with the first row that is missing."""

import fcntl
import json
import os
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from keras_bert_app.errors import UserError
from pipelines import storage


def results_of(
    rows: Sequence[str],
    run: Callable[[str], Any],
    path: str,
    settings: dict | Callable[[str], dict],
    shown: Callable[[Any], str] = str,
) -> dict:
    """Runs each row once and keeps its result in a JSON file. A row that the file already has does not run again.

    Several processes may run different rows of one file at the same time.

    Args:
        rows: names of the rows.
        run: function of a row's name that returns a JSON-able result.
        path: str. The JSON file.
        settings: JSON-able dict of everything else that a result depends on, or a function from a row's name to such a
            dict.
        shown: function of a result that returns the text to print.

    Returns:
        dict. Row -> result.

    Raises:
        UserError: the file has a row with other settings. The message names the first setting that differs.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)
    done = _read(path) if os.path.exists(path) else {}
    # JSON changes some types, such as tuples. Compare the settings in the form in which they are read back.
    settings = {row: json.loads(json.dumps(settings(row) if callable(settings) else settings)) for row in rows}
    for row in rows:
        if row in done:
            _refuse_others(done[row]["settings"], settings[row], row, path)
    for row in rows:
        if row not in done:
            done = _with_row(path, row, {"settings": settings[row], "result": run(row)})
        print(f"{row}: {shown(done[row]['result'])}", flush=True)
    return {row: done[row]["result"] for row in rows}


def alike(path: str, settings: dict, names: Iterable[str]) -> dict:
    """Reads the rows that were measured with the same settings.

    Args:
        path: str. The JSON file that results_of wrote.
        settings: dict. The settings of this run.
        names: names of the settings that must be equal.

    Returns:
        dict. Row -> result.
    """
    wanted = json.loads(json.dumps({name: settings[name] for name in names}))
    return {
        row: entry["result"]
        for row, entry in _read(path).items()
        if wanted == {name: entry["settings"].get(name) for name in names}
    }


def _with_row(path, row, entry):
    """Adds a row to the file, also to rows that another process has added meanwhile. Returns all rows."""
    with open(f"{path}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = {**(_read(path) if os.path.exists(path) else {}), row: entry}
        storage.write_whole(path, json.dumps(done, indent=1))
        return done


def _read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def _refuse_others(old, new, row, path):
    for name in {**new, **old}:
        if old.get(name) != new.get(name):
            raise UserError(
                f"{path}: row {row} was measured with {name} {old.get(name)}, this run has {new.get(name)}; take "
                "another directory for the results, or move that file away"
            )


def spread(values: Sequence[float], form: str = ".4f") -> str:
    """The mean of values; if there are several, also the lowest and the highest.

    Args:
        values: numbers.
        form: str. Format of each number.
    """
    mean = format(statistics.mean(values), form)
    return mean if len(values) == 1 else f"{mean} ({format(min(values), form)} to {format(max(values), form)})"

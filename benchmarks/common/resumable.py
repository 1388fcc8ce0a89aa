"""Long tables of runs that go on where they were stopped."""

import json
import os
import statistics

from keras_bert_app.errors import UserError


def results_of(rows, run, path, settings=None, shown=str):
    """dict row -> result, each run once and kept in a JSON file.

    Args:
        rows: names. run: function of a name that gives a JSON-able result. path: of the file.
        settings: JSON-able dict of all else that a result hangs on, kept with each row, or a function of the row that gives it;
            None where the names say it all. shown: function of a result that gives what is printed of it.

    Raises:
        UserError: a row is there already and was run with other settings; names the first that differs.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)
    done = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            done = json.load(file)
    # As they are read back.
    settings = settings and {
        row: json.loads(json.dumps(settings(row) if callable(settings) else settings)) for row in rows
    }
    for row in rows:
        if settings is not None and row in done:
            _refuse_others(done[row], settings[row], row, path)
    for row in rows:
        if row not in done:
            result = run(row)
            done[row] = result if settings is None else {"settings": settings[row], "result": result}
            with open(path + ".tmp", "w", encoding="utf-8") as file:
                json.dump(done, file, indent=1)
            os.replace(path + ".tmp", path)
        print(f"{row}: {shown(_result(done[row], settings))}", flush=True)
    return {row: _result(done[row], settings) for row in rows}


def alike(path, settings, names):
    """dict row -> result of all rows of the file of results_of whose settings are these in some names."""
    with open(path, encoding="utf-8") as file:
        done = json.load(file)
    wanted = json.loads(json.dumps({name: settings[name] for name in names}))
    return {
        row: entry["result"]
        for row, entry in done.items()
        if wanted == {name: entry["settings"].get(name) for name in names}
    }


def _result(entry, settings):
    return entry if settings is None else entry["result"]


def _refuse_others(entry, settings, row, path):
    mend = "take another directory for the results, or move that file away"
    if not isinstance(entry, dict) or "settings" not in entry:
        raise UserError(f"{path}: row {row} does not say with what settings it was measured; {mend}")
    old = entry["settings"]
    for name in {**settings, **old}:
        if old.get(name) != settings.get(name):
            raise UserError(
                f"{path}: row {row} was measured with {name} {old.get(name)}, this run has {settings.get(name)}; {mend}"
            )


def spread(values, form=".4f"):
    """The mean, and of several the lowest and the highest too."""
    mean = format(statistics.mean(values), form)
    return mean if len(values) == 1 else f"{mean} ({format(min(values), form)} to {format(max(values), form)})"

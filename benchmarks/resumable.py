"""Long tables of runs that go on where they were stopped."""

import json
import os
import statistics


def results_of(rows, run, path):
    """dict row -> result, each run once and kept in a JSON file.

    Args:
        rows: names. run: function of a name that gives a JSON-able result. path: of the file.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)
    done = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            done = json.load(file)
    for row in rows:
        if row not in done:
            done[row] = run(row)
            with open(path + ".tmp", "w", encoding="utf-8") as file:
                json.dump(done, file, indent=1)
            os.replace(path + ".tmp", path)
        print(row, done[row], flush=True)
    return {row: done[row] for row in rows}


def spread(values, form=".4f"):
    """The mean, and of several the lowest and the highest too."""
    mean = format(statistics.mean(values), form)
    return mean if len(values) == 1 else f"{mean} ({format(min(values), form)} to {format(max(values), form)})"

"""Runs of several seeds: WORKDIR/seed-N, and a results.json over them."""

import os

from keras_bert_app.errors import UserError
from keras_bert_app.files import read_json
from keras_bert_app.runs import work_directory


def has_several(workdir):
    """Whether a path is the work directory of runs of several seeds that ended."""
    path = os.path.join(str(workdir), "results.json")
    try:
        values = {} if work_directory.is_started(workdir) or not work_directory.exists(path) else read_json(path)
        return isinstance(values, dict) and any(
            values["metric"] in run.get("dev", {}) for run in values.get("runs", ())
        )
    except (
        UserError,
        KeyError,
        TypeError,
        AttributeError,
    ):  # of another program: models of others lie beside all kinds of files
        return False


def best(workdir):
    """The path itself, or of runs of several seeds the directory of the best one."""
    if not has_several(workdir):
        return workdir
    values = read_json(os.path.join(str(workdir), "results.json"))
    found = max((run for run in values["runs"] if "dev" in run), key=lambda run: run["dev"][values["metric"]])
    return os.path.join(str(workdir), f"seed-{found['seed']}")


def sound(workdir):
    """The path itself in a list, or of runs of several seeds the directories of those that did not fail and are better than the baseline,
    the best one first."""
    if not has_several(workdir):
        return [workdir]
    values = read_json(os.path.join(str(workdir), "results.json"))
    first = best(workdir)
    others = [
        os.path.join(str(workdir), f"seed-{run['seed']}")
        for run in values["runs"]
        if run["seed"] not in values["degenerate_seeds"]
    ]
    return [first, *(directory for directory in others if directory != first)]


def best_run(workdir):
    """As best, of a path where a run lives.

    Raises:
        UserError: there is none.
    """
    directory = best(workdir)
    if not work_directory.is_started(directory):
        raise UserError(
            f"{workdir}: no fine-tuning run lives there; expected the --workdir of a finetune command that ended"
        )
    return directory

"""Runs of several seeds: WORKDIR/seed-N, and a results.json over all of them."""

import os

from keras_bert_app.errors import UserError
from keras_bert_app.files import read_json
from keras_bert_app.runs import work_directory
from pipelines import storage


def has_several(workdir: str) -> bool:
    """Whether a path is the work directory of runs of several seeds that ended."""
    path = os.path.join(str(workdir), "results.json")
    try:
        values = {} if work_directory.is_started(workdir) or not storage.exists(path) else read_json(path)
        return any(values["metric"] in run.get("dev", {}) for run in values.get("runs", ()))
    except (UserError, KeyError, TypeError, AttributeError):
        return False  # a results.json of another program, as lies beside all kinds of models


def best(workdir: str) -> str:
    """The directory of the seed with the best score; the path itself where it has no several seeds."""
    if not has_several(workdir):
        return workdir
    values = read_json(os.path.join(str(workdir), "results.json"))
    run = max((run for run in values["runs"] if "dev" in run), key=lambda run: run["dev"][values["metric"]])
    return os.path.join(str(workdir), f"seed-{run['seed']}")


def sound(workdir: str) -> list[str]:
    """Directories of the seeds that ended better than the baseline, the best one first.

    A path without several seeds is the only entry.
    """
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


def best_run(workdir: str) -> str:
    """The directory of the best seed, as of best.

    Raises:
        UserError: no run lives there.
    """
    directory = best(workdir)
    if not work_directory.is_started(directory):
        raise UserError(
            f"{workdir}: no fine-tuning run lives there; expected the --workdir of a finetune command that ended"
        )
    return directory

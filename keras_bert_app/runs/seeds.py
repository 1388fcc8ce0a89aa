"""Runs of several seeds: WORKDIR/seed-N, and a results.json over all of them."""

import os

from keras_bert_app.errors import UserError
from keras_bert_app.files import read_json
from keras_bert_app.runs import work_directory
from pipelines import storage


def has_several(workdir: str) -> bool:
    """Whether a path is the work directory of runs of several seeds that ended."""
    return bool(_results(workdir))


def best(workdir: str) -> str:
    """The directory of the seed with the best score; the path itself where it has no several seeds."""
    if not (values := _results(workdir)):
        return workdir
    run = max((run for run in values["runs"] if "dev" in run), key=lambda run: run["dev"][values["metric"]])
    return _directory(workdir, run)


def sound(workdir: str) -> list[str]:
    """Directories of the seeds that ended better than the baseline, the best one first.

    A path without several seeds is the only entry.
    """
    if not (values := _results(workdir)):
        return [workdir]
    first = best(workdir)
    others = [_directory(workdir, run) for run in values["runs"] if run["seed"] not in values["degenerate_seeds"]]
    return [first, *(directory for directory in others if directory != first)]


def _results(workdir):
    """results.json over several seeds; {} where there is none, or one of another program, as beside many models."""
    path = os.path.join(str(workdir), "results.json")
    if not storage.is_file(path) or work_directory.is_started(workdir):
        return {}
    try:
        values = read_json(path, folder=workdir)
    except UserError:
        return {}
    runs, degenerate = values.get("runs"), values.get("degenerate_seeds", [])
    is_ours = (
        isinstance(runs, list)
        and all(_is_run(run, values.get("metric")) for run in runs)
        and any("dev" in run for run in runs)
        and isinstance(degenerate, list)
    )
    return {**values, "degenerate_seeds": degenerate} if is_ours else {}


def _is_run(run, metric):
    """Whether an entry has a seed, and a score if the run has ended."""
    return (
        isinstance(run, dict)
        and type(run.get("seed")) is int
        and isinstance(metric, str)
        and ("dev" not in run or isinstance(run["dev"], dict) and type(run["dev"].get(metric)) in (int, float))
    )


def _directory(workdir, run):
    return os.path.join(str(workdir), f"seed-{run['seed']}")


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

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
    """The directory of the seed whose examples of choice score best; the path itself where it has no several seeds."""
    if not (values := _results(workdir)):
        return workdir
    return _directory(workdir, max((run for run in values["runs"] if "failed" not in run), key=_score))


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
        and all(map(_is_run, runs))
        and any("failed" not in run for run in runs)
        and isinstance(degenerate, list)
    )
    return {**values, "degenerate_seeds": degenerate} if is_ours else {}


def _is_run(run):
    """Whether an entry has a seed, and a score if the run has not failed."""
    return (
        isinstance(run, dict)
        and type(run.get("seed")) is int
        and ("failed" in run or type(_score(run)) in (int, float))
    )


def _score(run):
    """The score of a run's best weights on the examples that chose them; None if there is none."""
    best = run.get("best")
    return best.get("score") if isinstance(best, dict) else None


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

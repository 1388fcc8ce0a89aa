"""Finds the runs of several seeds: WORKDIR/seed-N, with one results.json for all of them."""

import os
from typing import Any

from keras_bert_app.errors import UserError
from keras_bert_app.files import read_json
from keras_bert_app.runs import work_directory
from pipelines import storage


def has_several(workdir: str) -> bool:
    """Whether a directory holds runs of several seeds that have ended.

    Args:
        workdir: the work directory.
    """
    return bool(_results(workdir))


def best(workdir: str) -> str:
    """The directory of the seed with the best score on the examples that chose its weights.

    Args:
        workdir: the work directory.

    Returns:
        The directory; the path itself if it does not hold several seeds.
    """
    if not (values := _results(workdir)):
        return workdir
    return _directory(workdir, max((run for run in values["runs"] if "failed" not in run), key=_score))


def configuration(path: str | os.PathLike) -> dict[str, Any]:
    """The config.json of a run, or of the best of its seeds.

    Args:
        path: a directory.

    Returns:
        The content; {} if the path has no such file.
    """
    try:
        directory = best(str(path))
        return read_json(work_directory.path_in(directory, "config.json"), folder=directory)
    except UserError:
        return {}


def sound(workdir: str) -> list[str]:
    """Directories of the best seed and of all other seeds that scored better than the baseline, the best seed first.

    The examples that chose the weights of a seed also decide whether it is better. The reported examples have no part
    in this choice.

    Args:
        workdir: the work directory.

    Returns:
        The directories; only the path itself if it does not hold several seeds.
    """
    if not (values := _results(workdir)):
        return [workdir]
    first = best(workdir)
    others = [_directory(workdir, run) for run in values["runs"] if _is_sound(run, values["degenerate_seeds"])]
    return [first, *(directory for directory in others if directory != first)]


def _results(workdir):
    """Reads results.json over several seeds; {} if there is none, or another program wrote it."""
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


def _is_sound(run, degenerate):
    """Whether a seed ended, and is better than the baseline on the examples that chose its weights."""
    if "failed" in run:
        return False
    ends = run["best"].get("difference_interval")
    if not isinstance(ends, list) or [type(end) for end in ends] != [float] * 2:  # of an earlier version
        return run["seed"] not in degenerate
    return ends[0] > 0


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
    """The directory of the best seed, see `best`.

    Args:
        workdir: the work directory.

    Raises:
        UserError: the directory holds no run.
    """
    directory = best(workdir)
    if not work_directory.is_started(directory):
        raise UserError(f"{workdir}: holds no fine-tuning run; expected the --workdir of a finetune command that ended")
    return directory

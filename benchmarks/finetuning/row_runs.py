"""Runs a row of a table as one finetune command, and reads its scores."""

import functools
import json
import os
import statistics

from benchmarks.common import own_commands


def given_flags(flags_of_row: dict, encoder: str, data_dir: str, precision: str, directory: str = "") -> dict:
    """The flags of finetune without the work directory.

    Args:
        flags_of_row: the flags of a row, with paths relative to data_dir.
        encoder: the model to start from.
        data_dir: folder of the tasks.
        precision: compute type.
        directory: folder with the runs of all rows, to find the run of a row that is a teacher.
    """
    # Without bias correction, step 100 is 3.2 times and step 500 is 1.6 times as large as the learning rate says. These
    # runs are short, so they correct the bias (Zhang et al. 2020, Revisiting Few-sample BERT Fine-tuning, section 4).
    given = {
        "bias_correction": True,
        "precision": precision,
        "num_seeds": 3,
        **flags_of_row,
        "init_checkpoint": encoder,
    }
    given.pop("encoder", None)
    for name in ("data_dir", "test_file"):
        if given.get(name):
            given[name] = os.path.join(data_dir, given[name])
    if teacher := given.get("teacher"):
        given["teacher"] = os.path.join(directory, teacher)
    return given


def run_row(workdir: str, given: dict) -> dict:
    """Trains a row and returns its results.

    Args:
        workdir: str. The work directory.
        given: dict. Flags of finetune, as given_flags returns them.

    Returns:
        dict. The content of results.json.
    """
    own_commands.run("finetune", workdir=workdir, **given)
    with open(os.path.join(workdir, "results.json"), encoding="utf-8") as file:
        return json.load(file)


def reporting_runs(figures: dict) -> list[dict]:
    """The results of each seed that has a reported score. A run that broke off has none.

    Args:
        figures: the results of a row.
    """
    return [run for run in figures.get("runs", [figures]) if "reported" in run]


def summary(figures: dict) -> dict[str, str]:
    """Texts about the reported scores of a row, as means over its seeds.

    Args:
        figures: the results of a row.

    Returns:
        dict with score ("0.9012 +- 0.0034"), interval, baseline and minutes (of a seed).
    """
    runs = reporting_runs(figures)
    reported, baseline = [run["reported"] for run in runs], runs[0]["baseline"]
    scores = [each["score"] for each in reported]
    deviation = f" +- {statistics.stdev(scores):.4f}" if len(scores) > 1 else ""
    ends = (statistics.mean(each["interval"][end] for each in reported) for end in (0, 1))
    return {
        "score": f"{statistics.mean(scores):.4f}{deviation}",
        "interval": " to ".join(f"{end:.4f}" for end in ends),
        "baseline": f"{baseline['score']:.4f} ({baseline['what']})",
        "minutes": f"{statistics.mean(run['train_seconds'] for run in runs) / 60:.1f}",
    }


@functools.cache
def measures(workdir: str, test_file: str = "", **changes) -> tuple[list, list]:
    """Answers labelled examples with the run of each seed of a row.

    Args:
        workdir: the work directory of the row.
        test_file: the labelled file. Without it, the examples are the half of dev that did not choose the weights.
        **changes: options of FinetuningConfig, such as num_beams.

    Returns:
        (list of the intervals.Measure of each seed, list of the sources of the examples).
    """
    from keras_bert_app.tasks import dev_halves
    from keras_bert_app.tasks.scoring import FinetunedRun

    found, sources = [], []
    names = [name for name in sorted(os.listdir(workdir)) if name.startswith("seed-")]
    for directory in [os.path.join(workdir, name) for name in names] or [workdir]:
        run = FinetunedRun(directory, changes)
        if test_file:
            _, examples, _, predictions = run.evaluate(test_file, split="test")
        else:
            path, most = run.task.path(run.run.data_dir, "dev"), run.run.max_eval_examples
            _, examples, _, predictions = run.evaluate(path, most=most, split="dev", has_chosen=True)
        found.append(run.task.family.measure(run.task, examples, predictions, run.labels))
        sources = dev_halves.sources_of(run.task, examples)
    return found, sources

"""The results of a fine-tuning run: results.json, pictures, and the surest wrong answers."""

import dataclasses
import json
import os
import statistics
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.drawing import finetuning_pictures, fonts
from keras_bert_app.errors import NotFinite, UserError
from keras_bert_app.files import read_json
from keras_bert_app.runs import checkpoints, work_directory
from keras_bert_app.tasks import dev_halves, intervals, result_lines
from keras_bert_app.training import reporting
from pipelines import storage

_MOST_MISTAKES = 50


def tuned(workdir: str) -> dict[str, Any]:
    """The fields of FinetuningConfig that a run has tuned on its dev examples; {} before the run ends.

    Args:
        workdir: the work directory of the run.

    Raises:
        UserError: results.json has other fields than those of FinetuningConfig.
    """
    values, names = read_best_weights(workdir).get("tuned", {}), FinetuningConfig.__dataclass_fields__
    if not isinstance(values, dict) or not values.keys() <= names.keys():
        path = work_directory.path_in(workdir, "results.json")
        raise UserError(f"{path}: tuned is {repr(values)[:60]}, which no run writes; restore the file of the run")
    return values


def read_best_weights(workdir: str) -> dict[str, Any]:
    """The content of results.json, if it describes the best weights of the run; else {}.

    The function returns {} before the run ends, and if the run has continued and has other best weights.

    Args:
        workdir: the work directory of the run.
    """
    path, best = work_directory.path_in(workdir, "results.json"), checkpoints.best_checkpoints(workdir)
    figures = read_json(path, folder=workdir) if best and storage.exists(path) else {}
    best_step = checkpoints.read_manifest(best[-1], verify=False)["step"] if figures else None
    return figures if figures and _best_step(figures) == best_step else {}


def _best_step(figures):
    """The step of the best weights; versions before 0.3 wrote it as best_step."""
    best = figures.get("best")
    return best.get("step") if isinstance(best, dict) else figures.get("best_step")


def write(
    workdir: str,
    data: Any,
    run: FinetuningConfig,
    model: Any,
    scorer: Any,
    chief: bool,
    reporter: Any,
    notes: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """Scores the best weights next to the baseline, and writes and prints the results.

    Args:
        workdir: the work directory.
        data: labelled_data.Data.
        run: FinetuningConfig.
        model: BertTaskModel, which gets the best weights.
        scorer: dev_evaluation.Scorer.
        chief: whether this process writes files.
        reporter: reporting.Reporter.
        notes: dict of further entries: init_vectors is what its file has (vector_start.VectorStart).

    Returns:
        dict:
            task, metric, seed, num_train_steps, train_seconds.
            num_evaluations, dev_examples: numbers of evaluations and of examples that choose the weights.
            last, best: step and score of an evaluation. best also has difference_interval (95 %, minus the baseline).
            average: steps and score of the mean of checkpoints; best has mean_of_steps if this mean is the best.
            reported: on, examples, score, interval (95 %) and metrics of the examples that did not choose the weights.
            baseline: what, score, metrics and difference_interval (95 % interval of reported minus baseline).
            no_better_than_baseline: whether the lower end of difference_interval is at most 0.
            layer_shares, layer_gamma: the learned mix of the layers, with --layers=scalar_mix.
            output_layer_shares, output_layer_gamma: the mix beside the output of the BiLSTM, with --states_at=both.
            tuned: fields of FinetuningConfig that were tuned on dev. All scores of the best weights use them.
            dev_NAME: the scores of each further split. Other entries: those of `notes`.
    """
    manifest = checkpoints.restore(checkpoints.best_checkpoints(workdir)[-1], model)
    task = data.task
    dev_logits = scorer.logits(data.dev)
    predictions, tuned_fields = scorer.tuned_predictions(dev_logits)
    run = dataclasses.replace(run, **tuned_fields)
    answers = scorer.decoded(data.reported_examples, data.reported, scorer.logits(data.reported), run)
    figures = {
        **_about_run(workdir, task, run),
        **_chosen(data, scorer, manifest, predictions),
        **_reported(data, answers),
        **_layer_mix(model),
        **notes,
    }
    if tuned_fields:
        figures["tuned"] = tuned_fields
    figures |= _other_splits(data, run, scorer)
    # Mistakes and pictures show the examples that choose the weights. People who see the reported examples would adapt
    # the options to them.
    mistakes = task.family.mistakes(task, data.dev_examples, predictions, _MOST_MISTAKES)
    pictures = task.family.pictures(model, data.dev, dev_logits, f"{workdir}: {task.name}")
    if chief:
        _write_files(workdir, data, figures, predictions, mistakes, pictures)
    _say(workdir, data, run, figures, mistakes, pictures, reporter)
    return figures


def _about_run(workdir, task, run):
    """The first entries of results.json: the task, the seed and the length of the run."""
    return {
        "task": task.name,
        "metric": task.metrics[0],
        "seed": run.seed,
        "num_train_steps": run.num_train_steps,
        "train_seconds": round(_seconds(workdir), 1),
    }


def _other_splits(data, run, scorer):
    """The scores of each further split: dict split -> scores."""
    task, scores = data.task, {}
    for split, (examples, features) in data.others.items():
        answers = scorer.decoded(examples, features, scorer.logits(features), run)
        scores[split] = _rounded(task.family.score(task, examples, answers, data.labels))
    return scores


def _layer_mix(model):
    """The shares of the layers in the learned mixes, for results.json; {} for a model without a mix."""
    figures = {}
    for name, prefix in (("scalar_mix", ""), ("output_mix", "output_")):
        mix = getattr(model, name, None)
        if mix is not None:
            figures[f"{prefix}layer_shares"] = [round(float(share), 4) for share in mix.shares()]
            figures[f"{prefix}layer_gamma"] = round(float(mix.gamma[0]), 4)
    return figures


def _say(workdir, data, run, figures, mistakes, pictures, reporter):
    for line in (
        *result_lines.summary(figures),
        *result_lines.what_to_try(figures, run),
        *result_lines.shown(mistakes),
    ):
        reporter.say(line)
    names = ("answers.png", *pictures, "mistakes.jsonl")
    reporter.say(f"results: {os.path.join(workdir, 'results.json')}, {', '.join(names)}")
    if note := fonts.advice(data.labels):
        reporter.say(f"answers.png: {note}")


def _chosen(data, scorer, manifest, predictions):
    """The parts of results.json about the examples that choose. manifest and predictions are of the best weights."""
    scores, average = dict(scorer.history), scorer.average
    last_step = max(scores)
    # The best weights may be the mean of an earlier end of the run, so their own manifest has the score.
    score = reporting.as_written(manifest["figures"][f"eval_{data.task.metrics[0]}"])
    task, examples, family = data.task, data.dev_examples, data.task.family
    _, trivial = (task.baseline or family.baseline)(task, data.train_examples, examples, data.labels)
    measures = [family.measure(task, examples, each, data.labels) for each in (predictions, trivial)]
    low, high = intervals.compared(*measures, dev_halves.sources_of(task, examples)).difference_interval
    best = {"step": manifest["step"], "score": score, "difference_interval": [round(low, 6), round(high, 6)]}
    if "mean_of_steps" in manifest:
        best["mean_of_steps"] = manifest["mean_of_steps"]
    return {
        "num_evaluations": len(scorer.history) + bool(average),
        "dev_examples": len(data.dev_examples),
        "last": {"step": last_step, "score": scores[last_step]},
        "best": best,
        **({"average": average} if average else {}),
    }


def _reported(data, predictions):
    """The parts of results.json about the reported examples.

    Args:
        data: labelled_data.Data.
        predictions: the predictions for the reported examples.
    """
    task, examples, labels = data.task, data.reported_examples, data.labels
    family = task.family
    what, trivial = (task.baseline or family.baseline)(task, data.train_examples, examples, labels)
    comparison = intervals.compared(
        family.measure(task, examples, predictions, labels),
        family.measure(task, examples, trivial, labels),
        dev_halves.sources_of(task, examples),
    )
    signatures = {name: text for name, text in family.signatures(examples).items() if name in task.metrics}
    scores, trivial_scores = (_rounded(family.score(task, examples, each, labels)) for each in (predictions, trivial))
    return {
        "reported": {
            "on": data.reported_on,
            "examples": len(examples),
            "score": scores[task.metrics[0]],
            "interval": [round(end, 6) for end in comparison.interval],
            "metrics": scores,
            **({"signatures": signatures} if signatures else {}),
        },
        "baseline": {
            "what": what,
            "score": trivial_scores[task.metrics[0]],
            "difference_interval": [round(end, 6) for end in comparison.difference_interval],
            "metrics": trivial_scores,
        },
        "no_better_than_baseline": comparison.difference_interval[0] <= 0.0,
    }


def _write_files(workdir, data, figures, predictions, mistakes, pictures):
    def path(name):
        return work_directory.path_in(workdir, name)

    write_json(path("results.json"), figures)
    lines = "".join(json.dumps(mistake, ensure_ascii=False) + "\n" for mistake in mistakes)
    storage.write_whole(path("mistakes.jsonl"), lines)
    picture = finetuning_pictures.draw_answers(
        *data.task.family.answers(data.task, data.dev_examples, predictions, data.labels),
        f"{workdir}: {data.task.name}, dev examples that chose step {figures['best']['step']:,}",
    )
    for name, content in {"answers.png": picture, **pictures}.items():
        storage.write_whole(path(name), content)
    if "layer_shares" in figures:
        picture = finetuning_pictures.draw_layer_shares(figures["layer_shares"], f"{workdir}: shares of the layers")
        storage.write_whole(path("layer_shares.png"), picture)


def _seconds(workdir):
    """The time of the run up to its newest checkpoint, evaluations included."""
    return checkpoints.read_manifest(checkpoints.list_checkpoints(workdir)[-1])["seconds"]


def over_seeds(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The results of several seeds: all runs, their mean and deviation, and the degenerate runs.

    A run is degenerate if its no_better_than_baseline is true. Fine-tuning of BERT sometimes fails in this way on
    small data (Devlin et al. 2018, section 4.1; Mosbach et al. 2021). A run that broke off is degenerate, too, and the
    mean does not include it. The standard deviation shows the differences between seeds. The interval is the mean of
    the intervals of the runs, which show the uncertainty from the choice of the examples.

    Args:
        runs: the results of each run, or {"seed", "failed"} of one that broke off.

    Raises:
        NotFinite: all runs broke off.
    """
    ended = [run for run in runs if "reported" in run]
    if not ended:
        raise NotFinite(f"all {len(runs)} seeds broke off; the last one: {runs[-1]['failed']}")
    scores = [run["reported"]["score"] for run in ended]
    ends = zip(*(run["reported"]["interval"] for run in ended), strict=True)
    return {
        "task": ended[0]["task"],
        "metric": ended[0]["metric"],
        "on": ended[0]["reported"]["on"],
        "mean": round(statistics.mean(scores), 6),
        "standard_deviation": round(statistics.stdev(scores), 6) if len(scores) > 1 else 0.0,
        "interval": [round(statistics.mean(end), 6) for end in ends],
        "num_evaluations": [run["num_evaluations"] for run in ended],
        "degenerate_seeds": [run["seed"] for run in runs if "failed" in run or run["no_better_than_baseline"]],
        "baseline": ended[0]["baseline"],
        "runs": runs,
    }


def write_json(path: str, values: Any) -> None:
    """Writes values as a JSON file, whole or not at all."""
    storage.write_whole(path, json.dumps(values, indent=1, ensure_ascii=False) + "\n")


def _rounded(scores):
    return {name: round(float(value), 6) for name, value in scores.items()}

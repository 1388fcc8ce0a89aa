"""The results that a fine-tuning run leaves for people: results.json, pictures, and the surest wrong answers."""

import dataclasses
import json
import os
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.drawing import finetuning_pictures, fonts
from keras_bert_app.errors import NotFinite, UserError
from keras_bert_app.files import read_json
from keras_bert_app.runs import checkpoints, work_directory
from pipelines import storage

_MOST_MISTAKES, _SHOWN_MISTAKES = 50, 3
_FEW_STEPS = 1000  # below so many steps, a run that has learned nothing was more likely too short than too fast


def tuned(workdir: str) -> dict[str, Any]:
    """dict of the fields of FinetuningConfig that were tuned on the dev examples of a run; {} before it ends."""
    values, names = of_best_weights(workdir).get("tuned", {}), FinetuningConfig.__dataclass_fields__
    if not isinstance(values, dict) or not values.keys() <= names.keys():
        path = work_directory.path_in(workdir, "results.json")
        raise UserError(f"{path}: tuned is {repr(values)[:60]}, which no run writes; put back the run's own file")
    return values


def of_best_weights(workdir: str) -> dict[str, Any]:
    """results.json of a run; {} before the run ends, and where it went on since and has other best weights."""
    path, best = work_directory.path_in(workdir, "results.json"), checkpoints.best_checkpoints(workdir)
    figures = read_json(path, folder=workdir) if best and storage.exists(path) else {}
    is_current = figures and figures.get("best_step") == checkpoints.read_manifest(best[-1], verify=False)["step"]
    return figures if is_current else {}


def write(
    workdir: str, data: Any, run: FinetuningConfig, model: Any, scorer: Any, chief: bool, reporter: Any
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

    Returns:
        dict: task, seed, best_step, train_seconds, dev (metric -> score), baseline (the same for answers without a
        model), scores of further splits, and tuned, the fields of FinetuningConfig that these and later answers use.
    """
    manifest = checkpoints.restore(checkpoints.best_checkpoints(workdir)[-1], model)
    task, family = data.task, data.task.family
    logits = scorer.logits(data.dev)
    predictions, tuned_fields = scorer.decoded(data.dev_examples, data.dev, logits), {}
    if task.tune:
        tuned_fields = _tuned_fields(task.tune(data.dev_examples, predictions), run)
        run = dataclasses.replace(run, **tuned_fields)
        predictions = scorer.decoded(data.dev_examples, data.dev, logits, run)
    what, trivial = family.baseline(task, data.train_examples, data.dev_examples, data.labels)
    figures = {
        "task": task.name,
        "metric": task.metrics[0],
        "seed": run.seed,
        "best_step": manifest["step"],
        "num_train_steps": run.num_train_steps,
        "train_seconds": round(_seconds(workdir), 1),
        "dev_examples": len(data.dev_examples),
        "dev": _rounded(family.score(task, data.dev_examples, predictions, data.labels)),
        "baseline": {"what": what, **_rounded(family.score(task, data.dev_examples, trivial, data.labels))},
    }
    if model.scalar_mix is not None:
        figures["layer_shares"] = [round(float(share), 4) for share in model.scalar_mix.shares()]
        figures["layer_gamma"] = round(float(model.scalar_mix.gamma[0]), 4)
    if tuned_fields:
        figures["tuned"] = tuned_fields
    for split, (examples, features) in data.others.items():
        answers = scorer.decoded(examples, features, scorer.logits(features), run)
        figures[split] = _rounded(family.score(task, examples, answers, data.labels))
    mistakes = family.mistakes(task, data.dev_examples, predictions, _MOST_MISTAKES)
    if chief:
        _write_files(workdir, data, figures, predictions, mistakes)
    for line in (*summary(figures), *what_to_try(figures, run), *_shown(mistakes)):
        reporter.say(line)
    reporter.say(f"results: {os.path.join(workdir, 'results.json')}, answers.png, mistakes.jsonl")
    if note := fonts.advice(data.labels):
        reporter.say(f"answers.png: {note}")
    return figures


def _tuned_fields(best, run):
    """The tuned fields, without those that the user gave a value."""
    return {name: value for name, value in best.items() if getattr(run, name) == getattr(type(run), name)}


def _write_files(workdir, data, figures, predictions, mistakes):
    def path(name):
        return work_directory.path_in(workdir, name)

    write_json(path("results.json"), figures)
    lines = "".join(json.dumps(mistake, ensure_ascii=False) + "\n" for mistake in mistakes)
    storage.write_whole(path("mistakes.jsonl"), lines)
    picture = finetuning_pictures.draw_answers(
        *data.task.family.answers(data.task, data.dev_examples, predictions, data.labels),
        f"{workdir}: {data.task.name} dev, step {figures['best_step']:,}",
    )
    storage.write_whole(path("answers.png"), picture)
    if "layer_shares" in figures:
        picture = finetuning_pictures.draw_layer_shares(figures["layer_shares"], f"{workdir}: shares of the layers")
        storage.write_whole(path("layer_shares.png"), picture)


def _shown(mistakes):
    for mistake in mistakes[:_SHOWN_MISTAKES]:
        yield (
            f"  {_how_wrong(mistake)}: {mistake['predicted']} for {mistake['right']}: "
            f"{' '.join(mistake['text'].split())[:100]} ({mistake['place']})"
        )


def _how_wrong(mistake):
    """What is wrong with an answer: the error of a number, the F1 of a text, or the probability of a wrong class."""
    if "error" in mistake:
        return f"off by {mistake['error']:.4g}"
    if "f1" in mistake:
        return f"wrong answer (F1 {mistake['f1']:.2f}, probability {mistake['sure']:.2f})"
    return f"wrong and sure ({mistake['sure']:.2f})"


def _seconds(workdir):
    """The time of the run up to its newest checkpoint, evaluations included."""
    return checkpoints.read_manifest(checkpoints.list_checkpoints(workdir)[-1])["seconds"]


def summary(figures: dict[str, Any]) -> Iterator[str]:
    """Lines for people: the scores of one run, and those of the baseline."""
    yield (
        f"{figures['task']} dev, {figures['dev_examples']:,} examples, best of step {figures['best_step']:,}: "
        + ", ".join(f"{name} {value:.4f}" for name, value in figures["dev"].items())
    )
    baseline = figures["baseline"]
    yield (
        f"  {baseline['what']}: "
        + ", ".join(f"{name} {value:.4f}" for name, value in baseline.items() if name != "what")
    )
    if "layer_shares" in figures:
        yield (
            "  shares of embeddings and layers: "
            + ", ".join(f"{share:.3f}" for share in figures["layer_shares"])
            + f"; gamma {figures['layer_gamma']:.3f}"
        )
    if figures.get("tuned"):
        yield f"  tuned on dev: {', '.join(f'{name} {value:.4f}' for name, value in figures['tuned'].items())}"
    for split, scores in figures.items():
        if split.startswith("dev_") and isinstance(scores, dict):
            yield f"  {split}: " + ", ".join(f"{name} {value:.4f}" for name, value in scores.items())


def what_to_try(figures: dict[str, Any], run: FinetuningConfig) -> Iterator[str]:
    """A line for people with options to change, where a run is no better than the baseline.

    Small data need more steps than three epochs have, and Adam's bias correction (Mosbach et al. 2021; Zhang et al.
    2021, "Revisiting Few-sample BERT Fine-tuning"). With enough steps a lower rate is the usual remedy (Devlin et al.
    2018, section 4.1).

    Args:
        figures: the results of the run.
        run: FinetuningConfig.
    """
    if figures["dev"][figures["metric"]] > figures["baseline"][figures["metric"]]:
        return
    steps, options = run.num_train_steps, []
    if not run.init_checkpoint:
        options.append("--init_checkpoint with pre-trained weights")
    if steps < _FEW_STEPS:
        more = f"--train_minutes={2 * run.train_minutes:g}" if run.train_minutes else _more_epochs(run)
        options += [f"more steps than {steps:,} ({more})", f"--learning_rate={2 * run.learning_rate:g}"]
    else:
        options += [f"--learning_rate={run.learning_rate / 2.5:g}", "another --seed"]
    if not run.bias_correction and run.optimizer != "adafactor":
        options.append("--bias_correction")
    yield f"  no better than the baseline; with another --workdir, try one after the other: {', '.join(options)}"


def _more_epochs(run):
    """The flag of so many epochs that a run has _FEW_STEPS steps, but not more than 20."""
    epochs = run.num_train_epochs or 1.0
    return f"--num_train_epochs={max(2 * epochs, min(20, -(-epochs * _FEW_STEPS // run.num_train_steps))):g}"


def over_seeds(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The results of several seeds: those of each run, mean and standard deviation, and which runs are degenerate.

    A run is degenerate where its score is no better than the baseline's. Fine-tuning of BERT sometimes fails so on
    small data (Devlin et al. 2018, section 4.1; Mosbach et al. 2021). A run that broke off is degenerate too, and has
    no part in the mean.

    Args:
        runs: the results of each run, or {"seed", "failed"} of one that broke off.

    Raises:
        NotFinite: all runs broke off.
    """
    ended = [run for run in runs if "dev" in run]
    if not ended:
        raise NotFinite(f"all of {len(runs)} seeds broke off; the last: {runs[-1]['failed']}")
    metric = ended[0]["metric"]
    scores = [run["dev"][metric] for run in ended]
    return {
        "task": ended[0]["task"],
        "metric": metric,
        "mean": round(statistics.mean(scores), 6),
        "standard_deviation": round(statistics.stdev(scores), 6) if len(scores) > 1 else 0.0,
        "degenerate_seeds": [
            run["seed"] for run in runs if "failed" in run or run["dev"][metric] <= run["baseline"][metric]
        ],
        "baseline": ended[0]["baseline"],
        "runs": runs,
    }


def seeds_summary(figures: dict[str, Any]) -> Iterator[str]:
    """Lines for people: mean and deviation over seeds, and which runs failed."""
    scores = [run["dev"][figures["metric"]] for run in figures["runs"] if "dev" in run]
    failed = {run["seed"]: run["failed"] for run in figures["runs"] if "failed" in run}
    yield (
        f"{figures['task']} dev {figures['metric']} over {len(scores)} seeds: {figures['mean']:.4f} +- "
        f"{figures['standard_deviation']:.4f} ({', '.join(f'{score:.4f}' for score in scores)}); "
        f"{figures['baseline']['what']}: {figures['baseline'][figures['metric']]:.4f}"
    )
    for seed in figures["degenerate_seeds"]:
        yield (
            f"  seed {seed} broke off and is not in the mean: {failed[seed]}"
            if seed in failed
            else f"  seed {seed} is degenerate: no better than that; the end of its run says what to try"
        )


def write_json(path: str, values: Any) -> None:
    """Writes values as a JSON file, whole or not at all."""
    storage.write_whole(path, json.dumps(values, indent=1, ensure_ascii=False) + "\n")


def _rounded(scores):
    return {name: round(float(value), 6) for name, value in scores.items()}

"""What a fine-tuning run leaves for people: results.json, pictures, and the most confidently wrong answers."""

import dataclasses
import json
import os
import statistics

from keras_bert_app.drawing import finetuning_pictures
from keras_bert_app.errors import NotFinite
from keras_bert_app.files import read_json
from keras_bert_app.runs import checkpoints, work_directory

_MOST_MISTAKES, _SHOWN_MISTAKES = 50, 3


def tuned(workdir):
    """dict of the fields of FinetuningConfig that were tuned on the dev examples of a run; {} before it ends."""
    return of_best_weights(workdir).get("tuned", {})


def of_best_weights(workdir):
    """results.json of a run, {} before it ends and of one that went on since and has other best weights."""
    path, best = work_directory.path_in(workdir, "results.json"), checkpoints.best_checkpoints(workdir)
    found = read_json(path) if best and work_directory.exists(path) else {}
    return (
        found if found and found.get("best_step") == checkpoints.read_manifest(best[-1], verify=False)["step"] else {}
    )


def write(workdir, data, run, model, scorer, chief, reporter):
    """Scores the best weights, next to the baseline, and writes what they say.

    Returns:
        dict: task, seed, best_step, train_seconds, dev (metric -> figure), baseline (the same of what needs no model),
        further splits, and tuned, fields of FinetuningConfig that these answers and those from now on are made with.
    """
    manifest = checkpoints.restore(checkpoints.best_checkpoints(workdir)[-1], model)
    task, family = data.task, data.task.family
    logits = scorer.logits(data.dev)
    found, tuned = scorer.decoded(data.dev_examples, data.dev, logits), {}
    if task.tune:
        # What the user gave a value of is kept at it.
        tuned = {
            name: value
            for name, value in task.tune(data.dev_examples, found).items()
            if getattr(run, name) == getattr(type(run), name)
        }
        run = dataclasses.replace(run, **tuned)
        found = scorer.decoded(data.dev_examples, data.dev, logits, run)
    what, trivial = family.baseline(task, data.train_examples, data.dev_examples, data.labels)
    figures = {
        "task": task.name,
        "metric": task.metrics[0],
        "seed": run.seed,
        "best_step": manifest["step"],
        "num_train_steps": run.num_train_steps,
        "train_seconds": round(_seconds(workdir), 1),
        "dev_examples": len(data.dev_examples),
        "dev": _rounded(family.score(task, data.dev_examples, found, data.labels)),
        "baseline": {"what": what, **_rounded(family.score(task, data.dev_examples, trivial, data.labels))},
    }
    if model.scalar_mix is not None:
        figures["layer_shares"] = [round(float(share), 4) for share in model.scalar_mix.shares()]
        figures["layer_gamma"] = round(float(model.scalar_mix.gamma[0]), 4)
    if tuned:
        figures["tuned"] = tuned
    for split, (examples, features) in data.others.items():
        answers = scorer.decoded(examples, features, scorer.logits(features), run)
        figures[split] = _rounded(family.score(task, examples, answers, data.labels))
    mistakes = family.mistakes(task, data.dev_examples, found, _MOST_MISTAKES)
    if chief:
        write_json(work_directory.path_in(workdir, "results.json"), figures)
        work_directory.write_whole(
            work_directory.path_in(workdir, "mistakes.jsonl"),
            "".join(json.dumps(mistake, ensure_ascii=False) + "\n" for mistake in mistakes),
        )
        picture = finetuning_pictures.draw_answers(
            *family.answers(task, data.dev_examples, found, data.labels),
            f"{workdir}: {task.name} dev, step {manifest['step']:,}",
        )
        work_directory.write_whole(work_directory.path_in(workdir, "answers.png"), picture)
        if model.scalar_mix is not None:
            work_directory.write_whole(
                work_directory.path_in(workdir, "layer_shares.png"),
                finetuning_pictures.draw_layer_shares(figures["layer_shares"], f"{workdir}: shares of the layers"),
            )
    for line in summary(figures):
        reporter.say(line)
    for mistake in mistakes[:_SHOWN_MISTAKES]:
        reporter.say(
            f"  wrong and sure ({mistake['sure']:.2f}): {mistake['predicted']} for {mistake['right']}: "
            f"{' '.join(mistake['text'].split())[:100]} ({mistake['place']})"
        )
    reporter.say(f"results: {os.path.join(workdir, 'results.json')}, answers.png, mistakes.jsonl")
    return figures


def _seconds(workdir):
    """What the run took up to its newest checkpoint, evaluations included."""
    return checkpoints.read_manifest(checkpoints.list_checkpoints(workdir)[-1])["seconds"]


def summary(figures):
    """Lines for people: the scores of one run beside the baseline's."""
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


def over_seeds(runs):
    """dict of the results of several seeds: each run's, mean and standard deviation, and which runs are degenerate.

    A run is degenerate where its score is no better than the baseline's: fine-tuning of BERT fails so now and then on
    small data (Devlin et al. 2018, section 4.1; Mosbach et al. 2021). One that broke off ({"seed", "failed"}) is so too,
    and has no share in the mean.

    Raises:
        NotFinite: all broke off.
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


def seeds_summary(figures):
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
            else f"  seed {seed} is degenerate: no better than that; more steps or a lower --learning_rate may help"
        )


def write_json(path, values):
    """Writes a file as a whole."""
    work_directory.write_whole(path, json.dumps(values, indent=1, ensure_ascii=False) + "\n")


def _rounded(scores):
    return {name: round(float(value), 6) for name, value in scores.items()}

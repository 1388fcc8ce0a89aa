"""The last lines of a fine-tuning run: scores next to baselines, options to try, and wrong answers."""

from collections.abc import Iterator, Sequence
from typing import Any

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.tasks import dev_halves
from pipelines.plurals import counted

_SHOWN_MISTAKES = 3
_SHOWN_CHARACTERS = 100  # of a text
_FEW_STEPS = 1000  # a shorter run that learned nothing probably had too few steps, not too high a rate


def summary(figures: dict[str, Any]) -> Iterator[str]:
    """Lines for people: the reported score of one run, how its weights were chosen, and the baseline."""
    reported, baseline, metric = figures["reported"], figures["baseline"], figures["metric"]
    reported_on = reported["on"]
    yield (
        f"{figures['task']} {metric} {reported['score']:.4f} (95 % interval {_interval(reported['interval'])}) on "
        f"{counted(reported['examples'], 'example')} of {reported_on}{_others(reported['metrics'], metric)}"
    )
    if signatures := reported.get("signatures"):
        yield "  " + ", ".join(f"{name}: {signature}" for name, signature in signatures.items())
    best, last = figures["best"], figures["last"]
    count = figures["num_evaluations"]
    what = "half of dev" if reported_on == dev_halves.REPORTED else "dev"
    steps = best.get("mean_of_steps")
    weights = f"mean of steps {', '.join(f'{step:,}' for step in steps)}" if steps else f"step {best['step']:,}"
    yield (
        f"  weights of {weights}, chosen on {counted(figures['dev_examples'], 'example')} of "
        f"{'the other ' if reported_on == dev_halves.REPORTED else ''}{what}: {best['score']:.4f}, the best of "
        f"{counted(count, 'evaluation')}; the last {last['score']:.4f}"
    )
    yield (
        f"  {baseline['what']}: {metric} {baseline['score']:.4f}{_others(baseline['metrics'], metric)}; difference "
        f"{reported['score'] - baseline['score']:+.4f} (95 % interval "
        f"{_interval(baseline['difference_interval'], '+')})"
    )
    if "layer_shares" in figures:
        yield (
            "  shares of embeddings and layers: "
            + ", ".join(f"{share:.3f}" for share in figures["layer_shares"])
            + f"; gamma {figures['layer_gamma']:.3f}"
        )
    if figures.get("tuned"):
        tuned = ", ".join(f"{name} {value:.4f}" for name, value in figures["tuned"].items())
        yield f"  tuned on the examples that chose the weights: {tuned}"
    for split, scores in figures.items():
        if split.startswith("dev_") and isinstance(scores, dict):
            yield f"  {split}: " + ", ".join(f"{name} {value:.4f}" for name, value in scores.items())


def _interval(ends, sign=""):
    return " to ".join(f"{end:{sign}.4f}" for end in ends)


def _others(scores, metric):
    """The metrics other than the first one."""
    return "".join(f", {name} {value:.4f}" for name, value in scores.items() if name != metric)


def what_to_try(figures: dict[str, Any], run: FinetuningConfig) -> Iterator[str]:
    """A line for people with options to change, if a run is no better than the baseline.

    On small data, three epochs have too few steps, and Adam needs its bias correction (Mosbach et al. 2021; Zhang et
    al. 2020, "Revisiting Few-sample BERT Fine-tuning"). If a run already has enough steps, a lower learning rate is
    the usual remedy (Devlin et al. 2018, section 4.1).

    Args:
        figures: the results of the run.
        run: FinetuningConfig.
    """
    if not figures["no_better_than_baseline"]:
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
    tried = ", ".join(options)
    yield f"  no better than the baseline; with another --workdir, try one after the other: {tried}"


def _more_epochs(run):
    """The flag with the epochs for _FEW_STEPS steps: at most 20, but at least twice the epochs of the run."""
    epochs = run.num_train_epochs or 1.0
    return f"--num_train_epochs={max(2 * epochs, min(20, -(-epochs * _FEW_STEPS // run.num_train_steps))):g}"


def seeds_summary(figures: dict[str, Any]) -> Iterator[str]:
    """Lines for people: mean and deviation over seeds, and which runs failed."""
    scores = [run["reported"]["score"] for run in figures["runs"] if "reported" in run]
    failed = {run["seed"]: run["failed"] for run in figures["runs"] if "failed" in run}
    yield (
        f"{figures['task']} {figures['metric']} over {len(scores)} seeds: {figures['mean']:.4f} +- "
        f"{figures['standard_deviation']:.4f} ({', '.join(f'{score:.4f}' for score in scores)}), 95 % interval by "
        f"examples {_interval(figures['interval'])}, on {figures['on']}; {figures['baseline']['what']}: "
        f"{figures['baseline']['score']:.4f}"
    )
    for seed in figures["degenerate_seeds"]:
        yield (
            f"  seed {seed} broke off and is not in the mean: {failed[seed]}"
            if seed in failed
            else f"  seed {seed} is degenerate: no better than the baseline; the last lines of its run say what to try"
        )


def shown(mistakes: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Lines for people: the first few mistakes."""
    for mistake in mistakes[:_SHOWN_MISTAKES]:
        yield (
            f"  {_how_wrong(mistake)}: {_short(mistake['predicted'])} for {_short(mistake['right'])}: "
            f"{_short(mistake['text'])} ({mistake['place']})"
        )


def _short(value):
    """The first characters of a value as text, on one line."""
    text = " ".join(str(value).split())
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]} ..."


def _how_wrong(mistake):
    """The fault of an answer: a rank, the error of a number, the F1 of a text, or the probability of a wrong class."""
    if "rank" in mistake:
        return f"the right document at rank {mistake['rank']}"
    if "error" in mistake:
        return f"off by {mistake['error']:.4g}"
    if "chrf" in mistake:
        return f"chrF {mistake['chrf']:.1f}"
    if "f1" in mistake:
        return f"wrong answer (F1 {mistake['f1']:.2f}, probability {mistake['sure']:.2f})"
    return f"wrong and sure ({mistake['sure']:.2f})"

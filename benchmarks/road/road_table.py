"""The tables and the pictures of the road's results."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.common.resumable import spread
from benchmarks.road.differences import LAST, with_last, with_random
from benchmarks.road.road_tasks import CURVE, CURVES, MIX_RUNS, PRETRAINED, RANDOM, TASKS, mix_rows
from benchmarks.road.stations import STATIONS
from keras_bert_app.drawing.bars import draw_results
from keras_bert_app.drawing.figures import picture

_COLOURS = ("#4477aa", "#ee6677", "#228833")


def scores(results: Mapping[str, dict], done: Mapping[str, Any], names: Sequence[str]) -> Iterator[str]:
    """Yields the table of stations and tasks in Markdown.

    Args:
        results: dict STATION:TASK:START -> content of results.json.
        done: dict model -> result of pretraining.run.
        names: stations in their order.
    """
    tasks = list(TASKS)
    yield f"| station | {' | '.join(TASKS[task].title for task in tasks)} | pre-training, minutes |"
    yield "|---" * (len(tasks) + 2) + "|"
    for name in names:
        cells = [_cell(results, name, task) for task in tasks]
        minutes = done[STATIONS[name].model]["minutes"]
        yield f"| {name} ({STATIONS[name].source}) | {' | '.join(cells)} | {minutes:.1f} |"
    baselines = [next(run["baseline"] for row, run in results.items() if f":{task}:" in row) for task in tasks]
    cells = [f"{each['score']:.4f} ({each['what']})" for each in baselines]
    yield f"| no model | {' | '.join(cells)} | |"


def _cell(results, name, task):
    trained, random = (results[f"{name}:{task}:{start}"]["reported"] for start in (PRETRAINED, RANDOM))
    return f"{_with_interval(trained)}; random {_with_interval(random)}"


def _with_interval(reported):
    low, high = reported["interval"]
    return f"{reported['score']:.4f} ({low:.4f} to {high:.4f})"


def comparison(compared: Mapping[str, dict], names: Sequence[str]) -> Iterator[str]:
    """Yields the table of differences in Markdown: each station minus its random weights, and minus LAST.

    Args:
        compared: dict pair -> result of differences.of_pair.
        names: stations in their order.
    """
    yield f"| difference | {' | '.join(task.title for task in TASKS.values())} |"
    yield "|---" * (len(TASKS) + 1) + "|"
    yield from _differences(compared, names, list(TASKS))


def _differences(compared, names, tasks):
    for title, name_of in (("{}, pre-trained minus random", with_random), (f"{{}} minus {LAST}", with_last)):
        for name in names:
            pairs = [name_of(name, task) for task in tasks]
            if pairs[0] in compared:
                yield f"| {title.format(name)} | {' | '.join(difference_text(compared[pair]) for pair in pairs)} |"


def difference_text(figures: Mapping[str, Any]) -> str:
    """A difference with its interval.

    Args:
        figures: result of differences.of_pair.
    """
    low, high = figures["interval"]
    return f"{figures['difference']:+.4f} ({low:+.4f} to {high:+.4f})"


def few_labels(results: Mapping[str, dict], compared: Mapping[str, dict], names: Sequence[str]) -> Iterator[str]:
    """Yields the table of the curves over few labels in Markdown.

    Args:
        results: dict STATION:TASK:START -> content of results.json.
        compared: dict pair -> result of differences.of_pair.
        names: stations in their order.
    """
    yield f"| SST-2, accuracy | {' | '.join(f'{task.num_examples:,} examples' for task in CURVE.values())} |"
    yield "|---" * (len(CURVE) + 1) + "|"
    with_curves = [name for name in names if name in CURVES]
    for name in with_curves:
        for start in (PRETRAINED, RANDOM):
            cells = [_with_interval(results[f"{name}:{task}:{start}"]["reported"]) for task in CURVE]
            yield f"| {name}, {start} | {' | '.join(cells)} |"
    yield from _differences(compared, with_curves, list(CURVE))


def mixes(results: Mapping[str, dict], name: str) -> Iterator[str]:
    """Yields the table of the layers that the mix of each task prefers, in Markdown.

    Args:
        results: dict row -> content of results.json.
        name: the station with the mix.
    """
    num_layers = len(results[mix_rows(name, next(iter(TASKS)))[0]]["layer_shares"])
    layers = " | ".join(f"layer {number}" for number in range(1, num_layers))
    yield f"| {name}'s mix; mean (lowest to highest) of {MIX_RUNS} seeds | embeddings | {layers} |"
    yield "|---" * (num_layers + 1) + "|"
    for task in TASKS:
        title = TASKS[task].title.split(",")[0]
        for start, own in ((PRETRAINED, mix_rows(name, task)), (RANDOM, [f"{name}:{task}:{RANDOM}"])):
            shares = zip(*(results[row]["layer_shares"] for row in own), strict=True)
            yield f"| {title}, {start} | {' | '.join(spread(values, '.3f') for values in shares)} |"


def draw(results: Mapping[str, dict], names: Sequence[str], heading: str) -> bytes:
    """Draws the scores of the stations, a panel for each task.

    Args:
        results: dict STATION:TASK:START -> content of results.json.
        names: stations in their order.
        heading: title of the picture.

    Returns:
        bytes: the content of a PNG file.
    """
    panels = []
    for task in TASKS:
        runs = {name: results[f"{name}:{task}:{PRETRAINED}"] for name in names}
        random = {f"{name}, random": results[f"{name}:{task}:{RANDOM}"] for name in names}
        panels.append((TASKS[task].title, *(_scores_of(each) for each in (runs, random))))
    return draw_results(panels, heading)


def _scores_of(runs):
    return {name: run["reported"]["score"] for name, run in runs.items()}


def draw_few_labels(results: Mapping[str, dict], names: Sequence[str], heading: str) -> bytes:
    """Draws the accuracy over the number of labels, with 95 % intervals.

    Args:
        results: dict STATION:TASK:START -> content of results.json.
        names: stations in their order.
        heading: title of the picture.

    Returns:
        bytes: the content of a PNG file.
    """
    numbers = [task.num_examples for task in CURVE.values()]
    with picture(7.0, 4.2, heading) as (figure, image):
        axes = figure.subplots()
        for name, colour in zip((name for name in names if name in CURVES), _COLOURS, strict=False):
            for start, style in ((PRETRAINED, "-"), (RANDOM, "--")):
                reported = [results[f"{name}:{task}:{start}"]["reported"] for task in CURVE]
                values = np.array([each["score"] for each in reported])
                ends = np.array([each["interval"] for each in reported]).T
                errors = np.maximum([values - ends[0], ends[1] - values], 0.0)
                axes.errorbar(numbers, values, errors, label=f"{name}, {start}", color=colour, ls=style, capsize=3)
        axes.set_xscale("log")
        axes.set_xlabel("training examples of SST-2")
        axes.set_ylabel("accuracy")
        axes.legend(frameon=False)
    return image.getvalue()

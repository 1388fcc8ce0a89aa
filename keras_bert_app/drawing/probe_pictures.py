"""The scores of probes by layer and by sentence length."""

from collections.abc import Mapping, Sequence

import numpy as np

from keras_bert_app.drawing.figures import picture

_TRAINED, _UNTRAINED, _BASELINE, _CONTROL = "#4477aa", "#cc3311", "#888888", "#ccbb44"


def draw_layers(panels: Sequence[tuple], title: str) -> bytes:
    """Draws a panel for each measure: curves by layer, with bars of their 95 % intervals.

    Args:
        panels: list of (name, curves, baseline, name of the baseline). A curve is (label, scores float [layers],
            intervals float [2, layers]). A panel has at most three curves: trained, untrained and control.
        title: str. The heading of the picture.

    Returns:
        bytes: the content of a PNG file.
    """
    columns = min(4, len(panels))
    rows = -(-len(panels) // columns)
    with picture(3.7 * columns, 3.0 * rows + 0.9, title) as (figure, image):
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for axis in axes[len(panels) :]:
            axis.set_axis_off()
        for axis, (name, curves, baseline, baseline_name) in zip(axes, panels, strict=False):
            for curve, color in zip(curves, (_TRAINED, _UNTRAINED, _CONTROL), strict=False):
                _draw_curve(axis, *curve, color)
            if np.isfinite(baseline):
                axis.axhline(baseline, color=_BASELINE, linestyle="--", linewidth=1, label=baseline_name)
            axis.set_title(name)
            axis.set_xlabel("layer (0: embeddings)")
            num_layers = len(curves[0][1])
            axis.set_xticks(range(0, num_layers, max(1, num_layers // 8)))
            axis.yaxis.set_major_formatter("{x:.3g}")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, frameon=False, loc="outside lower left", ncols=4, fontsize=8)
    return image.getvalue()


def _draw_curve(axis, label, scores, bounds, color):
    axis.errorbar(
        range(len(scores)),
        scores,
        yerr=_errors(scores, bounds),
        color=color,
        marker="o",
        markersize=4,
        linewidth=1.3,
        capsize=2,
        label=label,
    )


def _errors(scores, bounds):
    """Returns float [2, n]: the distances of the bounds [2, n] below and above the scores [n]."""
    scores, bounds = np.asarray(scores, float), np.asarray(bounds, float)
    return np.maximum(np.stack([scores - bounds[0], bounds[1] - scores]), 0)


def draw_lengths(panels: Sequence[tuple[str, dict]], title: str) -> bytes:
    """Draws a panel for each measure: the score by the length of the sentence.

    Args:
        panels: list of (name, dict kind -> dict length -> score). The kinds are trained, untrained and baseline, in
            this order.
        title: str. The heading of the picture.

    Returns:
        bytes: the content of a PNG file.
    """
    styles = ((_TRAINED, "-"), (_UNTRAINED, "-"), (_BASELINE, "--"))
    with picture(4.6 * len(panels) + 1.4, 3.4, title) as (figure, image):
        axes = figure.subplots(1, len(panels), squeeze=False).ravel()
        for axis, (name, kinds) in zip(axes, panels, strict=True):
            for (kind, scores), (color, style) in zip(kinds.items(), styles, strict=False):
                axis.plot(
                    list(scores),
                    list(scores.values()),
                    style,
                    color=color,
                    linewidth=1.3,
                    marker="o" if color == _TRAINED else None,
                    markersize=3,
                    label=kind,
                )
            axis.set_title(name)
            axis.set_xlabel("words of a sentence")
            axis.xaxis.get_major_locator().set_params(integer=True)
            axis.yaxis.set_major_formatter("{x:.3g}")
        axes[-1].legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return image.getvalue()


def draw_mixes(tasks: Sequence[tuple], title: str) -> bytes:
    """Draws the accuracy of each layer for each task, and the weight of each layer in a mix.

    The mix combines all layers.

    Args:
        tasks: list of (name, curves, accuracy of the majority class, accuracy of a mix of an untrained encoder's
            layers, weights float [seeds, layers]). A curve is (label, accuracies float [layers], 95 % intervals float
            [2, layers]). The first curve is of the task, the second of its control task.
        title: str. The heading of the picture.

    Returns:
        bytes: the content of a PNG file.
    """
    with picture(3.7 * max(len(tasks), 2), 5.8, f"{title}\nbars are 95 % intervals") as (figure, image):
        axes = figure.subplots(2, len(tasks), squeeze=False, sharex=True)
        for (above, below), (name, curves, majority, untrained, shares) in zip(axes.T, tasks, strict=True):
            for curve, color in zip(curves, (_TRAINED, _CONTROL), strict=True):
                _draw_curve(above, *curve, color)
            above.axhline(untrained, color=_UNTRAINED, linestyle="--", linewidth=1, label="untrained, all layers")
            above.axhline(majority, color=_BASELINE, linestyle="--", linewidth=1, label="majority")
            above.set_title(name)
            _draw_shares(below, shares)
            for axis in (above, below):
                axis.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes[0][0].set_ylabel("accuracy")
        axes[1][0].set_ylabel("share of the mix")
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, frameon=False, loc="outside lower left", ncols=4, fontsize=8)
    return image.getvalue()


def _draw_shares(axis, shares):
    layers = np.arange(shares.shape[1])
    axis.bar(layers, shares.mean(axis=0), yerr=shares.std(axis=0), color=_TRAINED, ecolor=_BASELINE)
    centre = float(np.mean(shares @ layers))
    axis.axvline(centre, color=_UNTRAINED, linewidth=1.3, label=f"centre of gravity {centre:.2f}")
    axis.axhline(1 / len(layers), color=_BASELINE, linestyle="--", linewidth=1, label="equal shares")
    axis.set_ylim(0, 1.35 * max(shares.mean(axis=0).max(), 1 / len(layers)))
    axis.legend(frameon=False, fontsize=8)
    axis.set_xlabel("layer (0: embeddings)")


def draw_bars(tasks: Sequence[str], scores: Mapping[str, Sequence[tuple]], title: str) -> bytes:
    """Draws for each task one bar per kind of probe, with the 95 % interval of its accuracy.

    Args:
        tasks: sequence of str. Names.
        scores: dict kind -> for each task (accuracy, lower bound, upper bound).
        title: str. The heading of the picture.

    Returns:
        bytes: the content of a PNG file.
    """
    colors = (_BASELINE, "#66ccee", _CONTROL, _UNTRAINED, _TRAINED)
    with picture(9, 3.4, f"{title}\nbars are 95 % intervals") as (figure, image):
        axis = figure.subplots()
        width = 0.84 / len(scores)
        for at, (color, (name, by_task)) in enumerate(zip(colors, scores.items(), strict=False)):
            places = np.arange(len(tasks)) + (at - (len(scores) - 1) / 2) * width
            accuracies, *bounds = np.array(by_task, float).T
            errors = _errors(accuracies, bounds)
            bars = axis.bar(
                places, accuracies, width * 0.95, yerr=errors, color=color, ecolor="#333333", capsize=2, label=name
            )
            axis.bar_label(bars, [f"{accuracy:.0%}" for accuracy in accuracies], padding=2, fontsize=8)
        axis.set_xticks(range(len(tasks)), tasks)
        axis.set_ylim(0, 1.05)
        axis.set_ylabel("accuracy")
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axis.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return image.getvalue()

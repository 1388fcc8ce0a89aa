"""The scores of probes by layer and by sentence length."""

from collections.abc import Mapping, Sequence

import numpy as np

from keras_bert_app.drawing.figures import picture

_TRAINED, _UNTRAINED, _BASELINE = "#4477aa", "#cc3311", "#888888"


def draw_layers(panels: Sequence[tuple], title: str) -> bytes:
    """Draws a panel for each measure: the mean over seeds by layer, with bars of the standard deviation.

    Args:
        panels: list of (name, scores float [layers, seeds], scores of untrained encoders or None, baseline or None,
            name of the baseline).
        title: the heading of the picture.

    Returns:
        The bytes of a PNG file.
    """
    columns = min(4, len(panels))
    rows = -(-len(panels) // columns)
    with picture(3.7 * columns, 3.0 * rows + 0.6, title) as (figure, image):
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for axis in axes[len(panels) :]:
            axis.set_axis_off()
        for axis, (name, trained, untrained, baseline, baseline_name) in zip(axes, panels, strict=False):
            for scores, color, label in ((trained, _TRAINED, "trained"), (untrained, _UNTRAINED, "untrained")):
                if scores is not None:
                    axis.errorbar(
                        range(len(scores)),
                        np.mean(scores, axis=1),
                        yerr=np.std(scores, axis=1),
                        color=color,
                        marker="o",
                        markersize=4,
                        linewidth=1.3,
                        capsize=2,
                        label=label,
                    )
            if baseline is not None:
                axis.axhline(baseline, color=_BASELINE, linestyle="--", linewidth=1, label=baseline_name)
            axis.set_title(name)
            axis.set_xlabel("layer (0: embeddings)")
            axis.set_xticks(range(0, len(trained), max(1, len(trained) // 8)))
            axis.yaxis.set_major_formatter("{x:.3g}")
        axes[0].legend(frameon=False)
    return image.getvalue()


def draw_lengths(panels: Sequence[tuple[str, dict]], title: str) -> bytes:
    """Draws a panel for each measure: the score by the length of the sentence.

    Args:
        panels: list of (name, dict kind -> dict length -> score). The kinds are trained, untrained and baseline, in
            this order.
        title: the heading of the picture.

    Returns:
        The bytes of a PNG file.
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
    """Draws for each task the accuracy of each layer, and below it the weight of each layer in a mix of all layers.

    Args:
        tasks: list of (name, accuracies float [layers, seeds], accuracy of the majority class, accuracy of a mix of an
            untrained encoder's layers, weights float [seeds, layers]).
        title: the heading of the picture.

    Returns:
        The bytes of a PNG file.
    """
    with picture(3.7 * max(len(tasks), 2), 5.2, title) as (figure, image):
        axes = figure.subplots(2, len(tasks), squeeze=False, sharex=True)
        for (above, below), (name, scores, majority, untrained, shares) in zip(axes.T, tasks, strict=True):
            layers = np.arange(len(scores))
            above.errorbar(
                layers,
                scores.mean(axis=1),
                yerr=scores.std(axis=1),
                color=_TRAINED,
                marker="o",
                markersize=4,
                linewidth=1.3,
                capsize=2,
                label="one layer",
            )
            above.axhline(untrained, color=_UNTRAINED, linestyle="--", linewidth=1, label="untrained, all layers")
            above.axhline(majority, color=_BASELINE, linestyle="--", linewidth=1, label="majority")
            above.set_title(name)
            below.bar(layers, shares.mean(axis=0), yerr=shares.std(axis=0), color=_TRAINED, ecolor=_BASELINE)
            centre = float(np.mean(shares @ layers))
            below.axvline(centre, color=_UNTRAINED, linewidth=1.3, label=f"centre of gravity {centre:.2f}")
            below.axhline(1 / len(layers), color=_BASELINE, linestyle="--", linewidth=1, label="all alike")
            below.set_ylim(0, 1.35 * max(shares.mean(axis=0).max(), 1 / len(layers)))
            below.legend(frameon=False, fontsize=8)
            below.set_xlabel("layer (0: embeddings)")
            for axis in (above, below):
                axis.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes[0][0].set_ylabel("accuracy")
        axes[1][0].set_ylabel("share of the mix")
        axes[0][0].legend(frameon=False)
    return image.getvalue()


def draw_bars(tasks: Sequence[str], scores: Mapping[str, Sequence], title: str) -> bytes:
    """Draws for each task one bar per kind of probe.

    Args:
        tasks: names.
        scores: dict kind -> for each task a list of accuracies, one for each seed.
        title: the heading of the picture.

    Returns:
        The bytes of a PNG file.
    """
    colors = (_BASELINE, "#ccbb44", _UNTRAINED, _TRAINED)
    with picture(8, 3.4, title) as (figure, image):
        axis = figure.subplots()
        width = 0.8 / len(scores)
        for at, (color, (name, accuracies)) in enumerate(zip(colors, scores.items(), strict=False)):
            places = np.arange(len(tasks)) + (at - (len(scores) - 1) / 2) * width
            means = [np.mean(over_seeds) for over_seeds in accuracies]
            bars = axis.bar(
                places,
                means,
                width * 0.95,
                yerr=[np.std(over_seeds) for over_seeds in accuracies],
                color=color,
                label=name,
            )
            axis.bar_label(bars, [f"{mean:.0%}" for mean in means], padding=2, fontsize=8)
        axis.set_xticks(range(len(tasks)), tasks)
        axis.set_ylim(0, 1.05)
        axis.set_ylabel("accuracy")
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axis.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return image.getvalue()

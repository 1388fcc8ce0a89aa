"""Bar charts of a model's scores next to their baselines."""

from collections.abc import Mapping, Sequence

import numpy as np

from keras_bert_app.drawing import fonts
from keras_bert_app.drawing.figures import picture

_OURS, _BASELINE = "#4477aa", "#888888"
_COLUMNS = 4


def draw_results(
    panels: Sequence[tuple[str, dict, dict]], title: str, intervals: Mapping[str, tuple[float, float]] | None = None
) -> bytes:
    """Draws a panel of horizontal bars for each measure. Each panel has its own scale.

    Args:
        panels: list of (name of the measure, dict name -> score of the model, dict name -> score of a baseline).
        title: str. The heading of the picture.
        intervals: dict name -> (lower bound, upper bound) of the 95 % interval of its score. Names without an interval
            may be absent.

    Returns:
        bytes: the content of a PNG file.
    """
    columns = min(_COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    most = max(len(ours) + len(baselines) for _, ours, baselines in panels)
    with picture(max(4.2 * columns, 7), rows * (0.34 * most + 0.8) + 0.5, title) as (figure, image):
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for axis in axes[len(panels) :]:
            axis.set_axis_off()
        for axis, (name, ours, baselines) in zip(axes, panels, strict=False):  # spare axes are off
            figures = {**ours, **baselines}
            bounds = [(intervals or {}).get(label, (value, value)) for label, value in figures.items()]
            lengths = [
                (max(value - low, 0), max(high - value, 0))
                for value, (low, high) in zip(figures.values(), bounds, strict=True)
            ]
            bars = axis.barh(
                range(len(figures)),
                list(figures.values()),
                0.7,
                xerr=list(zip(*lengths, strict=True)) if np.any(lengths) else None,
                ecolor="#333333",
                color=[_OURS] * len(ours) + [_BASELINE] * len(baselines),
            )
            axis.bar_label(bars, [_written(value) for value in figures.values()], padding=3, fontsize=8)
            axis.set_yticks(range(len(figures)), [fonts.drawable(label, 44) for label in figures])
            axis.invert_yaxis()
            axis.set_xticks([])
            highest = max(0, *figures.values(), *(high for _, high in bounds))
            axis.set_xlim(min(0, 1.25 * min(figures.values())), 1.25 * highest or 1e-6)
            axis.set_title(name)
    return image.getvalue()


def _written(value):
    return f"{value:,.4f}" if abs(value) < 10 else f"{value:,.1f}" if abs(value) < 1000 else f"{value:,.0f}"

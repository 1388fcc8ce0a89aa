"""One score per attention head, drawn as maps of layers by heads."""

from collections.abc import Sequence

import numpy as np

from keras_bert_app.drawing.figures import picture

_COLUMNS = 4


def draw_head_maps(maps: Sequence[tuple[str, np.ndarray, float | None]], title: str) -> bytes:
    """Draws maps next to each other, each with its own scale.

    Args:
        maps: list of (heading, scores float [layers, heads], baseline or None). The scale shows the baseline as a
            dashed line.
        title: str. The heading of the picture.

    Returns:
        bytes: the content of a PNG file.
    """
    columns = min(_COLUMNS, len(maps))
    rows = -(-len(maps) // columns)
    layers, heads = np.shape(maps[0][1])
    height = max(2.2, min(0.22 * layers + 1.2, 5))
    with picture(max(3.6 * columns, 7), height * rows + 0.8, title) as (figure, image):
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for axis in axes[len(maps) :]:
            axis.set_axis_off()
        for axis, (heading, values, baseline) in zip(axes, maps, strict=False):  # spare axes are off
            most = 1.15 * max(np.max(values), baseline or 0, 0.01)
            drawn = axis.imshow(values, cmap="Blues", vmin=0, vmax=most, aspect="auto")
            scale = figure.colorbar(drawn, ax=axis, shrink=0.9, format=lambda value, _: f"{value:.0%}")
            if baseline is not None:
                scale.ax.axhline(baseline, color="#cc3311", linestyle="--", linewidth=1.5)
            best = np.unravel_index(np.argmax(values), values.shape)
            axis.text(
                best[1],
                best[0],
                f"{values[best]:.0%}",
                ha="center",
                va="center",
                fontsize=7,
                color="white" if values[best] > 0.6 * most else "black",
            )
            axis.set_title(heading, fontsize=9)
            axis.set_xticks(range(0, heads, max(1, heads // 6)), range(1, heads + 1, max(1, heads // 6)))
            axis.set_yticks(range(layers), range(1, layers + 1))
            axis.set_xlabel("head")
            axis.set_ylabel("layer")
    return image.getvalue()

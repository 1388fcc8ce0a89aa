"""The map of the vectors of texts: an HTML page to explore it, and a picture."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert_app.drawing import fonts
from keras_bert_app.drawing.figures import picture
from keras_bert_app.drawing.pages import page
from keras_bert_app.drawing.planes import COLORS

_SERIES_COLORS = ("#0b8a6e", "#cc3311", "#ee7733")


def vector_map_page(described: Mapping[str, Any], title: str, notes: Sequence[str]) -> str:
    """Makes a self-contained HTML page with the map.

    The page shows a text when the user points at it, and the nearest texts on a click.

    Args:
        described: the dict that vectors.vector_maps.described returns.
        title: str. Plain text.
        notes: sentences about how the map was made.

    Returns:
        str: the text of an HTML file.
    """
    return page("vector_map", title, {**described, "notes": list(notes), "colors": COLORS})


def draw_vector_map(described: Mapping[str, Any], title: str) -> bytes:
    """Draws the map of each model, and below it the histogram of cosines if there is one.

    Args:
        described: the dict that vectors.vector_maps.described returns.
        title: str. The heading of the picture.

    Returns:
        bytes: the content of a PNG file.
    """
    views, histograms = described["views"], described["histograms"]
    clusters = np.array(described["clusters"])
    heights = [4.6, 2.4] if histograms else [4.6]
    with picture(6.2 * len(views), sum(heights) + 1.2, title) as (figure, image):
        rows = figure.subplots(len(heights), len(views), squeeze=False, height_ratios=heights)
        for axis, view in zip(rows[0], views, strict=True):
            points = np.array(view["points"])
            for cluster, words in enumerate(described["typical"]):
                members = points[clusters == cluster]
                label = fonts.drawable(f"{len(members):,}: {', '.join(words[:4])}", 44)
                color = COLORS[cluster % len(COLORS)]
                axis.scatter(*members.T, s=8, color=color, alpha=0.75, linewidths=0, label=label)
            axis.set_xticks([])
            axis.set_yticks([])
            axis.set_aspect("equal", adjustable="datalim")
            axis.invert_yaxis()  # as on the page
            axis.set_title(fonts.drawable(view["name"], 60))
        rows[0, -1].legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1, 1), markerscale=2)
        if histograms:
            _draw_histograms(rows[1], described)
    return image.getvalue()


def _draw_histograms(axes, described):
    edges, models = described["histograms"]["edges"], described["histograms"]["models"]
    highest = max(share for model in models for shares in model.values() for share in shares)
    for axis, model, measured in zip(axes, models, described["measures"], strict=True):
        for color, (name, shares) in zip(_SERIES_COLORS, model.items(), strict=False):
            axis.stairs(shares, edges, fill=True, color=color, alpha=0.5, label=name)
        axis.set_ylim(0, 1.05 * highest)
        axis.set_xlabel("cosine")
        axis.set_ylabel("share of the pairs")
        axis.set_title(f"alignment {measured['alignment']:.3f}, uniformity {measured['uniformity']:.3f}")
        axis.legend(fontsize=7, frameon=False)

"""Pictures of a decoder's attention to its source: one map for each text, targets down and sources across."""

from collections.abc import Sequence

import numpy as np

from keras_bert_app.drawing import fonts
from keras_bert_app.drawing.figures import picture

_COLUMNS = 2


def draw_alignments(
    maps: Sequence[tuple[Sequence[str], Sequence[str], np.ndarray]], title: str, names: Sequence[str] = ()
) -> bytes:
    """Draws attention maps next to each other.

    Args:
        maps: list of (pieces of the source, pieces of the target, weights float [target, source] from 0 to 1).
        title: str. The heading of the picture.
        names: list of str. The heading of each map; () for no headings.

    Returns:
        bytes: the content of a PNG file.
    """
    columns = min(_COLUMNS, len(maps))
    rows = -(-len(maps) // columns)
    with picture(6.4 * columns, 5.6 * rows, title) as (figure, image):
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for axis in axes[len(maps) :]:
            axis.set_axis_off()
        for axis, name in zip(axes, names, strict=False):
            axis.set_title(fonts.drawable(name))
        for axis, (source, target, weights) in zip(axes, maps, strict=False):  # spare axes are off
            axis.imshow(weights, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
            size = max(4, 9 - max(len(source), len(target)) // 10)
            axis.set_xticks(range(len(source)), map(fonts.drawable, source), rotation=90, fontsize=size)
            axis.set_yticks(range(len(target)), map(fonts.drawable, target), fontsize=size)
    return image.getvalue()

"""Sentences with two dependency trees: one above the words, one below."""

from collections.abc import Sequence

from keras_bert_app.drawing import fonts
from keras_bert_app.drawing.figures import picture

_GOLD, _RIGHT, _WRONG = "#000000", "#4477aa", "#cc3311"
_PER_CHARACTER, _GAP = 0.088, 0.14  # inches


def draw_trees(sentences: Sequence[tuple], title: str) -> bytes:
    """Draws two trees for each sentence.

    A lower edge is blue if the upper tree has the same edge. Otherwise the lower edge is red and dashed.

    Args:
        sentences: list of (words, upper edges, lower edges). An edge is a pair of word positions.
        title: str. The heading of the picture.

    Returns:
        bytes: the content of a PNG file.
    """
    drawn = [([fonts.drawable(word, 20) for word in words], above, below) for words, above, below in sentences]
    width = max([sum(len(word) * _PER_CHARACTER + _GAP for word in words) for words, _, _ in drawn], default=3) + 0.4
    with picture(max(width, 7), 2.4 * max(len(drawn), 1) + 0.7, title) as (figure, image):
        axes = figure.subplots(max(len(drawn), 1), 1, squeeze=False).ravel()
        for axis in axes:
            axis.set_axis_off()
        for axis, (words, above, below) in zip(axes, drawn, strict=False):  # without sentences there is one empty axis
            _draw_sentence(axis, words, above, below, max(width, 7))
    return image.getvalue()


def _draw_sentence(axis, words, above, below, width):
    centres, at = [], 0.0
    for word in words:
        size = len(word) * _PER_CHARACTER + _GAP
        centres.append(at + size / 2)
        axis.text(centres[-1], 0, word, ha="center", va="center", fontsize=9)
        at += size
    gold = {frozenset(edge) for edge in above}
    highest = 1
    for edges, sign in ((above, 1), (below, -1)):
        for edge in edges:
            first, second = sorted(edge)
            height = abs(second - first) ** 0.6  # long arcs pass over short ones
            highest = max(highest, height)
            color = _GOLD if sign > 0 else _RIGHT if frozenset(edge) in gold else _WRONG
            _arc(axis, centres[first], centres[second], sign, height, color, "--" if color == _WRONG else "-")
    axis.set_xlim(-0.1, width - 0.4)
    axis.set_ylim(-highest - 0.7, highest + 0.7)


def _arc(axis, left, right, sign, height, color, style):
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    # A cubic curve reaches three quarters of the way to its control points.
    near, far = 0.45 * sign, (0.45 + height / 0.75) * sign
    points = [(left, near), (left, far), (right, far), (right, near)]
    axis.add_patch(
        PathPatch(
            Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]),
            fill=False,
            edgecolor=color,
            linewidth=1.1,
            linestyle=style,
        )
    )

"""Writes the results of a benchmark: figures as JSON, a table in Markdown, and a picture of bars."""

import json
import os
from collections.abc import Callable

from pipelines import storage


def in_words(machine: dict) -> str:
    """One line of text that describes a machine.

    Args:
        machine: dict. Result of this_machine.machine.
    """
    return ", ".join(f"{name} {value}" for name, value in machine.items())


def keep(output_file: str, figures: dict, lines: list[str], draw: Callable[[str], None]) -> None:
    """Writes the figures to NAME.json, the table to NAME.md and the picture to NAME.png.

    Args:
        output_file: str. Path of NAME.json; "" to write nothing.
        figures: dict of JSON-able values. The first line of NAME.md describes figures["machine"].
        lines: list of str. Lines of the table.
        draw: function of a path that draws the picture and writes it to this path.
    """
    if not output_file:
        return
    os.makedirs(os.path.dirname(output_file) or ".", exist_ok=True)
    storage.write_whole(output_file, json.dumps(figures, indent=1))
    name = os.path.splitext(output_file)[0]
    storage.write_whole(f"{name}.md", "\n".join([in_words(figures["machine"]), "", *lines]) + "\n")
    draw(f"{name}.png")


def draw_bars(
    panels: dict,
    heading: str,
    path: str,
    stands_out: Callable[[str], bool] = lambda name: name.startswith("ours"),
) -> None:
    """Draws horizontal bars of the contenders, one panel for each kind of work.

    Args:
        panels: dict. Title -> contender -> (median, lowest, highest).
        heading: str. Title of the picture. Its second line has the unit.
        path: str. File to write.
        stands_out: function of a contender's name. Returns whether the bar gets a colour; the other bars are grey.
    """
    from keras_bert_app.drawing.figures import picture

    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    height = max(2.4, 0.6 + 0.26 * max(map(len, panels.values())))
    with picture(max(6.0, 4.6 * columns), 0.6 + height * rows, heading) as (figure, image):
        grid = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes in grid[len(panels) :]:
            axes.set_visible(False)
        for axes, (title, contenders) in zip(grid, panels.items(), strict=False):
            axes.set_title(title)
            _draw_panel(axes, contenders, stands_out)
    storage.write_whole(path, image.getvalue())


def _draw_panel(axes, contenders, stands_out):
    medians = [median for median, _, _ in contenders.values()]
    # Error bars must not be negative, and the median of all calls may lie outside the range of the rounds' medians.
    spread = [
        [max(0.0, median - lowest) for median, lowest, _ in contenders.values()],
        [max(0.0, highest - median) for median, _, highest in contenders.values()],
    ]
    bars = axes.barh(
        list(contenders),
        medians,
        xerr=spread,
        error_kw={"elinewidth": 1, "ecolor": "0.3"},
        color=["C0" if stands_out(name) else "C7" for name in contenders],
    )
    axes.bar_label(bars, [f"{median:,.0f}" if median >= 100 else f"{median:.3g}" for median in medians], padding=3)
    axes.invert_yaxis()
    axes.margins(x=0.18)

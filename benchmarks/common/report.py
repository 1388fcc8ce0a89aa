"""What benchmarks keep of a run beside its figures as JSON: the table, and bars of the contenders."""

import json
import os


def in_words(machine):
    """A line of what this_machine.machine gives."""
    return ", ".join(f"{name} {value}" for name, value in machine.items())


def keep(output_file, figures, lines, draw):
    """Writes NAME.json, NAME.md and NAME.png; nothing where output_file is empty.

    Args:
        output_file: NAME.json. figures: JSON-able dict; "machine" stands above the table too. lines: of the table. draw: function of a
            path that draws.
    """
    if not output_file:
        return
    os.makedirs(os.path.dirname(output_file) or ".", exist_ok=True)
    with open(output_file, "w", encoding="utf-8") as file:
        json.dump(figures, file, indent=1)
    name = os.path.splitext(output_file)[0]
    with open(f"{name}.md", "w", encoding="utf-8") as file:
        file.write("\n".join([in_words(figures["machine"]), "", *lines]) + "\n")
    draw(f"{name}.png")


def draw_bars(panels, heading, path, stands_out=lambda name: name.startswith("ours")):
    """Bars of the contenders, a panel for each thing that they did.

    Args:
        panels: dict title -> contender -> (median, lowest, highest). heading: above all; its second line says the unit.
        stands_out: function of a contender, whose bar is coloured then.
    """
    from keras_bert_app.drawing.figures import picture

    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    height = max(2.4, 0.6 + 0.26 * max(map(len, panels.values())))
    with picture(max(6.0, 4.6 * columns), 0.6 + height * rows, heading) as (figure, image):
        grid = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes in grid[len(panels) :]:
            axes.set_visible(False)
        for axes, (title, contenders) in zip(grid, panels.items()):
            axes.set_title(title)
            medians = [median for median, _, _ in contenders.values()]
            # The median of all calls may lie outside of the rounds' medians.
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
            axes.bar_label(
                bars, [f"{median:,.0f}" if median >= 100 else f"{median:.3g}" for median in medians], padding=3
            )
            axes.invert_yaxis()
            axes.margins(x=0.18)
    with open(path, "wb") as file:
        file.write(image.getvalue())

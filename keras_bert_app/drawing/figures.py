"""The style, the heading and the PNG output that all pictures share."""

import contextlib
import io
from collections.abc import Iterator, Mapping
from typing import Any

from keras_bert_app.drawing import fonts

_STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
}


@contextlib.contextmanager
def picture(
    width: float, height: float, heading: str, dpi: int = 110, margins: Mapping[str, float] | None = None
) -> Iterator[tuple[Any, io.BytesIO]]:
    """Yields a matplotlib Figure to draw on, and a buffer that holds the PNG file after the block.

    Args:
        width: float. Inches.
        height: float. Inches.
        heading: str. The text above the picture. The function shortens long lines.
        dpi: int. Pixels per inch.
        margins: dict. Arguments of Figure.subplots_adjust. By default matplotlib measures all labels to lay out the
            panels, which takes half of the time. Fixed margins save this time.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({**_STYLE, "font.family": fonts.families()}):
        figure, image = Figure(figsize=(width, height), layout=None if margins else "constrained"), io.BytesIO()
        if margins:
            figure.subplots_adjust(**margins)
        else:
            figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12, wspace=0.04, hspace=0.04)
        title, *rest = heading.split("\n")
        shown = [fonts.drawable(title, 90), *(fonts.drawable(line, 160) for line in rest)]
        figure.suptitle("\n".join(shown), x=0.012, ha="left", fontsize=11)
        yield figure, image
        if note := fonts.advice(fonts.escaped_texts()):
            figure.supxlabel(note, x=0.012, ha="left", fontsize=7)
        figure.savefig(image, format="png", dpi=dpi)

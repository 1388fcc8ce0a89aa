"""What all pictures share: their style, their heading, and PNG bytes of them."""

import contextlib
import io

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
def picture(width, height, heading, dpi=110, margins=None):
    """A matplotlib Figure to draw on within the block, and io.BytesIO that holds its PNG after it.

    Args:
        width, height: inches. heading: above the picture; its lines are shortened and drawn as the fonts can.
        margins: of Figure.subplots_adjust, for panels that need no measuring, which takes half of the time. By default they
            are laid out so that no labels meet.
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
        figure.savefig(image, format="png", dpi=dpi)

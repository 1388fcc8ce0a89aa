"""A map of the importance of attention heads, and the score of a model as heads are closed."""

from collections.abc import Sequence

import numpy as np

from keras_bert_app.drawing.figures import picture


def draw_pruning(
    importance: Sequence[Sequence[float]],
    percents: Sequence[float],
    ours: Sequence[float],
    random: np.ndarray,
    name: str,
    title: str,
) -> bytes:
    """Draws the importance of each head, and the score for each share of closed heads.

    Args:
        importance: L lists, one value for each head of the layer.
        percents: [P]. The shares of closed heads, in percent.
        ours: float [P]. The scores when the least important heads are closed first.
        random: float [P, seeds]. The scores when heads are closed in random order.
        name: str. The name of the score.
        title: str. The heading of the picture.

    Returns:
        bytes: the content of a PNG file.
    """
    most = max(map(len, importance))
    values = np.array([[*layer, *[np.nan] * (most - len(layer))] for layer in importance])
    with picture(11.5, max(3.8, 0.3 * len(importance) + 1.6), title) as (figure, image):
        left, right = figure.subplots(1, 2, width_ratios=[1, 1.25])
        drawn = left.imshow(values, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        for layer, row in enumerate(importance):
            for head, value in enumerate(row):
                left.text(
                    head,
                    layer,
                    f"{value:.2f}".removeprefix("0"),
                    ha="center",
                    va="center",
                    fontsize=7,
                    color="white" if value > 0.6 else "black",
                )
        left.set_title("importance, divided by the norm of its layer")
        left.set_xlabel("head")
        left.set_ylabel("layer")
        left.set_xticks(range(most), range(1, most + 1))
        left.set_yticks(range(len(importance)), range(1, len(importance) + 1))
        figure.colorbar(drawn, ax=left, shrink=0.85)
        means, spread = random.mean(axis=1), random.std(axis=1)
        right.plot(percents, ours, marker="o", markersize=4, color="#4477aa", label="least important first")
        right.plot(
            percents, means, marker="o", markersize=4, color="#cc3311", label=f"at random, {random.shape[1]} seeds"
        )
        right.fill_between(percents, means - spread, means + spread, color="#cc3311", alpha=0.2, linewidth=0)
        right.axhline(ours[0], color="#888888", linestyle="--", linewidth=1, label="whole model")
        right.set_title(f"{name} as heads are closed")
        right.set_xlabel("heads closed")
        right.xaxis.set_major_formatter(lambda value, _: f"{value:.0f} %")
        right.legend(frameon=False, loc="best")
    return image.getvalue()

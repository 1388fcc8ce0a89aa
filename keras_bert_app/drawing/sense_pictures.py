"""Pictures of the vectors of a word's occurrences, a page with the sentences, and self-similarity."""

from collections.abc import Mapping, Sequence

import numpy as np

from keras_bert_app.drawing import fonts
from keras_bert_app.drawing.figures import picture
from keras_bert_app.drawing.pages import page
from keras_bert_app.drawing.planes import COLORS


def draw_senses(described: Mapping[str, dict], title: str) -> bytes:
    """Draws a row of three maps for each word. The colour of a point is its cluster.

    Args:
        described: dict word -> {"clusters": the cluster of each occurrence, "maps": dict name -> list of [x, y],
            "typical": for each cluster the words that are frequent around it}.
        title: str. The heading of the picture.

    Returns:
        bytes: the content of a PNG file.
    """
    with picture(12.5, 3.9 * len(described) + 0.9, title) as (figure, image):
        rows = figure.subplots(len(described), 3, squeeze=False)
        for axes, (word, occurrences) in zip(rows, described.items(), strict=True):
            clusters = np.array(occurrences["clusters"])
            for axis, (name, points) in zip(axes, occurrences["maps"].items(), strict=False):
                points = np.array(points)
                for cluster, words in enumerate(occurrences["typical"]):
                    is_member = clusters == cluster
                    axis.scatter(
                        *points[is_member].T,
                        s=14,
                        color=COLORS[cluster % len(COLORS)],
                        alpha=0.75,
                        linewidths=0,
                        label=fonts.drawable(f"{is_member.sum()}: {', '.join(words[:4])}", 44),
                    )
                axis.set_xticks([])
                axis.set_yticks([])
                axis.set_title(f"{fonts.drawable(word)}: {name}")
            axes[0].legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(0, -0.01), borderaxespad=0)
    return image.getvalue()


def draw_self_similarity(trained: Mapping[str, Sequence[float]], untrained: Sequence[float], title: str) -> bytes:
    """Draws the self-similarity of words by layer. The last curve, in black, is the mean over all words.

    Args:
        trained: dict name -> float [L + 1]. The values of a trained encoder.
        untrained: float [L + 1]. The mean over all words in an untrained encoder.
        title: str. The heading of the picture.

    Returns:
        bytes: the content of a PNG file.
    """
    with picture(7.5, 4.2, title) as (figure, image):
        axis = figure.subplots()
        for number, (name, values) in enumerate(trained.items()):
            is_last = number == len(trained) - 1
            axis.plot(
                range(len(values)),
                values,
                marker="o",
                markersize=3,
                linewidth=2.2 if is_last else 1.2,
                label=fonts.drawable(name),
                color="black" if is_last else COLORS[number % len(COLORS)],
            )
        axis.plot(range(len(untrained)), untrained, color="#888888", linestyle="--", label="all words, untrained")
        axis.set_xlabel("layer; 0 is the embeddings' output")
        axis.set_ylabel("self-similarity; 0: as for random words")
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.set_ylim(min(0, axis.get_ylim()[0]), 1)
        axis.legend(frameon=False)
    return image.getvalue()


def senses_page(described: Mapping[str, dict], title: str) -> str:
    """Makes a self-contained HTML page with a map for each word and layer.

    The page shows a sentence when the user points at it, and the nearest sentences on a click.

    Args:
        described: dict word -> the dict that analysis.sense_maps.described returns.
        title: str. Plain text.

    Returns:
        str: the text of an HTML file.
    """
    return page("senses", title, {"words": described, "colors": COLORS})

"""A word's vectors as points: a picture beside its baselines, a page to read the sentences; self-similarity by layer."""

import numpy as np

from keras_bert_app.drawing import fonts
from keras_bert_app.drawing.figures import picture
from keras_bert_app.drawing.pages import page

COLORS = ("#4477aa", "#cc3311", "#228833", "#ccbb44", "#aa3377")


def draw_senses(described, title):
    """PNG bytes: of each word a row of maps.

    Args:
        described: dict word -> {"clusters": the number of each occurrence's, "maps": dict name -> list of [x, y], "typical":
            words around each cluster}. title: above the picture.
    """
    with picture(12.5, 3.9 * len(described) + 0.9, title) as (figure, image):
        for number, (axes, (word, found)) in enumerate(
            zip(figure.subplots(len(described), 3, squeeze=False), described.items())
        ):
            clusters = np.array(found["clusters"])
            for axis, (name, points) in zip(axes, found["maps"].items()):
                points = np.array(points)
                for cluster, words in enumerate(found["typical"]):
                    here = clusters == cluster
                    axis.scatter(
                        *points[here].T,
                        s=14,
                        color=COLORS[cluster % len(COLORS)],
                        alpha=0.75,
                        linewidths=0,
                        label=fonts.drawable(f"{here.sum()}: {', '.join(words[:4])}", 44),
                    )
                axis.set_xticks([])
                axis.set_yticks([])
                axis.set_title(f"{fonts.drawable(word)}: {name}")
            axes[0].legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(0, -0.01), borderaxespad=0)
    return image.getvalue()


def draw_self_similarity(trained, untrained, title):
    """PNG bytes.

    Args:
        trained: dict name -> float [L + 1]. untrained: float [L + 1], of all words. title: above the picture.
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
        axis.set_ylabel("self-similarity, less that of words at random")
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.set_ylim(min(0, axis.get_ylim()[0]), 1)
        axis.legend(frameon=False)
    return image.getvalue()


def senses_page(described, title):
    """HTML of one file: a map for each word and layer, its sentences on pointing, the nearest ones on clicking.

    Args:
        described: dict word -> what analysis.sense_maps.described gives.
    """
    return page("senses", title, {"words": described, "colors": COLORS})

"""Pictures of what heads attend to: maps of layers by heads, and the heads as points, near where they attend alike."""

import numpy as np

from keras_bert_app.drawing.figures import picture
from keras_bert_app.drawing.head_maps import draw_head_maps

_MARKS = "os^DvPX*"
_MOST_NAMES = 160


def draw_shares(shares, patterns, uniform, title):
    """PNG bytes: a map for each pattern.

    Args:
        shares: [L, N, patterns], the last one the entropy. patterns: their names. uniform: [patterns], of attention
            that is alike to all, the baseline.
    """
    maps = [
        (f"to {name}" if name != "entropy" else name, shares[..., at], uniform[at]) for at, name in enumerate(patterns)
    ]
    maps[-1] = (maps[-1][0], maps[-1][1] / uniform[-1], 1.0)
    return draw_head_maps(maps, title)


def draw_heads(distances, clusters, kinds, shape, title):
    """PNG bytes: heads in the plane (multidimensional scaling); the colour is the layer, the shape the cluster.

    Args:
        distances: [heads, heads]. clusters: int [heads]. kinds: what each mostly attends to. shape: (L, N).
        title: above the picture.
    """
    from matplotlib.lines import Line2D
    from sklearn.manifold import MDS

    scaling = MDS(n_components=2, metric="precomputed", n_init=4, init="random", random_state=0)
    points = scaling.fit_transform(distances)
    layers = np.repeat(np.arange(shape[0]), shape[1])
    with picture(11, 7.5, f"{title}\nMDS of the distances; names are layer-head; the shape is the cluster") as (
        figure,
        image,
    ):
        axis = figure.subplots()
        for cluster in sorted(set(clusters)):
            here = clusters == cluster
            drawn = axis.scatter(
                *points[here].T,
                c=layers[here],
                cmap="viridis",
                vmin=0,
                vmax=max(shape[0] - 1, 1),
                s=70,
                marker=_MARKS[cluster % len(_MARKS)],
                edgecolors="white",
                linewidths=0.6,
            )
        if len(points) <= _MOST_NAMES:
            for head, (x, y) in enumerate(points):
                axis.annotate(
                    f"{layers[head] + 1}-{head % shape[1] + 1}",
                    (x, y),
                    xytext=(4, 4),
                    textcoords="offset points",
                    fontsize=6,
                    color="#444444",
                )
        handles = []
        for cluster in sorted(set(clusters)):
            of_kind = [kinds[head] for head in np.flatnonzero(clusters == cluster)]
            kind = max(sorted(set(of_kind)), key=of_kind.count)
            handles.append(
                Line2D(
                    [],
                    [],
                    linestyle="",
                    marker=_MARKS[cluster % len(_MARKS)],
                    color="#777777",
                    markersize=8,
                    label=f"cluster {cluster + 1}: {len(of_kind)} heads, mostly to {kind}"
                    if kind != "broad"
                    else f"cluster {cluster + 1}: {len(of_kind)} heads, mostly broad",
                )
            )
        axis.legend(handles=handles, frameon=False, fontsize=8, loc="best")
        bar = figure.colorbar(
            drawn,
            ax=axis,
            label="layer",
            ticks=range(0, shape[0], max(1, shape[0] // 12)),
            shrink=0.8,
            format=lambda value, _: f"{value + 1:.0f}",
        )
        bar.ax.invert_yaxis()
        axis.set_xticks([])
        axis.set_yticks([])
        axis.set_aspect("equal", adjustable="datalim")
    return image.getvalue()

"""Pictures of attention patterns: maps of layers by heads, and heads as points in the plane.

Dimensions: L layers, N heads per layer, H = L x N heads, P patterns.
"""

from collections.abc import Sequence

import numpy as np

from keras_bert_app.drawing.figures import picture
from keras_bert_app.drawing.head_maps import draw_head_maps

_MARKS = "os^DvPX*"
_MOST_NAMES = 160


def draw_shares(shares: np.ndarray, patterns: Sequence[str], uniform: np.ndarray, title: str) -> bytes:
    """Draws a map for each pattern.

    Args:
        shares: float [L, N, P]. The last pattern is the entropy.
        patterns: P str. Names.
        uniform: float [P]. The values if each token attends equally to all tokens, as a baseline.
        title: str. The heading of the picture.

    Returns:
        bytes: the content of a PNG file.
    """
    maps = [
        (f"to {name}" if name != "entropy" else name, shares[..., at], uniform[at]) for at, name in enumerate(patterns)
    ]
    maps[-1] = (maps[-1][0], maps[-1][1] / uniform[-1], 1.0)
    return draw_head_maps(maps, title)


def draw_heads(
    distances: np.ndarray, clusters: np.ndarray, kinds: Sequence[str], shape: tuple[int, int], title: str
) -> bytes:
    """Draws heads as points by multidimensional scaling.

    The colour of a point shows the layer, and its shape shows the cluster.

    Args:
        distances: float [H, H]. The distances between heads.
        clusters: int [H]. The cluster of each head.
        kinds: H str. The name of the pattern that each head mostly attends to.
        shape: (L, N).
        title: str. The heading of the picture.

    Returns:
        bytes: the content of a PNG file.
    """
    from sklearn.manifold import MDS

    scaling = MDS(n_components=2, metric="precomputed", n_init=4, init="random", random_state=0)
    points = scaling.fit_transform(distances)
    layers = np.repeat(np.arange(shape[0]), shape[1])
    heading = f"{title}\nMDS of the distances; names are layer-head; the shape is the cluster"
    with picture(11, 7.5, heading) as (figure, image):
        axis = figure.subplots()
        for cluster in sorted(set(clusters)):
            is_member = clusters == cluster
            scatter = axis.scatter(
                *points[is_member].T,
                c=layers[is_member],
                cmap="viridis",
                vmin=0,
                vmax=max(shape[0] - 1, 1),
                s=70,
                marker=_MARKS[cluster % len(_MARKS)],
                edgecolors="white",
                linewidths=0.6,
            )
        if len(points) <= _MOST_NAMES:
            _name_heads(axis, points, shape[1])
        axis.legend(handles=_cluster_handles(clusters, kinds), frameon=False, fontsize=8, loc="best")
        bar = figure.colorbar(
            scatter,
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


def _name_heads(axis, points, num_heads):
    for index, (x, y) in enumerate(points):
        layer, head = divmod(index, num_heads)
        axis.annotate(
            f"{layer + 1}-{head + 1}",
            (x, y),
            xytext=(4, 4),
            textcoords="offset points",
            fontsize=6,
            color="#444444",
        )


def _cluster_handles(clusters, kinds):
    """Returns the entries of the legend: the number of heads in each cluster, and the most frequent kind."""
    from matplotlib.lines import Line2D

    handles = []
    for cluster in sorted(set(clusters)):
        cluster_kinds = [kinds[head] for head in np.flatnonzero(clusters == cluster)]
        kind = max(sorted(set(cluster_kinds)), key=cluster_kinds.count)
        handles.append(
            Line2D(
                [],
                [],
                linestyle="",
                marker=_MARKS[cluster % len(_MARKS)],
                color="#777777",
                markersize=8,
                label=f"cluster {cluster + 1}: {len(cluster_kinds)} heads, mostly to {kind}"
                if kind != "broad"
                else f"cluster {cluster + 1}: {len(cluster_kinds)} heads, mostly broad",
            )
        )
    return handles

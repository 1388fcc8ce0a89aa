"""Attention weights of one text: a picture of all heads, and an HTML page with one head in detail.

Dimensions: L layers, N heads, U units (word pieces or words).
"""

import base64
from collections.abc import Mapping, Sequence

import numpy as np

from keras_bert_app.drawing import fonts
from keras_bert_app.drawing.figures import picture
from keras_bert_app.drawing.pages import page

_MOST_LABELS = 40  # the most tokens that fit next to a map


def draw_attention(weights: np.ndarray, tokens: Sequence[str], focus: tuple[int, int], title: str) -> bytes:
    """Draws a small map for each head and a large map for one head. Rows attend to columns.

    Args:
        weights: float [L, N, U, U]. Attention weights.
        tokens: U str. The labels of the large map.
        focus: (layer, head), both from 0. The head of the large map.
        title: str. The heading of the picture.

    Returns:
        bytes: the content of a PNG file.
    """
    num_layers, num_heads, size, _ = weights.shape
    side = max(0.45, min(0.9, 9 / num_heads))
    height = max(side * num_layers + 0.9, 5.2)
    with picture(side * num_heads + height + 1.2, height + 0.6, title) as (figure, image):
        left, right = figure.subfigures(1, 2, width_ratios=[side * num_heads + 0.5, height + 0.7])
        for layer, row in enumerate(left.subplots(num_layers, num_heads, squeeze=False)):
            for head, axis in enumerate(row):
                _map(axis, weights[layer, head])
                axis.set_xticks([])
                axis.set_yticks([])
                if layer == 0:
                    axis.set_title(
                        f"head {head + 1}" if head == 0 else str(head + 1),
                        fontsize=7,
                        fontweight="normal",
                        loc="center",
                    )
                if head == 0:
                    axis.set_ylabel(f"layer {layer + 1}" if layer == 0 else str(layer + 1), fontsize=7)
                for spine in axis.spines.values():
                    spine.set_visible(True)
                    spine.set_color("#cc3311" if (layer, head) == tuple(focus) else "#bbbbbb")
        axis = right.subplots()
        _map(axis, weights[tuple(focus)])
        axis.set_title(f"layer {focus[0] + 1}, head {focus[1] + 1}: rows attend to columns")
        if size <= _MOST_LABELS:
            names = [fonts.drawable(token, 16) for token in tokens]
            small = {"fontsize": max(5, min(9, 260 // size))}
            axis.set_xticks(range(size), names, rotation=90, **small)
            axis.set_yticks(range(size), names, **small)
        right.colorbar(axis.images[0], ax=axis, shrink=0.8, label="weight")
    return image.getvalue()


def _map(axis, weights):
    from matplotlib.colors import PowerNorm

    axis.imshow(weights, cmap="Blues", norm=PowerNorm(0.5, vmin=0, vmax=1), interpolation="nearest")


def attention_page(levels: Mapping[str, tuple], focus: tuple[int, int], title: str) -> str:
    """Makes a self-contained HTML page: an overview of all heads, and one head in detail.

    Args:
        levels: dict from "pieces" and "words" to (weights float [L, N, U, U], U tokens, positions of [CLS] and [SEP]).
        focus: (layer, head), both from 0. The head that the page shows at first.
        title: str. Plain text.

    Returns:
        str: the text of an HTML file.
    """
    num_layers, num_heads = levels["words"][0].shape[:2]
    return page(
        "attention",
        title,
        {
            "layers": num_layers,
            "heads": num_heads,
            "focus": [int(place) for place in focus],
            "levels": {
                name: {
                    "tokens": list(tokens),
                    "special": [int(place) for place in special],
                    "weights": _base64(weights),
                }
                for name, (weights, tokens, special) in levels.items()
            },
        },
    )


def _base64(weights):
    """Encodes weights as attention.js reads them: little-endian 16-bit integers, 65535 for 1."""
    return base64.b64encode(np.round(np.clip(weights, 0, 1) * 65535).astype("<u2").tobytes()).decode()

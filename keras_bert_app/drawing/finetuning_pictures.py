"""Pictures of a fine-tuning run: curves, layer shares, and predicted against right answers."""

from collections.abc import Sequence

import numpy as np

from keras_bert_app.drawing import fonts
from keras_bert_app.drawing.figures import picture

_TRAINING, _DEV = "#4477aa", "#cc3311"
_COLORS = (_TRAINING, _DEV, "#228833", "#ccbb44", "#aa3377", "#66ccee", "#999999", "#000000")
_DASHES = ("-", "--", ":", "-.")  # dashes tell lines apart if there are more lines than colours
_MOST_CLASSES = 30
_MARGINS = {"left": 0.04, "right": 0.99, "top": 0.79, "bottom": 0.15, "wspace": 0.28}


def draw_curves(rows: Sequence[dict], title: str) -> bytes:
    """Draws the training loss, the dev scores, the learning rate and the norms.

    Args:
        rows: sequence of dict. The lines of metrics.jsonl, in the order of the steps.
        title: str. The heading of the picture.

    Returns:
        bytes: the content of a PNG file.
    """
    training = [row for row in rows if "loss" in row]
    dev = [row for row in rows if any(name.startswith("eval_") for name in row)]
    scores = sorted({name for row in dev for name in row if name.startswith("eval_")})
    with picture(14, 3.6, title, margins=_MARGINS) as (figure, image):
        axes = figure.subplots(1, 4)
        _lines(axes[0], training, ["loss"], "training loss")
        only_score = scores[0].removeprefix("eval_").replace("_", " ") if len(scores) == 1 else ""
        _lines(axes[1], dev, scores, f"dev {only_score}".strip(), marker="o")
        _lines(axes[2], training, ["learning_rate"], "learning rate")
        _lines(axes[3], training, ["gradient_norm", "update_norm"], "norms")
        axes[3].set_yscale("log")
        for axis in axes:
            axis.set_xlabel("step")
    return image.getvalue()


def draw_layer_shares(shares: Sequence[float], title: str) -> bytes:
    """Draws the weight that a scalar mix gives to the embeddings and to each layer.

    Args:
        shares: float [L + 1]. The first value is the share of the embeddings.
        title: str. The heading of the picture.

    Returns:
        bytes: the content of a PNG file.
    """
    with picture(6, 3.2, title) as (figure, image):
        axis = figure.subplots()
        axis.bar(range(len(shares)), shares, color=_TRAINING)
        axis.axhline(1 / len(shares), color="#888888", linewidth=1, linestyle="--", label="equal, as at the start")
        axis.set_xticks(range(len(shares)), ["embeddings", *map(str, range(1, len(shares)))])
        axis.set_xlabel("layer")
        axis.legend(frameon=False)
    return image.getvalue()


def draw_answers(gold: Sequence, predicted: Sequence, names: Sequence, title: str) -> bytes:
    """Draws predicted answers against right ones: classes as a confusion matrix, numbers as points.

    Args:
        gold: int [N], indices of classes; float [N] if `names` is (). The right answers.
        predicted: the same type. The predicted answers.
        names: sequence of str. The names of the classes. If right and predicted classes have different names: (names of
            right classes, names of predicted classes). The picture shows the 30 most frequent classes.
        title: str. The heading of the picture.

    Returns:
        bytes: the content of a PNG file.
    """
    with picture(7, 6.4, title) as (figure, image):
        axis = figure.subplots()
        if not len(names):
            axis.scatter(predicted, gold, s=6, alpha=0.4, color=_TRAINING)
            ends = [min(np.min(gold), np.min(predicted)), max(np.max(gold), np.max(predicted))]
            axis.plot(ends, ends, color="#888888", linewidth=1)
        else:
            # Both lists are empty when no dev example has a label; the picture is then empty too.
            _draw_confusion(figure, axis, np.asarray(gold, np.int64), np.asarray(predicted, np.int64), names)
        axis.set_xlabel("predicted")
        axis.set_ylabel("right")
    return image.getvalue()


def _draw_confusion(figure, axis, gold, predicted, names):
    rows, columns = (names, names) if isinstance(names[0], str) else names
    counts = np.zeros((len(rows), len(columns)), np.int64)
    np.add.at(counts, (gold, predicted), 1)
    if len(rows) > _MOST_CLASSES:
        counts, rows, columns = most_frequent(counts, names, _MOST_CLASSES)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    image = axis.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0)
    figure.colorbar(image, label="share of the row", shrink=0.8)
    axis.set_xticks(range(len(columns)), map(fonts.drawable, columns), rotation=90 if len(columns) > 3 else 0)
    axis.set_yticks(range(len(rows)), map(fonts.drawable, rows))
    for spine in axis.spines.values():
        spine.set_visible(False)
    size = max(4, 11 - len(rows) // 3)
    for row, column in zip(*np.nonzero(counts), strict=True):
        axis.text(
            column,
            row,
            f"{counts[row, column]:,}",
            ha="center",
            va="center",
            fontsize=size,
            color="white" if shares[row, column] > 0.5 else "black",
        )


def most_frequent(
    counts: np.ndarray, names: Sequence[str], most: int
) -> tuple[np.ndarray, Sequence[str], Sequence[str]]:
    """Reduces a confusion matrix to its most frequent classes.

    The last column, "others", holds all other predictions.

    Args:
        counts: int [C, C]. Rows are right classes, columns are predicted classes.
        names: C str. The names of the classes.
        most: int. How many classes stay. Right and predicted answers count together.

    Returns:
        (counts int [most, most + 1], names of the rows, names of the columns).
    """
    kept = np.sort(np.argsort(-counts.sum(axis=0) - counts.sum(axis=1), kind="stable")[:most])
    others = counts[kept].sum(axis=1) - counts[np.ix_(kept, kept)].sum(axis=1)
    rows = [names[index] for index in kept]
    return np.column_stack([counts[np.ix_(kept, kept)], others]), rows, [*rows, "others"]


def _lines(axis, rows, keys, name, **style):
    for number, key in enumerate(keys):
        color, dashes = _COLORS[number % len(_COLORS)], _DASHES[number // len(_COLORS) % len(_DASHES)]
        points = [(row["step"], row[key]) for row in rows if key in row]
        if points:
            axis.plot(
                *zip(*points, strict=True),
                color=color,
                linestyle=dashes,
                linewidth=1.3,
                markersize=4,
                label=key.removeprefix("eval_").replace("_", " "),
                **style,
            )
    axis.set_title(name)
    if len(keys) > 1 and axis.lines:
        axis.legend(frameon=False)

"""The curves of a pre-training run, drawn as one picture."""

from collections.abc import Sequence

from keras_bert_app.drawing.figures import picture

_TRAINING, _HELDOUT, _BASELINE = "#4477aa", "#cc3311", "#888888"
_MARGINS = {"left": 0.04, "right": 0.99, "top": 0.88, "bottom": 0.08, "wspace": 0.28, "hspace": 0.36}


def draw_curves(rows: Sequence[dict], title: str) -> bytes:
    """Draws losses and accuracies of training and held-out text, the learning rate, norms and speed.

    Args:
        rows: sequence of dict. The lines of metrics.jsonl, in the order of the steps.
        title: str. The heading of the picture.

    Returns:
        bytes: the content of a PNG file.
    """
    training = [row for row in rows if "loss" in row]
    heldout = [row for row in rows if "eval_loss" in row]
    has_pairs = any("next_sentence_loss" in row for row in training)
    if any("perplexity" in row for row in training):
        panels = [
            ("language model loss", "language_model_loss", None),
            ("perplexity", "perplexity", "bigram_perplexity"),
        ]
    else:
        panels = [
            ("masked LM loss", "masked_lm_loss", None),
            ("masked LM accuracy", "masked_lm_accuracy", "unigram_accuracy"),
        ]
    if has_pairs:
        panels += [
            ("sentence pair loss", "next_sentence_loss", None),
            ("sentence pair accuracy", "next_sentence_accuracy", "majority_share"),
        ]
    with picture(14, 7, title, margins=_MARGINS) as (figure, image):
        axes = figure.subplots(2, len(panels) // 2 + 2).T.ravel()
        for axis, (name, key, baseline) in zip(axes, panels, strict=False):  # the loop below draws the last four axes
            _line(axis, training, key, _TRAINING, "training")
            _line(axis, heldout, f"eval_{key}", _HELDOUT, "held out", marker="o")
            if baseline:
                _line(axis, heldout, f"eval_{baseline}", _BASELINE, baseline.replace("_", " "), linestyle="--")
            axis.set_title(name)
            if axis.lines:
                axis.legend(frameon=False)
        for axis, (name, keys, scale) in zip(
            axes[len(panels) :],
            (
                ("learning rate", ("learning_rate",), "linear"),
                ("norms", ("gradient_norm", "update_norm", "parameter_norm"), "log"),
                ("tokens a second", ("tokens_per_second",), "linear"),
                ("share of the time waiting for input", ("input_wait_share",), "linear"),
            ),
            strict=True,
        ):
            for key, color in zip(keys, ("#4477aa", "#ccbb44", "#228833"), strict=False):
                _line(axis, training, key, color, key.replace("_", " "))
            axis.set_title(name)
            axis.set_yscale(scale)
            if scale == "linear":
                axis.set_ylim(bottom=0)
            if len(keys) > 1 and axis.lines:
                axis.legend(frameon=False)
        for axis in axes:
            axis.set_xlabel("step")
    return image.getvalue()


def _line(axis, rows, key, color, label, **style):
    points = [(row["step"], row[key]) for row in rows if key in row]
    if len(points) == 1:
        style = {"marker": "o", **style}  # a line needs two points
    if points:
        axis.plot(*zip(*points, strict=True), color=color, label=label, linewidth=1.3, markersize=4, **style)

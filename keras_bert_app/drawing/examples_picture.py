"""The statistics of pre-training examples, drawn as one picture."""

from keras_bert_app.drawing import fonts
from keras_bert_app.drawing.figures import picture

_A, _B, _GREY = "#4477aa", "#ccbb44", "#555555"
_KINDS = {"hidden": "#cc3311", "kept": "#228833", "random": "#aa3377"}
_MOST_RUNS = 12
_MAX_BINS = 64


def draw_example_statistics(statistics: dict, title: str) -> bytes:
    """Draws lengths of rows and segments, predictions, masked runs and the most frequent labels.

    Args:
        statistics: dict. The result of keras_bert_app.inspection.statistics.Counter.result.
        title: str. The heading of the picture.

    Returns:
        bytes: the content of a PNG file.
    """
    with picture(15, 8, f"{title}\n{_summary(statistics)}") as (figure, image):
        axes = figure.subplot_mosaic(
            [["rows", "segments", "labels"], ["predictions", "runs", "labels"], ["place", "kinds", "labels"]]
        )
        _draw_rows(axes["rows"], statistics)
        _draw_segments(axes["segments"], statistics)
        _draw_predictions(axes["predictions"], statistics)
        _draw_runs(axes["runs"], statistics)
        _draw_place(axes["place"], statistics)
        _draw_kinds(axes["kinds"], statistics)
        _draw_labels(axes["labels"], statistics)
    return image.getvalue()


def _summary(statistics):
    objectives = {"nsp": "next sentence", "sop": "sentence order", "none": "full sentences"}
    return (
        f"{statistics['examples']:,} examples of {statistics['max_seq_length']} tokens, "
        f"{objectives[statistics['sentence_objective']]}, masking {statistics['masking']}; "
        f"padding {statistics['padding_share']:.1%}, [UNK] {statistics['unknown_share']:.2%}, "
        f"{statistics['predicted_share_of_tokens']:.1%} of the tokens predicted"
    )


def _draw_rows(axes, statistics):
    _histogram(axes, statistics["tokens_per_row"], statistics["max_seq_length"], _A, "")
    axes.set_yscale("log")  # nearly all rows are full
    axes.set_title("Tokens per row")
    axes.set_xlabel(f"tokens with [CLS] and [SEP]; {statistics['full_row_share']:.1%} of the rows are full")
    axes.set_ylabel("share of the rows, log")


def _draw_segments(axes, statistics):
    for name, color in (("a_length", _A), ("b_length", _B)):
        if name in statistics:
            _histogram(axes, statistics[name], statistics["max_seq_length"], color, name[0].upper(), alpha=0.6)
    axes.set_title("Length of the segments")
    if "b_length" in statistics:
        axes.legend(frameon=False)
        word = "random" if statistics["sentence_objective"] == "nsp" else "swapped"
        axes.set_xlabel(f"tokens; {statistics['random_or_swapped_share']:.1%} of the pairs are {word}")
    else:
        axes.set_xlabel("tokens; there is no second segment")
    _percent_axis(axes)


def _draw_predictions(axes, statistics):
    shares = _shares(statistics["predictions_per_row"], statistics["max_predictions_per_seq"])
    axes.bar(range(len(shares)), shares, color=_A, width=0.8)
    axes.set_title("Predictions per row")
    axes.set_xlabel(f"tokens to predict, at most {statistics['max_predictions_per_seq']}")
    axes.xaxis.get_major_locator().set_params(integer=True)
    _percent_axis(axes)


def _draw_runs(axes, statistics):
    longest = max(map(int, statistics["masked_run_length"]["counts"]), default=1)
    shares = _shares(statistics["masked_run_length"], longest)
    shares, rest = shares[1 : _MOST_RUNS + 1], sum(shares[_MOST_RUNS + 1 :])
    names = [*map(str, range(1, len(shares) + 1)), *([f"{_MOST_RUNS + 1}+"] if rest else [])]
    bars = axes.bar(names, shares + ([rest] if rest else []), color=_KINDS["hidden"], width=0.8)
    axes.bar_label(bars, [_percent(share) for share in bars.datavalues], padding=2, fontsize=7, color=_GREY)
    axes.set_title("Length of masked runs")
    axes.set_xlabel(f"pieces; {statistics['predicted_words_cut_share']:.1%} of the words are predicted only in part")
    axes.margins(y=0.15)
    _percent_axis(axes)


def _draw_place(axes, statistics):
    shares = [float("nan") if share is None else share for share in statistics["predicted_share_by_position"]]
    axes.plot(range(len(shares)), shares, color=_A, linewidth=1)
    axes.axhline(statistics["predicted_share_of_tokens"], color=_GREY, linewidth=0.8, linestyle="--")
    axes.set_ylim(
        0, max([2 * statistics["predicted_share_of_tokens"], *(share * 1.1 for share in shares if share == share)]) or 1
    )
    axes.set_title("Share of tokens predicted, by place in the row")
    axes.set_xlabel("position; dashed line: share of all tokens, with [CLS] and [SEP]")
    _percent_axis(axes)


def _draw_kinds(axes, statistics):
    shares = statistics["label_shares"]
    bars = axes.barh(list(shares), list(shares.values()), color=[_KINDS[kind] for kind in shares], height=0.7)
    axes.bar_label(bars, [f"{share:.2%}" for share in shares.values()], padding=3, fontsize=8, color=_GREY)
    axes.set_title("Replacements of the predicted tokens")
    axes.invert_yaxis()
    axes.set_xlim(0, max(shares.values()) * 1.15 or 1)
    _percent_axis(axes, "x")


def _draw_labels(axes, statistics):
    labels = statistics["most_frequent_labels"]
    axes.set_title("Most frequent labels")
    places = range(len(labels))
    axes.barh(
        [place - 0.2 for place in places],
        [label["share"] for label in labels],
        height=0.4,
        color=_KINDS["hidden"],
        label="of the labels",
    )
    axes.barh(
        [place + 0.2 for place in places],
        [label["share_of_text"] for label in labels],
        height=0.4,
        color="#bbbbbb",
        label="of the text",
    )
    axes.set_yticks(places, [fonts.drawable(label["piece"]) for label in labels])
    axes.set_ylim(max(len(labels), 6) - 0.4, -0.6)
    axes.legend(frameon=False, loc="lower right")
    _percent_axis(axes, "x")


def _histogram(axes, distribution, highest, color, label, alpha=1.0):
    """Draws the shares of the values 0 to `highest` in at most _MAX_BINS bars. Neighbours share a bar."""
    shares = _shares(distribution, highest)
    width = -(-len(shares) // _MAX_BINS)
    joined = [sum(shares[i : i + width]) for i in range(0, len(shares), width)]
    axes.bar(range(0, len(shares), width), joined, width=width, align="edge", color=color, label=label, alpha=alpha)


def _shares(distribution, highest):
    counts = distribution["counts"]
    total = sum(counts.values()) or 1
    return [counts.get(str(value), 0) / total for value in range(highest + 1)]


def _percent_axis(axes, name="y"):
    from matplotlib.ticker import PercentFormatter

    getattr(axes, f"{name}axis").set_major_formatter(PercentFormatter(xmax=1))


def _percent(share):
    return "0" if share == 0 else "<.1%" if share < 0.001 else f"{share:.1%}"

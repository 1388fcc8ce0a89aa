"""The report on a prepared corpus, drawn as one picture."""

from keras_bert_app.drawing import fonts
from keras_bert_app.drawing.figures import picture
from pipelines.plurals import counted

_BARS, _DROPPED, _GREY = "#4477aa", "#cc3311", "#555555"
_MAX_LINES = 15
_MAX_SCRIPTS = 8
_LENGTHS = {
    "sentences_per_document": "Documents by number of sentences",
    "characters_per_document": "Documents by number of characters",
    "characters_per_sentence": "Sentences by number of characters",
}
_FATES = (
    ("duplicates", "equal documents"),
    ("near_duplicates", "near-duplicates"),
    ("heldout_documents_dropped", "held out, also in training"),
    ("invalid_utf8_lines", "lines of invalid UTF-8"),
    ("capped_lines", "overlong lines"),
    ("capped_documents", "overlong documents"),
    ("bad_records", "overlong records"),
)


def draw_corpus_report(report: dict, title: str) -> bytes:
    """Draws histograms of lengths, the scripts, the faults, and the most repeated lines.

    A fault is a document, line or record that was dropped or repaired.

    Args:
        report: dict. The content of report.json, which pipelines.corpus.corpus_report makes.
        title: str. The heading of the picture.

    Returns:
        bytes: the content of a PNG file.
    """
    with picture(14, 8, f"{title}\n{_summary(report)}") as (figure, image):
        # Two subfigures, because long labels of the lower one would shrink the histograms of the upper one.
        above, below = figure.subfigures(2, 1, height_ratios=[1, 1.4])
        axes = {
            **above.subplot_mosaic([[*_LENGTHS]]),
            **below.subplot_mosaic([["scripts", "lines"], ["fates", "lines"]], width_ratios=[1, 1.6]),
        }
        for name, heading in _LENGTHS.items():
            _draw_lengths(axes[name], report["lengths"][name], heading)
        _draw_scripts(axes["scripts"], report["scripts"])
        _draw_fates(axes["fates"], report["counts"])
        _draw_lines(axes["lines"], report["repeated_lines"])
    return image.getvalue()


def _summary(report):
    train, heldout = report["splits"]["train"], report["splits"]["heldout"]
    overlap = report["heldout_overlap"]
    text = (
        f"{counted(train['documents'], 'training document')}, {counted(train['sentences'], 'sentence')}, "
        f"{counted(train['words'], 'word')}, "
        f"{train['text_bytes'] / 1e6:,.1f} MB; {counted(heldout['documents'], 'document')} held out"
    )
    if overlap["sentences"]:
        text += f", {overlap['overlapping'] / overlap['sentences']:.1%} of their sentences overlap with training"
    return text


def _draw_lengths(axes, lengths, heading):
    """Draws a histogram over powers of two."""
    bins = lengths["bins"][1:]  # bin 0 counts values of 0, which have no place between powers of two
    axes.bar(range(len(bins)), [count for _, _, count in bins], color=_BARS, width=0.9)
    axes.set_title(heading)
    ticks = range(0, len(bins) + 1, 2 if len(bins) < 14 else 4)
    axes.set_xticks([place - 0.5 for place in ticks], [f"{1 << place:,}" for place in ticks], fontsize=8)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.text(
        0.99,
        0.97,
        f"mean {lengths['mean']:,.1f}\nlongest {lengths['max']:,}",
        transform=axes.transAxes,
        ha="right",
        va="top",
        fontsize=8,
        color=_GREY,
    )


def _draw_scripts(axes, scripts):
    total = sum(scripts["characters"].values()) or 1
    shares = [(name, count / total) for name, count in scripts["characters"].items()]
    _draw_bars(axes, shares[:_MAX_SCRIPTS], _BARS, lambda share: "<0.1%" if share < 0.001 else f"{share:.1%}")
    is_all = scripts["sampled_documents"] == scripts["all_documents"]
    axes.set_title(
        "Characters by script" if is_all else f"Characters by script (sample of {scripts['sampled_documents']:,})"
    )


def _draw_fates(axes, counts):
    _draw_bars(axes, [(meaning, counts[name]) for name, meaning in _FATES], _DROPPED, "{:,}".format)
    axes.set_title(f"Dropped or repaired ({counted(counts['documents'], 'document')} read)")


def _draw_lines(axes, repeated):
    lines = [(fonts.drawable(line, 60), count) for line, count in repeated["lines"][:_MAX_LINES]]
    error = repeated["counts_too_low_by_at_most"]
    axes.set_title(
        "Most repeated lines of the training documents"
        + (f" (counts may be too low by up to {error:,})" if error else "")
    )
    if lines:
        _draw_bars(axes, lines, _BARS, "{:,} x".format)
    else:
        axes.text(0.5, 0.5, "no line occurs twice", ha="center", va="center", color=_GREY)
        axes.set_axis_off()


def _draw_bars(axes, values, color, label):
    bars = axes.barh(range(len(values)), [value for _, value in values], color=color, height=0.7)
    axes.set_yticks(range(len(values)), [name for name, _ in values])
    axes.bar_label(bars, [label(value) for _, value in values], padding=3, fontsize=8, color=_GREY)
    axes.set_xlim(0, max((value for _, value in values), default=0) * 1.15 or 1)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    axes.set_ylim(max(len(values), 5) - 0.5, -0.5)

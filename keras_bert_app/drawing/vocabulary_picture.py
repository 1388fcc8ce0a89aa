"""The report on a vocabulary, drawn as one picture."""

from keras_bert_app.drawing import fonts
from keras_bert_app.drawing.figures import picture

_WHOLE, _CUT, _UNKNOWN, _GREY = "#4477aa", "#ccbb44", "#cc3311", "#555555"
_MAX_PIECES = 8
_MAX_SCRIPTS = 10
_MAX_SPLITS = 15


def draw_vocabulary_report(report: dict, title: str) -> bytes:
    """Draws the words by number of pieces, the coverage by script, and the longest splits.

    Args:
        report: dict. The result of pipelines.wordpiece.vocabulary_report.vocabulary_report.
        title: str. The heading of the picture.

    Returns:
        bytes: the content of a PNG file.
    """
    with picture(12, 8, f"{title}\n{_summary(report)}", dpi=120) as (figure, image):
        axes = figure.subplot_mosaic([["pieces", "splits"], ["scripts", "splits"]], width_ratios=[1.1, 1])
        _draw_pieces(axes["pieces"], report)
        _draw_scripts(axes["scripts"], report)
        _draw_splits(axes["splits"], report)
    return image.getvalue()


def _summary(report):
    return (
        f"{report['words']:,} words, {report['pieces_per_word']:.3f} pieces per word, "
        f"{report['unknown_word_share']:.3%} of words [UNK], "
        f"{report['entries_used']:,} of {report['entries']:,} entries used ({report['entries_used_share']:.1%})"
    )


def _draw_pieces(axes, report):
    """Draws the shares of words that are cut into 1, 2, ..., "8 or more" pieces."""
    by_pieces = dict(report["words_by_pieces"])
    unknown = by_pieces.pop("[UNK]")
    shares = [0] * _MAX_PIECES
    for pieces, count in by_pieces.items():
        shares[min(int(pieces), _MAX_PIECES) - 1] += count / max(1, report["words"])
    names = [*map(str, range(1, _MAX_PIECES)), f"{_MAX_PIECES}+", "[UNK]"]
    shares.append(unknown / max(1, report["words"]))
    bars = axes.bar(names, shares, color=[_WHOLE] + [_CUT] * (_MAX_PIECES - 1) + [_UNKNOWN], width=0.75)
    axes.bar_label(bars, [_percent(share) for share in shares], padding=2, fontsize=7, color=_GREY)
    axes.set_title("Share of words by number of pieces")
    axes.set_xlabel("pieces of the word")
    _percent_axis(axes.yaxis)
    axes.set_ylim(0, max(shares) * 1.12 or 1)


def _draw_scripts(axes, report):
    """Draws a stacked bar for each script: words of one piece, words of several pieces, and [UNK]."""
    scripts = [(name, script) for name, script in report["scripts"].items() if script["words"]][:_MAX_SCRIPTS]
    names = [f"{name}  ({script['words']:,})" for name, script in scripts]
    left = [0.0] * len(scripts)
    for label, color, share in (
        ("one piece", _WHOLE, lambda script: script["whole_words"]),
        ("cut", _CUT, lambda script: script["words"] - script["whole_words"] - script["unknown_words"]),
        ("[UNK]", _UNKNOWN, lambda script: script["unknown_words"]),
    ):
        widths = [share(script) / script["words"] for _, script in scripts]
        axes.barh(names, widths, left=left, color=color, label=label, height=0.7)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    for row, (_, script) in enumerate(scripts):
        axes.text(
            1.01,
            row,
            f"{_percent(script['unknown_words'] / script['words'])} [UNK]",
            va="center",
            fontsize=8,
            color=_GREY,
            transform=axes.get_yaxis_transform(),
        )
    axes.set_title("Words by script (occurrences)", pad=20)
    axes.legend(ncols=3, frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(-0.01, 0.985), borderpad=0)
    axes.set_xlim(0, 1)
    axes.set_ylim(max(len(scripts), 6) - 0.5, -0.5)
    _percent_axis(axes.xaxis)


def _draw_splits(axes, report):
    """Draws the words with the most pieces, and their occurrences."""
    splits = report["longest_splits"][:_MAX_SPLITS]
    axes.set_title("Words with the most pieces")
    if not splits:
        axes.text(0.5, 0.5, "no word is cut into three pieces or more", ha="center", va="center", color=_GREY)
        axes.set_axis_off()
        return
    lengths = [len(split["pieces"]) for split in splits]
    bars = axes.barh(range(len(splits)), lengths, color=_CUT, height=0.7)
    axes.set_yticks(range(len(splits)), [fonts.drawable(split["word"]) for split in splits])
    axes.bar_label(
        bars,
        [f"{len(split['pieces'])} pieces, {split['count']:,} x" for split in splits],
        padding=3,
        fontsize=8,
        color=_GREY,
    )
    axes.set_xlim(0, max(lengths) * 1.3)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_ylim(max(len(splits), 6) - 0.5, -0.5)


def _percent_axis(axis):
    from matplotlib.ticker import PercentFormatter

    axis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))


def _percent(share):
    return "0" if share == 0 else "<0.1%" if share < 0.001 else f"{share:.1%}"

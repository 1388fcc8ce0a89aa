"""The statistics of pre-training examples as lines of text."""

from collections.abc import Iterator

from keras_bert_app.terminal.text_columns import isolated, printable, width, wrapped

_BAR_WIDTH = 30
_MOST_RUNS = 8
_FEW_BLOCKS = 4  # with fewer finished blocks the measured speed is mostly that of the start


def report_lines(statistics: dict, columns: int = 100) -> Iterator[str]:
    """Yields the lines of a table.

    Args:
        statistics: dict. The result of statistics.Counter.result.
        columns: int. The width of the terminal.
    """
    s = statistics
    yield f"{s['examples']:,} examples in {s['batches']:,} batches"
    for name, value in _named_figures(s):
        yield from wrapped([(word, "") for word in value.split(" ")], f"  {name:24}", columns, False)
    yield ""
    yield "length of masked runs, in pieces (share of the runs; neighbouring units count as one run)"
    yield from _bars(s["masked_run_length"])
    yield ""
    yield "most frequent labels (share of the labels; share of the text)"
    labels = [(isolated(printable(label["piece"])), label) for label in s["most_frequent_labels"]]
    longest = max((width(text) for text, _ in labels), default=0)
    for text, label in labels:
        padding = " " * (longest - width(text))
        yield f"  {text}{padding}  {label['share']:7.2%}  {label['share_of_text']:7.2%}"


def _named_figures(s):
    """Returns (name, text) of each figure of the statistics `s`."""
    rows = [
        (
            "tokens a row",
            f"mean {s['tokens_per_row']['mean']:.1f} of {s['max_seq_length']}; "
            f"{_quartiles(s['tokens_per_row'])}; padding {s['padding_share']:.2%}",
        ),
        ("rows filled to the end", f"{s['full_row_share']:.2%}; their text was cut to fit (or fits by chance)"),
        ("length of A", f"mean {s['a_length']['mean']:.1f}; {_quartiles(s['a_length'])}"),
    ]
    if s["sentence_objective"] != "none":
        rows += [
            ("length of B", f"mean {s['b_length']['mean']:.1f}; {_quartiles(s['b_length'])}"),
            (
                "B random" if s["sentence_objective"] == "nsp" else "A and B swapped",
                f"{s['random_or_swapped_share']:.2%}",
            ),
        ]
    rows += [
        (
            "predictions a row",
            f"mean {s['predictions_per_row']['mean']:.2f} of {s['max_predictions_per_seq']}; "
            f"{_quartiles(s['predictions_per_row'])}; "
            f"{s['predicted_share_of_tokens']:.2%} of the tokens",
        ),
        ("kinds of predictions", ", ".join(f"{kind} {share:.2%}" for kind, share in s["label_shares"].items())),
        ("words predicted", f"{s['predicted_words']:,}; {s['predicted_words_cut_share']:.2%} only in part"),
        ("[MASK] without a label", f"{s['masks_without_label']:,}"),
        ("[UNK] in the text", f"{s['unknown_share']:.3%} of the pieces"),
    ]
    rows += [("of the examples", f"{share:6.2%} {directory}") for directory, share in s.get("corpora", {}).items()]
    rows.append(
        (
            "speed",
            f"{s['tokens_per_second']:,.0f} tokens/s, {s['examples'] / s['seconds']:,.0f} examples/s; "
            f"first batch after {s['seconds_to_first_batch']:.1f} s"
            + (
                f"; mostly the start, {s['blocks_finished']} of the corpus' blocks ended"
                if s["blocks_finished"] < _FEW_BLOCKS
                else ""
            ),
        )
    )
    return rows


def _quartiles(distribution):
    quantiles = distribution["quantiles"]
    return "quartiles " + " ".join(str(quantiles[q]) for q in ("0.25", "0.5", "0.75")) if quantiles else "none"


def _bars(distribution):
    counts = {int(value): count for value, count in distribution["counts"].items()}
    total = sum(counts.values())
    longest = min(max(counts, default=0), _MOST_RUNS)
    shares = {str(length): counts.get(length, 0) / total for length in range(1, longest + 1)}
    rest = sum(count for length, count in counts.items() if length > _MOST_RUNS)
    if rest:
        shares[f"{_MOST_RUNS + 1}+"] = rest / total
    for name, share in shares.items():
        yield f"  {name:>4} {share:7.2%}  {'#' * round(share * _BAR_WIDTH)}".rstrip()

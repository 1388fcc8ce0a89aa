"""The table of the maskings: hidden titles and tasks, with intervals."""

import numpy as np

from examples.comparisons import difference, over_examples, spread
from examples.ernie_masking.hidden_titles import constant


def columns_of(scores, right, mentions, is_word):
    """name -> (score without a model, kind -> float [seeds, examples], articles of the examples or None).

    Args:
        scores: kind -> {name of a task -> its scores, [seeds]}, beside the minutes and the baselines.
        right: kind -> bool [seeds, mentions]. Whether all characters of a hidden title are found.
        mentions: see drawn_mentions.
        is_word: bool [mentions]. Whether the title is a word.
    """
    columns, articles = {}, np.array([number for number, *_ in mentions])
    for name, wanted in (("hidden titles that are words", True), ("other hidden titles", False)):
        if len(places := np.flatnonzero(np.array(is_word) == wanted)):
            is_right = {kind: np.array(rows, float)[:, places] for kind, rows in right.items()}
            columns[f"{len(places):,} {name}"] = constant([mentions[n] for n in places]), is_right, articles[places]
    for name in ("sentiment accuracy", "entity F1"):
        baseline = next(iter(scores.values()))[f"baseline of {name}"][0]
        columns[name] = baseline, {kind: np.array(figures[name])[:, None] for kind, figures in scores.items()}, None
    return columns


def table(columns, times):
    """Yields the scores and the differences of the maskings, over seeds, and of hidden titles also over articles.

    Args:
        columns: see columns_of.
        times: kind -> minutes of pre-training, [seeds]. The three kinds are characters, words, words with entities.
    """
    yield f"\n| what is hidden in pre-training | minutes | {' | '.join(columns)} |\n|{'---|' * (2 + len(columns))}"
    yield f"| no model | | {' | '.join(f'{baseline:.4f}' for baseline, _, _ in columns.values())} |"
    for kind in times:
        cells = [spread(is_right[kind].mean(axis=1)) for _, is_right, _ in columns.values()]
        yield f"| {kind} | {spread(times[kind], 1)} | {' | '.join(cells)} |"
    characters, words, entities = times
    for one, other in ((words, characters), (entities, words), (entities, characters)):
        cells = []
        for _, is_right, articles in columns.values():
            cells.append(difference(is_right[one].mean(axis=1), is_right[other].mean(axis=1)))
            if articles is not None:
                low, high = over_examples(is_right[one], is_right[other], articles)
                cells[-1] += f"; over articles {low:+.4f} to {high:+.4f}"
        yield f"| {one}, minus {other} | | {' | '.join(cells)} |"

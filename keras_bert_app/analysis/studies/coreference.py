"""Attention heads that find the antecedent of a mention.

See Clark et al. 2019, What Does BERT Look At?, section 4.3.

Dimensions: L layers, N heads of each, K kinds of mentions, Q questions (mentions with an antecedent).
"""

from collections.abc import Callable

import numpy as np

from keras_bert_app.analysis import encoded_sentences, encoders, sentence_bootstrap, split_halves, treebank
from keras_bert_app.analysis.coreference_windows import KINDS, Places, Window, baseline_answers, places_of, windows_of
from keras_bert_app.analysis.encoders import Subject
from keras_bert_app.analysis.findings import Findings, Table
from keras_bert_app.analysis.options import Options
from keras_bert_app.drawing import head_maps
from keras_bert_app.terminal.progress import reported

SUMMARY = "heads that look from a mention to its antecedent; baselines: nearest mention, nearest with the same word"
NEEDS = ("dev_file",)
TAKES = ("max_sentences", "num_seeds", "seed")

_NUM_EXAMPLES = 6
_FEWEST = 50  # a remark needs this many mentions of a kind; fewer would show luck


def run(subject: Subject, options: Options, log: Callable[[str], None]) -> Findings:
    """Compares the best head for each kind of mention with two baselines and with untrained encoders.

    Args:
        subject: Subject. The encoder to look into.
        options: Options. Uses dev_file, max_sentences, num_seeds and seed.
        log: Callable. Receives progress lines.

    Returns:
        Findings.

    Raises:
        UserError: the file has no coreference annotation, or no mention has an antecedent in its window.
    """
    trees = treebank.read_trees(options.dev_file, options.most_sentences())
    windows, left_out = windows_of(subject, trees)
    places = places_of(windows)
    log(f"{options.dev_file}: {len(trees):,} sentences in {len(windows):,} windows, {len(places.windows):,} mentions")
    is_right, examples = head_answers(subject, windows, log)
    baselines = baseline_answers(windows)
    untrained = [
        head_answers(encoders.untrained(subject, seed), windows, log)[0]
        for seed in range(options.seed, options.seed + options.num_seeds)
    ]
    rows, maps, best_heads = [], [], []
    for kind in range(len(KINDS)):
        row, accuracy_map, best_head = _row(kind, places, is_right, untrained, baselines)
        rows.append(row)
        maps.append(accuracy_map)
        best_heads.append(best_head)
    picture = head_maps.draw_head_maps(
        [
            (f"{row[0]} ({row[1]:,})", accuracy_map, max(row[6:8]))
            for row, accuracy_map in zip(rows, maps, strict=True)
            if row[1]
        ],
        f"{subject.name}: how often each head finds an antecedent, of all mentions\n"
        "the table measures the best head on mentions that did not choose it\n"
        "dashed line of the scale: the better baseline",
    )
    columns = ("mention", "count", "head", "accuracy", "low", "high", "nearest", "same word")
    columns += ("difference low", "high", "untrained", "spread")
    tables = [Table("The best head for each kind of mention", columns, rows)]
    if examples:
        tables.append(_examples_table(examples, best_heads[KINDS.index("pronoun")]))
    return Findings(
        "coreference",
        f"Coreference: {subject.name}",
        tables,
        _remarks(rows, options, left_out),
        {"coreference.png": picture},
        {"kinds": KINDS, "accuracy": [accuracy_map.tolist() for accuracy_map in maps]},
    )


def _row(kind, places, is_right, untrained, baselines):
    """(cells of a kind's row, float [L, N] of each head's accuracy, (layer, head) of the best head).

    Args:
        is_right: bool [Q, L, N].
        untrained: list of bool [Q, L, N].
        baselines: bool [2, Q].
    """
    asked = places.kinds[:, kind]
    total = int(asked.sum())
    counts = is_right[asked].sum(axis=0)  # [L, N]
    best_head = np.unravel_index(counts.argmax(), counts.shape)
    accuracy_map = counts / max(total, 1)
    shares = [float(answers[asked].mean()) if total else None for answers in baselines]
    row = [KINDS[kind], total, f"{best_head[0] + 1}-{best_head[1] + 1}" if total else None]
    groups = bootstrap_groups(places, asked)
    if groups is None:
        return [*row, None, None, None, *shares, *[None] * 4], accuracy_map, best_head
    fair, *random = (fair_answers(places, asked, answers) for answers in (is_right, *untrained))
    better = baselines[int(np.argmax(shares))][asked]
    row += [
        float(fair.mean()),
        *sentence_bootstrap.share_interval(fair, groups),
        *shares,
        *sentence_bootstrap.difference_interval(fair.astype(float) - better, groups),
        *split_halves.mean_and_spread([answers.mean() for answers in random]),
    ]
    return row, accuracy_map, best_head


def head_answers(subject: Subject, windows: list[Window], log: Callable[[str], None]) -> tuple[np.ndarray, list[tuple]]:
    """Checks the answers of all heads.

    The answer of a head is the candidate that the mention's head word attends to most.

    Args:
        subject: Subject. The encoder.
        windows: list of Window.
        log: Callable. Receives progress lines.

    Returns:
        (is_right, examples).
        is_right: bool [Q, L, N]. Whether the answer is an antecedent.
        examples: list of questions about "its": (words around it, str [L, N] answers, bool [L, N] whether they are
            right, the nearest antecedent).
    """
    right_by_window, examples = [None] * len(windows), []
    encoded = encoded_sentences.encode(subject, [window.words for window in windows], with_attention=True)
    for encoded_window in reported(encoded, len(windows), f"windows through {subject.name}", log):
        window, attention = windows[encoded_window.number], encoded_window.word_attention()
        right_by_window[encoded_window.number] = []
        for head, kinds, candidates, is_right in window.questions:
            answers = attention[:, :, 1 + head, 1 + candidates].argmax(axis=2)
            right_by_window[encoded_window.number].append(is_right[answers])
            if 4 in kinds:
                right = window.words[candidates[np.flatnonzero(is_right)[-1]]]
                examples.append(
                    (
                        window.words[max(0, head - 24) : head + 2],
                        np.array(window.words)[candidates[answers]],
                        is_right[answers],
                        right,
                    )
                )
    return np.stack([answers for window_answers in right_by_window for answers in window_answers]), examples


def bootstrap_groups(places: Places, asked: np.ndarray) -> np.ndarray | None:
    """Groups questions for intervals.

    The groups are documents. If there is one document, they are windows. If there is one window, each question is a
    group.

    Args:
        places: Places.
        asked: bool [Q]. The questions that count.

    Returns:
        int64 [asked], or None if less than two questions count.
    """
    levels = places.documents[asked], places.windows[asked], np.flatnonzero(asked)
    return next((level for level in levels if len(np.unique(level)) > 1), None)


def fair_answers(places: Places, asked: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """Selects the answers of the head that is best on the opposite half of the questions.

    Args:
        places: Places.
        asked: bool [Q]. The questions that count, two at least.
        answers: bool [Q, L, N]. Whether the answers of heads are right.

    Returns:
        bool [asked].
    """
    half = split_halves.assign_halves(places.documents[asked], places.windows[asked], np.flatnonzero(asked))
    return split_halves.cross_half_answers(answers[asked], half)


def _examples_table(examples, best):
    rows = [
        [" ".join(words), str(answers[best]), "yes" if is_right[best] else f"no: {right}"]
        for words, answers, is_right, right in examples[:_NUM_EXAMPLES]
    ]
    return Table(
        f'Strongest attention of head {best[0] + 1}-{best[1] + 1}, the best at pronouns, from "its"',
        ("text", "answer", "right"),
        rows,
    )


def _remarks(rows, options, left_out):
    asked = [row for row in rows if row[1] >= _FEWEST and row[3] is not None]
    verdicts = [
        f"{row[0]} ({row[2]}): {row[3]:.4f} ({sentence_bootstrap.written(row[4:6])}), "
        f"{sentence_bootstrap.compared(row[8:10])} the better baseline ({max(row[6:8]):.4f}; difference {row[8]:.4f} "
        f"to {row[9]:.4f})"
        for row in asked
    ]
    above = [row[0] for row in asked if row[8] > 0]
    return [
        (
            f"A head is above both baselines at {', '.join(above)}."
            if above
            else "Every head is below the better baseline: Clark et al.'s coreference head does not show here."
            if asked and all(row[9] < 0 for row in asked)
            else f"No kind of {_FEWEST} mentions or more has a head that is shown to be above both baselines."
        ),
        *(["; ".join(verdicts) + "."] if verdicts else []),
        "An attention head answers with the earlier mention whose head word gets most attention from the head word of "
        'the mention. The baseline "same word" answers with the nearest mention that has the same head word, or else '
        "with the nearest one. All earlier mentions of the window are candidates; only mentions with an antecedent in "
        "the window count.",
        "One half of the documents chooses the best head, and the other half measures it; then the halves change "
        "roles. A kind of mention that occurs in only one document is halved by its windows, or else by its mentions. "
        "The table names the head that is best on all documents. untrained and spread: mean and standard deviation of "
        f"{options.num_seeds} encoders with random weights. Intervals cover 95 % and come from documents (or the parts "
        "that were halved) that are drawn again with replacement.",
        f"{left_out:,} of the sentences were longer than the model's positions; their mentions do not count.",
    ]

"""Attention heads that find the antecedent of a mention.

See Clark et al. 2019, What Does BERT Look At?, section 4.3.

Dimensions: L layers, N heads of each, K kinds of mentions, Q questions (mentions with an antecedent).
"""

import collections
import dataclasses
import typing
from collections.abc import Callable

import numpy as np

from keras_bert_app.analysis import encoded_sentences, encoders, mentions, split_halves, treebank
from keras_bert_app.analysis.encoders import Subject
from keras_bert_app.analysis.findings import Findings, Table
from keras_bert_app.analysis.options import Options
from keras_bert_app.drawing import head_maps
from keras_bert_app.errors import UserError
from keras_bert_app.terminal.progress import reported

SUMMARY = "heads that look from a mention to its antecedent, beside the nearest mention and the nearest of its word"
NEEDS = ("dev_file",)

KINDS = ("all", "pronoun", "proper name", "other", '"its"')
_LONGEST_WINDOW = 512  # tokens: the length that BERT was trained for
_NUM_EXAMPLES = 6
_FEWEST = 50  # mentions of a kind that a remark needs; fewer would show luck


class Question(typing.NamedTuple):
    """A mention with C candidates, at least one of which is an antecedent.

    Attributes:
        head: int. The head word of the mention.
        kinds: list of int. The kinds of the mention in KINDS.
        candidates: int64 [C]. The head words of earlier mentions, ascending.
        is_antecedent: bool [C].
    """

    head: int
    kinds: list
    candidates: np.ndarray
    is_antecedent: np.ndarray


@dataclasses.dataclass(frozen=True)
class Window:
    """Sentences of one document that are encoded together.

    Attributes:
        document: int. The number of the document.
        words: tuple of str.
        questions: list of Question.
    """

    document: int
    words: tuple
    questions: list


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
            (f"{row[0]} ({row[1]:,})", accuracy_map, max(row[4:6]))
            for row, accuracy_map in zip(rows, maps, strict=True)
            if row[1]
        ],
        f"{subject.name}: how often each head finds an antecedent, of all mentions\n"
        "the table counts the best head on others than it was chosen by\n"
        "dashed line of the scale: the better baseline",
    )
    columns = ("mention", "count", "head", "accuracy", "nearest", "same word", "untrained", "spread")
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
    accuracy, *untrained_accuracy = (fair_share(places, asked, answers) for answers in (is_right, *untrained))
    row = [
        KINDS[kind],
        total,
        f"{best_head[0] + 1}-{best_head[1] + 1}" if total else None,
        accuracy,
        *(float(answers[asked].mean()) if total else None for answers in baselines),
        *split_halves.mean_and_spread(untrained_accuracy),
    ]
    return row, counts / max(total, 1), best_head


def windows_of(subject: Subject, trees: list[treebank.Tree]) -> tuple[list[Window], int]:
    """Groups consecutive sentences of a document into windows that fit into the encoder's positions.

    Args:
        subject: Subject. The encoder.
        trees: list of treebank.Tree.

    Returns:
        (list of Window, int): the windows, and the number of sentences that are too long for any window.

    Raises:
        UserError: no mention has an antecedent in its window.
    """
    mentions_by_sentence = collections.defaultdict(list)
    for mention in mentions.read_mentions(trees):
        mentions_by_sentence[mention.sentence].append(mention)
    sizes = encoded_sentences.num_tokens(subject, [tree.words for tree in trees]) - 2
    most = subject.config.max_position_embeddings - 2
    limit = min(_LONGEST_WINDOW - 2, most)
    groups, window_size = [], 0
    for number, (tree, size) in enumerate(zip(trees, sizes, strict=True)):
        if size > most:
            continue
        if not groups or trees[groups[-1][0]].document != tree.document or window_size + size > limit:
            groups.append([])
            window_size = 0
        groups[-1].append(number)
        window_size += size
    windows = [_window([(trees[number], mentions_by_sentence[number]) for number in group]) for group in groups]
    if not any(window.questions for window in windows):
        raise UserError(
            f"{trees[0].path}: no mention of the {len(trees):,} sentences that were read has an antecedent in its "
            f"{limit} tokens; give more sentences"
        )
    return windows, int(np.sum(sizes > most))


def _window(sentences):
    words, questions, earlier = (), [], []  # earlier: (head in the window, entity)
    for tree, sentence_mentions in sentences:
        for mention in sentence_mentions:
            head = len(words) + mention.head
            candidates = np.array(sorted({other for other, _ in earlier if other < head}), np.int64)
            antecedents = {other for other, entity in earlier if other < head and entity == mention.entity}
            if antecedents:
                word, tag = tree.words[mention.head].lower(), tree.tags[mention.head]
                kinds = [0, {"PRON": 1, "PROPN": 2}.get(tag, 3)] + [4] * (word == "its")
                is_antecedent = np.array([other in antecedents for other in candidates])
                questions.append(Question(head, kinds, candidates, is_antecedent))
            earlier.append((head, mention.entity))
        words += tree.words
    return Window(sentences[0][0].document, words, questions)


@dataclasses.dataclass(frozen=True)
class Places:
    """The places of the Q questions of all windows, in the order of windows and of their questions.

    Attributes:
        windows: int64 [Q]. The window of each question.
        documents: int64 [Q]. The document of each question.
        kinds: bool [Q, K]. The kinds of each mention.
    """

    windows: np.ndarray
    documents: np.ndarray
    kinds: np.ndarray


def places_of(windows: list[Window]) -> Places:
    """Lists the places of the questions of all windows.

    Args:
        windows: list of Window.

    Returns:
        Places.
    """
    asked = [
        (number, window.document, kinds) for number, window in enumerate(windows) for _, kinds, *_ in window.questions
    ]
    return Places(
        *(np.array([question[at] for question in asked]) for at in (0, 1)),
        np.array([[kind in kinds for kind in range(len(KINDS))] for *_, kinds in asked]),
    )


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


def baseline_answers(windows: list[Window]) -> np.ndarray:
    """Checks the answers of both baselines.

    The first answer is the nearest earlier mention. The second is the nearest earlier mention with the same head word,
    or else the nearest one.

    Args:
        windows: list of Window.

    Returns:
        bool [2, Q]. Whether each answer is an antecedent.
    """
    is_right_pairs = []
    for window in windows:
        words = [word.lower() for word in window.words]
        for head, _, candidates, is_right in window.questions:
            same = [place for place, other in enumerate(candidates) if words[other] == words[head]]
            is_right_pairs.append((is_right[-1], is_right[same[-1] if same else -1]))
    return np.array(is_right_pairs).T


def fair_share(places: Places, asked: np.ndarray, answers: np.ndarray) -> float | None:
    """Computes the share of right answers, with the best head of each half counted on the other half.

    Args:
        places: Places.
        asked: bool [Q]. The questions that count.
        answers: bool [Q, L, N]. Whether the answers of heads are right.

    Returns:
        float, or None if less than two questions count.
    """
    half = split_halves.assign_halves(places.documents[asked], places.windows[asked], np.flatnonzero(asked))
    if half is None:
        return None
    return split_halves.cross_half_share(
        np.stack([answers[asked][half == which].sum(axis=0) for which in (False, True)]), np.bincount(half, minlength=2)
    )


def _examples_table(examples, best):
    rows = [
        [" ".join(words), str(answers[best]), "yes" if is_right[best] else f"no: {right}"]
        for words, answers, is_right, right in examples[:_NUM_EXAMPLES]
    ]
    return Table(
        f'What head {best[0] + 1}-{best[1] + 1}, the best at pronouns, looks at from "its"',
        ("text", "answer", "right"),
        rows,
    )


def _remarks(rows, options, left_out):
    above = [row for row in rows if row[1] >= _FEWEST and row[3] is not None and row[3] > max(row[4:6]) + 0.01]
    return [
        (
            "A head is above both baselines at "
            + ", ".join(f"{row[0]} ({row[2]}: {row[3]:.0%}, baseline {max(row[4:6]):.0%})" for row in above)
            + "."
            if above
            else "No head is above both baselines at any kind of mention: Clark et al.'s coreference head does not "
            "show here."
        ),
        "A head's answer is the earlier mention whose head word the mention's head word attends to most; same word: "
        "the nearest mention with the same head word, or else the nearest. All earlier mentions of the window are "
        "candidates; only mentions with an antecedent in it are asked for.",
        "Best heads are chosen in one half of the documents and counted in the other, both ways; of a kind that stands "
        "in one document alone, in halves of its windows or else of its mentions. The ones named are the best on all. "
        f"untrained: encoders of random weights ({options.num_seeds}), mean and standard deviation.",
        f"{left_out:,} of the sentences were longer than the model's positions, and their mentions are nowhere "
        "counted.",
    ]

"""Which attention heads find what a mention refers to (Clark et al. 2019, What Does BERT Look At?, section 4.3).

Dimensions: L layers, N heads of each, K kinds of mentions, Q mentions that are asked for.
"""

import collections
import dataclasses

import numpy as np

from keras_bert_app.analysis import encoded_sentences, encoders, halves, mentions, treebank
from keras_bert_app.analysis.findings import Findings, Table
from keras_bert_app.drawing import head_maps
from keras_bert_app.errors import UserError
from keras_bert_app.terminal.progress import reported

SUMMARY = "heads that look from a mention to its antecedent, beside the nearest mention and the nearest of its word"
NEEDS = ("dev_file",)

KINDS = ("all", "pronoun", "proper name", "other", '"its"')
_LONGEST_WINDOW = 512  # tokens: what BERT was made for
_NUM_EXAMPLES = 6
_FEWEST = 50  # mentions of a kind; below, a remark would speak of luck


@dataclasses.dataclass(frozen=True)
class Window:
    """Sentences of one document that are encoded together.

    Attributes:
        document: its number. words: tuple of str. questions: list of (word that is the head of a mention, kinds: list
            of numbers of KINDS, candidates: int64 [C], the heads of earlier mentions, ascending; bool [C]: whether it
            is an antecedent). One antecedent at least is among them.
    """

    document: int
    words: tuple
    questions: list


def run(subject, options, log):
    trees = treebank.read_trees(options.dev_file, options.most_sentences())
    windows, left_out = windows_of(subject, trees)
    places = places_of(windows)
    log(f"{options.dev_file}: {len(trees):,} sentences in {len(windows):,} windows, {len(places.windows):,} mentions")
    found, examples = head_answers(subject, windows, log)
    nearest, same_word = baseline_answers(windows)
    random = [
        head_answers(encoders.untrained(subject, seed), windows, log)[0]
        for seed in range(options.seed, options.seed + options.num_seeds)
    ]
    rows, maps, bests = [], [], []
    for kind, name in enumerate(KINDS):
        asked = places.kinds[:, kind]
        total = int(asked.sum())
        counts = found[asked].sum(axis=0)  # [L, N]
        bests.append(np.unravel_index(counts.argmax(), counts.shape))
        accuracy, *untrained = (fair_share(places, asked, answers) for answers in (found, *random))
        baselines = [float(answers[asked].mean()) if total else None for answers in (nearest, same_word)]
        rows.append(
            [
                name,
                total,
                f"{bests[-1][0] + 1}-{bests[-1][1] + 1}" if total else None,
                accuracy,
                *baselines,
                *halves.mean_and_spread(untrained),
            ]
        )
        maps.append(counts / max(total, 1))
    picture = head_maps.draw_head_maps(
        [(f"{row[0]} ({row[1]:,})", one, max(row[4:6])) for row, one in zip(rows, maps) if row[1]],
        f"{subject.name}: how often each head finds an antecedent, of all mentions\n"
        "the table counts the best head on others than it was chosen by\ndashed line of the scale: the better baseline",
    )
    tables = [
        Table(
            "The best head for each kind of mention",
            ("mention", "count", "head", "accuracy", "nearest", "same word", "untrained", "spread"),
            rows,
        )
    ]
    if examples:
        tables.append(_examples_table(examples, bests[KINDS.index("pronoun")]))
    return Findings(
        "coreference",
        f"Coreference: {subject.name}",
        tables,
        _remarks(rows, options, left_out),
        {"coreference.png": picture},
        {"kinds": KINDS, "accuracy": [one.tolist() for one in maps]},
    )


def windows_of(subject, trees):
    """(list of Window: consecutive sentences of a document, as many as fit into the encoder's positions; how many sentences
    are longer than those, and in none).

    Raises:
        UserError: no mention has an antecedent in its window.
    """
    spoken = collections.defaultdict(list)
    for mention in mentions.read_mentions(trees):
        spoken[mention.sentence].append(mention)
    sizes = encoded_sentences.num_tokens(subject, [tree.words for tree in trees]) - 2
    most = subject.config.max_position_embeddings - 2
    limit = min(_LONGEST_WINDOW - 2, most)
    groups = []
    for number, (tree, size) in enumerate(zip(trees, sizes)):
        if size > most:
            continue
        if not groups or trees[groups[-1][0]].document != tree.document or used + size > limit:
            groups.append([])
            used = 0
        groups[-1].append(number)
        used += size
    windows = [_window([(trees[number], spoken[number]) for number in group]) for group in groups]
    if not any(window.questions for window in windows):
        raise UserError(
            f"{trees[0].path}: no mention of the {len(trees):,} sentences that were read has an antecedent in its "
            f"{limit} tokens; give more sentences"
        )
    return windows, int(np.sum(sizes > most))


def _window(ours):
    words, questions, earlier = (), [], []  # earlier: (head in the window, entity)
    for tree, spoken in ours:
        for mention in spoken:
            head = len(words) + mention.head
            candidates = np.array(sorted({other for other, _ in earlier if other < head}), np.int64)
            antecedents = {other for other, entity in earlier if other < head and entity == mention.entity}
            if antecedents:
                word, tag = tree.words[mention.head].lower(), tree.tags[mention.head]
                kinds = [0, {"PRON": 1, "PROPN": 2}.get(tag, 3)] + [4] * (word == "its")
                questions.append((head, kinds, candidates, np.array([other in antecedents for other in candidates])))
            earlier.append((head, mention.entity))
        words += tree.words
    return Window(ours[0][0].document, words, questions)


@dataclasses.dataclass(frozen=True)
class Places:
    """Where the questions of windows stand, in the order of windows and of each one's questions: Q of them.

    Attributes:
        windows, documents: int64 [Q], numbers. kinds: bool [Q, K], which of KINDS each mention is.
    """

    windows: np.ndarray
    documents: np.ndarray
    kinds: np.ndarray


def places_of(windows):
    """The Places of all questions of a list of Window."""
    asked = [
        (number, window.document, kinds) for number, window in enumerate(windows) for _, kinds, *_ in window.questions
    ]
    return Places(
        *(np.array([one[at] for one in asked]) for at in (0, 1)),
        np.array([[kind in kinds for kind in range(len(KINDS))] for *_, kinds in asked]),
    )


def head_answers(subject, windows, log):
    """(bool [Q, L, N]: whether the candidate that the mention's head attends to most is an antecedent; examples of "its": list
    of (words around it, str [L, N]: the heads' answers, bool [L, N]: whether they are right, the nearest antecedent))."""
    found, examples = [None] * len(windows), []
    encoded = encoded_sentences.encode(subject, [window.words for window in windows], with_attention=True)
    for one in reported(encoded, len(windows), f"windows through {subject.name}", log):
        window, attention = windows[one.number], one.word_attention()
        found[one.number] = []
        for head, kinds, candidates, is_right in window.questions:
            answers = attention[:, :, 1 + head, 1 + candidates].argmax(axis=2)
            found[one.number].append(is_right[answers])
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
    return np.stack([answers for of_window in found for answers in of_window]), examples


def baseline_answers(windows):
    """bool [2, Q]: whether the nearest earlier mention is an antecedent; the nearest whose head is the same word, or else the
    nearest."""
    found = []
    for window in windows:
        words = [word.lower() for word in window.words]
        for head, _, candidates, is_right in window.questions:
            same = [place for place, other in enumerate(candidates) if words[other] == words[head]]
            found.append((is_right[-1], is_right[same[-1] if same else -1]))
    return np.array(found).T


def fair_share(places, asked, answers):
    """The share of the questions asked that heads answer, each half counted with the head that is best on the other; None
    where there is one question or none.

    Args:
        asked: bool [Q]. answers: bool [Q, L, N].
    """
    half = halves.split(places.documents[asked], places.windows[asked], np.flatnonzero(asked))
    if half is None:
        return None
    return halves.share(
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
            else "No head is above both baselines at any kind of mention: Clark et al.'s coreference head does not show here."
        ),
        "A head's answer is the earlier mention whose head word the mention's head word attends to most; same word: "
        "the nearest mention with the same head word, or else the nearest. All earlier mentions of the window are "
        "candidates; only mentions with an antecedent in it are asked for.",
        "Best heads are chosen in one half of the documents and counted in the other, both ways; of a kind that stands in one "
        "document alone, in halves of its windows or else of its mentions. The ones named are "
        f"the best on all. untrained: encoders of random weights ({options.num_seeds}), mean and standard deviation.",
        f"{left_out:,} of the sentences were longer than the model's positions, and their mentions are nowhere counted.",
    ]

"""Attention heads that follow dependency relations.

See Clark et al. 2019, What Does BERT Look At?, section 4.2.

Dimensions: L layers, N heads of each, W words, T words of all trees that count, R relations.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from keras_bert_app.analysis import encoded_sentences, encoders, sentence_bootstrap, split_halves, treebank
from keras_bert_app.analysis.encoders import Subject
from keras_bert_app.analysis.findings import Findings, Table
from keras_bert_app.analysis.options import Options
from keras_bert_app.analysis.studies import attention_parser
from keras_bert_app.drawing import head_maps
from keras_bert_app.terminal.progress import reported

SUMMARY = "heads whose strongest attention is a word's head in the tree, by relation; a parser of attention alone"
NEEDS = ("dev_file",)
TAKES = ("train_file", "max_sentences", "num_seeds", "seed")

DIRECTIONS = ("dependent->head", "head->dependent")
_LONGEST_OFFSET = 10
# Each half of the trees needs half of these words of a relation. With fewer words, the best of many heads may be only
# the luckiest one.
_FEWEST = 50
_MOST_MAPS = 8
ALL = "(all but punct)"


def run(subject: Subject, options: Options, log: Callable[[str], None]) -> Findings:
    """Compares the best head for each relation with the best fixed offset and with untrained encoders.

    With a training file, the analysis also trains a parser that weighs all heads (attention_parser).

    Args:
        subject: Subject. The encoder to look into.
        options: Options. Uses dev_file, train_file, max_sentences, num_seeds and seed.
        log: Callable. Receives progress lines.

    Returns:
        Findings.

    Raises:
        UserError: no sentence fits into the encoder's positions, or a file is no treebank.
    """
    trees, left_out = encoded_sentences.fitting(
        subject, treebank.read_trees(options.dev_file, options.most_sentences()), options.dev_file
    )
    training = attention_parser.read_training(subject, options, trees) if options.train_file else None
    names = relation_names(trees)
    log(f"{options.dev_file}: {len(trees):,} trees")
    words = words_of(trees, names)
    is_right = head_answers(subject, trees, log)
    untrained = [
        head_answers(encoders.untrained(subject, seed), trees, log)
        for seed in range(options.seed, options.seed + options.num_seeds)
    ]
    rows, best_heads = [], {}
    for relation, name in enumerate(names):
        row, best_heads[name] = _row(name, relation, words, is_right, untrained)
        rows.append(row)
    rows[1:] = sorted(rows[1:], key=lambda row: row[3] - row[7], reverse=True)
    accuracy = _accuracy(is_right, words)
    picture = _picture(subject, rows, names, words, accuracy, best_heads)
    tables = [
        Table(
            "The best head at each relation",
            (
                *("relation", "words", "head", "accuracy", "low", "high", "offset", "accuracy of the offset"),
                *("difference low", "high", "untrained", "spread"),
            ),
            rows,
        )
    ]
    remarks = _remarks(rows, options, left_out)
    values = {"relations": names, "directions": DIRECTIONS, "accuracy": accuracy.tolist()}
    if training:
        table, lines = attention_parser.parser_table(subject, options, training, trees, log)
        tables.append(table)
        remarks += lines
    else:
        remarks.append("Give --train_file for the parser that weighs all heads (Clark et al. 2019, section 5).")
    return Findings(
        "grammar_heads", f"Heads and grammar: {subject.name}", tables, remarks, {"grammar_heads.png": picture}, values
    )


def _picture(subject, rows, names, words, accuracy, best_heads):
    """PNG: maps of all heads for the first relations of the table."""
    offset_accuracy = _accuracy(words.by_offset, words).max(axis=0)  # [R]
    return head_maps.draw_head_maps(
        [
            (
                f"{row[0]}, {row[2].split(' ', 1)[1]}",
                accuracy[best_heads[row[0]][0], :, :, names.index(row[0])],
                offset_accuracy[names.index(row[0])],
            )
            for row in rows[1 : _MOST_MAPS + 1] or rows
        ],
        f"{subject.name}: how often each head finds the word's head, of all words\n"
        "the table measures the best head on words that did not choose it\n"
        "dashed line of the scale: the best fixed offset",
    )


def relation_names(trees: list[treebank.Tree]) -> list[str]:
    """Selects the relations to report.

    Args:
        trees: list of treebank.Tree.

    Returns:
        list of str [R]: ALL, then the relations that are frequent in both halves of the trees, without root and punct.
    """
    counts = [{}, {}]
    for number, tree in enumerate(trees):
        for relation in tree.relations:
            counts[number % 2][relation] = counts[number % 2].get(relation, 0) + 1
    frequent = {name for name, count in counts[0].items() if min(count, counts[1].get(name, 0)) * 2 >= _FEWEST}
    return [ALL, *sorted(frequent - {"root", "punct"})]


@dataclasses.dataclass(frozen=True)
class Words:
    """The words of all trees that count: all words except words with the relation root or punct.

    Attributes:
        sentences: int64 [T]. The number of each word's tree.
        is_of: bool [T, R]. Whether each word has each relation. All words have ALL.
        by_offset: bool [T, offsets]. Whether the word's head stands at each offset.
    """

    sentences: np.ndarray
    is_of: np.ndarray
    by_offset: np.ndarray

    def half_of_word(self) -> np.ndarray:
        """Returns bool [T]: the half of each word. True for words of trees with odd numbers."""
        return self.sentences % 2 == 1


def words_of(trees: list[treebank.Tree], names: list[str]) -> Words:
    """Collects the words that count.

    Args:
        trees: list of treebank.Tree.
        names: list of str [R]. See relation_names.

    Returns:
        Words.
    """
    number_of, sentences, is_of, by_offset = {name: at for at, name in enumerate(names)}, [], [], []
    for number, tree in enumerate(trees):
        has_relation = relations_of(tree, number_of) > 0
        counts = has_relation[:, number_of[ALL]]
        sentences += [number] * int(counts.sum())
        is_of.append(has_relation[counts])
        by_offset.append((tree.heads == np.arange(len(tree)) + offsets()[:, None]).T[counts])
    return Words(np.array(sentences, np.int64), np.concatenate(is_of), np.concatenate(by_offset))


def head_answers(subject: Subject, trees: list[treebank.Tree], log: Callable[[str], None]) -> np.ndarray:
    """Checks the answers of all heads for the words that count. See words_of.

    The answer is the word that the dependent attends to most, or the word that attends most to the dependent. Attention
    to [CLS], [SEP] and the word itself does not count, as in Clark et al.

    Args:
        subject: Subject. The encoder.
        trees: list of treebank.Tree. All of them fit into the encoder's positions.
        log: Callable. Receives progress lines.

    Returns:
        bool [T, 2, L, N]. Whether each answer is right; axis 1 follows DIRECTIONS.
    """
    config, right_by_tree = subject.config, [None] * len(trees)
    encoded = encoded_sentences.encode(subject, [tree.words for tree in trees], with_attention=True)
    for sentence in reported(encoded, len(trees), f"sentences through {subject.name}", log):
        tree = trees[sentence.number]
        counts = relations_of(tree, {ALL: 0})[:, 0] > 0
        if len(tree) > 1:
            is_right = answers(sentence.word_attention()) == tree.heads
        else:  # a word alone has no other word to attend to
            is_right = np.zeros((2, config.num_hidden_layers, config.num_attention_heads, len(tree)), bool)
        right_by_tree[sentence.number] = np.moveaxis(is_right, 3, 0)[counts]
    return np.concatenate(right_by_tree)


def _accuracy(is_right, words):
    """float [..., R]: the share of right answers, bool [T, ...], at each relation."""
    shares = [is_right[asked].mean(axis=0) if asked.any() else np.zeros(is_right.shape[1:]) for asked in words.is_of.T]
    return np.stack(shares, axis=-1)


def offsets() -> np.ndarray:
    """Returns int64 [offsets]: -10 to 10 without 0."""
    return np.concatenate([np.arange(-_LONGEST_OFFSET, 0), np.arange(1, _LONGEST_OFFSET + 1)])


def relations_of(tree: treebank.Tree, number_of: dict[str, int]) -> np.ndarray:
    """Marks the relation of each word.

    Args:
        tree: treebank.Tree.
        number_of: dict of relation name -> its place among R.

    Returns:
        int64 [W, R]. 1 for the word's relation, and for ALL unless the relation is root or punct.
    """
    is_of = np.zeros((len(tree), len(number_of)), np.int64)
    for word, relation in enumerate(tree.relations):
        if relation not in ("root", "punct"):
            is_of[word, number_of[ALL]] = 1
            if relation in number_of:
                is_of[word, number_of[relation]] = 1
    return is_of


def answers(attention: np.ndarray) -> np.ndarray:
    """Finds the syntactic head that each attention head predicts for each word.

    Args:
        attention: float [L, N, W + 2, W + 2]. See Encoded.word_attention; at least two words.

    Returns:
        int64 [2, L, N, W]. Axis 0 follows DIRECTIONS.
    """
    attention = attention[:, :, 1:-1, 1:-1].copy()
    diagonal = np.arange(attention.shape[-1])
    attention[:, :, diagonal, diagonal] = -1.0
    return np.stack([attention.argmax(axis=3), attention.argmax(axis=2)])


def _row(name, relation, words, is_right, untrained):
    """The table row of a relation.

    Args:
        relation: int. The place of the relation among R.
        words: Words.
        is_right: bool [T, 2, L, N]. See head_answers.
        untrained: list of bool [T, 2, L, N]. Like is_right, for encoders with random weights.

    Returns:
        (cells, (direction, layer, head) of the best head).
    """
    asked = words.is_of[:, relation]
    half, sentences, head_is_at = words.half_of_word()[asked], words.sentences[asked], words.by_offset[asked]
    best = np.unravel_index(is_right[asked].sum(axis=0).argmax(), is_right.shape[1:])
    offset, (direction, layer, head) = offsets()[head_is_at.sum(axis=0).argmax()], map(int, best)
    row = [name, int(asked.sum()), f"{layer + 1}-{head + 1} {DIRECTIONS[direction]}"]
    if len(np.unique(half)) < 2:  # all words are in one half, so no other half can choose the head
        return [*row, None, None, None, f"{offset:+d}", *[None] * 5], (direction, layer, head)
    right, by_offset = (split_halves.cross_half_answers(answer[asked], half) for answer in (is_right, words.by_offset))
    random = [split_halves.cross_half_answers(answer[asked], half).mean() for answer in untrained]
    return [
        *row,
        float(right.mean()),
        *sentence_bootstrap.share_interval(right, sentences),
        f"{offset:+d}",
        float(by_offset.mean()),
        *sentence_bootstrap.difference_interval(right.astype(float) - by_offset, sentences),
        *split_halves.mean_and_spread(random),
    ], (direction, layer, head)


def _remarks(rows, options, left_out):
    above = [row for row in rows[1:] if row[8] > 0]
    below = [row[0] for row in rows[1:] if row[9] < 0]
    named = ", ".join(
        f"{row[2].split()[0]} at {row[0]} ({row[3]:.0%}, offset {row[7]:.0%}, difference {row[8]:.1%} to {row[9]:.1%})"
        for row in above[:6]
    )
    far = sum(row[3] - row[7] >= 0.1 for row in above)
    unknown = len(rows) - 1 - len(above) - len(below)
    verdict = (
        f": {named}. "
        if above
        else ": these sentences do not decide it. "
        if unknown or len(rows) == 1
        else ": Clark et al.'s finding does not show here. "
    )
    return [
        f"{len(above)} of {len(rows) - 1} relations have a head above the best fixed offset, {far} of them by 10 "
        f"points or more{verdict}"
        f"{len(below)} are below it{': ' if below else ''}{', '.join(below)}; {unknown} are not decided. The 95 % "
        "interval of the difference decides; if nothing differed, 2.5 % of the relations would be above by chance.",
        "Heads are named layer-head, from 1. One half of the sentences chooses the best head and offset, and the other "
        "half measures them; then the halves change roles. The table names the head and the offset that are best on "
        f"all sentences. untrained and spread: mean and standard deviation of {options.num_seeds} encoders with random "
        "weights. Intervals come from sentences that are drawn again with replacement, with the same choices.",
        f"The table has the relations with at least {_FEWEST // 2} words in each half, without root and punct. "
        f"{left_out:,} sentences were longer than the model's positions and do not count.",
    ]

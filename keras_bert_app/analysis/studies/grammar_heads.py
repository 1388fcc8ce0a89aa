"""Attention heads that follow dependency relations.

See Clark et al. 2019, What Does BERT Look At?, section 4.2.

Dimensions: L layers, N heads of each, W words, R relations.
"""

from collections.abc import Callable

import numpy as np

from keras_bert_app.analysis import encoded_sentences, encoders, split_halves, treebank
from keras_bert_app.analysis.encoders import Subject
from keras_bert_app.analysis.findings import Findings, Table
from keras_bert_app.analysis.options import Options
from keras_bert_app.analysis.studies import attention_parser
from keras_bert_app.drawing import head_maps
from keras_bert_app.terminal.progress import reported

SUMMARY = "heads whose strongest attention is a word's head in the tree, by relation; a parser of attention alone"
NEEDS = ("dev_file",)

DIRECTIONS = ("dependent->head", "head->dependent")
_LONGEST_OFFSET = 10
_FEWEST = 50  # words of a relation; with fewer, the best of many heads is the luckiest one
_MOST_MAPS = 8
ALL = "(all but punct)"


def run(subject: Subject, options: Options, log: Callable[[str], None]) -> Findings:
    """Compares the best head for each relation with the best fixed offset and with untrained encoders.

    With a training file, a parser that weighs all heads follows (attention_parser).

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
    counts = head_counts(subject, trees, names, log)
    untrained = [
        head_counts(encoders.untrained(subject, seed), trees, names, log)[0]
        for seed in range(options.seed, options.seed + options.num_seeds)
    ]
    rows, best_heads = [], {}
    for relation, name in enumerate(names):
        row, best_heads[name] = _row(name, relation, counts, untrained)
        rows.append(row)
    rows[1:] = sorted(rows[1:], key=lambda row: row[3] - row[5], reverse=True)
    accuracy = counts[0].sum(axis=0) / np.maximum(counts[2].sum(axis=0), 1)  # [2, L, N, R]
    picture = _picture(subject, rows, names, counts, accuracy, best_heads)
    tables = [
        Table(
            "The best head at each relation",
            ("relation", "words", "head", "accuracy", "offset", "its accuracy", "untrained", "spread"),
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


def _picture(subject, rows, names, counts, accuracy, best_heads):
    """PNG: maps of all heads for the first relations of the table."""
    offset_accuracy = (counts[1].sum(axis=0) / np.maximum(counts[2].sum(axis=0), 1)).max(axis=0)  # [R]
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
        "the table counts the best head on other words than it was chosen by\n"
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


def head_counts(
    subject: Subject, trees: list[treebank.Tree], names: list[str], log: Callable[[str], None]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts right answers of heads and of fixed offsets.

    Axis 0 of each count has two halves of the data: the trees of even and of odd number.

    Attention to [CLS], [SEP] and the word itself does not count, as in Clark et al.

    Args:
        subject: Subject. The encoder.
        trees: list of treebank.Tree. All of them fit into the encoder's positions.
        names: list of str [R]. See relation_names.
        log: Callable. Receives progress lines.

    Returns:
        (heads, away, words).
        heads: int64 [2, 2, L, N, R]. The right answers; axis 1 is that of DIRECTIONS. The answer is the word that the
            dependent attends to most, or the word that attends most to the dependent.
        away: int64 [2, offsets, R]. How often the head stands at each offset.
        words: int64 [2, R]. The number of words.
    """
    config, number_of = subject.config, {name: at for at, name in enumerate(names)}
    heads = np.zeros((2, 2, config.num_hidden_layers, config.num_attention_heads, len(names)), np.int64)
    away, words = np.zeros((2, 2 * _LONGEST_OFFSET, len(names)), np.int64), np.zeros((2, len(names)), np.int64)
    encoded = encoded_sentences.encode(subject, [tree.words for tree in trees], with_attention=True)
    for sentence in reported(encoded, len(trees), f"sentences through {subject.name}", log):
        tree, half = trees[sentence.number], sentence.number % 2
        is_of = relations_of(tree, number_of)
        words[half] += is_of.sum(axis=0)
        away[half] += (tree.heads == np.arange(len(tree)) + offsets()[:, None]) @ is_of
        if len(tree) > 1:
            heads[half] += (answers(sentence.word_attention()) == tree.heads) @ is_of
    return heads, away, words


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
    """Finds the answer of each head: the word that it takes for the head of each word.

    Args:
        attention: float [L, N, W + 2, W + 2]. See Encoded.word_attention; at least two words.

    Returns:
        int64 [2, L, N, W]. Axis 0 is that of DIRECTIONS.
    """
    attention = attention[:, :, 1:-1, 1:-1].copy()
    diagonal = np.arange(attention.shape[-1])
    attention[:, :, diagonal, diagonal] = -1.0
    return np.stack([attention.argmax(axis=3), attention.argmax(axis=2)])


def _row(name, relation, counts, untrained):
    """The table row of a relation.

    Args:
        relation: int. The place of the relation among R.
        counts: tuple. See head_counts.
        untrained: list. The heads' counts of encoders with random weights.

    Returns:
        (cells, (direction, layer, head) of the best head).
    """
    heads, away, words = (array[..., relation] for array in counts)
    best = np.unravel_index(heads.sum(axis=0).argmax(), heads.shape[1:])
    offset = offsets()[away.sum(axis=0).argmax()]
    direction, layer, head = map(int, best)
    return [
        name,
        int(words.sum()),
        f"{layer + 1}-{head + 1} {DIRECTIONS[direction]}",
        split_halves.cross_half_share(heads, words),
        f"{offset:+d}",
        split_halves.cross_half_share(away, words),
        *split_halves.mean_and_spread(
            [split_halves.cross_half_share(head_count[..., relation], words) for head_count in untrained]
        ),
    ], (direction, layer, head)


def _remarks(rows, options, left_out):
    above = [row for row in rows[1:] if row[3] - row[5] >= 0.1]
    named = ", ".join(f"{row[2].split()[0]} at {row[0]} ({row[3]:.0%}, offset {row[5]:.0%})" for row in above[:6])
    return [
        f"{len(above)} of {len(rows) - 1} relations have a head 10 points or more above the best fixed offset"
        + (f": {named}." if above else ": Clark et al.'s finding does not show here."),
        "Layer-head from 1. Best head and offset are chosen on one half of the sentences and counted on the other, "
        "both ways; the ones named are the best on all. untrained: the same of encoders of random weights "
        f"({options.num_seeds}), mean and standard deviation.",
        f"Relations of {_FEWEST} words or more; root and punct are left out. {left_out:,} sentences were longer than "
        "the model's positions, and are nowhere counted.",
    ]

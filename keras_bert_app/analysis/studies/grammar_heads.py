"""Which attention heads follow which dependency relation (Clark et al. 2019, What Does BERT Look At?, section 4.2).

Dimensions: L layers, N heads of each, W words, R relations.
"""

import numpy as np

from keras_bert_app.analysis import encoded_sentences, encoders, halves, treebank
from keras_bert_app.analysis.findings import Findings, Table
from keras_bert_app.analysis.studies import attention_parser
from keras_bert_app.drawing import head_maps
from keras_bert_app.terminal.progress import reported

SUMMARY = "heads whose strongest attention is a word's head in the tree, by relation; a parser of attention alone"
NEEDS = ("dev_file",)

DIRECTIONS = ("dependent->head", "head->dependent")
_LONGEST_OFFSET = 10
_FEWEST = 50  # words of a relation; below, the best of many heads is the luckiest one
_MOST_MAPS = 8
ALL = "(all but punct)"


def run(subject, options, log):
    trees, left_out = encoded_sentences.fitting(
        subject, treebank.read_trees(options.dev_file, options.most_sentences()), options.dev_file
    )
    training = attention_parser.read_training(subject, options, trees) if options.train_file else None
    names = relation_names(trees)
    log(f"{options.dev_file}: {len(trees):,} trees")
    found = head_counts(subject, trees, names, log)
    random = [
        head_counts(other, trees, names, log)[0]
        for other in (
            encoders.untrained(subject, seed) for seed in range(options.seed, options.seed + options.num_seeds)
        )
    ]
    rows, bests = [], {}
    for relation, name in enumerate(names):
        row, bests[name] = _row(name, relation, found, random)
        rows.append(row)
    accuracy = found[0].sum(axis=0) / np.maximum(found[2].sum(axis=0), 1)  # [2, L, N, R]
    rows[1:] = sorted(rows[1:], key=lambda row: row[3] - row[5], reverse=True)
    offset_accuracy = (found[1].sum(axis=0) / np.maximum(found[2].sum(axis=0), 1)).max(axis=0)  # [R]
    picture = head_maps.draw_head_maps(
        [
            (
                f"{row[0]}, {row[2].split(' ', 1)[1]}",
                accuracy[bests[row[0]][0], :, :, names.index(row[0])],
                offset_accuracy[names.index(row[0])],
            )
            for row in rows[1 : _MOST_MAPS + 1] or rows
        ],
        f"{subject.name}: how often each head finds the word's head, of all words\n"
        "the table counts the best head on other words than it was chosen by\ndashed line of the scale: the best fixed offset",
    )
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


def relation_names(trees):
    """[R]: ALL, then the relations that stand in each half of the trees often enough, but root and punct."""
    halves = [{}, {}]
    for number, tree in enumerate(trees):
        for relation in tree.relations:
            halves[number % 2][relation] = halves[number % 2].get(relation, 0) + 1
    often = {name for name, count in halves[0].items() if min(count, halves[1].get(name, 0)) * 2 >= _FEWEST}
    return [ALL, *sorted(often - {"root", "punct"})]


def head_counts(subject, trees, names, log):
    """Counts over words, in two halves (axis 0): the trees of even and of odd number.

    Attention to [CLS], [SEP] and a word itself is left aside, as Clark et al. do.

    Returns:
        (int64 [2, 2, L, N, R]: where the head's answer is right, axis 1 as DIRECTIONS: the word that the dependent
        attends to most, or the one that attends most to it; int64 [2, offsets, R]: where that word is so many words
        away, as `offsets` has them; int64 [2, R]: the words).
    """
    config, number_of = subject.config, {name: at for at, name in enumerate(names)}
    heads = np.zeros((2, 2, config.num_hidden_layers, config.num_attention_heads, len(names)), np.int64)
    away, words = np.zeros((2, 2 * _LONGEST_OFFSET, len(names)), np.int64), np.zeros((2, len(names)), np.int64)
    encoded = encoded_sentences.encode(subject, [tree.words for tree in trees], with_attention=True)
    for one in reported(encoded, len(trees), f"sentences through {subject.name}", log):
        tree, half = trees[one.number], one.number % 2
        is_of = relations_of(tree, number_of)
        words[half] += is_of.sum(axis=0)
        away[half] += (tree.heads == np.arange(len(tree)) + offsets()[:, None]) @ is_of
        if len(tree) > 1:
            heads[half] += (answers(one.word_attention()) == tree.heads) @ is_of
    return heads, away, words


def offsets():
    """int64 [offsets]: -10 to 10 without 0."""
    return np.concatenate([np.arange(-_LONGEST_OFFSET, 0), np.arange(1, _LONGEST_OFFSET + 1)])


def relations_of(tree, number_of):
    """int64 [W, R]: 1 where the word hangs by that relation; all but root and punct count for ALL."""
    is_of = np.zeros((len(tree), len(number_of)), np.int64)
    for word, relation in enumerate(tree.relations):
        if relation not in ("root", "punct"):
            is_of[word, number_of[ALL]] = 1
            if relation in number_of:
                is_of[word, number_of[relation]] = 1
    return is_of


def answers(attention):
    """int64 [2, L, N, W], axis 0 as DIRECTIONS: the word that each head takes for the word's head.

    Args:
        attention: [L, N, W + 2, W + 2] as Encoded.word_attention gives it; two words at least.
    """
    attention = attention[:, :, 1:-1, 1:-1].copy()
    diagonal = np.arange(attention.shape[-1])
    attention[:, :, diagonal, diagonal] = -1.0
    return np.stack([attention.argmax(axis=3), attention.argmax(axis=2)])


def _row(name, relation, found, random):
    """(cells of a relation's row, (direction, layer, head) of its best head). Args: found: of head_counts; random: list of the
    heads' counts of encoders of random weights."""
    heads, away, words = (array[..., relation] for array in found)
    best = np.unravel_index(heads.sum(axis=0).argmax(), heads.shape[1:])
    offset = offsets()[away.sum(axis=0).argmax()]
    direction, layer, head = map(int, best)
    return [
        name,
        int(words.sum()),
        f"{layer + 1}-{head + 1} {DIRECTIONS[direction]}",
        halves.share(heads, words),
        f"{offset:+d}",
        halves.share(away, words),
        *halves.mean_and_spread([halves.share(counts[..., relation], words) for counts in random]),
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
        f"Relations of {_FEWEST} words or more; root and punct are left out. {left_out:,} sentences were longer than the "
        "model's positions, and are nowhere counted.",
    ]

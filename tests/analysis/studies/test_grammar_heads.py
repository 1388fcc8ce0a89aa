"""Tests the answers of heads, the counts in two halves, and the parser that reads only attention."""

import numpy as np

from keras_bert_app.analysis.studies import attention_parser, grammar_heads
from tests.analysis import toy


def tree(heads, relations):
    return toy.tree(" ".join("w" for _ in heads), heads, relations)


def test_a_heads_answer_is_the_most_attended_word_except_itself_and_special_tokens():
    attention = np.zeros((1, 1, 5, 5))
    #                 [CLS] w0   w1   w2  [SEP]
    attention[0, 0] = [
        [1, 0, 0, 0, 0],
        [0.5, 0.3, 0.02, 0.15, 0.03],
        [0.0, 0.2, 0.6, 0.1, 0.1],
        [0.0, 0.1, 0.2, 0.0, 0.7],
        [0.0, 0.9, 0.9, 0.9, 0.0],
    ]
    answers = grammar_heads.answers(attention)
    assert answers[0, 0, 0].tolist() == [2, 0, 1]  # dependent->head: the word to which w0, w1, w2 attend most
    assert answers[1, 0, 0].tolist() == [1, 2, 0]  # head->dependent: the word that attends most to w0, w1, w2


def test_offsets_and_relations_have_the_counts_worked_out_by_hand():
    sentence = tree([1, -1, 1, 2], ["det", "root", "obj", "punct"])
    names = [grammar_heads.ALL, "det", "obj"]
    has_relation = grammar_heads.relations_of(sentence, {name: column for column, name in enumerate(names)})
    assert has_relation.tolist() == [[1, 1, 0], [0, 0, 0], [1, 0, 1], [0, 0, 0]]
    counts = (sentence.heads == np.arange(4) + grammar_heads.offsets()[:, None]) @ has_relation
    assert dict(zip(grammar_heads.offsets(), counts.tolist(), strict=True))[1] == [1, 1, 0]
    assert dict(zip(grammar_heads.offsets(), counts.tolist(), strict=True))[-1] == [1, 0, 1]


def test_a_head_is_chosen_on_one_half_and_counted_on_the_other():
    is_right, by_offset = np.zeros((20, 2, 1, 2), bool), np.zeros((20, 20), bool)
    words = grammar_heads.Words(np.arange(20), np.ones((20, 1), bool), by_offset)
    for half, (first, second) in enumerate(((9, 2), (3, 8))):  # each head is good on one half by chance
        is_right[half::2][:first, 0, 0, 0], is_right[half::2][:second, 0, 0, 1] = True, True
        by_offset[half::2][:4, 10] = True
    row, best = grammar_heads._row("det", 0, words, is_right, [is_right])
    assert row[:4] == ["det", 20, "1-1 dependent->head", (3 + 2) / 20] and best == (0, 0, 0)
    assert row[6:8] == ["+1", 8 / 20] and row[10:] == [5 / 20, 0.0]
    # The head is right at 2 and 3 words of the halves. The offset is right at these and 3 more, 4 in each half.
    assert row[4] < 5 / 20 < row[5] and -0.35 < row[8] < -0.15 < row[9] <= 0.0


def test_the_parser_gives_the_largest_weight_to_the_head_that_follows_the_trees():
    generator = np.random.default_rng(0)
    trees = [
        tree(heads, ["root" if head < 0 else "dep" for head in heads])
        for heads in ([1, -1, 1], [-1, 0, 1, 1, 0], [3, 0, 3, -1], [-1]) * 5
    ]
    arcs = attention_parser.Arcs(trees)
    assert len(arcs.gold) == 5 * (2 + 4 + 3) and arcs.sizes.tolist()[:6] == [2, 2, 4, 4, 4, 4]
    pairs = np.concatenate(arcs.pairs, axis=1)
    assert (pairs[:, arcs.gold[:6]]).tolist() == [[0, 2, 1, 2, 3, 4], [1, 1, 0, 1, 1, 0]]
    vectors = generator.uniform(0, 1, (pairs.shape[1], 3)).astype(np.float32)
    assert not arcs.right_answers(np.zeros(len(vectors))).any()  # a tie counts as wrong
    assert arcs.sentences[:6].tolist() == [0, 0, 1, 1, 1, 1]
    vectors[arcs.gold, 1] += 0.9
    weights = attention_parser.fit(arcs, vectors)
    assert weights.argmax() == 1 and arcs.right_answers(vectors @ weights).mean() > 0.95


def test_shares_sum_to_one_over_the_candidates_of_each_dependent():
    arcs = attention_parser.Arcs([tree([1, -1, 1], ["dep", "root", "dep"])])
    shares = np.exp(arcs.log_shares(np.array([1.0, 2.0, 3.0, 3.0])))
    np.testing.assert_allclose(shares, [1 / (1 + np.e), np.e / (1 + np.e), 0.5, 0.5])

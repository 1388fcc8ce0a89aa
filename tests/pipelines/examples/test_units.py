"""The units of masking are words, spans, phrases and a segmenter's words, and masking takes whole units."""

import numpy as np
import pytest
import tensorflow as tf

from pipelines import BertTokenizer
from pipelines.choices import MASKINGS
from pipelines.data_error import DataError
from pipelines.examples import masking, units
from pipelines.examples.block_examples import block_examples

PIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "new",
    "york",
    "##er",
    "city",
    "the",
    "a",
    "##s",
    ".",
    "中",
    "国",
    "人",
    "民",
    "银",
    "行",
]
ID = {piece: i for i, piece in enumerate(PIECES)}


@pytest.fixture
def tokenizer(tmp_path):
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in PIECES), encoding="utf-8")
    return BertTokenizer(str(tmp_path / "vocab.txt"))


def begins_word(ids):
    return tf.gather(units.word_beginnings(PIECES), ids)


def test_words_begin_at_pieces_without_the_continuation_prefix():
    assert begins_word([ID["new"], ID["york"], ID["##er"], ID["##s"], ID["."]]).numpy().tolist() == [
        True,
        True,
        False,
        False,
        True,
    ]


def test_the_longest_phrase_from_the_left_wins_and_ends_where_words_end(tokenizer):
    lexicon = units.Lexicon(
        ["new york", "new york city", "york city the", "中国", "人民银行", "city the a new york", "Zzz", ""], tokenizer
    )
    assert lexicon.num_phrases == 6 and lexicon.num_unusable == 2
    texts = ["the new york city the", "new yorkers", "new york", "中国人民银行", "中国人民", "city the a"]
    sentences = tokenizer.tokenize(texts)
    ends = tf.gather(tf.cast(sentences.row_limits(), tf.int32), sentences.value_rowids())
    beginnings_found = lexicon.beginnings(sentences.flat_values, begins_word(sentences.flat_values), ends)
    assert sentences.with_flat_values(beginnings_found).to_list() == [
        [True, True, False, False, True],  # the | new york city | the
        [True, True, False, False],  # new | yorkers: no phrase ends inside a word
        [True, False],  # new york: a phrase does not cross the end of a sentence
        [True, False, True, False, False, False],
        [True, False, True, True],
        [True, True, True],
    ]


def test_phrases_found_in_random_text_are_those_of_a_plain_loop(tokenizer):
    generator = np.random.RandomState(2)
    letters = ["a", "the", "new", "city", "."]
    phrases = {" ".join(generator.choice(letters, generator.randint(1, 6))) for _ in range(60)}
    lexicon = units.Lexicon(sorted(phrases), tokenizer)
    texts = [" ".join(generator.choice(letters, generator.randint(1, 40))) for _ in range(97)]
    sentences = tokenizer.tokenize(texts)
    ends = tf.gather(tf.cast(sentences.row_limits(), tf.int32), sentences.value_rowids())
    beginnings_found = sentences.with_flat_values(
        lexicon.beginnings(sentences.flat_values, begins_word(sentences.flat_values), ends)
    ).to_list()
    for text, beginnings in zip(texts, beginnings_found, strict=True):
        words, place, expected = text.split(), 0, []
        while place < len(words):
            size = max(
                [
                    size
                    for size in range(1, 6)
                    if " ".join(words[place : place + size]) in phrases and place + size <= len(words)
                ],
                default=1,
            )
            expected += [True] + [False] * (size - 1)
            place += size
        assert beginnings == expected


def test_a_lexicon_without_a_usable_phrase_is_refused(tokenizer):
    with pytest.raises(DataError, match="none of its 2 phrases"):
        units.Lexicon(["xyz", "new xyz"], tokenizer)


def test_spans_have_lengths_in_proportion_to_one_over_n_and_stay_in_their_sentence():
    num_words = 60_000
    begins = tf.ones([num_words], tf.bool)
    sentence = tf.constant(np.arange(num_words) == 0)
    starts = np.flatnonzero(units.span_beginnings(begins, sentence, [1, 2], 3))
    shares = np.bincount(np.diff(starts), minlength=4)[1:] / (len(starts) - 1)
    np.testing.assert_allclose(shares, np.array([6, 3, 2]) / 11, atol=0.01)
    every_second = tf.constant(np.arange(num_words) % 2 == 0)
    starts = np.asarray(units.span_beginnings(begins, every_second, [1, 2], 3))
    assert starts[::2].all()
    # A word of two pieces is never cut.
    starts = np.asarray(units.span_beginnings(every_second, sentence, [1, 2], 3))
    assert not starts[1::2].any() and 0.4 < starts[::2].mean() < 0.7


ROWS, SEQ_LENGTH, MAX_PREDICTIONS = 2003, 41, 7


def masked_units(seed=(3, 4), masked_lm_prob=0.15):
    """Makes (ids, unit of each position or -1, lengths, result of mask_tokens) for random rows."""
    generator = np.random.RandomState(7)
    ids = generator.randint(5, 1000, (ROWS, SEQ_LENGTH))
    lengths = generator.randint(3, SEQ_LENGTH + 1, ROWS)
    ids[:, 0], ids[np.arange(ROWS), lengths // 2] = 2, 3
    mask = np.arange(SEQ_LENGTH) < lengths[:, None]
    ids = np.where(mask, ids, 0)
    begins = generator.rand(ROWS, SEQ_LENGTH) < 0.45
    made = masking.mask_tokens(
        tf.constant(ids, tf.int32),
        tf.constant(mask, tf.int32),
        seed,
        max_predictions_per_seq=MAX_PREDICTIONS,
        masked_lm_prob=masked_lm_prob,
        vocab_size=1000,
        mask_id=4,
        never_masked=(2, 3),
        begins_unit=tf.constant(begins),
    )
    is_candidate = mask & (ids != 2) & (ids != 3)
    unit = np.full(ids.shape, -1)
    for row in range(ROWS):
        current = -1
        for column in range(SEQ_LENGTH):
            if is_candidate[row, column]:
                current += begins[row, column] or not is_candidate[row, column - 1]
                unit[row, column] = current
    return ids, unit, lengths, {name: values.numpy() for name, values in made.items()}


@pytest.mark.parametrize("masked_lm_prob", [0.15, 0.5])
def test_units_are_taken_whole_and_a_unit_that_does_not_fit_is_skipped(masked_lm_prob):
    ids, unit, lengths, made = masked_units(masked_lm_prob=masked_lm_prob)
    used = made["masked_lm_weights"] > 0
    for row in range(ROWS):
        taken = made["masked_lm_positions"][row][used[row]]
        assert (np.diff(taken) > 0).all() and (unit[row, taken] >= 0).all()
        sizes = np.bincount(unit[row][unit[row] >= 0])
        taken_sizes = np.bincount(unit[row, taken], minlength=len(sizes))
        assert ((taken_sizes == 0) | (taken_sizes == sizes)).all()
        wanted = min(MAX_PREDICTIONS, max(1, round(int(lengths[row]) * masked_lm_prob)))
        room = wanted - len(taken)
        assert room >= 0
        assert (sizes[taken_sizes == 0] > room).all()  # every unit that was left out did not fit
        np.testing.assert_array_equal(made["masked_lm_ids"][row][used[row]], ids[row, taken])
    # Only labelled positions change.
    changed = made["input_word_ids"] != ids
    labelled = np.zeros_like(changed)
    labelled[np.nonzero(used)[0], made["masked_lm_positions"][used]] = True
    assert not (changed & ~labelled).any()


def test_every_unit_of_one_size_is_chosen_equally_often():
    ids = np.full((20011, 12), 7, np.int32)
    begins = np.arange(12) % 3 == 0
    made = masking.mask_tokens(
        tf.constant(ids),
        tf.ones_like(ids),
        (1, 2),
        max_predictions_per_seq=3,
        masked_lm_prob=0.25,
        vocab_size=9,
        mask_id=4,
        never_masked=(2, 3),
        begins_unit=tf.constant(np.tile(begins, (20011, 1))),
    )
    first = made["masked_lm_positions"].numpy()[:, 0]
    counts = np.bincount(first, minlength=12)[::3]
    assert counts.sum() == 20011 and ((counts - 20011 / 4) ** 2 / (20011 / 4)).sum() < 16.3  # chi-square, p = 0.001


def test_the_rates_of_masks_and_random_pieces_are_arguments():
    ids = tf.fill([503, 31], 7)
    arguments = dict(max_predictions_per_seq=9, masked_lm_prob=0.3, vocab_size=1000, mask_id=4, never_masked=(2, 3))
    shown = masking.mask_tokens(ids, tf.ones_like(ids), (1, 2), **arguments, mask_token_rate=1.0, random_token_rate=0.0)
    assert int(tf.reduce_sum(tf.cast(shown["input_word_ids"] == 4, tf.int32))) == 503 * 9
    shown = masking.mask_tokens(ids, tf.ones_like(ids), (1, 2), **arguments, mask_token_rate=0.0, random_token_rate=0.5)
    share = float(tf.reduce_mean(tf.cast(shown["input_word_ids"] != 7, tf.float32))) * 31 / 9
    assert abs(share - 0.5) < 0.03 and not (shown["input_word_ids"].numpy() == 4).sum() > 30


@pytest.mark.parametrize("objective", ["nsp", "sop", "none"])
@pytest.mark.parametrize("kind", MASKINGS)
def test_every_masking_works_with_every_objective(tokenizer, objective, kind):
    documents = [
        "the new yorker city.\na new york\n中国 人民银行 a city.",
        "new york city the a\n人民",
        "a\nyorkers",
        "\n\x07\n",
    ]
    lexicon = units.Lexicon(["new york", "人民银行"], tokenizer) if kind == "lexicon" else None
    made = block_examples(
        tf.constant(documents * 20),
        tokenizer,
        [1, 2],
        max_seq_length=17,
        max_predictions_per_seq=5,
        masked_lm_prob=0.3,
        sentence_objective=objective,
        masking=kind,
        lexicon=lexicon,
    )
    made = {name: values.numpy() for name, values in made.items()}
    ids, used = made["input_word_ids"].copy(), made["masked_lm_weights"] > 0
    ids[np.nonzero(used)[0], made["masked_lm_positions"][used]] = made["masked_lm_ids"][used]
    assert len(ids) and not (ids == ID["[MASK]"]).any()
    lengths = made["input_mask"].sum(axis=1)
    assert (ids[:, 0] == ID["[CLS]"]).all() and (ids[np.arange(len(ids)), lengths - 1] == ID["[SEP]"]).all()
    # A masked run begins and ends where a unit does.
    whole = {"lexicon": ("new york", "人 民 银 行"), "segmented": ("人 民 银 行", "york ##er")}.get(
        kind, ("york ##er",)
    )
    for phrase in whole if kind != "piece" else ():
        phrase = [ID[piece] for piece in phrase.split()]
        for row, positions, flags in zip(ids, made["masked_lm_positions"], used, strict=True):
            chosen = set(positions[flags])
            for start in range(len(row) - len(phrase) + 1):
                if row[start : start + len(phrase)].tolist() == phrase and not (
                    kind in ("lexicon", "segmented")
                    and start + len(phrase) < len(row)
                    and PIECES[row[start + len(phrase)]].startswith("##")
                ):
                    places = {start + i for i in range(len(phrase))}
                    assert places <= chosen or not places & chosen


def test_lexicon_masking_without_a_lexicon_and_an_unknown_masking_are_refused(tokenizer):
    with pytest.raises(DataError, match="no lexicon is given"):
        block_examples(tf.constant(["a\nb"]), tokenizer, [1, 2], masking="lexicon")
    with pytest.raises(DataError, match="masking is 'word'"):
        block_examples(tf.constant(["a\nb"]), tokenizer, [1, 2], masking="word")


@pytest.mark.parametrize("kind", MASKINGS)
def test_a_block_without_a_piece_gives_no_example(tokenizer, kind):
    lexicon = units.Lexicon(["new york"], tokenizer) if kind == "lexicon" else None
    for objective in ("nsp", "sop", "none"):
        made = block_examples(
            tf.constant(["\x01\n\x02", ""]),
            tokenizer,
            [1, 2],
            masking=kind,
            lexicon=lexicon,
            sentence_objective=objective,
        )
        assert {name: values.shape[0] for name, values in made.items()} == dict.fromkeys(made, 0)


def test_rows_of_full_sentences_begin_and_end_with_text(tokenizer):
    documents = ["\n".join(["a the"] * count) for count in range(1, 30)]
    made = block_examples(
        tf.constant(documents),
        tokenizer,
        [1, 2],
        max_seq_length=8,
        sentence_objective="none",
        max_predictions_per_seq=1,
        mask_token_rate=0.0,
        random_token_rate=0.0,
    )
    ids, lengths = made["input_word_ids"].numpy(), made["input_mask"].numpy().sum(axis=1)
    assert (ids[:, 1] != ID["[SEP]"]).all() and (ids[np.arange(len(ids)), lengths - 2] != ID["[SEP]"]).all()
    assert (ids == ID["a"]).sum() == sum(range(1, 30))

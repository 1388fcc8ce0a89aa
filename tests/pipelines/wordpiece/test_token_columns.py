"""Tokens with channels, and positions that count lines: from text to the inputs of a model."""

import numpy as np
import pytest
import tensorflow as tf

from pipelines.channels import Channel
from pipelines.data_error import DataError
from pipelines.examples.block_examples import block_examples
from pipelines.wordpiece.symbols import SymbolTokenizer
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES

# Each symbol occurs in one line of one document, so its id tells its line. Channel "rank" repeats the id of the symbol.
DOCUMENTS = [["a b c", "d", "e f"], ["g h"], ["i", "j k", "l m n", "o"]]
SYMBOLS = [symbol for lines in DOCUMENTS for line in lines for symbol in line.split()]
VOCABULARY = "".join(f"{piece}\n" for piece in (*SPECIAL_PIECES, *SYMBOLS)).encode()
FIRST_ID = len(SPECIAL_PIECES)
CHANNELS = (Channel("rank", size=len(SYMBOLS)), Channel("pair", width=2, is_masked=True))
TOKENIZER = SymbolTokenizer(VOCABULARY, channels=CHANNELS, positions="lines")
LINE_OF_ID = dict(
    zip(
        range(FIRST_ID, FIRST_ID + len(SYMBOLS)),
        [number for number, line in enumerate(sum(DOCUMENTS, [])) for _ in line.split()],
        strict=True,
    )
)


def with_values(line):
    return " ".join(f"{symbol}|{SYMBOLS.index(symbol)}|{SYMBOLS.index(symbol)},-0.5" for symbol in line.split())


def test_a_text_has_ids_lines_and_values():
    rows = TOKENIZER.pack(["a|0| b\nz|3|1,2.5 d||", ""], seq_length=8)
    assert rows["input_word_ids"].numpy().tolist() == [[2, 5, 6, 1, 8, 3, 0, 0], [2, 3, 0, 0, 0, 0, 0, 0]]
    assert rows["input_rank"].numpy().tolist() == [[0, 1, 0, 4, 0, 0, 0, 0], [0] * 8]
    assert rows["input_pair"][0].numpy().tolist() == [[0, 0]] * 3 + [[1, 2.5]] + [[0, 0]] * 4
    assert rows["input_positions"].numpy().tolist() == [[0, 1, 1, 2, 2, 2, 2, 2], [0] * 8]
    assert TOKENIZER.tokenize("a|0| z d").numpy().tolist() == [5, 1, 8]
    assert TOKENIZER.tokenize_with_offsets("a|0| d")[0].numpy().tolist() == [5, 8]


def test_a_long_vector_is_read_to_its_end():
    tokenizer = SymbolTokenizer(VOCABULARY, channels=[Channel("wide", width=1500)])
    numbers = [number / 8 for number in range(1500)]
    rows = tokenizer.pack(f"a|{','.join(map(str, numbers))}", seq_length=3)
    assert rows["input_wide"][1].numpy().tolist() == numbers


def test_the_second_text_of_a_pair_begins_a_line():
    rows = TOKENIZER.pack("a\nb", "c d\ne", seq_length=9)
    assert rows["input_positions"].numpy().tolist() == [0, 1, 2, 2, 3, 3, 4, 4, 4]
    assert rows["input_type_ids"].numpy().tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 0]


def test_a_masked_channel_has_no_value_at_a_mask():
    tokenizer = SymbolTokenizer(VOCABULARY, special_tokens_in_text=True, channels=CHANNELS)
    rows = tokenizer.pack("a|1|2,3 [MASK]|1|2,3", seq_length=4)
    assert rows["input_rank"].numpy().tolist() == [0, 2, 2, 0]
    assert rows["input_pair"].numpy().tolist() == [[0, 0], [2, 3], [0, 0], [0, 0]]
    assert "input_positions" not in rows


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a|1", "expected a symbol alone, or with values for rank, pair, each after a |; got a|1"),
        ("a b|99|", "as rank a whole number from 0 to 14, or nothing; got 99"),
        ("a|x|", "as rank a whole number from 0 to 14, or nothing; got x"),
        ("a||1", "as pair 2 numbers with , between them, or nothing; got 1"),
        ("a||1,b", "as pair 2 numbers with , between them, or nothing; got 1,b"),
    ],
)
def test_a_bad_value_in_a_graph_is_named(text, words):
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        tf.function(TOKENIZER.tokenize_with_columns)(tf.constant([text]))
    assert words in str(caught.value)


@pytest.mark.parametrize("sentence_objective", ["none", "nsp", "sop"])
@pytest.mark.parametrize("masking", ["piece", "segmented", "span"])
def test_columns_follow_their_tokens_through_pairs_packing_and_masking(sentence_objective, masking):
    documents = ["\n".join(map(with_values, lines)) for lines in DOCUMENTS]
    num_masks = 0
    for seed in range(4):
        batch = block_examples(
            tf.constant(documents),
            TOKENIZER,
            tf.constant([seed, 7], tf.int64),
            max_seq_length=12,
            max_predictions_per_seq=3,
            short_seq_prob=0.5,
            sentence_objective=sentence_objective,
            masking=masking,
        )
        batch = {name: values.numpy() for name, values in batch.items()}
        shown, ids = batch["input_word_ids"], batch["input_word_ids"].copy()
        rows, slots = np.nonzero(batch["masked_lm_weights"])
        ids[rows, batch["masked_lm_positions"][rows, slots]] = batch["masked_lm_ids"][rows, slots]
        is_symbol = ids >= FIRST_ID
        np.testing.assert_array_equal(batch["input_rank"], np.where(is_symbol, ids - FIRST_ID + 1, 0))
        has_pair = is_symbol & (shown != TOKENIZER.mask_id)
        num_masks += np.sum(shown == TOKENIZER.mask_id)
        expected = np.stack([np.where(has_pair, ids - FIRST_ID, 0), np.where(has_pair, -0.5, 0)], axis=-1)
        np.testing.assert_array_equal(batch["input_pair"], expected)
        np.testing.assert_array_equal(batch["input_positions"], [positions_of(row) for row in ids.tolist()])
    assert num_masks > 4


def positions_of(row):
    """The positions of a row of ids, from the line of each symbol."""
    positions, position, before = [], 0, None
    for token in row:
        line = LINE_OF_ID.get(token)
        position += line is not None and line != before
        positions.append(position)
        before = line
    return positions


def test_positions_of_lines_alone_need_no_values():
    tokenizer = SymbolTokenizer(VOCABULARY, positions="lines")
    rows = tokenizer.pack("a b\n\nc", seq_length=6)
    assert rows["input_positions"].numpy().tolist() == [0, 1, 1, 2, 2, 2]
    assert tokenizer.tokenize("a|0").numpy().tolist() == [1]


def test_a_directory_says_which_channels_its_symbols_have(tmp_path):
    (tmp_path / "vocab.txt").write_bytes(VOCABULARY)
    (tmp_path / "config.json").write_text('{"tokenizer": "symbols", "channels": ["rank:15"], "positions": "lines"}')
    rows = SymbolTokenizer.from_directory(str(tmp_path)).pack("a|3", seq_length=3)
    assert rows["input_rank"].numpy().tolist() == [0, 4, 0] and "input_positions" in rows
    (tmp_path / "config.json").write_text('{"tokenizer": "symbols", "channels": ["rank"]}')
    with pytest.raises(DataError, match="expected NAME:SIZE"):
        SymbolTokenizer.from_directory(str(tmp_path))

"""Pieces become readable text: spaces stand where most texts have them."""

import pytest
import tensorflow as tf

from pipelines.wordpiece.detokenizing import detokenize, texts_of_ids
from pipelines.wordpiece.tokenizer import BertTokenizer


@pytest.mark.parametrize(
    "pieces, text",
    [
        ("un ##able to re ##ad .", "unable to read."),
        ("I don ' t know , he ' ll see .", "I don't know, he'll see."),
        ("the welders ' mask", "the welders' mask"),
        ("( one , two )", "(one, two)"),
        ("a well - known , state - of - the - art tool", "a well-known, state-of-the-art tool"),
        ("Limonade - und Bierdosen", "Limonade- und Bierdosen"),
        ("the U . S . team", "the U.S. team"),
        ("1 , 000 . 5 at 10 : 30", "1,000.5 at 10:30"),
        ("rows 3 , 4 and 5", "rows 3, 4 and 5"),
        ("$ 5 , # 19", "$5, #19"),
        ('he said " yes " and " no "', 'he said "yes" and "no"'),
        ("ein Schild : „ Open “", "ein Schild: „Open“"),
        ("中 国 人 说 ： 好 。 OK", "中国人说：好。OK"),
        ("and / or", "and/or"),
        ("", ""),
    ],
)
def test_a_text_gets_the_spaces_that_most_texts_have(pieces, text):
    ragged = tf.RaggedTensor.from_row_lengths(tf.constant(pieces.split(), tf.string), [len(pieces.split())])
    assert detokenize(ragged)[0].numpy().decode() == text


def test_a_row_of_ids_ends_at_its_first_end():
    tokenizer = BertTokenizer(b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\n")
    ids = tf.constant([[5, 6, 3, 5], [5, 5, 5, 5], [3, 5, 5, 0], [6, 5, 0, 0]])
    assert texts_of_ids(ids, tokenizer).numpy().tolist() == [b"ab", b"a a a a", b"", b"b a"]

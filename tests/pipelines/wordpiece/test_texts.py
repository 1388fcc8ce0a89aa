"""The tokenizer takes the kinds of texts that Python callers pass, and `pack` makes rows from them."""

import numpy as np
import pytest
import tensorflow as tf

from pipelines import BertTokenizer, DataError

PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##b", "c")
PAD, UNK, CLS, SEP, _, A, B, BB, C = range(len(PIECES))


@pytest.fixture(scope="module")
def tokenizer():
    return BertTokenizer("".join(f"{piece}\n" for piece in PIECES).encode(), verify_casing=False)


def test_one_string_gives_its_ids(tokenizer):
    for text in ("A xyz", b"A xyz", tf.constant("A xyz")):
        ids = tokenizer.tokenize(text)
        assert isinstance(ids, tf.Tensor) and ids.numpy().tolist() == [A, UNK]
    assert tokenizer.tokenize("bb c").numpy().tolist() == [B, BB, C]
    assert tokenizer.tokenize("").shape == [0]
    ids, *_, start, end = tokenizer.tokenize_with_offsets("bb c")
    assert (ids.numpy().tolist(), start.numpy().tolist(), end.numpy().tolist()) == ([B, BB, C], [0, 1, 3], [1, 2, 4])


def test_one_string_may_have_special_pieces():
    tokenizer = BertTokenizer("".join(f"{piece}\n" for piece in PIECES).encode(), special_tokens_in_text=True)
    assert tokenizer.tokenize("a [MASK]").numpy().tolist() == [A, 4]
    assert tokenizer.tokenize_with_offsets("a [MASK]")[3].numpy().tolist() == [0, 2]


@pytest.mark.parametrize(
    "texts",
    [["a", "bb"], ("a", "bb"), np.array(["a", "bb"]), np.array(["a", "bb"], object), tf.constant(["a", "bb"])],
    ids=["list", "tuple", "array of str", "array of objects", "tensor"],
)
def test_a_list_an_array_or_a_tensor_gives_the_ids_of_each(tokenizer, texts):
    assert tokenizer.tokenize(texts).to_list() == [[A], [B, BB]]


def test_a_pandas_column_is_a_list_of_texts_and_a_whole_table_is_refused(tokenizer):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"text": ["a", "bb"], "label": [0, 1]}, index=[7, 5])
    assert tokenizer.tokenize(table["text"]).to_list() == [[A], [B, BB]]
    with pytest.raises(DataError, match=r"texts are a DataFrame; expected one of its columns"):
        tokenizer.pack(table)
    with pytest.raises(DataError, match=r"text 1 is nan \(float\); expected a string"):
        tokenizer.tokenize(pandas.Series(["a", np.nan], dtype=object))


def test_an_empty_list_gives_no_rows(tokenizer):
    assert tokenizer.tokenize([]).shape[0] == 0
    assert tokenizer.pack([], seq_length=5)["input_mask"].shape == [0, 5]


def test_half_of_a_surrogate_pair_becomes_a_question_mark(tokenizer):
    assert tokenizer.tokenize(["a \ud800"]).to_list() == tokenizer.tokenize(["a ?"]).to_list() == [[A, UNK]]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["a", None], r"text 1 is None \(NoneType\); expected a string"),
        ([["a"], ["b"]], r"text 0 is \['a'\] \(list\); expected a string"),
        ({"text": ["a"]}, "texts are a dict; expected one of its columns"),
        (5, "texts are 5; expected a string or a list of strings"),
        (np.zeros((2, 3)), r"text 0 is array\(\[0\., 0\., 0\.\]\) \(ndarray\); expected a string"),
        (tf.constant([1, 2]), r"texts are a tensor of int32 of shape \(2,\); expected one string, or strings"),
        (tf.constant([["a"]]), r"texts are a tensor of string of shape \(1, 1\)"),
    ],
    ids=repr,
)
def test_the_error_names_a_value_that_is_no_text(tokenizer, texts, message):
    for call in (tokenizer.tokenize, tokenizer.tokenize_with_offsets, tokenizer.pack):
        with pytest.raises(DataError, match=message) as error:
            call(texts)
        assert "\n" not in str(error.value)


def test_pack_puts_cls_and_sep_around_texts_and_cuts_the_longer_of_two(tokenizer):
    rows = tokenizer.pack(["a bb", ""], seq_length=6)
    assert rows["input_word_ids"].numpy().tolist() == [[CLS, A, B, BB, SEP, PAD], [CLS, SEP, PAD, PAD, PAD, PAD]]
    assert rows["input_mask"].numpy().tolist() == [[1, 1, 1, 1, 1, 0], [1, 1, 0, 0, 0, 0]]
    assert not rows["input_type_ids"].numpy().any()
    assert tokenizer.pack(["a bb c"], seq_length=5)["input_word_ids"].numpy().tolist() == [[CLS, A, B, BB, SEP]]
    pairs = tokenizer.pack(["a", "a a a a"], ["b", "c"], seq_length=7)
    assert pairs["input_word_ids"].numpy().tolist() == [[CLS, A, SEP, B, SEP, PAD, PAD], [CLS, A, A, A, SEP, C, SEP]]
    assert pairs["input_type_ids"].numpy().tolist() == [[0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 0, 1, 1]]


def test_pack_makes_one_row_of_one_string(tokenizer):
    rows = tokenizer.pack("a", "c", seq_length=5)
    assert {name: values.numpy().tolist() for name, values in rows.items()} == {
        "input_word_ids": [CLS, A, SEP, C, SEP],
        "input_mask": [1] * 5,
        "input_type_ids": [0, 0, 0, 1, 1],
    }


def test_pack_works_in_a_dataset_for_texts_and_for_batches(tokenizer):
    texts = tf.data.Dataset.from_tensor_slices(["a", "bb c", "c"])

    def pack(texts):
        return tokenizer.pack(texts, seq_length=5)["input_word_ids"]

    singly = [row.tolist() for row in texts.map(pack).as_numpy_iterator()]
    assert singly == [[CLS, A, SEP, PAD, PAD], [CLS, B, BB, C, SEP], [CLS, C, SEP, PAD, PAD]]
    assert [row.tolist() for row in texts.batch(3).map(pack).as_numpy_iterator()] == [singly]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"texts": ["a"], "seq_length": 2}, "seq_length=2: expected 3 or more"),
        ({"texts": ["a"], "text_pairs": ["b"], "seq_length": 3}, "seq_length=3: expected 4 or more"),
        ({"texts": ["a", "b"], "text_pairs": ["c"]}, "texts: 2, text_pairs: 1; expected a second text for each text"),
        ({"texts": ["a", "b"], "text_pairs": "c"}, "texts: 2, text_pairs: one string; expected a second text"),
    ],
    ids=repr,
)
def test_pack_refuses_a_short_seq_length_and_text_pairs_of_another_number(tokenizer, arguments, message):
    with pytest.raises(DataError, match=message):
        tokenizer.pack(**arguments)

"""The tokenizer equals google-research/bert's FullTokenizer, and its own code paths agree.

tests/golden/generate_tokenization.py writes the golden values.
"""

import json
import string

import pytest
import tensorflow as tf

from pipelines import BertTokenizer
from pipelines.data_error import DataError
from pipelines.wordpiece import normalize
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES


@pytest.fixture
def vocab_file(golden):
    return str(golden / "tokenization_vocab.txt")


def pieces_of(tokenizer, texts):
    return [[tokenizer.vocabulary[i] for i in row] for row in tokenizer.tokenize(texts).to_list()]


@pytest.fixture
def tokenizer(vocab_file):
    return BertTokenizer(vocab_file, verify_casing=False)


@pytest.mark.parametrize("casing", ["lower", "cased"])
def test_pieces_are_google_s_on_every_adversarial_string(golden, vocab_file, casing):
    cases = json.loads((golden / "tokenization.json").read_text(encoding="utf-8"))["cases"]
    tokenizer = BertTokenizer(vocab_file, do_lower_case=casing == "lower", verify_casing=False)
    actual = pieces_of(tokenizer, [case["text"] for case in cases])
    different = [
        (case["text"], case[casing], pieces)
        for case, pieces in zip(cases, actual, strict=True)
        if pieces != case[casing]
    ]
    assert not different


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_the_fast_path_of_plain_text_equals_the_slow_path_for_every_character(tmp_path, do_lower_case):
    # With only these entries, the pieces show where words begin and end, but not their letters. Each character stands
    # next to a letter, next to a Chinese character, alone and twice in a row.
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nx\ny\n中\n")
    tokenizer = BertTokenizer(str(tmp_path / "vocab.txt"), do_lower_case)
    characters = tf.constant([chr(code) for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF])
    characters = characters[normalize.is_plain(characters, 200)]
    assert len(characters) > 60_000
    texts = tf.strings.join(
        ["y x", characters, "x 中", characters, "中 ", characters, " ", characters, characters, " y"]
    )
    words = tf.strings.split(normalize.space_out(texts, do_lower_case))
    lowered = normalize.lower_and_strip_accents_of_plain(texts) if do_lower_case else texts
    _, starts, ends = tokenizer._splitting_wordpiece.tokenize_with_offsets(lowered)
    starts, ends = tf.cast(starts, tf.int32), tf.cast(ends, tf.int32)
    actual = tf.strings.substr(
        tf.gather(lowered, starts.value_rowids()), starts.flat_values, (ends - starts).flat_values
    )
    # Each word is one piece here, or [UNK] with the span of the whole word.
    tf.debugging.assert_equal(words.row_splits, starts.row_splits)
    tf.debugging.assert_equal(words.flat_values, actual)


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_the_fast_paths_of_tokenize_agree_with_the_path_for_any_text(vocab_file, do_lower_case):
    tokenizer = BertTokenizer(vocab_file, do_lower_case, verify_casing=False)
    texts = tf.constant(
        [
            "The cat, it's (un)aware!  ",
            "",
            "\t a\nb\r",
            "x" * 66,
            "x" * 67,
            "x" * 200,
            "x" * 201,
            "한" * 66,
            "한" * 67,
            "é" * 200,
            "é" * 201,
            "中" * 300,
            "[MASK] $5 ^_^ a.b",
            "-" * 300,
            "Ünïcode wörds",
            "a" * 150 + "-" + "b" * 150,
            "ab\x00c",
            "中文 mixed",
            "a\u200bb",
            "ก" * 67,
            "𝒳" * 201,
        ]
    )
    assert tokenizer.tokenize(texts).to_list() == tokenizer._tokenize_any(texts).to_list()


def test_special_pieces_in_text_are_ordinary_words_unless_asked_for(vocab_file, tokenizer):
    texts = ["a [MASK]b[MASK]", "[CLS][SEP]", "", "a", "[ [MASK] [mask] [PAD"]
    assert not set(SPECIAL_PIECES[1:]).difference(["[UNK]"]).intersection(sum(pieces_of(tokenizer, texts), []))
    recognized = pieces_of(BertTokenizer(vocab_file, special_tokens_in_text=True, verify_casing=False), texts)
    assert recognized[:4] == [["a", "[MASK]", "b", "[MASK]"], ["[CLS]", "[SEP]"], [], ["a"]]
    assert recognized[4].count("[MASK]") == 1 and "[PAD]" not in recognized[4]


def test_detokenizing_joins_the_pieces_of_words(vocab_file, tokenizer):
    texts = ["Unaffable tokens, hello", "", "中国人"]
    assert [text.decode() for text in tokenizer.detokenize(tokenizer.tokenize(texts)).numpy()] == [
        "unaffable tokens , hello",
        "",
        "中 国 人",
    ]
    padded = tokenizer.tokenize(texts).to_tensor(tokenizer.pad_id)
    assert (
        tokenizer.detokenize(padded).numpy().tolist()
        == tokenizer.detokenize(tokenizer.tokenize(texts)).numpy().tolist()
    )


def test_the_limit_of_characters_is_an_argument(vocab_file):
    tokenizer = BertTokenizer(vocab_file, max_characters_per_word=3, verify_casing=False)
    assert pieces_of(tokenizer, ["abc abab éab éabc"]) == [["abc", "[UNK]", "e", "##ab", "[UNK]"]]
    with pytest.raises(DataError, match="max_characters_per_word is 0"):
        BertTokenizer(vocab_file, max_characters_per_word=0)


def test_a_batch_inside_tf_data_gives_what_single_strings_give(tokenizer):
    texts = ["Ünïcode words", "plain words", "中文 mixed in", "", "more plain"]
    batched = next(iter(tf.data.Dataset.from_tensors(texts).map(tokenizer.tokenize))).to_list()
    assert batched == [tokenizer.tokenize([text]).to_list()[0] for text in texts]
    assert tokenizer.tokenize(tf.constant([], tf.string)).to_list() == []


@pytest.mark.parametrize(
    "name, size, is_uncased",
    [
        ("uncased", 30522, True),
        ("cased", 28996, False),
        ("chinese", 21128, True),
        ("multilingual-cased", 119547, False),
    ],
)
def test_a_published_vocabulary_loads_with_its_own_casing_only(shared, name, size, is_uncased):
    path = str(shared / "vocabs" / f"bert-base-{name}-vocab.txt")
    assert BertTokenizer(path, do_lower_case=is_uncased).vocab_size == size
    with pytest.raises(DataError, match=f"do_lower_case is {str(not is_uncased).lower()}"):
        BertTokenizer(path, do_lower_case=not is_uncased)


def test_a_directory_states_its_casing_or_the_caller_must_give_it(tmp_path):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *string.ascii_uppercase]
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    with pytest.raises(DataError, match="do_lower_case=True or False"):
        BertTokenizer.from_directory(str(tmp_path))
    assert not BertTokenizer.from_directory(str(tmp_path), do_lower_case=False).do_lower_case
    (tmp_path / "config.json").write_text('{"hidden_size": 8}')
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert pieces_of(BertTokenizer.from_directory(str(tmp_path)), ["A b"]) == [["A", "[UNK]"]]
    (tmp_path / "config.json").write_text('{"do_lower_case": true}')
    with pytest.raises(DataError, match="vocabulary .* is cased"):
        BertTokenizer.from_directory(str(tmp_path))


def test_a_saved_model_holds_the_tokenizer_with_its_vocabulary(vocab_file, tmp_path):
    tokenizer = BertTokenizer(vocab_file, special_tokens_in_text=True, verify_casing=False)
    module = tf.Module()
    module.tokenizer = tokenizer
    texts = ["Unaffable [MASK], Ünïcode", "中文 ΑΣ\u0898Α", "", "plain ascii"]
    signature = [tf.TensorSpec([None], tf.string)]
    module.cut = tf.function(tokenizer.tokenize_with_offsets, input_signature=signature)
    module.text = tf.function(
        lambda strings: tokenizer.detokenize(tokenizer.tokenize(strings)), input_signature=signature
    )
    tf.saved_model.save(module, str(tmp_path / "saved"))
    loaded = tf.saved_model.load(str(tmp_path / "saved"))
    for actual, expected in zip(loaded.cut(tf.constant(texts)), tokenizer.tokenize_with_offsets(texts), strict=True):
        assert actual.to_list() == expected.to_list()
    assert (
        loaded.text(tf.constant(texts)).numpy().tolist()
        == tokenizer.detokenize(tokenizer.tokenize(texts)).numpy().tolist()
    )


@pytest.mark.parametrize("more, is_refused", [("", True), (string.ascii_uppercase, False), ("é", False)])
def test_small_letters_alone_contradict_a_cased_tokenizer(tmp_path, more, is_refused):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *string.ascii_lowercase, *more]
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    if is_refused:
        with pytest.raises(DataError, match="is uncased"):
            BertTokenizer(str(tmp_path / "vocab.txt"), do_lower_case=False)
    else:
        assert not BertTokenizer(str(tmp_path / "vocab.txt"), do_lower_case=False).do_lower_case

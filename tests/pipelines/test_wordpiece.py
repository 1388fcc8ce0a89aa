"""The tokenizer against google-research/bert's FullTokenizer (tests/golden/generate_tokenization.py) and itself."""

import json

import pytest
import tensorflow as tf

from pipelines import BertTokenizer


@pytest.fixture
def vocab_file(golden):
    return str(golden / "tokenization_vocab.txt")


def pieces_of(tokenizer, texts):
    return [[tokenizer.vocabulary[i] for i in row] for row in tokenizer.tokenize(texts).to_list()]


@pytest.mark.parametrize("casing", ["lower", "cased"])
def test_pieces_are_google_s_on_every_adversarial_string(golden, vocab_file, casing):
    cases = json.loads((golden / "tokenization.json").read_text(encoding="utf-8"))["cases"]
    tokenizer = BertTokenizer(vocab_file, do_lower_case=casing == "lower")
    found = pieces_of(tokenizer, [case["text"] for case in cases])
    different = [(case["text"], case[casing], pieces) for case, pieces in zip(cases, found) if pieces != case[casing]]
    assert not different


def test_the_short_path_for_ascii_gives_what_the_long_path_gives(vocab_file):
    tokenizer = BertTokenizer(vocab_file)
    texts = tf.constant(["The cat, it's (un)aware!  ", "", "\t a\nb\r", "x" * 200, "x" * 201, "[MASK] $5 ^_^ a.b",
                         "-" * 300, "a" * 150 + "-" + "b" * 150])
    assert tokenizer._tokenize_ascii(texts).to_list() == tokenizer._tokenize_unicode(texts).to_list()


def test_a_mask_in_text_is_three_words_unless_asked_for(vocab_file):
    texts = ["a [MASK]b[MASK]", "[MASK]", "", "a"]
    assert "[MASK]" not in sum(pieces_of(BertTokenizer(vocab_file), texts), [])
    asked = pieces_of(BertTokenizer(vocab_file, special_tokens_in_text=True), texts)
    assert asked == [["a", "[MASK]", "b", "[MASK]"], ["[MASK]"], [], ["a"]]


def test_a_batch_inside_tf_data_gives_what_single_strings_give(vocab_file):
    tokenizer = BertTokenizer(vocab_file)
    texts = ["Ünïcode words", "plain words", "中文 mixed in", "", "more plain"]
    batched = next(iter(tf.data.Dataset.from_tensors(texts).map(tokenizer.tokenize))).to_list()
    assert batched == [tokenizer.tokenize([text]).to_list()[0] for text in texts]
    assert tokenizer.tokenize(tf.constant([], tf.string)).to_list() == []


def test_a_scalar_is_refused_instead_of_crashing(vocab_file):
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
        BertTokenizer(vocab_file).tokenize(tf.constant("scalar"))


def test_published_vocabularies_load(shared):
    for name, size in (("uncased", 30522), ("cased", 28996), ("chinese", 21128), ("multilingual-cased", 119547)):
        path = shared / "vocabs" / f"bert-base-{name}-vocab.txt"
        assert BertTokenizer(str(path), do_lower_case=name == "uncased").vocab_size == size

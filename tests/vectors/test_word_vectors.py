"""Files of word vectors, unknown words, nearest words and analogies, against numbers by hand; and a real training."""

import gzip
import itertools

import numpy as np
import pytest

from keras_bert_app.errors import UserError
from keras_bert_app.vectors import learning_text, vector_learning, word_relations
from keras_bert_app.vectors.static import unknown_words
from keras_bert_app.vectors.static.learning_options import LearningOptions
from keras_bert_app.vectors.static.word_vector_files import WordVectors, read_word_vectors, write_word_vectors

KNOWN = WordVectors(
    ["king", "queen", "man", "woman", "Berlin", "2014"],
    np.array([[5, 1], [5, 3], [1, 1], [1, 3], [-4, 2], [2, -6]], np.float32),
)
FRUIT, ANIMALS = ["apple", "pear", "plum", "cherry"], ["cat", "dog", "horse", "cow"]


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A function (method, seed) -> WordVectors of a text in which fruit is eaten and animals run."""
    generator = np.random.RandomState(0)
    fruit = [f"we eat a sweet {generator.choice(FRUIT)} from the tree" for _ in range(1500)]
    animals = [f"look how the {generator.choice(ANIMALS)} runs in a field" for _ in range(1500)]
    lines = [each.encode() for pair in zip(fruit, animals, strict=True) for each in pair]

    def learn(method, seed=1):
        directory = str(tmp_path_factory.mktemp("text"))
        text = learning_text.write_text([lines], directory, True, None, seed)
        options = LearningOptions(method=method, vector_size=16, window=4, epochs=6, learning_rate=0.05, seed=seed)
        return vector_learning.learn(text, options, lambda *_: None, lambda *_: None)

    return learn


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_a_written_file_comes_back_bit_for_bit(tmp_path):
    vectors = np.random.RandomState(0).normal(size=(6, 2)).astype(np.float32) * [1e-30, 1e30]
    path = str(tmp_path / "my vectors.txt")
    write_word_vectors(path, KNOWN.words, vectors.astype(np.float32))
    read = read_word_vectors(path)
    assert read.words == KNOWN.words and (read.vectors == vectors.astype(np.float32)).all()


@pytest.mark.parametrize("text", ["a 1 -2.5\n\nb 3e1 4\n", "2 2\na 1 -2.5 \nb 30 4 \n", "a 1 -2.5\nb 30 4\na 9 9\n"])
def test_the_formats_of_glove_and_word2vec_are_read_and_the_first_of_two_lines_counts(tmp_path, text):
    for path in (write(tmp_path / "v.txt", text), write(tmp_path / "v.txt.gz", gzip.compress(text.encode()))):
        read = read_word_vectors(path)
        assert read.words == ["a", "b"] and read.vectors.tolist() == [[1, -2.5], [30, 4]]
        assert read.num_duplicates == text.count("a ") - 1


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "has no vectors; expected a word and its numbers"),
        ("a 1 2\nb 1\n", ":2: has 1 numbers after the word, expected 2, as line 1 has"),
        ("a 1 2\nb 1 2 3\n", ":2: has 3 numbers after the word, expected 2"),
        ("a 1 2\n\nb 1 x\n", ":3: has 'x' where a number was expected"),
        ("a 1 2\nb 1 nan\n", ":2: has the number 'nan'; expected finite numbers"),
        ("a 1 2\nb 1 1e50\n", ":2: has the number '1e50'; expected finite numbers"),
        ("3 2\na 1 2\nb 1 2\n", "has 2 vectors, but its first line says 3; the file may be cut off"),
        (b"a 1 2\n\xff 1 2\n", ":2: its word .* is not UTF-8"),
        (b"\xba\x16\x4f\x2f\x0c\n", "is a binary model of fastText; give the text file"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, text, message):
    with pytest.raises(UserError, match=message):
        read_word_vectors(write(tmp_path / "v.txt", text))


def test_another_size_of_the_vectors_is_refused(tmp_path):
    path = write(tmp_path / "v.txt", "2 2\na 1 2\nb 1 2\n")
    with pytest.raises(UserError, match="has vectors of 2 numbers, expected 3, the size"):
        read_word_vectors(path, 3, ", the size of the model")


def test_shapes_are_classes_of_letters():
    words = ["Berlin", "2014", "U.S.", "##ing", "supercalifragilistic", "東京", "##"]
    assert [unknown_words.shape_of(word) for word in words] == ["Xxxxx", "dddd", "XpXp", "##xxx", "xxxx", "cc", "pp"]


def test_the_policies_for_unknown_words_by_hand():
    words = ["Madrid", "1999", "U.S.", "woman", "kings"]
    mean = KNOWN.vectors.mean(axis=0)
    by_unk = unknown_words.vectors_of(words, KNOWN, "unk")
    np.testing.assert_allclose(by_unk[[0, 3]], [mean, [1, 3]], rtol=1e-6)
    by_shape = unknown_words.vectors_of(words, KNOWN, "shape")
    # Madrid has the shape of Berlin, 1999 that of 2014, kings that of king, queen and woman; none has that of U.S.
    np.testing.assert_allclose(by_shape[:4], [[-4, 2], [2, -6], mean, [1, 3]], rtol=1e-6)
    lower = [KNOWN.vectors[row] for row, word in enumerate(KNOWN.words) if unknown_words.shape_of(word) == "xxxx"]
    np.testing.assert_allclose(by_shape[4], np.mean(lower, axis=0) if len(lower) else mean, rtol=1e-6)
    # Every known n-gram of "kings" is one of "king" alone; nobody has one of "U.S.".
    by_characters = unknown_words.vectors_of(words, KNOWN, "characters")
    np.testing.assert_allclose(by_characters[[2, 4]], [mean, [5, 1]], rtol=1e-6)
    named = WordVectors([*KNOWN.words, "[UNK]"], np.concatenate([KNOWN.vectors, [[9, 9]]]).astype(np.float32))
    assert unknown_words.vectors_of(["U.S."], named, "unk").tolist() == [[9, 9]]


def test_ngrams_have_marks_at_the_ends_of_a_word():
    assert set(unknown_words.ngrams_of("cat", (3, 4))) == {"<ca", "cat", "at>", "<cat", "cat>"}
    assert set(unknown_words.ngrams_of("##s", (2, 3))) == {"s>"}


def test_nearest_words_and_analogies_by_hand():
    (near,) = word_relations.neighbours([("woman",)], KNOWN, 2)
    cosines = KNOWN.vectors @ [1, 3] / np.linalg.norm(KNOWN.vectors, axis=1) / np.sqrt(10)
    order = [row for row in np.argsort(-cosines) if KNOWN.words[row] != "woman"][:2]
    assert [each.word for each in near] == [KNOWN.words[row] for row in order]
    np.testing.assert_allclose([each.cosine for each in near], cosines[order], rtol=1e-5)
    assert word_relations.parse_query("man:king::woman:?") == ("man", "king", "woman")
    ((answer,),) = word_relations.neighbours([("man", "king", "woman")], KNOWN, 1)
    assert answer.word == "queen" and answer.rank == 2
    # king - 2014 + man, each of length 1, is nearest to woman. With the wrong word subtracted it is nearest to queen.
    ((answer,),) = word_relations.neighbours([("2014", "king", "man")], KNOWN, 1)
    assert answer.word == "woman" and answer.cosine == pytest.approx(0.95058, abs=1e-5)
    with pytest.raises(UserError, match="the vectors have no word 'prince'; give one of their 6 words"):
        word_relations.neighbours([("prince",)], KNOWN, 1)
    with pytest.raises(UserError, match="is no word and no analogy; write an analogy as man:king::woman:"):
        word_relations.parse_query("a::b")


def test_analogies_of_a_file_are_scored_by_section(tmp_path):
    path = write(
        tmp_path / "q.txt",
        ": people\nman king woman queen\n2014 king man woman\nMAN KING WOMAN Berlin\n: x\nman king woman nosuch\n",
    )
    people, other, everything = word_relations.score_questions(word_relations.read_questions(path), KNOWN)
    assert (people.section, people.questions, people.correct, people.skipped) == ("people", 3, 2, 0)
    assert (other.questions, other.skipped) == (0, 1) and (everything.questions, everything.skipped) == (3, 1)
    low, high = people.figures()["interval"]
    assert 0.0 < low < 0.5 < high < 1.0 and other.figures()["accuracy"] is None
    with pytest.raises(UserError, match=":1: has 3 words; expected four words"):
        word_relations.read_questions(write(tmp_path / "bad.txt", "a b c\n"))


@pytest.mark.parametrize("method", ["skip_gram", "fasttext"])
def test_words_in_the_same_places_of_sentences_come_out_nearest(learned, method):
    known = learned(method)
    unit = known.vectors / np.linalg.norm(known.vectors, axis=1, keepdims=True)
    inside, between = [], []
    for first, second in itertools.combinations(FRUIT + ANIMALS, 2):
        cosine = unit[known.rows[first]] @ unit[known.rows[second]]
        (inside if (first in FRUIT) == (second in FRUIT) else between).append(cosine)
    assert min(inside) > max(between)
    if method == "fasttext":
        vector = unknown_words.vectors_of(["apples"], known, "characters")[0]
        cosines = unit @ vector
        assert known.words[int(cosines.argmax())] == "apple"


def test_one_worker_gives_the_same_vectors_for_the_same_seed(learned):
    first, again, other = learned("skip_gram", 1), learned("skip_gram", 1), learned("skip_gram", 2)
    assert first.words == again.words and (first.vectors == again.vectors).all()
    assert (first.vectors != other.vectors).any()


def test_a_text_without_a_word_is_refused(tmp_path):
    text = learning_text.write_text([[b" "]], str(tmp_path), True, None, 1)
    with pytest.raises(UserError, match="has no word; give files with text"):
        vector_learning.learn(text, LearningOptions(), lambda *_: None, lambda *_: None)


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("method", "glove", "--method=glove is not known"),
        ("negative", 0, "--negative=0: expected 1 or more"),
        ("learning_rate", 2.0, "--learning_rate=2.0: expected a number from"),
        ("subword_lengths", (4, 3), "--subword_lengths=4,3: expected the fewest and the most characters"),
    ],
)
def test_options_out_of_their_range_are_refused(name, value, message):
    with pytest.raises(UserError, match=message):
        LearningOptions(**{name: value})

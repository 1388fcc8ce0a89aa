"""Random strings and code points in context have the reference's pieces (tests/golden/tokenization_random.npz).

The golden file holds checksums. If a test fails, `python -m benchmarks.tokenizer.tokenizer_exactness` prints the pieces
of both sides.
"""

import json
import zlib

import numpy as np
import pytest
import tensorflow as tf

from pipelines import BertTokenizer
from tests import random_text


@pytest.fixture(scope="module", params=["synthetic", "character"])
def vocab_file(request, tmp_path_factory):
    """Returns (name of the vocabulary in the golden file, its path)."""
    if request.param == "synthetic":
        return request.param, str(request.path.parents[2] / "golden" / "tokenization_vocab.txt")
    path = tmp_path_factory.mktemp("vocabulary") / "character.txt"
    entries = random_text.character_vocabulary()
    path.write_text("".join(entry + "\n" for entry in entries), encoding="utf-8", newline="\n")
    return request.param, str(path)


@pytest.fixture(scope="module", params=["lower", "cased"])
def tokenizer(request, vocab_file):
    """Returns (key of the golden arrays, tokenizer)."""
    name, path = vocab_file
    return f"{name}_{request.param}", BertTokenizer(path, do_lower_case=request.param == "lower", verify_casing=False)


@pytest.fixture(scope="module")
def reference(request):
    with np.load(request.path.parents[2] / "golden" / "tokenization_random.npz") as arrays:
        return {name: arrays[name] for name in arrays} | {"metadata": json.loads(str(arrays["metadata"]))}


def checksums(ids, rows_per_block):
    """Computes the CRC-32 of each block of rows of a ragged tensor as the generator does: -1 ends each row."""
    ended = tf.concat([ids, tf.fill([ids.nrows(), 1], -1)], axis=1)
    values, splits = ended.flat_values.numpy().astype("<i4"), ended.row_splits.numpy()[::rows_per_block]
    return np.array(
        [zlib.crc32(values[start:end]) for start, end in zip(splits[:-1], splits[1:], strict=True)], np.uint32
    )


@pytest.fixture(scope="module")
def random_texts(reference):
    metadata = reference["metadata"]
    return [random_text.random_string(metadata["seed"], number) for number in range(metadata["num_random"])]


@pytest.fixture(scope="module")
def code_point_texts(reference):
    """Makes one string for each code point."""
    metadata = reference["metadata"]
    return tf.constant(
        [
            " ".join(random_text.code_point_contexts(code))
            for first in metadata["first_codes"]
            for code in range(first, first + metadata["codes_per_block"])
        ]
    )


def test_random_strings_give_the_reference_s_pieces(tokenizer, reference, random_texts):
    key, tokenizer = tokenizer
    is_different = checksums(tokenizer.tokenize(random_texts), 1) != reference[f"random_{key}"]
    assert [random_texts[number] for number in np.flatnonzero(is_different)] == []


def test_every_code_point_in_context_gives_the_reference_s_pieces(tokenizer, reference, code_point_texts):
    key, tokenizer = tokenizer
    per_block = reference["metadata"]["codes_per_block"]
    is_different = checksums(tokenizer.tokenize(code_point_texts), per_block) != reference[f"code_points_{key}"]
    assert [
        f"U+{reference['metadata']['first_codes'][block]:04X} or one of the {per_block - 1} after it"
        for block in np.flatnonzero(is_different)
    ] == []


def test_an_invalid_sequence_counts_as_a_replacement_character(tokenizer):
    _, tokenizer = tokenizer
    strings = [random_text.random_bytes(seed=5, number=number) for number in range(3000)]
    replaced = tokenizer.tokenize([string.decode("utf-8", "replace") for string in strings]).to_list()
    actual = tokenizer.tokenize(strings).to_list()
    assert [string for string, ours, expected in zip(strings, actual, replaced, strict=True) if ours != expected] == []

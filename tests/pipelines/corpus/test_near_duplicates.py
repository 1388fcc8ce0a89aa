import itertools
import random

import numpy as np
import pytest

from pipelines.corpus import fingerprints, near_duplicates
from pipelines.corpus.preparation import prepare_corpus

WORDS = [f"{a}{b}{c}{d}" for a, b, c, d in itertools.product("bdfgk", "aeiou", "lmnprst", "aeiou")]
CHARACTERS = [chr(code) for code in range(0x4E00, 0x5200)]


def english(generator, length):
    """Makes sentences of ten random words. `length` is the number of words of the document."""
    words = generator.choices(WORDS, k=length)
    return [" ".join(words[i : i + 10]).capitalize() + "." for i in range(0, length, 10)]


def chinese(generator, length):
    characters = generator.choices(CHARACTERS, k=length)
    return ["".join(characters[i : i + 20]) + "。" for i in range(0, length, 20)]


def changed(sentences, alphabet, changes, generator):
    """Replaces `changes` random words or characters of the sentences."""
    text = "\n".join(sentences)
    separator = " " if " " in text else ""
    parts = text.split(" ") if separator else list(text)
    for place in generator.sample([i for i, part in enumerate(parts) if part.strip(".。\n")], changes):
        parts[place] = generator.choice(alphabet) + ("\n" if "\n" in parts[place] else "")
    return separator.join(parts).split("\n")


def similarity(first, second):
    """Computes the Jaccard similarity of the sets of runs of five words or characters, by the definition."""
    sets = []
    for sentences in (first, second):
        text = " ".join(sentences).lower()
        tokens = [token.strip(".,") for token in text.split()] if text.isascii() else list("".join(sentences))
        sets.append({tuple(tokens[i : i + 5]) for i in range(len(tokens) - 4)})
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


@pytest.mark.parametrize("make, alphabet", [(english, WORDS), (chinese, CHARACTERS)])
def test_the_share_of_equal_minima_estimates_the_jaccard_similarity(make, alphabet):
    generator = random.Random(3)
    for changes in (1, 3, 8, 20, 60):
        pairs = [
            (document, changed(document, alphabet, changes, generator))
            for document in (make(generator, 400) for _ in range(20))
        ]
        records = ["\n".join(document).encode() for pair in pairs for document in pair]
        signatures = near_duplicates.signatures(records)
        estimates = (signatures[::2] == signatures[1::2]).mean(axis=1)
        true = np.array([similarity(*pair) for pair in pairs])
        assert abs((estimates - true).mean()) < 0.03 and abs(estimates - true).max() < 0.16


def test_case_punctuation_white_space_and_the_cut_into_sentences_do_not_matter():
    first, second = near_duplicates.signatures(
        [b"One two, three four five.\nSix seven", b"one  TWO three four: five six\nseven!"]
    )
    assert (first == second).all()


def test_short_documents_are_compared_as_a_whole_and_documents_without_a_token_have_no_signature():
    signatures = near_duplicates.signatures([b"One two.", b"one two", b"one three", b"... !", b"", b"x"])
    assert (signatures[0] == signatures[1]).all() and (signatures[0] == signatures[2]).mean() < 0.1
    assert not signatures[3:5].any() and signatures[5].any()


def test_a_signature_does_not_depend_on_other_documents_or_on_the_block_size(monkeypatch):
    generator = random.Random(5)
    records = ["\n".join(english(generator, 200)).encode() for _ in range(30)]
    together = near_duplicates.signatures(records)
    monkeypatch.setattr(fingerprints, "_BLOCK_BYTES", 300)
    assert (together == near_duplicates.signatures(records)).all()
    assert (together[7:8] == near_duplicates.signatures(records[7:8])).all()


@pytest.mark.parametrize("make, alphabet", [(english, WORDS), (chinese, CHARACTERS)])
def test_near_duplicates_are_dropped_and_different_documents_kept_whatever_their_order(tmp_path, make, alphabet):
    generator = random.Random(4)
    originals = [make(generator, 600) for _ in range(60)]
    near = [changed(document, alphabet, 6, generator) for document in originals[:40]]  # similarity about 0.9
    nearer = [changed(document, alphabet, 2, generator) for document in originals[:20]]
    far = [changed(document, alphabet, 150, generator) for document in originals]  # similarity about 0.1
    documents = originals + near + nearer + far
    results = []
    for name, order in (("a", documents), ("b", documents[::-1])):
        manifest = prepare_corpus(
            str(tmp_path / name), documents=order + [originals[0]], dedup="near", holdout_fraction=0.1
        )
        assert (manifest["counts"]["duplicates"], manifest["counts"]["near_duplicates"]) == (1, 60)
        assert manifest["train"]["documents"] + manifest["heldout"]["documents"] == 120
        results.append(
            [
                (tmp_path / name / shard["file"]).read_bytes()
                for split in ("train", "heldout")
                for shard in manifest[split]["shards"]
            ]
        )
    assert results[0] == results[1]


def test_the_document_with_the_smallest_key_of_a_cluster_remains():
    base = ["\n".join(english(random.Random(seed), 300)).encode() for seed in (1, 2)]
    records = [base[0], base[1], base[0] + b" x", base[0] + b" y", base[1]]
    signatures = near_duplicates.signatures(records)
    dropped = np.array([False, False, False, False, True])
    keys = np.array([9, 3, 2, 7, 1], np.uint64)

    def dropped_with(is_heldout):
        return near_duplicates.near_duplicates(
            keys,
            np.array(is_heldout),
            dropped,
            lambda: iter([signatures[:2], signatures[2:]]),
            lambda numbers: signatures[numbers],
        ).tolist()

    assert dropped_with([False] * 5) == [True, False, False, True, False]
    # A held-out document never removes a training document.
    assert dropped_with([False, False, True, False, False]) == [True, False, True, False, False]

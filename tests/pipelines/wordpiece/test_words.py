"""Words are counted and texts sampled in bounded memory, with the same result every time."""

import random

import pytest

from pipelines.wordpiece import words
from pipelines.wordpiece.words import SampleCounts, count_words, sample_documents


def test_words_are_those_of_normalization_and_long_ones_are_cut_to_201_characters():
    counted = count_words([["The café, the 中文", "é" * 300], ["the"]], do_lower_case=True)
    assert counted.counts == {"the": 3, "cafe": 1, ",": 1, "中": 1, "文": 1, "e" * 201: 1}
    assert counted.num_words == 8 and counted.num_dropped == 0


def test_rare_words_beyond_max_distinct_words_are_dropped_and_the_loss_is_counted(monkeypatch):
    monkeypatch.setattr(words, "_BATCH_BYTES", 100)
    text = [[f"common rare{i}"] for i in range(200)]
    counted = count_words(text, do_lower_case=True, max_distinct_words=30)
    assert len(counted.counts) <= 30 and counted.counts["common"] == 200
    assert counted.num_words == 400 == sum(counted.counts.values()) + counted.num_dropped
    assert count_words(text, do_lower_case=True, max_distinct_words=30) == counted


def drawn(documents, max_bytes, seed=1):
    counts = SampleCounts()
    return [b"\n".join(document).decode() for document in sample_documents(documents, max_bytes, seed, counts)], counts


def test_a_sample_is_a_function_of_text_and_seed_and_its_counts_are_exact():
    documents = [[f"document {i}", "x" * random.Random(i).randrange(100)] for i in range(300)]
    texts = ["\n".join(document) for document in documents]
    sample, counts = drawn(documents, 5000)
    assert sample == drawn(iter(documents), 5000)[0] != drawn(documents, 5000, seed=2)[0]
    assert counts.bytes == sum(map(len, sample)) and 4800 < counts.bytes <= 5000
    assert counts.documents == len(sample) and counts.all_documents == 300 and counts.all_bytes == sum(map(len, texts))
    assert sample == [text for text in texts if text in set(sample)]  # the sample keeps the order of the text
    assert set(sample) < set(drawn(documents, 9000)[0])


@pytest.mark.parametrize("max_bytes", [10**6, 30])
def test_a_text_below_the_limit_is_taken_whole_and_a_sample_has_at_least_one_document(max_bytes):
    documents = [["a" * 40], ["b" * 40]]
    assert len(drawn(documents, max_bytes)[0]) == (2 if max_bytes > 80 else 1)

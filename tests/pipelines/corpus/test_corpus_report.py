import collections
import json
import random

import numpy as np

from pipelines.corpus.corpus_report import Lengths, RepeatedLines, report_text
from pipelines.corpus.fingerprints import document_keys, entries_and_lines
from pipelines.corpus.preparation import prepare_corpus


def test_documents_and_lines_are_counted_as_python_counts_them():
    records = ["Ein Satz.\nÄpfel\u2028und 中文字。\n\t\x00 \x0bx".encode(), b"a", "é\n\n b  c \n".encode(), b""]
    entries, lines = entries_and_lines(records)
    texts = [record.decode().split("\n") for record in records]
    assert entries["size"].tolist() == [len(record) for record in records]
    assert entries["words"].tolist() == [10, 1, 3, 0]  # Chinese characters and punctuation marks count one each
    assert entries["sentences"].tolist() == [len(text) for text in texts]
    assert entries["characters"].tolist() == [sum(map(len, text)) for text in texts]
    assert lines["characters"].tolist() == [len(line) for text in texts for line in text]
    assert entries["offset"].tolist() == np.cumsum([0, *map(len, records)])[:-1].tolist()


def test_equal_lines_have_equal_hashes_and_different_lines_have_different_hashes():
    generator = random.Random(0)
    lines = ["".join(generator.choices("ab \0é中", k=generator.randrange(9))) for _ in range(20_000)]
    records = ["\n".join(lines[i : i + 7]).encode() for i in range(0, len(lines), 7)]
    hashes = entries_and_lines(records)[1]["hash"].tolist()
    assert len(set(zip(lines, hashes, strict=True))) == len(set(lines)) == len(set(hashes))


def test_document_keys_ignore_white_space_and_depend_on_the_seed():
    keys = document_keys([b"a b\nc", b"ab c ", b"abd"], b"1")
    assert (keys[0] == keys[1]).all() and (keys[0] != keys[2]).all()
    assert (keys[0] != document_keys([b"a b\nc"], b"2")[0]).all()


def test_repeated_lines_are_counted_exactly_if_each_line_has_a_counter():
    generator = np.random.default_rng(0)
    values = generator.integers(0, 50, 3000).astype(np.uint64)
    lines = RepeatedLines(max_counters=64)
    for start in range(0, 3000, 100):
        lines.add(values[start : start + 100])
    expected = collections.Counter(values.tolist())
    assert lines.error == 0
    assert lines.most_common(50) == sorted(expected.items(), key=lambda item: (-item[1], item[0]))


def test_counts_of_more_lines_than_counters_are_too_low_by_at_most_the_error():
    generator = np.random.default_rng(1)
    values = np.minimum(generator.zipf(1.3, 50_000), 1 << 40).astype(np.uint64)
    lines = RepeatedLines(max_counters=500)
    for start in range(0, len(values), 1000):
        lines.add(values[start : start + 1000])
    true = collections.Counter(values.tolist())
    most_common = lines.most_common(20)
    assert 0 < lines.error <= len(values) / 500
    assert all(true[value] - lines.error <= count <= true[value] for value, count in most_common)
    assert {value for value, _ in most_common[:10]} == {value for value, _ in true.most_common(10)}


def test_lengths_are_counted_in_bins_that_begin_at_powers_of_two():
    lengths = Lengths()
    lengths.add(np.array([0, 1, 2, 3, 4, 7, 8], np.uint32))
    lengths.add(np.array([], np.uint32))
    assert lengths.result() == {
        "mean": 25 / 7,
        "max": 8,
        "bins": [[0, 0, 1], [1, 1, 1], [2, 3, 2], [4, 7, 2], [8, 15, 1]],
    }


def test_the_report_says_what_the_corpus_holds(tmp_path):
    documents = [[f"Own line {i}.", "Привет.", "Boilerplate."][: 1 + i % 3] for i in range(30)]
    prepare_corpus(str(tmp_path), documents=documents + documents[:2], holdout_fraction=0)
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["counts"]["duplicates"] == 2
    assert report["repeated_lines"] == {
        "lines": [["Привет.", 20], ["Boilerplate.", 10]],
        "counts_too_low_by_at_most": 0,
    }
    assert report["lengths"]["sentences_per_document"]["bins"] == [[0, 0, 0], [1, 1, 10], [2, 3, 20]]
    assert report["scripts"]["characters"]["Cyrillic"] == 20 * 6
    text = report_text(report)
    assert text == (tmp_path / "report.txt").read_text()
    assert "20 Привет." in text and "exact counts" in text and "2 documents dropped as equal" in text

"""FASTA files as documents of k-mers."""

import random

import pytest

from pipelines.data_error import DataError
from pipelines.text.readers import ReaderCounts, read_documents


def documents_of(text, tmp_path, input_format):
    counts, path = ReaderCounts(), tmp_path / "genes of mice.fa"
    path.write_text(text)
    return list(read_documents([str(path)], input_format, counts=counts)), counts


@pytest.mark.parametrize("size", [3, 6])
def test_each_record_is_a_document_of_all_runs_of_letters_in_order(tmp_path, size):
    draw = random.Random(5)
    sequences = [
        "".join(draw.choice("ACGTN") for _ in range(number)) for number in (7, 63 + size, 64 + size, 300, size)
    ]
    records = []
    for number, sequence in enumerate(sequences):
        width = draw.randint(1, 90)
        lines = [sequence[at : at + width] for at in range(0, len(sequence), width)]
        records.append("\n".join([f">gene{number} of a mouse", *lines]))
    records[1] = records[1].lower()
    sequences[0] += "*-"
    records[0] += "\n*\n; a comment\n-"
    documents, counts = documents_of("\r\n".join(["", *records, ">short", "AC", ">none"]), tmp_path, f"fasta{size}")
    for sequence, lines in zip(sequences, documents, strict=True):
        expected = [sequence[at : at + size] for at in range(len(sequence) - size + 1)]
        assert [symbol for line in lines for symbol in line.split(" ")] == expected
        assert all(len(line.split(" ")) == 64 for line in lines[:-1]) and len(lines[-1].split(" ")) <= 64
    assert counts.empty_lines == 2


@pytest.mark.parametrize(("text", "words"), [("ACGT\n>a", "mice.fa:1: 'ACGT'"), (">a\nAC GT\n", "mice.fa:2: 'AC GT'")])
def test_a_file_that_is_no_fasta_is_named_with_its_line(tmp_path, text, words):
    with pytest.raises(DataError, match="is not FASTA; expected a line that begins with >") as caught:
        documents_of(text, tmp_path, "fasta6")
    assert words in str(caught.value) and "\n" not in str(caught.value)

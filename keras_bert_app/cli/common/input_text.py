"""The input text of a command: checks before anything is read, and progress while the command reads."""

import sys
from collections.abc import Iterable, Iterator, Sequence

from keras_bert_app.errors import UserError, nearest
from keras_bert_app.terminal.progress import ReadingProgress
from pipelines.text.readers import FORMATS, ReaderCounts, expand_files, read_documents
from pipelines.text.text_formats import format_reporter
from pipelines.wordpiece.words import SampleCounts, sample_documents


def checked_files(input_files: Sequence[str], input_format: str) -> list[str]:
    """Lists the files that patterns name.

    Args:
        input_files: sequence of str. The value of --input_files.
        input_format: str. The value of --input_format.

    Returns:
        list of str: paths.

    Raises:
        UserError: the format is unknown.
        DataError: a pattern matches no file.
    """
    if input_format not in FORMATS:
        raise UserError(f"--input_format={input_format} is not known: {nearest(input_format, FORMATS)}")
    return expand_files(input_files)


def format_for(input_format: str, tokenizer: str) -> str:
    """The format of the text of a tokenizer: "symbols" instead of "auto" for symbols.

    Args:
        input_format: str. The value of --input_format.
        tokenizer: str. One of choices.TOKENIZERS.
    """
    return "symbols" if tokenizer == "symbols" and input_format == "auto" else input_format


def check_sample_megabytes(value: float) -> None:
    """Checks the value of --sample_megabytes.

    Args:
        value: float. Megabytes.

    Raises:
        UserError: the value is negative, infinite or not a number.
    """
    if not 0 <= value < float("inf"):
        raise UserError(f"--sample_megabytes={value} is not a size; give megabytes, or 0 for all of the text")


def documents_of(
    files: Sequence[str],
    input_format: str,
    text_field: str,
    counts: ReaderCounts,
    sample_megabytes: float = 0,
    seed: int = 0,
) -> Iterator[list]:
    """Yields the documents of files, or of a sample of them, and prints progress.

    Args:
        files: sequence of str. Paths of text files.
        input_format: str. The value of --input_format.
        text_field: str. The field of JSON lines that holds the text.
        counts: ReaderCounts. The function updates it while it reads.
        sample_megabytes: float. The size of the sample; 0 for all of the text.
        seed: int. It decides which documents are in the sample.

    Yields:
        list of sentences: one document.
    """
    progress = ReadingProgress("reading")
    report = format_reporter(progress.line.say)
    documents = _with_progress(read_documents(files, input_format, text_field, counts, report=report), counts, progress)
    if sample_megabytes:
        sample = SampleCounts()
        sampled = sample_documents(documents, sample_megabytes * 1_000_000, seed, sample)
        for number, document in enumerate(sampled):
            if number == 0:
                print(_sample_text(sample), flush=True)
            yield document
    else:
        yield from documents
    if counts.invalid_utf8_lines:
        print(f"{counts.invalid_utf8_lines:,} lines hold invalid UTF-8; those bytes were left out", file=sys.stderr)


def _sample_text(sample: SampleCounts) -> str:
    if sample.documents == sample.all_documents:
        return f"text: all {sample.documents:,} documents, {sample.bytes / 1e6:,.1f} MB"
    return (
        f"text: a sample of {sample.documents:,} of {sample.all_documents:,} documents, "
        f"{sample.bytes / 1e6:,.1f} of {sample.all_bytes / 1e6:,.1f} MB (--sample_megabytes=0 takes all)"
    )


def _with_progress(documents: Iterable[list], counts: ReaderCounts, progress: ReadingProgress) -> Iterator[list]:
    try:
        for document in documents:
            yield document
            progress(counts.documents, counts.bytes)
    finally:
        progress.line.clear()

"""Text files as the vocabulary commands take them: checked before anything is read, with progress while they are."""

import os
import pathlib
import sys
import time

from keras_bert_app.errors import UserError, nearest
from pipelines.text.readers import FORMATS, expand_files, read_documents
from pipelines.wordpiece.words import SampleCounts, sample_documents

_SECONDS_BETWEEN_REPORTS = 5


def checked_files(input_files, input_format):
    """The files that patterns name.

    Raises:
        UserError, DataError: the format is not known, or a pattern matches no file.
    """
    if input_format not in FORMATS:
        raise UserError(f"--input_format={input_format} is not known: {nearest(input_format, FORMATS)}")
    return expand_files(input_files)


def check_sample_megabytes(value):
    """Refuses what is no size.

    Raises:
        UserError: it is negative, infinite or not a number.
    """
    if not 0 <= value < float("inf"):
        raise UserError(f"--sample_megabytes={value} is not a size; give megabytes, or 0 for all of the text")


def documents_of(files, input_format, text_field, counts, sample_megabytes=0, seed=0):
    """Yields the documents (lists of sentences) of files, or of a sample of them, and says what it does.

    Args:
        counts: ReaderCounts, filled while reading. sample_megabytes: 0 for all of the text.
    """
    documents = reported(read_documents(files, input_format, text_field, counts), counts)
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


def _sample_text(sample):
    if sample.documents == sample.all_documents:
        return f"text: all {sample.documents:,} documents, {sample.bytes / 1e6:,.1f} MB"
    return (
        f"text: a sample of {sample.documents:,} of {sample.all_documents:,} documents, "
        f"{sample.bytes / 1e6:,.1f} of {sample.all_bytes / 1e6:,.1f} MB (--sample_megabytes=0 takes all)"
    )


def reported(documents, counts):
    """The documents as they come, with a line of progress every five seconds."""
    started = last = time.monotonic()
    for document in documents:
        yield document
        if time.monotonic() - last > _SECONDS_BETWEEN_REPORTS:
            last = time.monotonic()
            print(
                f"reading: {counts.documents:,} documents, {counts.bytes / 1e6:,.0f} MB, "
                f"{counts.bytes / 1e6 / (last - started):,.1f} MB/s",
                flush=True,
            )


def check_apart(path, flag, input_files, files):
    """Refuses to write where text is read from, or where the same command would read what was written the next time.

    Args:
        input_files: patterns and directories. files: those that they name.

    Raises:
        UserError: the path is one of the files, or would be.
    """
    if "://" in path:
        return
    place = os.path.realpath(path)
    if place in map(os.path.realpath, files):
        raise UserError(f"--{flag}={path}: is one of --input_files, whose text would be lost; give another name")
    for pattern in input_files:
        if place.startswith(os.path.join(os.path.realpath(pattern), "")) or pathlib.PurePath(place).match(
            os.path.abspath(pattern)
        ):
            raise UserError(
                f"--{flag}={path}: --input_files={pattern} would take it for text the next time; give another place"
            )


def make_place_for(path, flag):
    """Makes the directory of a file that will be written, before minutes of reading and not after.

    Raises:
        UserError: the path is a directory.
    """
    if "://" in path:
        return
    if os.path.isdir(path):
        raise UserError(f"--{flag}={path} is a directory; give the name of a file in it")
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)

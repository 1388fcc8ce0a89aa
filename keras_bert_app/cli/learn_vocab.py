"""Learns a WordPiece vocabulary from text files.

python -m keras_bert_app.cli.learn_vocab --input_files='texts/*.txt' --vocab_file=vocab.txt --vocab_size=8000
"""

import os
import sys
import time

from absl import flags

from keras_bert_app.cli import app
from keras_bert_app.config import nearest
from keras_bert_app.errors import UserError
from pipelines.readers import FORMATS, ReaderCounts, expand_files, read_documents

_INPUT_FILES = flags.DEFINE_list("input_files", [], "Text files, glob patterns or directories, comma-separated.")
_INPUT_FORMAT = flags.DEFINE_string("input_format", "auto", f"Layout of the text: {', '.join(FORMATS)}.")
_TEXT_FIELD = flags.DEFINE_string("text_field", "text", "The field of a JSON line that holds the text.")
flags.DEFINE_string("vocab_file", "", "File to write, one piece a line.")
_VOCAB_SIZE = flags.DEFINE_integer("vocab_size", 30522, "Entries wanted, special pieces included.")
_DO_LOWER_CASE = flags.DEFINE_bool("do_lower_case", True, "Lower case and strip accents (an uncased vocabulary).")


def main(arguments):
    if arguments:
        raise UserError(f"unexpected argument {arguments[0]!r}; files go into --input_files")
    _, vocab_file = app.required("input_files", "vocab_file")
    files = expand_files(_INPUT_FILES.value)
    if _INPUT_FORMAT.value not in FORMATS:
        raise UserError(f"--input_format={_INPUT_FORMAT.value} is not known: {nearest(_INPUT_FORMAT.value, FORMATS)}")
    if "://" not in vocab_file:  # before minutes of reading, not after
        os.makedirs(os.path.dirname(os.path.abspath(vocab_file)), exist_ok=True)
    with app.quiet_start():
        from pipelines.vocab import learn_vocabulary, write_vocabulary
    counts = ReaderCounts()
    documents = read_documents(files, _INPUT_FORMAT.value, _TEXT_FIELD.value, counts)
    pieces, num_words = learn_vocabulary(_reported(documents, counts), _VOCAB_SIZE.value, _DO_LOWER_CASE.value)
    write_vocabulary(pieces, vocab_file)
    print(f"{vocab_file}: {len(pieces):,} pieces from {num_words:,} words in {len(files):,} files")
    if counts.invalid_utf8_lines:
        print(f"{counts.invalid_utf8_lines:,} lines hold invalid UTF-8; those bytes were left out", file=sys.stderr)


def _reported(documents, counts):
    """The documents as they come, with a line every five seconds, and one when the text is read."""
    started = last = time.monotonic()
    for document in documents:
        yield document
        if time.monotonic() - last > 5:
            last = time.monotonic()
            print(f"reading: {counts.documents:,} documents, {counts.bytes / 1e6:,.0f} MB, "
                  f"{counts.bytes / 1e6 / (last - started):,.1f} MB/s", flush=True)


if __name__ == "__main__":
    app.run(main, __doc__)

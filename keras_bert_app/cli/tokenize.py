"""Prints the pieces of texts with their places in the original.

python -m keras_bert_app.cli.tokenize --vocab_file=vocab.txt "Der Käse, the 中 and the [MASK]"
python -m keras_bert_app.cli.tokenize --vocab_file=vocab.txt --input_file=text.txt --output_format=jsonl | head

Each text, or line of the file, gives a table: id, piece, characters and bytes of the original that it came from (ends
exclusive), and the original itself. A line of more than 64 KiB is taken in parts, whose characters and bytes count from the part's
beginning. With --output_format=jsonl it gives one JSON object.
"""

import json
import os
import sys

from absl import flags

from keras_bert_app.cli.common import app
from keras_bert_app.errors import UserError, nearest
from keras_bert_app.terminal import screen
from pipelines.text.text_files import open_text, readable
from pipelines.wordpiece.vocabulary import load_vocabulary

flags.DEFINE_string("vocab_file", "", "Vocabulary, one piece a line.")
_DO_LOWER_CASE = flags.DEFINE_bool("do_lower_case", True, "Whether the vocabulary is uncased.")
_SPECIAL_TOKENS_IN_TEXT = flags.DEFINE_bool(
    "special_tokens_in_text", False, 'Whether a literal "[MASK]" is the mask instead of three ordinary words.'
)
_INPUT_FILE = flags.DEFINE_string("input_file", "", "File to take line by line instead; - for standard input.")
_OUTPUT_FORMAT = flags.DEFINE_string("output_format", "table", "table or jsonl.")
_FORMATS = ("table", "jsonl")
_CHUNK_BYTES = 1 << 16  # of text cut at a time; a longer line is taken in parts of this size
_COLUMNS = ("id", "piece", "chars", "bytes", "text")


def main(texts):
    (vocab_file,) = app.required("vocab_file")
    if _OUTPUT_FORMAT.value not in _FORMATS:
        raise UserError(
            f"--output_format={_OUTPUT_FORMAT.value} is not known: {nearest(_OUTPUT_FORMAT.value, _FORMATS)}"
        )
    if bool(texts) == bool(_INPUT_FILE.value):
        raise UserError(
            "texts and --input_file were both given; give one of them"
            if texts
            else 'no text was given; write it after the flags: tokenize --vocab_file=FILE "a text", or give '
            "--input_file=FILE (- for standard input)"
        )
    load_vocabulary(vocab_file)
    if _INPUT_FILE.value not in ("", "-") and "://" not in _INPUT_FILE.value:
        with open_text(_INPUT_FILE.value):  # a wrong name is refused before TensorFlow is loaded
            pass
    with app.quiet_start():
        from pipelines.wordpiece.tokenizer import BertTokenizer
    cut = make_cut(BertTokenizer(vocab_file, _DO_LOWER_CASE.value, _SPECIAL_TOKENS_IN_TEXT.value))
    show = show_jsonl if _OUTPUT_FORMAT.value == "jsonl" else show_table
    for batch in batches_of(texts, _INPUT_FILE.value):
        for (line, part, text), pieces in zip(batch, cut([text for _, _, text in batch])):
            sys.stdout.write(show(line, part, text, pieces))
        sys.stdout.flush()


def make_cut(tokenizer):
    """A function from a list of bytes to a list of columns (ids, pieces, start_chars, ...) for each."""

    def cut(texts):
        # Not compiled: that takes seconds, and printing takes longer than cutting.
        columns = tokenizer.tokenize_with_offsets(texts)
        ids, start_bytes, end_bytes, start_chars, end_chars = (values.to_list() for values in columns)
        return [
            {
                "ids": row,
                "pieces": [tokenizer.vocabulary[i] for i in row],
                "start_chars": start_chars[i],
                "end_chars": end_chars[i],
                "start_bytes": start_bytes[i],
                "end_bytes": end_bytes[i],
                "substrings": [
                    text[start:end].decode("utf-8", "replace") for start, end in zip(start_bytes[i], end_bytes[i])
                ],
            }
            for i, (text, row) in enumerate(zip(texts, ids))
        ]

    return cut


def batches_of(texts, input_file):
    """Yields lists of (line number, part, bytes): the texts, or the lines of a file as they come.

    A line longer than _CHUNK_BYTES comes in parts 1, 2, ..., cut at a space where there is one; others are part 0.
    """
    if texts:
        # Arguments that are no UTF-8 come as surrogates; this gives their bytes back.
        yield [(number, 0, os.fsencode(text)) for number, text in enumerate(texts, start=1)]
    elif input_file == "-":
        yield from _line_batches(sys.stdin.buffer, "standard input")
    else:
        with open_text(input_file) as stream:
            yield from _line_batches(stream, input_file)


def _line_batches(stream, path):
    line, part, pending = 1, 0, b""
    while True:
        with readable(path):
            data = stream.read1(_CHUNK_BYTES)  # what there is, so that a slow pipe is shown at once
        *whole, pending = (pending + data).split(b"\n")
        if not data and pending:
            whole, pending = [pending], b""
        batch = []
        for text in whole:
            batch.append((line, part + 1 if part else 0, text.removesuffix(b"\r")))
            line, part = line + 1, 0
        if len(pending) > _CHUNK_BYTES:
            part, cut = part + 1, _place_to_cut(pending)
            batch.append((line, part, pending[:cut]))
            pending = pending[cut:]
        if batch:
            yield batch
        if not data:
            return


def _place_to_cut(text):
    """Behind the last space of the second half, else before the character that the end would cut."""
    space = text.rfind(b" ", _CHUNK_BYTES // 2, _CHUNK_BYTES)
    if space >= 0:
        return space + 1
    return next((cut for cut in range(_CHUNK_BYTES, _CHUNK_BYTES - 4, -1) if text[cut] & 0xC0 != 0x80), _CHUNK_BYTES)


def show_jsonl(line, part, text, columns):
    """One JSON object: the line's number from 1, its text, and a list for each column."""
    record = {"line": line, **({"part": part} if part else {}), "text": text.decode("utf-8", "replace"), **columns}
    return json.dumps(record, ensure_ascii=False) + "\n"


def show_table(line, part, text, columns):
    """The text's number and beginning, then a line for each piece, in aligned columns."""
    rows = [
        _COLUMNS,
        *(
            (str(i), piece, f"{start}-{end}", f"{first}-{last}", substring)
            for i, piece, start, end, first, last, substring in zip(
                *(
                    columns[key]
                    for key in ("ids", "pieces", "start_chars", "end_chars", "start_bytes", "end_bytes", "substrings")
                )
            )
        ),
    ]
    rows = [[screen.printable(cell) for cell in row] for row in rows]
    widths = [max(map(screen.width, column)) for column in zip(*rows)]
    shown = screen.printable(text[:200].decode("utf-8", "replace"))
    head = f"{line}{f' part {part}' if part else ''}: {shown if screen.width(shown) <= 100 else shown[:97] + '...'}"
    lines = [head]
    for row in rows:
        id_text, *cells = (cell + " " * (width - screen.width(cell)) for cell, width in zip(row, widths))
        lines.append(("  " + "  ".join([id_text.strip().rjust(widths[0]), *cells])).rstrip())
    if len(rows) == 1:
        lines[1:] = ["  no pieces"]
    return "\n".join(lines) + "\n\n"


if __name__ == "__main__":
    app.run(main, __doc__, is_listing=True)

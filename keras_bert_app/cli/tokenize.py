"""Prints the pieces of texts with their positions in the original text.

python -m keras_bert_app.cli.tokenize --vocab_file=vocab.txt "Der Käse, the 中 and the [MASK]"
python -m keras_bert_app.cli.tokenize --vocab_file=vocab.txt --input_file=text.txt --output_format=jsonl | head

Each text, or each line of the file, gives a table. A row has the id, the piece, the range of characters, the range of
bytes (ends exclusive), and the original text. The command splits a line of more than 64 KiB into parts; positions count
from the beginning of the part. With --output_format=jsonl each text gives one JSON object.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from absl import flags

from keras_bert_app.cli.common import app, config_flags
from keras_bert_app.errors import UserError, nearest
from keras_bert_app.terminal import text_columns
from pipelines import storage
from pipelines.choices import TOKENIZERS
from pipelines.text.text_files import open_text, readable
from pipelines.wordpiece.vocabulary import load_vocabulary

flags.DEFINE_string("vocab_file", "", "Vocabulary, one piece a line.")
_TOKENIZER = flags.DEFINE_enum("tokenizer", "wordpiece", TOKENIZERS, "What the vocabulary has: pieces or symbols.")
_CHANNELS = flags.DEFINE_list("channels", [], "Values behind the symbols, such as age:120; they are no part of them.")
_DO_LOWER_CASE = flags.DEFINE_bool("do_lower_case", True, "Whether the vocabulary is uncased.")
_SPECIAL_TOKENS_IN_TEXT = flags.DEFINE_bool(
    "special_tokens_in_text",
    False,
    'Whether "[MASK]", or another special token, in a text is that token; otherwise it is three ordinary words.',
)
_INPUT_FILE = flags.DEFINE_string("input_file", "", "A file whose lines are the texts; - for standard input.")
_OUTPUT_FORMAT = flags.DEFINE_string("output_format", "table", "table or jsonl.")
_FORMATS = ("table", "jsonl")
_CHUNK_BYTES = 1 << 16  # size of the parts of a longer line
_COLUMNS = ("id", "piece", "chars", "bytes", "text")


def main(texts: list[str]) -> None:
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
    config_flags.check_casing_flag(_TOKENIZER.value)
    channels = config_flags.checked_channels(_CHANNELS.value, _TOKENIZER.value)
    load_vocabulary(vocab_file)
    if _INPUT_FILE.value not in ("", "-") and not storage.is_remote(_INPUT_FILE.value):
        with open_text(_INPUT_FILE.value):  # reports a wrong name before TensorFlow loads
            pass
    with app.quiet_start():
        from pipelines.wordpiece.tokenizers import make_tokenizer
    given = vocab_file, _TOKENIZER.value, _DO_LOWER_CASE.value, _SPECIAL_TOKENS_IN_TEXT.value
    cut = make_cut(make_tokenizer(*given, channels=channels))
    show = show_jsonl if _OUTPUT_FORMAT.value == "jsonl" else show_table
    for batch in batches_of(texts, _INPUT_FILE.value):
        for (line, part, text), columns in zip(batch, cut([text for _, _, text in batch]), strict=True):
            sys.stdout.write(show(line, part, text, columns))
        sys.stdout.flush()


def make_cut(tokenizer: Any) -> Callable[[Sequence[bytes]], list[dict[str, list]]]:
    """Makes a function that splits texts into pieces.

    Args:
        tokenizer: BertTokenizer.

    Returns:
        A function of a list of texts. It returns a dict of columns ("ids", "pieces", "start_chars", ...) for each text.
    """

    def cut(texts):
        # tf.function would gain nothing: compiling takes seconds, and printing takes longer than splitting.
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
                    text[start:end].decode("utf-8", "replace")
                    for start, end in zip(start_bytes[i], end_bytes[i], strict=True)
                ],
            }
            for i, (text, row) in enumerate(zip(texts, ids, strict=True))
        ]

    return cut


def batches_of(texts: Sequence[str], input_file: str) -> Iterator[list[tuple[int, int, bytes]]]:
    """Yields the texts, or the lines of a file as soon as they arrive.

    A line longer than _CHUNK_BYTES comes in parts 1, 2, ..., split at spaces if possible. Other lines are part 0.

    Args:
        texts: sequence of str. Positional arguments of the command.
        input_file: str. A path, or "-" for standard input. The function reads it only if there are no texts.

    Yields:
        Lists of (line number from 1, part, text).
    """
    if texts:
        # Python passes arguments that are not UTF-8 as surrogates. fsencode restores the bytes.
        yield [(number, 0, os.fsencode(text)) for number, text in enumerate(texts, start=1)]
    elif input_file == "-":
        yield from _line_batches(sys.stdin.buffer, "standard input")
    else:
        with open_text(input_file) as stream:
            yield from _line_batches(stream, input_file)


def _line_batches(stream: BinaryIO, path: str) -> Iterator[list[tuple[int, int, bytes]]]:
    line, part, pending = 1, 0, b""
    while True:
        with readable(path):
            data = stream.read1(_CHUNK_BYTES)  # does not wait for more, so that lines of a slow pipe appear at once
        *whole, pending = (pending + data).split(b"\n")
        if not data and pending:
            whole, pending = [pending], b""
        batch = []
        for text in whole:
            batch.append((line, part + 1 if part else 0, text.removesuffix(b"\r")))
            line, part = line + 1, 0
        if len(pending) > _CHUNK_BYTES:
            part, split = part + 1, _place_to_split(pending)
            batch.append((line, part, pending[:split]))
            pending = pending[split:]
        if batch:
            yield batch
        if not data:
            return


def _place_to_split(text: bytes) -> int:
    """Returns the place after the last space in the second half, else before the last character that fits."""
    space = text.rfind(b" ", _CHUNK_BYTES // 2, _CHUNK_BYTES)
    if space >= 0:
        return space + 1
    places = range(_CHUNK_BYTES, _CHUNK_BYTES - 4, -1)
    return next((place for place in places if text[place] & 0xC0 != 0x80), _CHUNK_BYTES)


def show_jsonl(line: int, part: int, text: bytes, columns: Mapping[str, list]) -> str:
    """Formats one JSON object: the line number, the text, and a list for each column.

    Args:
        line: int. The number of the line, from 1.
        part: int. The number of the part of a long line; 0 for a whole line.
        text: bytes. The line.
        columns: dict. The columns from the function of make_cut.

    Returns:
        str: one or several whole lines.
    """
    record = {"line": line, **({"part": part} if part else {}), "text": text.decode("utf-8", "replace"), **columns}
    return json.dumps(record, ensure_ascii=False) + "\n"


def show_table(line: int, part: int, text: bytes, columns: Mapping[str, list]) -> str:
    """Formats the number and the beginning of a text, and a line for each piece in aligned columns.

    Arguments and result are those of show_jsonl.
    """
    keys = ("ids", "pieces", "start_chars", "end_chars", "start_bytes", "end_bytes", "substrings")
    rows = [
        _COLUMNS,
        *(
            (str(i), piece, f"{start}-{end}", f"{first}-{last}", substring)
            for i, piece, start, end, first, last, substring in zip(*(columns[key] for key in keys), strict=True)
        ),
    ]
    rows = [[text_columns.printable(cell) for cell in row] for row in rows]
    widths = [max(map(text_columns.width, column)) for column in zip(*rows, strict=True)]
    shown = text_columns.printable(text[:200].decode("utf-8", "replace"))
    if text_columns.width(shown) > 100:
        shown = shown[:97] + "..."
    lines = [f"{line}{f' part {part}' if part else ''}: {shown}"]
    for row in rows:
        id_text, *cells = (
            cell + " " * (width - text_columns.width(cell)) for cell, width in zip(row, widths, strict=True)
        )
        lines.append(("  " + "  ".join([id_text.strip().rjust(widths[0]), *cells])).rstrip())
    if len(rows) == 1:
        lines[1:] = ["  no pieces"]
    return "\n".join(lines) + "\n\n"


if __name__ == "__main__":
    app.run(main, __doc__, is_listing=True, takes_arguments=True)

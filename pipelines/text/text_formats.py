"""Formats of text files: how lines become paragraphs, and where documents end.

Formats:
    sentences: Google's layout, one sentence a line and a blank line between documents. The reader keeps these sentences
        unchanged. It splits the texts of all other formats into sentences (sentences.py).
    paragraphs: one paragraph a line. A blank line separates documents. If blank lines separate all paragraphs, each
        paragraph is a document. One sentence between blank lines, such as a heading, gives no pair of sentences, so it
        becomes the beginning of the next document.
    documents: one document a line.
    jsonl: one JSON object a line. The text is in a named field; its lines are paragraphs.
    wikiextractor: <doc ... title="..."> lines </doc>, each line a paragraph. The first line is left out if it repeats
        the title. Section headings look like short paragraphs and stay.
    symbols: one line of symbols a line, and a blank line between documents. In a file that "auto" takes for jsonl each
        line is a document: an object whose named field has the lines of symbols, as a list of strings or as one string
        with line feeds. Fields with the names of channels have the values of the symbols (channels.joined_lines), which
        the reader writes behind the symbols. Otherwise it keeps these lines unchanged.
    fasta3 to fasta6: FASTA files of DNA, RNA or proteins. Each record is a document. Its symbols are all runs of 3 to 6
        letters (k-mers; Ji et al. 2021, DNABERT, section 2.2), in capital letters, SYMBOLS_A_LINE in a line.
    auto: the name and the first DETECTION_BYTES of each file decide, by the first rule that applies:
        jsonl, if the name ends in .jsonl, .ndjson or .json (or these with .gz), or the first line is a JSON object;
        wikiextractor, if the first line starts with "<doc ";
        documents, if no blank line stands between two other lines;
        paragraphs, if a third of the text is in lines of several sentences, and half of these lines end a sentence;
        sentences in all other cases.
"""

import functools
import html
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from pipelines.channels import SEPARATOR, Channel, joined_lines, line_fault
from pipelines.choices import FASTA_FORMATS, SYMBOL_FORMATS
from pipelines.data_error import DataError
from pipelines.text.text_files import ReaderCounts, readable
from pipelines.text.text_lines import MAX_LINE_BYTES, line_pieces, read_lines

DETECTION_BYTES = 1 << 20
_JSON_SYMBOLS = "symbols in JSON"
_MARK = b"\xef\xbb\xbf"  # the byte order mark
_SAMPLE_BYTES = 1 << 17  # the amount of text in which the detection counts sentences
_LEAST_SHARE_OF_PARAGRAPHS = 1 / 3  # share of the text in lines of several sentences
MAX_RECORD_BYTES = 1 << 24  # the limit of a JSON record
SYMBOLS_A_LINE = 64  # of a FASTA record
_SURROGATES = re.compile("[\ud800-\udfff]")
_BLANK_LINE = re.compile(rb"\S[ \t\r]*\n[ \t\r]*\n\s*\S")
_SENTENCE_END_INSIDE = re.compile(r"[.!?…][\"'”’»)\]}」』】）〕］]*\s+\S|[。｡！？；][^\"'”’»)\]}」』】）〕］＂＇]")
_ENDS_SENTENCE = re.compile(r"[.!?…。｡！？；][\"'”’»)\]}」』】）〕］＂＇]*$")
_DOC_TITLE = re.compile(r'\btitle="(.*?)"\s*(?:>|\w+=)')


class Detection(NamedTuple):
    """The format of a file.

    Attributes:
        format: a format other than "auto".
        reason: the property of the file that decided. For a layout with blank lines, also how the reader reads it.
    """

    format: str
    reason: str


def format_reporter(log: Callable[[str], None]) -> Callable[[str, Detection], None]:
    """Makes a function of (path, Detection) that logs one line for the first file of each format.

    Args:
        log: function of one line.

    Returns:
        Function of (path, Detection).
    """
    known = set()

    def report(path, detection):
        if detection.format not in known:
            known.add(detection.format)
            log(f"{path}: read as --input_format={detection.format}, because {detection.reason}")

    return report


def open_paragraphs(
    stream: io.BufferedIOBase,
    path: str,
    input_format: str,
    text_field: str,
    counts: ReaderCounts,
    strict: bool,
    report: Callable[[str, Detection], None] | None = None,
    channels: Sequence[Channel] = (),
) -> tuple[bool, Iterator[bytes | None]]:
    """Reads the paragraphs of an open file.

    Args:
        stream: binary stream.
        path: str. The name of the file. Messages and the detection of the format use it.
        input_format: one of choices.FORMATS.
        text_field: the field of a JSON object that holds its text.
        counts: ReaderCounts. Updated while paragraphs are taken.
        strict: whether to refuse invalid UTF-8.
        report: function of (path, Detection), called for a format that was detected.
        channels: the channels of the format "symbols"; see pipelines.channels.

    Returns:
        (whether paragraphs must be split into sentences, iterator of paragraphs). A paragraph is stripped UTF-8, b"" if
        the line holds nothing, or None where a document ends.
    """
    head = b""
    if input_format == "auto":
        with readable(path):
            head = stream.read(DETECTION_BYTES)
        detection = detect_format(path, head)
        input_format = detection.format
        if report:
            report(path, detection)
    if input_format == "symbols":
        with readable(path):
            head = stream.read(DETECTION_BYTES)
        input_format = _JSON_SYMBOLS if _detect_json(path, head.removeprefix(_MARK).lstrip()) else input_format
    limit = MAX_RECORD_BYTES if input_format in ("jsonl", _JSON_SYMBOLS) else MAX_LINE_BYTES
    lines = read_lines(stream, path, counts, limit, strict, head)
    has_lines = input_format in ("sentences", _JSON_SYMBOLS, *SYMBOL_FORMATS)
    values = {"channels": channels} if channels else {}
    return not has_lines, _PARSERS[input_format](lines, path, text_field, counts, **values)


def detect_format(path: str, head: bytes) -> Detection:
    """Detects the format of a file by the rules in the module's docstring.

    Args:
        path: the name of the file.
        head: its first bytes.

    Returns:
        Detection.
    """
    head = head.removeprefix(_MARK).lstrip()
    if detection := _detect_json(path, head):
        return detection
    if head.startswith(b"<doc "):
        return Detection("wikiextractor", 'it begins with "<doc "')
    if not _BLANK_LINE.search(head):
        return Detection("documents", "it has no blank line between two others, so each line is a document")
    return _layout_with_blank_lines(head)


def _detect_json(path, head):
    """Returns the Detection of a file of JSON lines, or None for another file."""
    if path.lower().removesuffix(".gz").endswith((".jsonl", ".ndjson", ".json")):
        return Detection("jsonl", "its name has the ending of a JSON file")
    first_line, newline, _ = head.partition(b"\n")
    if not first_line.startswith(b"{"):
        return None
    try:
        json.loads(first_line)
        return Detection("jsonl", "its first line is a JSON object")
    except (ValueError, RecursionError):
        if not newline and len(head) > DETECTION_BYTES // 2:  # the record is longer than the head
            return Detection("jsonl", "its first line begins a JSON object")
    return None


def _layout_with_blank_lines(head):
    """Tells paragraphs from sentences by the number of sentences in the lines."""
    sample = [line.strip() for line in head[:_SAMPLE_BYTES].split(b"\n")]
    if len(head) > _SAMPLE_BYTES and len(sample) > 1:
        sample.pop()  # the last line is probably cut
    num_sentences = _sentences_in(lines := [line for line in sample if line])
    long_lines = [line for line, number in zip(lines, num_sentences, strict=True) if number > 1]
    length = sum(len(line.decode("utf-8", "replace")) for line in lines) / len(lines)
    counted = f"a line has {sum(num_sentences) / len(lines):.1f} sentences and {length:,.0f} characters on average"
    has_long_lines = sum(map(len, long_lines)) >= _LEAST_SHARE_OF_PARAGRAPHS * sum(map(len, lines))
    # Hard-wrapped lines also contain sentence ends, but most of them do not end with one.
    if has_long_lines and 2 * sum(map(_ends_sentence, long_lines)) >= len(long_lines):
        return Detection(
            "paragraphs", f"{counted}; the lines are split into sentences, and a blank line ends a document"
        )
    followed = [line for line, after in zip(sample, sample[1:], strict=False) if line and after]
    is_wrapped = 2 * sum(map(_ends_sentence, followed)) < len(followed) and 10 * len(long_lines) >= len(lines)
    mend = ", but most lines end within a sentence, so join hard-wrapped lines first" if is_wrapped else ""
    return Detection("sentences", f"{counted}; each line counts as a sentence{mend}, and a blank line ends a document")


def _sentences_in(lines):
    """Counts the sentences of each line as the reader would split them."""
    import tensorflow as tf

    from pipelines.text.sentences import join_sentences_by_newline

    joined = join_sentences_by_newline(tf.constant(lines, tf.string)).numpy().tolist()
    return [text.count(b"\n") + 1 for text in joined]


def _ends_sentence(line):
    return bool(_ENDS_SENTENCE.search(line.decode("utf-8", "replace")))


# Parsers turn the lines of a file into stripped paragraphs, b"" for an empty line, and None where a document ends.


def _strip(text):
    """Strips UTF-8 as str.strip() does."""
    text = text.strip()
    if text and not (32 < text[0] < 128 and 32 < text[-1] < 128):
        return text.decode().strip().encode()
    return text


def _parse_sentences(lines, path, text_field, counts):
    for _, text, _ in lines:
        yield _strip(text) or None


def _parse_paragraphs(lines, path, text_field, counts):
    alone, num_lines = b"", 0  # alone: the only line since a blank line, if it is one sentence
    for _, text, _ in lines:
        text = _strip(text)
        if not text:
            if not alone:
                yield None
            num_lines = 0
            continue
        if alone:
            yield alone
        num_lines += 1
        alone = text if num_lines == 1 and not _SENTENCE_END_INSIDE.search(text.decode()) else b""
        if not alone:
            yield text
    if alone:
        yield alone


def _parse_documents(lines, path, text_field, counts):
    for _, text, part in lines:
        if part <= 1:
            yield None
        yield _strip(text)


def _parse_jsonl(lines, path, text_field, counts):
    for number, line, part in lines:
        counts.bad_records += part == 1
        if part or not line.strip():
            continue
        for paragraph in json_text(line, f"{path}:{number}", text_field, counts).split(b"\n"):
            for piece, _ in line_pieces(paragraph, MAX_LINE_BYTES):
                yield _strip(piece)
        yield None


def _parse_symbols(lines, path, text_field, counts, channels=()):
    has_value = False
    for number, text, _ in lines:
        _check_values(text, f"{path}:{number}", channels)
        has_value |= SEPARATOR.encode() in text
        yield text.strip() or None  # other white space than ASCII's is part of a symbol
    if channels and not has_value:
        names = ", ".join(channel.name for channel in channels)
        raise DataError(
            f"{path}: no symbol has a value; expected values of {names} behind the symbols, each after a {SEPARATOR}"
        )


def _parse_symbols_jsonl(lines, path, text_field, counts, channels=()):
    for number, line, part in lines:
        counts.bad_records += part == 1
        if part or not line.strip():
            continue
        place = f"{path}:{number}"
        record = _json_record(line, place, text_field)
        for text in map(str.encode, _lines_of_symbols(record, place, text_field, counts, channels)):
            _check_values(text, place, channels)
            counts.empty_lines += not text.strip()
            for piece, _ in line_pieces(text, MAX_LINE_BYTES):
                yield piece.strip()
        yield None


def _lines_of_symbols(record, place, text_field, counts, channels):
    """The lines of a JSON object, with the values of its channels behind the symbols."""
    text = record[text_field]
    is_list = isinstance(text, list) and all(isinstance(line, str) for line in text)
    if not (is_list or isinstance(text, str)):
        raise DataError(f"{place}: field {text_field!r} is {repr(text)[:40]}; expected a string, or a list of strings")
    if is_list and channels:
        lines = [line.replace("\n", " ") for line in text]  # each line has one entry of a channel
    else:
        lines = ("\n".join(text) if is_list else text.rstrip("\n")).split("\n")
    lines = [_without_surrogates(line, counts) for line in lines]
    if channels and not any(channel.name in record or SEPARATOR in "".join(lines) for channel in channels):
        names = " or ".join(repr(channel.name) for channel in channels)
        raise DataError(
            f"{place}: no field {names}; it has {', '.join(record)}; give the values of the channels as fields with "
            f"their names, or behind the symbols, each after a {SEPARATOR}"
        )
    try:
        return joined_lines(lines, record, channels)
    except DataError as error:
        raise DataError(f"{place}: {error}") from None


def _parse_fasta(lines, path, text_field, counts, size):
    letters, is_long, is_header = None, False, False
    for number, text, part in lines:
        text = text.strip()
        is_header = is_header if part > 1 else text.startswith((b">", b";"))
        if is_header:
            if part <= 1 and text.startswith(b">"):
                yield from _rest_of_record(letters, size, is_long, counts)
                letters, is_long = b"", False
            continue
        if not text:
            continue
        others = text.translate(None, b"*-.")  # stop codons and gaps
        if letters is None or others and not others.isalpha():
            raise DataError(
                f"{path}:{number}: {text[:40].decode('utf-8', 'replace')!r} is not FASTA; expected a line that begins "
                "with >, then lines of letters"
            )
        letters += text.upper()
        first = 0
        while len(letters) - first >= SYMBOLS_A_LINE + size - 1:
            yield _runs(letters[first : first + SYMBOLS_A_LINE + size - 1], size)
            first, is_long = first + SYMBOLS_A_LINE, True
        letters = letters[first:]
    yield from _rest_of_record(letters, size, is_long, counts)


def _rest_of_record(letters, size, is_long, counts):
    """Yields the last line of a FASTA record, and its end. A record may be too short for one symbol."""
    if letters is None:
        return
    if len(letters) >= size:
        yield _runs(letters, size)
    elif not is_long:
        counts.empty_lines += 1
    yield None


def _runs(letters, size):
    """All runs of `size` letters, with spaces between them."""
    return b" ".join(letters[at : at + size] for at in range(len(letters) - size + 1))


def _check_values(text, place, channels):
    if channels and (fault := line_fault(text.decode("utf-8", "replace"), channels)):
        raise DataError(f"{place}: {fault}")


def json_text(line: bytes, place: str, text_field: str, counts: ReaderCounts) -> bytes:
    """Returns the text in the named field of a line of JSON.

    Args:
        line: bytes. The line.
        place: str. The file and line number, for messages.
        text_field: str. The name of the field.
        counts: ReaderCounts. A lone surrogate becomes U+FFFD and counts as a line of invalid UTF-8.

    Returns:
        bytes. UTF-8.

    Raises:
        DataError: the line is not a JSON object, or the field is missing or has another type. The message names the
            place.
    """
    text = _json_record(line, place, text_field)[text_field]
    if not isinstance(text, str):
        raise DataError(f"{place}: field {text_field!r} is {repr(text)[:40]}; expected a string")
    return _without_surrogates(text, counts).encode()


def _json_record(line, place, text_field):
    """The JSON object of a line. It has the field text_field."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: not JSON ({error}); expected one JSON object a line") from error
    if not isinstance(record, dict):
        raise DataError(f"{place}: a JSON {type(record).__name__}; expected one JSON object a line")
    if text_field not in record:
        raise DataError(
            f"{place}: no field {text_field!r}; it has {', '.join(record) or 'nothing'}; "
            "give the name of the field that holds the text as --text_field"
        )
    return record


def _without_surrogates(text, counts):
    if not _SURROGATES.search(text):
        return text
    counts.invalid_utf8_lines += 1
    return _SURROGATES.sub("\ufffd", text)


def _parse_wikiextractor(lines, path, text_field, counts):
    inside, title = False, None
    for number, text, _ in lines:
        text = text.strip()
        if not text:
            continue
        if not (32 < text[0] < 128 and 32 < text[-1] < 128):
            text = _strip(text)
        if inside and title is None and text[:1] != b"<":  # a fast test that is true for most lines
            yield text
        elif text.startswith(b"<doc "):
            match = _DOC_TITLE.search(text.decode())
            inside, title = True, match and html.unescape(match[1]).strip()
            yield None
        elif text == b"</doc>":
            inside = False
            yield None
        elif not inside:
            raise DataError(
                f"{path}:{number}: text outside <doc ...> and </doc>; expected "
                "wikiextractor's output, or another input_format"
            )
        else:
            if title is None or html.unescape(text.decode()) != title:
                yield text
            title = None


_PARSERS = {
    **{name: functools.partial(_parse_fasta, size=int(name[-1])) for name in FASTA_FORMATS},
    "sentences": _parse_sentences,
    "symbols": _parse_symbols,
    _JSON_SYMBOLS: _parse_symbols_jsonl,
    "paragraphs": _parse_paragraphs,
    "documents": _parse_documents,
    "jsonl": _parse_jsonl,
    "wikiextractor": _parse_wikiextractor,
}

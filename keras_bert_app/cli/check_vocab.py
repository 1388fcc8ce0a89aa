"""Checks a vocabulary file, and reports how well it fits a text.

python -m keras_bert_app.cli.check_vocab --vocab_file=vocab.txt
python -m keras_bert_app.cli.check_vocab --vocab_file=vocab.txt --input_files='texts/*.txt' --output_dir=report

The command prints every fault with its line, and the entries that no text can produce. With --input_files it splits the
text. It prints the pieces per word, the share of [UNK], the used entries, the coverage by script and the longest
splits. With --output_dir it also writes these figures as report.txt, report.json and report.png. The exit code is 2 if
the vocabulary is not usable.
"""

import json
import os
from collections.abc import Iterator, Sequence

from absl import flags

from keras_bert_app.cli.common import app, input_text, output_files, written_places
from keras_bert_app.errors import UserError
from pipelines.plurals import counted
from pipelines.text.readers import FORMATS, ReaderCounts
from pipelines.wordpiece.vocabulary import UNUSED_PIECE, never_produced, parse_vocabulary, read_bytes

flags.DEFINE_string("vocab_file", "", "Vocabulary to check, one piece a line.")
_DO_LOWER_CASE = flags.DEFINE_bool("do_lower_case", True, "Whether the vocabulary is uncased.")
_INPUT_FILES = flags.DEFINE_list("input_files", [], "Text to split: files, globs or directories, comma-separated.")
_INPUT_FORMAT = flags.DEFINE_string("input_format", "auto", f"Layout of the text: {', '.join(FORMATS)}.")
_TEXT_FIELD = flags.DEFINE_string("text_field", "text", "The field of a JSON line that holds the text.")
_OUTPUT_DIR = flags.DEFINE_string("output_dir", "", "Directory for report.txt, report.json and report.png.")
_NUM_LONGEST_SPLITS = flags.DEFINE_integer(
    "num_longest_splits", 20, "How many of the longest splits are listed.", lower_bound=0
)
written_places.define_overwrite()
_EXAMPLES = 10
_REPORTS = ("report.txt", "report.json", "report.png")
# If --do_lower_case fits a vocabulary, the share of its entries that no text can produce is smaller.
_SUSPICIOUS_SHARE = 0.25


def main(arguments: list[str]) -> None:
    (vocab_file,) = app.required("vocab_file")
    for name in () if _INPUT_FILES.value else ("output_dir", "input_format", "text_field", "num_longest_splits"):
        if flags.FLAGS[name].present:
            raise UserError(f"--{name} is for the report on a text; name the text with --input_files")
    files = input_text.checked_files(_INPUT_FILES.value, _INPUT_FORMAT.value) if _INPUT_FILES.value else []
    check_file(vocab_file)
    if _OUTPUT_DIR.value:
        reports = [os.path.join(_OUTPUT_DIR.value, name) for name in _REPORTS]
        output_files.check_apart(reports[0], "output_dir", _INPUT_FILES.value, files)
        output_files.make_place_for(reports[0], "output_dir")
        written_places.check_new(reports, "output_dir")
    with app.quiet_start():
        from pipelines.wordpiece import vocabulary_report
        from pipelines.wordpiece.tokenizer import BertTokenizer
    for line in notes(parse_vocabulary(read_bytes(vocab_file))[0], _DO_LOWER_CASE.value):
        print(line, flush=True)
    if not files:
        return
    tokenizer = BertTokenizer(vocab_file, _DO_LOWER_CASE.value)
    documents = input_text.documents_of(files, _INPUT_FORMAT.value, _TEXT_FIELD.value, ReaderCounts())
    report = vocabulary_report.vocabulary_report(tokenizer, documents, _NUM_LONGEST_SPLITS.value)
    if not report["words"]:
        raise UserError("--input_files hold no word; give files with text")
    lines = vocabulary_report.report_lines(report)
    print("", *lines, sep="\n")
    if _OUTPUT_DIR.value:
        write_report(report, lines, vocab_file, _OUTPUT_DIR.value)


def check_file(vocab_file: str) -> None:
    """Prints every fault of a vocabulary file, or the number of its entries.

    Args:
        vocab_file: str. Path of the vocabulary.

    Raises:
        UserError: the file has a fault.
    """
    pieces, faults = parse_vocabulary(read_bytes(vocab_file))
    for fault in faults:
        print(f"fault: {fault}", flush=True)
    if faults:
        raise UserError(
            f"vocabulary {vocab_file}: not usable, {counted(len(faults), 'fault')} (listed "
            "above); expected one UTF-8 piece a line, each once, with [PAD] first and [UNK], [CLS], [SEP], "
            "[MASK] among them"
        )
    inner = sum(piece.startswith("##") for piece in pieces)
    unused = sum(UNUSED_PIECE.fullmatch(piece) is not None for piece in pieces)
    print(f"{vocab_file}: usable, {len(pieces):,} entries: {inner:,} within words (##), {unused:,} [unused]")


def notes(pieces: Sequence[str], do_lower_case: bool) -> Iterator[str]:
    """Yields lines on entries that no text can produce. Such entries waste rows of the embedding table.

    Args:
        pieces: sequence of str. The entries of the vocabulary.
        do_lower_case: bool. Whether the vocabulary is uncased.
    """
    never = never_produced(pieces, do_lower_case)
    if not never:
        return
    casing = "uncased" if do_lower_case else "cased"
    shown = ", ".join(f"{piece!r} (line {i + 1})" for i, piece in never[:_EXAMPLES])
    yield (
        f"note: {len(never):,} entries can never be produced from {casing} text: {shown}"
        + (", ..." if len(never) > _EXAMPLES else "")
    )
    share = len(never) / len(pieces)
    if share > _SUSPICIOUS_SHARE and do_lower_case and len(never_produced(pieces, False)) < len(never) / 2:
        yield f"note: this is {share:.0%} of the entries; if the vocabulary is cased, give --nodo_lower_case"


def write_report(report: dict, lines: Sequence[str], vocab_file: str, output_dir: str) -> None:
    """Writes report.txt, report.json and report.png into a directory.

    Args:
        report: dict. The result of pipelines.wordpiece.vocabulary_report.vocabulary_report.
        lines: sequence of str. The lines of report.txt.
        vocab_file: str. Path of the vocabulary.
        output_dir: str. A local or remote directory.
    """
    from keras_bert_app.drawing.vocabulary_picture import draw_vocabulary_report

    contents = {
        "report.txt": "\n".join([vocab_file, "", *lines, ""]).encode(),
        "report.json": (
            json.dumps(
                {"vocab_file": vocab_file, "do_lower_case": _DO_LOWER_CASE.value, **report},
                ensure_ascii=False,
                indent=1,
            )
            + "\n"
        ).encode(),
        "report.png": draw_vocabulary_report(report, os.path.basename(vocab_file)),
    }
    output_files.write_files(output_dir, contents)


if __name__ == "__main__":
    app.run(
        main,
        __doc__,
        instead_of_arguments="the vocabulary goes into --vocab_file, text into --input_files",
        writes={"output_dir": ""},
    )

"""Adds the words of a domain to a vocabulary. New words first replace its [unusedN] entries.

python -m keras_bert_app.cli.extend_vocab --vocab_file=vocab.txt --input_files='texts/*.txt' --num_words=1000 \\
    --output_file=extended.txt

The command chooses the words that save the most pieces: occurrences x (pieces - 1). A word that is [UNK] today counts
as if it were split into its characters. The command leaves numbers out. No entry changes its id. To continue the
training of a checkpoint, run convert --vocab_file=extended.txt, which makes rows for the new entries.
"""

import os
from collections.abc import Iterator
from typing import Any

from absl import flags

from keras_bert_app.cli.common import app, input_text, output_files, written_places
from keras_bert_app.errors import UserError
from pipelines import storage
from pipelines.text.readers import FORMATS, ReaderCounts
from pipelines.wordpiece.vocabulary import load_vocabulary

flags.DEFINE_string("vocab_file", "", "Vocabulary to extend. The command does not change this file.")
_INPUT_FILES = flags.DEFINE_list("input_files", [], "Text files, glob patterns or directories, comma-separated.")
_INPUT_FORMAT = flags.DEFINE_string("input_format", "auto", f"Layout of the text: {', '.join(FORMATS)}.")
_TEXT_FIELD = flags.DEFINE_string("text_field", "text", "The field of a JSON line that holds the text.")
flags.DEFINE_string("output_file", "", "Vocabulary to write.")
_WORDS_FILE = flags.DEFINE_string("words_file", "", "File for all added words with their figures, tab-separated.")
_NUM_WORDS = flags.DEFINE_integer("num_words", 1000, "Words to add.")
_MIN_COUNT = flags.DEFINE_integer("min_count", 5, "The fewest occurrences of a word that is added.")
_DO_LOWER_CASE = flags.DEFINE_bool("do_lower_case", True, "Whether the vocabulary is uncased.")
_SAMPLE_MEGABYTES = flags.DEFINE_float("sample_megabytes", 200, "MB of whole documents to choose from; 0: all.")
_SEED = flags.DEFINE_integer("seed", 12345, "Seed of the draw of documents.")
written_places.define_overwrite()
_WORDS_SHOWN = 30


def main(arguments: list[str]) -> None:
    vocab_file, _, output_file = app.required("vocab_file", "input_files", "output_file")
    for name in ("num_words", "min_count"):
        if flags.FLAGS[name].value < 1:
            raise UserError(f"--{name}={flags.FLAGS[name].value} is not a number of words; give 1 or more")
    input_text.check_sample_megabytes(_SAMPLE_MEGABYTES.value)
    files = input_text.checked_files(_INPUT_FILES.value, _INPUT_FORMAT.value)
    load_vocabulary(vocab_file)
    for name, others in (("output_file", ("vocab_file",)), ("words_file", ("vocab_file", "output_file"))):
        path = flags.FLAGS[name].value
        if path:
            output_files.check_apart(path, name, _INPUT_FILES.value, files)
        for other in others if path and not storage.is_remote(path) else ():
            if os.path.realpath(path) == os.path.realpath(flags.FLAGS[other].value):
                raise UserError(f"--{name}={path} is also the --{other}, which would be lost; give another name")
    for name in ("output_file", "words_file"):
        if path := flags.FLAGS[name].value:
            output_files.make_place_for(path, name)
            written_places.check_new([path], name)
    with app.quiet_start():
        from pipelines.wordpiece.vocabulary_extension import extend_vocabulary
    documents = input_text.documents_of(
        files, _INPUT_FORMAT.value, _TEXT_FIELD.value, ReaderCounts(), _SAMPLE_MEGABYTES.value, _SEED.value
    )
    extension = extend_vocabulary(
        vocab_file, output_file, documents, _NUM_WORDS.value, _DO_LOWER_CASE.value, _MIN_COUNT.value
    )
    if _WORDS_FILE.value:
        rows = [
            f"{added.word}\t{added.id}\t{added.count}\t{added.pieces or '[UNK]'}\t{added.saved}\n"
            for added in extension.added
        ]
        storage.write_whole(_WORDS_FILE.value, "".join(["word\tid\tcount\tpieces\tsaved\n", *rows]))
    for line in _report_lines(extension, output_file):
        print(line)


def _report_lines(extension: Any, output_file: str) -> Iterator[str]:
    yield "word                        count  pieces      saved"
    for added in extension.added[:_WORDS_SHOWN]:
        yield f"{added.word:<24}{added.count:>9,}  {added.pieces or '[UNK]':>6}  {added.saved:>9,}"
    more = len(extension.added) - _WORDS_SHOWN
    if more > 0:
        yield f"and {more:,} more" + (
            f"; all are in {_WORDS_FILE.value}" if _WORDS_FILE.value else "; --words_file=FILE lists all"
        )
    yield (
        f"{output_file}: {len(extension.added):,} words added, {extension.num_slots:,} in [unused] entries, "
        f"{extension.num_appended:,} at the end"
    )
    if len(extension.added) < _NUM_WORDS.value:
        yield (
            f"fewer than {_NUM_WORDS.value:,}: no other word that is split into pieces occurs at least "
            f"{_MIN_COUNT.value} times"
        )
    before, after = extension.before, extension.after
    yield (
        f"on {before.words:,} words: {before.pieces:,} pieces -> {after.pieces:,}, "
        f"{before.pieces_per_word:.4f} a word -> {after.pieces_per_word:.4f}; "
        f"[UNK] {before.unknown_words:,} -> {after.unknown_words:,}"
    )
    if extension.num_dropped:
        yield f"these counts leave out {extension.num_dropped:,} words that were too rare to be kept in memory"
    if extension.num_appended:
        yield (
            f"warning: vocab_size {extension.old_size:,} -> {extension.new_size:,}: the embedding table of a model "
            f"must grow by {extension.num_appended:,} rows"
        )


if __name__ == "__main__":
    app.run(
        main,
        __doc__,
        instead_of_arguments="files go into --input_files",
        writes={"output_file": "", "words_file": ""},
    )

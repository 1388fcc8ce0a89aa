"""Learns a WordPiece vocabulary from text files.

python -m keras_bert_app.cli.learn_vocab --input_files='texts/*.txt' --vocab_file=vocab.txt --vocab_size=8000

If the text is larger than --sample_megabytes, the command draws whole documents by a hash of (--seed, document number).
The same text therefore gives the same vocabulary. Memory holds the sample and at most two million different words.
"""

from absl import flags

from keras_bert_app.cli.common import app, input_text, output_files, written_places
from keras_bert_app.errors import UserError
from pipelines.text.readers import FORMATS, ReaderCounts
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES, UNUSED_PIECE

_INPUT_FILES = flags.DEFINE_list("input_files", [], "Text files, glob patterns or directories, comma-separated.")
_INPUT_FORMAT = flags.DEFINE_string("input_format", "auto", f"Layout of the text: {', '.join(FORMATS)}.")
_TEXT_FIELD = flags.DEFINE_string("text_field", "text", "The field of a JSON line that holds the text.")
flags.DEFINE_string("vocab_file", "", "File to write, one piece a line.")
_VOCAB_SIZE = flags.DEFINE_integer("vocab_size", 30522, "Entries wanted, special pieces included.")
_DO_LOWER_CASE = flags.DEFINE_bool("do_lower_case", True, "Lower case and strip accents (an uncased vocabulary).")
_SAMPLE_MEGABYTES = flags.DEFINE_float("sample_megabytes", 200, "MB of whole documents to learn from; 0: all.")
_SEED = flags.DEFINE_integer("seed", 12345, "Seed of the draw of documents.")
written_places.define_overwrite()


def main(arguments: list[str]) -> None:
    _, vocab_file = app.required("input_files", "vocab_file")
    if _VOCAB_SIZE.value <= len(SPECIAL_PIECES):
        raise UserError(
            f"--vocab_size={_VOCAB_SIZE.value} has no room beside the {len(SPECIAL_PIECES)} special "
            "pieces; give a few thousand or more"
        )
    input_text.check_sample_megabytes(_SAMPLE_MEGABYTES.value)
    files = input_text.checked_files(_INPUT_FILES.value, _INPUT_FORMAT.value)
    output_files.check_apart(vocab_file, "vocab_file", _INPUT_FILES.value, files)
    output_files.make_place_for(vocab_file, "vocab_file")
    written_places.check_new([vocab_file], "vocab_file")
    with app.quiet_start():
        from pipelines.wordpiece import words
        from pipelines.wordpiece.vocabulary import write_vocabulary
        from pipelines.wordpiece.vocabulary_learning import learn_from_words
    documents = input_text.documents_of(
        files, _INPUT_FORMAT.value, _TEXT_FIELD.value, ReaderCounts(), _SAMPLE_MEGABYTES.value, _SEED.value
    )
    counted = words.count_words(documents, _DO_LOWER_CASE.value)
    pieces = learn_from_words(counted.counts, _VOCAB_SIZE.value)
    write_vocabulary(pieces, vocab_file)
    print(f"{vocab_file}: {len(pieces):,} pieces from {counted.num_words:,} words in {len(files):,} files")
    if num_unused := sum(UNUSED_PIECE.fullmatch(piece) is not None for piece in pieces):
        print(
            f"{num_unused:,} of the pieces are [unused] entries: the text gives only {len(pieces) - num_unused:,} "
            f"pieces, so --vocab_size={len(pieces) - num_unused} is enough, unless you want to add words later"
        )
    if counted.num_dropped:
        print(
            f"{counted.num_dropped:,} of these words were too rare to be kept in memory; a lower --sample_megabytes "
            "reads less text"
        )


if __name__ == "__main__":
    app.run(main, __doc__, instead_of_arguments="files go into --input_files", writes={"vocab_file": ""})

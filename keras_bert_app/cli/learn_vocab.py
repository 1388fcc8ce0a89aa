"""Learns a WordPiece vocabulary from text files, or lists the symbols of files.

python -m keras_bert_app.cli.learn_vocab --input_files='texts/*.txt' --vocab_file=vocab.txt --vocab_size=8000
python -m keras_bert_app.cli.learn_vocab --tokenizer=symbols --input_files='visits/*.txt' --vocab_file=codes.txt \\
    --min_count=5

If the text is larger than --sample_megabytes, the command draws whole documents by a hash of (--seed, document number).
The same text therefore gives the same vocabulary. Memory holds the sample and at most two million different words.
"""

from absl import flags

from keras_bert_app.cli.common import app, config_flags, input_text, output_files, written_places
from keras_bert_app.errors import UserError
from pipelines import plurals
from pipelines.choices import FORMATS, TOKENIZERS
from pipelines.text.readers import ReaderCounts
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES, UNUSED_PIECE, write_vocabulary

_INPUT_FILES = flags.DEFINE_list("input_files", [], "Text files, glob patterns or directories, comma-separated.")
_INPUT_FORMAT = flags.DEFINE_string("input_format", "auto", f"Layout of the text: {', '.join(FORMATS)}.")
_TEXT_FIELD = flags.DEFINE_string("text_field", "text", "The field of a JSON line that holds the text.")
flags.DEFINE_string("vocab_file", "", "File to write, one piece a line.")
_TOKENIZER = flags.DEFINE_enum(
    "tokenizer", "wordpiece", TOKENIZERS, "Whether words are cut into pieces, or symbols stay as they are."
)
_VOCAB_SIZE = flags.DEFINE_integer(
    "vocab_size", 30522, "Entries wanted, special pieces included; of symbols the most entries."
)
_CHANNELS = flags.DEFINE_list("channels", [], "Values behind the symbols, such as age:120; they are no part of them.")
_MIN_COUNT = flags.DEFINE_integer("min_count", 1, "The fewest occurrences of a symbol.", lower_bound=1)
_DO_LOWER_CASE = flags.DEFINE_bool("do_lower_case", True, "Lower case and strip accents (an uncased vocabulary).")
_SAMPLE_MEGABYTES = flags.DEFINE_float(
    "sample_megabytes", 200, "MB of whole documents to learn from; 0: all, the default for symbols."
)
_SEED = flags.DEFINE_integer("seed", 12345, "Seed of the draw of documents.")
written_places.define_overwrite()


def main(arguments: list[str]) -> None:
    _, vocab_file = app.required("input_files", "vocab_file")
    if _VOCAB_SIZE.value <= len(SPECIAL_PIECES):
        raise UserError(
            f"--vocab_size={_VOCAB_SIZE.value} has no room beside the {len(SPECIAL_PIECES)} special "
            "pieces; give a few thousand or more"
        )
    is_symbols = _TOKENIZER.value == "symbols"
    _check_flags_of_tokenizer(is_symbols)
    input_text.check_sample_megabytes(_SAMPLE_MEGABYTES.value)
    input_format = input_text.format_for(_INPUT_FORMAT.value, _TOKENIZER.value)
    files = input_text.checked_files(_INPUT_FILES.value, input_format)
    output_files.check_apart(vocab_file, "vocab_file", _INPUT_FILES.value, files)
    output_files.make_place_for(vocab_file, "vocab_file")
    written_places.check_new([vocab_file], "vocab_file")
    documents = input_text.documents_of(
        files, input_format, _TEXT_FIELD.value, ReaderCounts(), _sample_megabytes(is_symbols), _SEED.value
    )
    counted = (_write_symbols if is_symbols else _write_pieces)(
        documents, vocab_file, plurals.counted(len(files), "file")
    )
    if counted.num_dropped:
        print(
            f"{counted.num_dropped:,} of these {'symbols' if is_symbols else 'words'} were too rare to be kept in "
            "memory; a lower --sample_megabytes reads less text"
        )


def _check_flags_of_tokenizer(is_symbols):
    """Raises UserError for a flag that the tokenizer does not read."""
    config_flags.check_casing_flag(_TOKENIZER.value)
    if not is_symbols and flags.FLAGS["min_count"].present:
        raise UserError(f"--min_count={_MIN_COUNT.value}: counts symbols; leave it out, or give --tokenizer=symbols")
    config_flags.checked_channels(_CHANNELS.value, _TOKENIZER.value)


def _sample_megabytes(is_symbols):
    """The value of --sample_megabytes; by default all symbols are counted, because counting is fast."""
    return 0 if is_symbols and not flags.FLAGS["sample_megabytes"].present else _SAMPLE_MEGABYTES.value


def _write_symbols(documents, vocab_file, source):
    """Writes the vocabulary of symbols. Returns their WordCounts."""
    from pipelines.wordpiece.symbol_counting import count_symbols, learn_from_symbols

    counted = count_symbols(documents, has_values=bool(_CHANNELS.value))
    vocabulary = learn_from_symbols(counted, _VOCAB_SIZE.value, _MIN_COUNT.value)
    write_vocabulary(vocabulary.pieces, vocab_file)
    num_symbols = len(vocabulary.pieces) - len(SPECIAL_PIECES)
    print(
        f"{vocab_file}: {num_symbols:,} symbols and {len(SPECIAL_PIECES)} special pieces, from {counted.num_words:,} "
        f"symbols in {source}"
    )
    if vocabulary.num_left_out:
        print(
            f"{vocabulary.num_left_out:,} other symbols, {vocabulary.unknown:.2%} of the text, are [UNK]; a lower "
            "--min_count or a higher --vocab_size takes more"
        )
    return counted


def _write_pieces(documents, vocab_file, source):
    """Learns and writes a WordPiece vocabulary. Returns the WordCounts of the text."""
    with app.quiet_start():
        from pipelines.wordpiece import words
        from pipelines.wordpiece.vocabulary_learning import learn_from_words
    counted = words.count_words(documents, _DO_LOWER_CASE.value)
    pieces = learn_from_words(counted.counts, _VOCAB_SIZE.value)
    write_vocabulary(pieces, vocab_file)
    print(f"{vocab_file}: {len(pieces):,} pieces from {counted.num_words:,} words in {source}")
    if num_unused := sum(UNUSED_PIECE.fullmatch(piece) is not None for piece in pieces):
        print(
            f"{num_unused:,} of the pieces are [unused] entries: the text gives only {len(pieces) - num_unused:,} "
            f"pieces, so --vocab_size={len(pieces) - num_unused} is enough, unless you want to add words later"
        )
    return counted


if __name__ == "__main__":
    app.run(main, __doc__, instead_of_arguments="files go into --input_files", writes={"vocab_file": ""})

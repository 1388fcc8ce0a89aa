"""Learns a vector for each word of a text: skip-gram with negative sampling, or fastText's subwords.

python -m keras_bert_app.cli.learn_vectors --input_files='texts/*.txt' --vectors_file=vectors.txt
python -m keras_bert_app.cli.learn_vectors --corpus_dir=corpus --vocab_file=vocab.txt --vectors_file=pieces.txt

The vectors are a text file in GloVe's format. Words are those of BERT's basic tokenizer: a punctuation mark is a word
of its own. With --vocab_file the units are the word pieces of this vocabulary, for finetune --init_vectors. With one
worker the same text and flags give the same file. --method=fasttext also writes the vectors of character n-grams, as
FILE.subwords.npz, from which unknown words get vectors.
"""

import sys
import tempfile
import time

from absl import flags

from keras_bert_app.cli.common import app, config_flags, input_text, output_files, written_places
from keras_bert_app.errors import UserError
from keras_bert_app.terminal.progress import Progress, ReadingProgress
from keras_bert_app.vectors.static.learning_options import LearningOptions
from pipelines import storage
from pipelines.channels import parse_channels
from pipelines.choices import FORMATS, TOKENIZERS
from pipelines.text.readers import ReaderCounts

_INPUT_FILES = flags.DEFINE_list("input_files", [], "Text files, glob patterns or directories, comma-separated.")
_CORPUS_DIR = flags.DEFINE_string("corpus_dir", "", "Instead of --input_files: a corpus that prepare_corpus wrote.")
_INPUT_FORMAT = flags.DEFINE_string("input_format", "auto", f"Layout of the text: {', '.join(FORMATS)}.")
_TEXT_FIELD = flags.DEFINE_string("text_field", "text", "The field of a JSON line that holds the text.")
_SAMPLE_MEGABYTES = flags.DEFINE_float("sample_megabytes", 0, "MB of whole documents to learn from; 0: all.")
flags.DEFINE_string("vectors_file", "", "File to write, a word and its numbers in each line.")
_VOCAB_FILE = flags.DEFINE_string("vocab_file", "", "WordPiece vocabulary whose pieces get the vectors, not words.")
_CHANNELS = flags.DEFINE_list("channels", [], "Values behind the symbols of --input_files, such as age:120.")
_TOKENIZER = flags.DEFINE_enum("tokenizer", "wordpiece", TOKENIZERS, "What --vocab_file has: pieces or symbols.")
_DO_LOWER_CASE = flags.DEFINE_bool("do_lower_case", True, "Lower case and strip accents.")
flags.DEFINE_string("method", "skip_gram", "skip_gram, or fasttext, which adds vectors of character n-grams.")
flags.DEFINE_integer(
    "vector_size", 128, "Numbers of a vector; finetune --init_vectors needs the hidden_size of its model."
)
flags.DEFINE_integer("window", 5, "Most words between a word and its context, plus 1; each place draws 1 to this.")
flags.DEFINE_integer("negative", 5, "Random words against which each pair is trained.")
flags.DEFINE_integer("min_count", 5, "Fewest occurrences of a word that gets a vector.")
flags.DEFINE_integer("epochs", 5, "Passes over the text.")
flags.DEFINE_float("learning_rate", 0.025, "First learning rate; it falls to 0.0001.")
_SUBWORD_LENGTHS = flags.DEFINE_list(
    "subword_lengths", ["3", "6"], "With --method=fasttext: the fewest and the most characters of an n-gram."
)
flags.DEFINE_integer("seed", 12345, "Seed of the first vectors and of all draws.")
flags.DEFINE_integer("workers", 1, "Threads. With more than one the vectors differ from run to run.")
written_places.define_overwrite()
_OPTIONS = ("method", "vector_size", "window", "negative", "min_count", "epochs", "learning_rate", "seed", "workers")


def main(arguments: list[str]) -> None:
    (vectors_file,) = app.required("vectors_file")
    _check_source()
    lengths = _subword_lengths()
    options = LearningOptions(**{name: flags.FLAGS[name].value for name in _OPTIONS}, subword_lengths=lengths)
    input_text.check_sample_megabytes(_SAMPLE_MEGABYTES.value)
    files = [] if _CORPUS_DIR.value else input_text.checked_files(_INPUT_FILES.value, _input_format())
    output_files.check_apart(vectors_file, "vectors_file", _INPUT_FILES.value, files)
    written_places.check_new([vectors_file, f"{vectors_file}.subwords.npz"], "vectors_file")
    with app.quiet_start():
        from keras_bert_app.vectors import learning_text, vector_learning  # noqa: F401  gensim loads slowly
    tokenizer = _tokenizer()
    documents = _corpus_documents() if _CORPUS_DIR.value else _documents(files)
    output_files.make_place_for(vectors_file, "vectors_file")
    with tempfile.TemporaryDirectory() as directory:
        text = learning_text.write_text(documents, directory, _DO_LOWER_CASE.value, tokenizer, options.seed)
        unit = "words" if tokenizer is None else "pieces"
        print(
            f"text: {text.num_words:,} {unit} in {text.num_lines:,} sentences, {len(text.counts):,} different ones",
            flush=True,
        )
        known = _learned(text, options, unit)
    _write(vectors_file, known)
    print(f"{vectors_file}: {len(known.words):,} vectors of {known.vectors.shape[1]:,} numbers")
    if tokenizer:
        num_missing = len(set(tokenizer.vocabulary) - known.rows.keys())
        print(
            f"{num_missing:,} pieces of the vocabulary have no vector: they occur fewer than {options.min_count} times"
        )
    if known.subwords:
        print(f"{vectors_file}.subwords.npz: {len(known.subwords.rows):,} character n-grams")


def _check_source():
    config_flags.check_casing_flag(_TOKENIZER.value)
    if _TOKENIZER.value == "symbols" and not _VOCAB_FILE.value:
        raise UserError("--tokenizer=symbols: needs --vocab_file; learn_vocab --tokenizer=symbols makes one")
    if bool(_INPUT_FILES.value) == bool(_CORPUS_DIR.value):
        raise UserError(
            "--input_files and --corpus_dir were both given; give one of them"
            if _CORPUS_DIR.value
            else "--input_files is missing; give text files, or a prepared corpus as --corpus_dir"
        )
    if _CORPUS_DIR.value:
        for name in ("input_format", "text_field", "sample_megabytes"):
            if flags.FLAGS[name].present:
                raise UserError(f"--{name} is for --input_files; leave it out, or leave out --corpus_dir")


def _subword_lengths():
    """The value of --subword_lengths as two numbers."""
    given = ",".join(_SUBWORD_LENGTHS.value)
    if flags.FLAGS["subword_lengths"].present and flags.FLAGS["method"].value == "skip_gram":
        raise UserError(f"--subword_lengths={given}: skip_gram has no subwords; give --method=fasttext")
    lengths = tuple(int(value) for value in _SUBWORD_LENGTHS.value if value.isdecimal())
    if len(lengths) != 2 or len(_SUBWORD_LENGTHS.value) != 2:
        raise UserError(f"--subword_lengths={given}: expected the fewest and the most characters, such as 3,6")
    return lengths


def _tokenizer():
    """The BertTokenizer of --vocab_file; None for words."""
    from pipelines.wordpiece.tokenizers import make_tokenizer

    channels = config_flags.checked_channels(_CHANNELS.value, _TOKENIZER.value) or _channels_of_corpus()
    if not _VOCAB_FILE.value:
        if channels:
            raise UserError("--channels: values stand behind the symbols; add --tokenizer=symbols and --vocab_file")
        return None
    return make_tokenizer(_VOCAB_FILE.value, _TOKENIZER.value, _DO_LOWER_CASE.value, channels=channels)


def _channels_of_corpus():
    from pipelines.corpus.manifest import load_manifest

    manifest = load_manifest(_CORPUS_DIR.value, verify=False) if _CORPUS_DIR.value else {}
    return parse_channels(manifest.get("channels", ()))


def _input_format():
    return input_text.format_for(_INPUT_FORMAT.value, _TOKENIZER.value)


def _documents(files):
    return input_text.documents_of(
        files,
        _input_format(),
        _TEXT_FIELD.value,
        ReaderCounts(),
        _SAMPLE_MEGABYTES.value,
        flags.FLAGS["seed"].value,
    )


def _corpus_documents():
    """Yields the training documents of --corpus_dir as lists of sentences."""
    import tensorflow as tf

    from pipelines.corpus import manifest

    shards = manifest.shard_paths(_CORPUS_DIR.value, manifest.load_manifest(_CORPUS_DIR.value), "train")
    progress, num_bytes = ReadingProgress("reading"), 0
    for number, record in enumerate(tf.data.TFRecordDataset(shards).as_numpy_iterator()):
        progress(number, num_bytes)
        num_bytes += len(record)
        yield record.split(b"\n")
    progress.line.clear()


def _learned(text, options, unit):
    """Learns the vectors, with a progress line and a line for each epoch."""
    from keras_bert_app.vectors import vector_learning

    num_words = text.num_words * options.epochs
    progress, began = Progress(unit, num_words, num_words, sys.stdout), time.monotonic()

    def report(epoch, loss):
        progress.note = f"  loss {loss:.4f}"
        rate = text.num_words * epoch / max(time.monotonic() - began, 1e-9)
        speed = f"  {rate:,.0f} {unit}/s" if epoch else " before the training"
        progress.line.say(f"epoch {epoch}/{options.epochs}{progress.note}{speed}")

    known = vector_learning.learn(text, options, progress.done, report)
    progress.end()
    return known


def _write(vectors_file, known):
    """Writes the vectors and subwords. Subwords of an earlier training would contradict new vectors."""
    from keras_bert_app.vectors.static import word_vector_files

    subwords_file = f"{vectors_file}{word_vector_files.SUBWORDS_SUFFIX}"
    if storage.exists(subwords_file):
        storage.remove_file(subwords_file)
    word_vector_files.write_word_vectors(vectors_file, known.words, known.vectors)
    if known.subwords:
        word_vector_files.write_subwords(vectors_file, known.subwords)


if __name__ == "__main__":
    app.run(main, __doc__, instead_of_arguments="files go into --input_files", writes={"vectors_file": ""})

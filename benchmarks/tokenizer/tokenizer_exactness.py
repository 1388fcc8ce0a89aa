"""Counts the pieces in which our tokenizer differs from google-research/bert's FullTokenizer. The count should be 0.

python -m benchmarks.tokenizer.tokenizer_exactness --oracle_python=GOOGLE_ENV/bin/python \\
    --vocab_files='VOCABS/*.txt' --enwiki_files='ENWIKI/*/wiki_*' --zhwiki_files='ZHWIKI/*/wiki_*' \\
    --xquad_files='TASKS/squad/xquad.*.json'

benchmarks/requirements-google.txt says how to make the oracle's environment. Every part runs cased and uncased with
each vocabulary. It also runs with the vocabulary `every_character` (tests.random_text.character_vocabulary). Published
vocabularies turn a word with one rare character into [UNK], which hides its other characters. `every_character` shows
each code point of the normalized text.

The parts (give --parts once for each):
  enwiki, zhwiki  every line
  xquad           contexts and questions
  code_points     every code point but the surrogates in the contexts of tests.random_text.code_point_contexts
  random          tests.random_text.random_string
  invalid         tests.random_text.random_bytes. The reference cannot take invalid UTF-8. Our tokenizer counts each
                  invalid sequence as U+FFFD, so the reference gets bytes.decode("utf-8", "replace").

The run ends with a table in Markdown. The exit code is 1 if anything differs.
"""

import concurrent.futures
import dataclasses
import json
import os
import sys
import tempfile
import time

import numpy as np
from absl import flags

from benchmarks.common.peer_process import PeerProcess
from keras_bert_app.cli.common import app
from keras_bert_app.errors import UserError
from keras_bert_app.terminal.progress import LiveLine
from tests import random_text

_PARTS = ("enwiki", "zhwiki", "xquad", "code_points", "random", "invalid")
_PARTS_FLAG = flags.DEFINE_multi_enum("parts", None, _PARTS, "Part to run; give the flag once for each part.")
_ORACLE_PYTHON = flags.DEFINE_string("oracle_python", "", "Interpreter with requirements-google.txt installed.")
_VOCAB_FILES = flags.DEFINE_list("vocab_files", [], "Vocabularies, patterns allowed.")
for _name, _what in (("enwiki", "Text files"), ("zhwiki", "Text files"), ("xquad", "Files in SQuAD's JSON")):
    flags.DEFINE_list(f"{_name}_files", [], f"{_what} of part {_name}, patterns allowed.")
_NUM_RANDOM = flags.DEFINE_integer(
    "num_random", 1_000_000, "Number of strings in part random, and in part invalid.", lower_bound=1
)
_SEED = flags.DEFINE_integer("seed", 0, "Seed of the random strings.")
_MAX_STRINGS = flags.DEFINE_integer(
    "max_strings", 0, "Stop each part after about this number of strings; 0: run all strings.", lower_bound=0
)
_NUM_EXAMPLES = flags.DEFINE_integer("num_examples", 5, "Differences to print for each part, vocabulary and casing.")
_WITH_OFFSETS = flags.DEFINE_bool("with_offsets", False, "Take ids from tokenize_with_offsets, not tokenize.")

_VERSIONS, _UNICODE = {"bert-tensorflow": "1.0.4"}, "14.0.0"
_CASINGS = ("lower", "cased")
_BATCH_STRINGS, _BATCH_BYTES = 8192, 1 << 19
_MAX_WAITING = 4  # batches that wait for the oracles' answers


@dataclasses.dataclass
class Tally:
    """The counts of one part with one vocabulary and casing.

    Attributes:
        strings: int. Number of strings.
        pieces: int. Number of the reference's pieces.
        different_strings: int. Strings whose ids differ.
        different_pieces: int. Pieces that differ.
        examples: list of (given bytes, reference's ids, our ids).
    """

    strings: int = 0
    pieces: int = 0
    different_strings: int = 0
    different_pieces: int = 0
    examples: list = dataclasses.field(default_factory=list)


class Oracle:
    """google-research/bert's tokenizer for one casing, in its own process.

    Args:
        interpreter: str. Python of the oracle's environment.
        casing: str. "lower" or "cased".
        vocab_files: list of str. The vocabularies.

    Raises:
        UserError: the interpreter cannot be run, the script fails, or a version differs.
    """

    def __init__(self, interpreter: str, casing: str, vocab_files: list[str]):
        self._num_vocabularies = len(vocab_files)
        self._process = PeerProcess(interpreter, "tokenizer/peer_google_tokenizer.py", "oracle_python", _VERSIONS)
        self._thread = concurrent.futures.ThreadPoolExecutor(1)
        self._directory = tempfile.TemporaryDirectory()
        answer = self._process.ask(vocab_files=list(map(os.path.abspath, vocab_files)), do_lower_case=casing == "lower")
        self.entries = answer["entries"]
        if answer["unicodedata"] != _UNICODE:
            raise UserError(
                f"--oracle_python={interpreter} has Unicode {answer['unicodedata']}, expected {_UNICODE}; give a "
                "Python 3.11 with the packages of benchmarks/requirements-google.txt"
            )

    def ask(self, texts: list[bytes]) -> concurrent.futures.Future:
        """Tokenizes texts, which are valid UTF-8.

        Returns:
            Future of a list with (int32 counts [len(texts)], int32 ids) for each vocabulary.
        """
        return self._thread.submit(self._ask, texts)

    def _ask(self, texts):
        arrays_file = os.path.join(self._directory.name, "arrays.npz")
        self._process.ask(texts=[text.decode("utf-8") for text in texts], arrays_file=arrays_file)
        with np.load(arrays_file) as arrays:
            return [(arrays[f"counts_{number}"], arrays[f"ids_{number}"]) for number in range(self._num_vocabularies)]

    def close(self) -> None:
        self._thread.shutdown()
        self._process.close()
        self._directory.cleanup()


def strings_of(part: str):
    """Yields the byte strings of a part.

    Args:
        part: str. One of _PARTS.
    """
    import tensorflow as tf

    if part in ("enwiki", "zhwiki", "xquad"):
        for path in sorted(path for pattern in app.required(f"{part}_files")[0] for path in tf.io.gfile.glob(pattern)):
            with tf.io.gfile.GFile(path, "rb") as file:
                data = file.read()
            yield from _squad_texts(json.loads(data)) if part == "xquad" else data.split(b"\n")
    elif part == "code_points":
        for code in random_text.code_points():
            for text in random_text.code_point_contexts(code):
                yield text.encode("utf-8")
    elif part == "random":
        for number in range(_NUM_RANDOM.value):
            yield random_text.random_string(_SEED.value, number).encode("utf-8")
    else:
        for number in range(_NUM_RANDOM.value):
            yield random_text.random_bytes(_SEED.value, number)


def _squad_texts(squad):
    for article in squad["data"]:
        for paragraph in article["paragraphs"]:
            yield paragraph["context"].encode("utf-8")
            for question in paragraph["qas"]:
                yield question["question"].encode("utf-8")


def batches_of(strings):
    """Yields the strings in lists. The number of strings and of bytes in a list is limited.

    Args:
        strings: iterable of bytes.
    """
    batch, size, total = [], 0, 0
    for string in strings:
        batch.append(string)
        size += len(string)
        if len(batch) == _BATCH_STRINGS or size >= _BATCH_BYTES:
            yield batch
            total += len(batch)
            batch, size = [], 0
            if _MAX_STRINGS.value and total >= _MAX_STRINGS.value:
                return
    if batch:
        yield batch


def as_reference_text(string: bytes) -> bytes:
    """The string with every invalid sequence replaced by U+FFFD.

    The reference takes only valid UTF-8.

    Args:
        string: bytes.
    """
    try:
        string.decode("utf-8")
        return string
    except UnicodeDecodeError:
        return string.decode("utf-8", "replace").encode("utf-8")


def compare(tally: Tally, batch: list[bytes], counts, ids, expected_counts, expected_ids) -> None:
    """Adds one batch to a tally.

    Pieces outside the common beginning and end of a string count as different.

    Args:
        tally: Tally.
        batch: list of bytes. The strings.
        counts: int array [len(batch)]. Our number of pieces of each string.
        ids: int array. All our ids.
        expected_counts: int array [len(batch)]. The reference's number of pieces.
        expected_ids: int array. The reference's ids.
    """
    tally.strings += len(batch)
    tally.pieces += len(expected_ids)
    if np.array_equal(counts, expected_counts) and np.array_equal(ids, expected_ids):
        return
    rows, expected_rows = (
        np.split(values, np.cumsum(sizes)[:-1]) for values, sizes in ((ids, counts), (expected_ids, expected_counts))
    )
    for string, ours, expected in zip(batch, rows, expected_rows, strict=True):
        if np.array_equal(ours, expected):
            continue
        shorter = min(len(ours), len(expected))
        first = next((i for i in range(shorter) if ours[i] != expected[i]), shorter)
        last = next((i for i in range(shorter - first) if ours[-1 - i] != expected[-1 - i]), shorter - first)
        tally.different_strings += 1
        tally.different_pieces += max(len(ours), len(expected)) - first - last
        if len(tally.examples) < _NUM_EXAMPLES.value:
            tally.examples.append((string, expected, ours))


def run_part(part: str, tokenizers: dict, oracles: dict[str, Oracle]) -> dict:
    """Tokenizes the strings of one part with our tokenizer and with the reference, and counts differences.

    Args:
        part: str. The part.
        tokenizers: dict. Casing -> vocabulary -> function from string [B] to ragged ids.
        oracles: dict. Casing -> Oracle.

    Returns:
        dict. (vocabulary, casing) -> Tally.
    """
    tallies = {(name, casing): Tally() for casing in _CASINGS for name in tokenizers[casing]}
    waiting, started, num_bytes = [], time.monotonic(), 0
    line = LiveLine(sys.stderr, seconds_elsewhere=10.0)

    def finish(batch, ours, answers):
        for casing in _CASINGS:
            for name, answer in zip(tokenizers[casing], answers[casing].result(), strict=True):
                compare(tallies[name, casing], batch, *ours[casing, name], *answer)

    def progress():
        return (
            f"{part}: {next(iter(tallies.values())).strings:,} strings, {num_bytes / 1e6:.1f} MB, "
            f"{num_bytes / 1e6 / (time.monotonic() - started):.2f} MB/s; strings that differ: "
            f"{sum(tally.different_strings for tally in tallies.values()):,}"
        )

    for batch in batches_of(strings_of(part)):
        texts = [as_reference_text(string) for string in batch]
        answers = {casing: oracles[casing].ask(texts) for casing in _CASINGS}
        ours = {}
        for casing in _CASINGS:
            for name, tokenize in tokenizers[casing].items():
                ids = tokenize(batch)
                ours[casing, name] = ids.row_lengths().numpy(), ids.flat_values.numpy()
        waiting.append((batch, ours, answers))
        if len(waiting) > _MAX_WAITING:
            finish(*waiting.pop(0))
        num_bytes += sum(map(len, batch))
        line.show(progress)
    for item in waiting:
        finish(*item)
    line.clear()
    return tallies


def show_examples(part: str, tallies: dict, vocabularies: dict) -> None:
    """Prints the examples of strings that differ.

    Args:
        part: str. The part.
        tallies: dict. Result of run_part.
        vocabularies: dict. Name of a vocabulary -> list of its pieces.
    """
    for (name, casing), tally in tallies.items():
        for string, expected, ours in tally.examples:
            print(f"\n{part}, {name}, {casing}: {string.decode('utf-8', 'backslashreplace')!r}")
            for who, ids in (("reference", expected), ("ours", ours)):
                print(f"  {who}: {[vocabularies[name][i] for i in ids]!r}")


def main(arguments):
    del arguments
    oracle_python, patterns = app.required("oracle_python", "vocab_files")
    parts = _PARTS_FLAG.value or _PARTS
    for part in {"enwiki", "zhwiki", "xquad"}.intersection(parts):
        app.required(f"{part}_files")
    with app.quiet_start():
        import tensorflow as tf

        from pipelines import BertTokenizer

    def ids_of(tokenizer):
        def tokenize(strings):
            return tokenizer.tokenize_with_offsets(strings)[0] if _WITH_OFFSETS.value else tokenizer.tokenize(strings)

        return tf.function(tokenize, input_signature=[tf.TensorSpec([None], tf.string)])

    with tempfile.TemporaryDirectory() as directory:
        characters = os.path.join(directory, "every_character.txt")
        with open(characters, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(entry + "\n" for entry in random_text.character_vocabulary())
        files = [*sorted(path for pattern in patterns for path in tf.io.gfile.glob(pattern)), characters]
        names = [os.path.basename(path).removesuffix(".txt").removesuffix("-vocab") for path in files]
        oracles = {casing: Oracle(oracle_python, casing, files) for casing in _CASINGS}
        built = {
            casing: {
                name: BertTokenizer(path, do_lower_case=casing == "lower", verify_casing=False)
                for name, path in zip(names, files, strict=True)
            }
            for casing in _CASINGS
        }
    vocabularies = {name: tokenizer.vocabulary for name, tokenizer in built["lower"].items()}
    entries = [len(vocabulary) for vocabulary in vocabularies.values()]
    if entries != oracles["lower"].entries:
        raise UserError(
            f"the reference reads {oracles['lower'].entries} entries from the vocabularies, our tokenizer reads "
            f"{entries}; expected equal numbers: look for entries that differ only in white space"
        )
    tokenizers = {casing: {name: ids_of(tokenizer) for name, tokenizer in built[casing].items()} for casing in _CASINGS}

    lines, is_different = [], False
    for part in parts:
        started = time.monotonic()
        tallies = run_part(part, tokenizers, oracles)
        show_examples(part, tallies, vocabularies)
        print(f"{part}: done in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
        lines += [
            f"| {part} | {name} | {casing} | {tally.strings:,} | {tally.pieces:,} | {tally.different_strings:,} "
            f"| {tally.different_pieces:,} |"
            for (name, casing), tally in tallies.items()
        ]
        is_different |= any(tally.different_strings for tally in tallies.values())
    for oracle in oracles.values():
        oracle.close()
    print(
        "\n| part | vocabulary | casing | strings | pieces | different strings | different pieces |\n"
        "|---|---|---|---|---|---|---|\n" + "\n".join(lines)
    )
    sys.exit(1 if is_different else 0)


if __name__ == "__main__":
    app.run(main, __doc__)

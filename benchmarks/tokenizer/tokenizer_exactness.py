"""Counts the pieces in which our tokenizer differs from google-research/bert's FullTokenizer; there should be none.

python -m benchmarks.tokenizer.tokenizer_exactness --oracle_python=oracle-google/bin/python \
    --vocab_files='../shared/vocabs/*.txt' --enwiki_files='ENWIKI/*/wiki_*' --zhwiki_files='ZHWIKI/*/wiki_*' \
    --xquad_files='../shared/data/tasks/squad/xquad.*.json'

The oracle's environment: see benchmarks/requirements-google.txt. Every part runs cased and uncased with each
vocabulary and with one more, `every_character` (tests.random_text.character_vocabulary): published ones turn
a word with one rare character into [UNK] and so hide what became of the others, this one shows each code point of the
normalized text.

Parts (--parts takes them up one by one):
  enwiki, zhwiki  every line
  xquad           contexts and questions
  code_points     every code point but the surrogates in the contexts of tests.random_text.code_point_contexts
  random          tests.random_text.random_string
  invalid         tests.random_text.random_bytes, which the reference cannot take; defined is that each invalid sequence
                  counts as U+FFFD, so the oracle is asked for bytes.decode("utf-8", "replace")
A Markdown table ends the run; the exit code is 1 if anything differs.
"""

import concurrent.futures
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
from absl import flags

from keras_bert_app.cli.common import app
from keras_bert_app.errors import UserError
from tests import random_text

_PARTS = ("enwiki", "zhwiki", "xquad", "code_points", "random", "invalid")
_PARTS_FLAG = flags.DEFINE_multi_enum("parts", None, _PARTS, "Only this one; may be given several times.")
_ORACLE_PYTHON = flags.DEFINE_string("oracle_python", "", "Interpreter with requirements-google.txt installed.")
_VOCAB_FILES = flags.DEFINE_list("vocab_files", [], "Vocabularies, patterns allowed.")
for _name, _what in (("enwiki", "Text files"), ("zhwiki", "Text files"), ("xquad", "Files in SQuAD's JSON")):
    flags.DEFINE_list(f"{_name}_files", [], f"{_what} of part {_name}, patterns allowed.")
_NUM_RANDOM = flags.DEFINE_integer(
    "num_random", 1_000_000, "Strings of part random and of part invalid.", lower_bound=1
)
_SEED = flags.DEFINE_integer("seed", 0, "Of the random strings.")
_MAX_STRINGS = flags.DEFINE_integer(
    "max_strings", 0, "Stop each part after about so many strings; 0: never.", lower_bound=0
)
_NUM_EXAMPLES = flags.DEFINE_integer("num_examples", 5, "Differences to print of each part, vocabulary and casing.")
_WITH_OFFSETS = flags.DEFINE_bool("with_offsets", False, "Take ids from tokenize_with_offsets, not tokenize.")

_ORACLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "oracle_google_tokenization.py")
_EXPECTED_VERSIONS = {"bert-tensorflow": "1.0.4", "unicodedata": "14.0.0"}
_CASINGS = ("lower", "cased")
_BATCH_STRINGS, _BATCH_BYTES = 8192, 1 << 19
_MAX_WAITING = 4  # batches that the oracles may be behind


@dataclasses.dataclass
class Tally:
    """What came of one part with one vocabulary and casing."""

    strings: int = 0
    pieces: int = 0
    different_strings: int = 0
    different_pieces: int = 0
    examples: list = dataclasses.field(default_factory=list)  # (given bytes, reference's ids, our ids)


class Oracle:
    """google-research/bert's tokenizer of one casing in a process of its own."""

    def __init__(self, interpreter, casing, vocab_files):
        self._num_vocabularies = len(vocab_files)
        self._process = subprocess.Popen(
            [interpreter, _ORACLE, casing, *vocab_files], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._thread = concurrent.futures.ThreadPoolExecutor(1)
        described = json.loads(self._process.stdout.readline() or "{}")
        self.entries = described.pop("entries", None)
        if described != _EXPECTED_VERSIONS:
            raise UserError(
                f"the oracle has versions {described or 'unknown'}, expected {_EXPECTED_VERSIONS}; give an "
                "--oracle_python of Python 3.11 with benchmarks/requirements-google.txt"
            )

    def ask(self, texts):
        """Future of [(int32 counts [len(texts)], int32 ids)] for each vocabulary; texts: valid UTF-8."""
        return self._thread.submit(self._ask, texts)

    def _ask(self, texts):
        # The oracle reads the whole request before it answers, so neither side blocks the other.
        self._process.stdin.write(np.array([len(texts), *map(len, texts)], np.int32).tobytes() + b"".join(texts))
        self._process.stdin.flush()
        return [
            (counts, self._integers(int(counts.sum())))
            for counts in (self._integers(len(texts)) for _ in range(self._num_vocabularies))
        ]

    def _integers(self, count):
        data = self._process.stdout.read(4 * count)
        if len(data) != 4 * count:
            raise RuntimeError("the oracle's process ended early; what it printed stands above")
        return np.frombuffer(data, np.int32)

    def close(self):
        self._thread.shutdown()
        self._process.stdin.close()
        self._process.wait()


def strings_of(part):
    """Yields the byte strings of a part."""
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
    """Lists of byte strings, bounded in number and bytes."""
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


def as_reference_text(string):
    """What the reference is given: the same, with every invalid sequence replaced by U+FFFD."""
    try:
        string.decode("utf-8")
        return string
    except UnicodeDecodeError:
        return string.decode("utf-8", "replace").encode("utf-8")


def compare(tally, batch, counts, ids, expected_counts, expected_ids):
    """Adds one batch to a tally. Different pieces are those outside the common beginning and end of a string."""
    tally.strings += len(batch)
    tally.pieces += len(expected_ids)
    if np.array_equal(counts, expected_counts) and np.array_equal(ids, expected_ids):
        return
    rows, expected_rows = (
        np.split(values, np.cumsum(sizes)[:-1]) for values, sizes in ((ids, counts), (expected_ids, expected_counts))
    )
    for string, found, expected in zip(batch, rows, expected_rows):
        if np.array_equal(found, expected):
            continue
        shorter = min(len(found), len(expected))
        first = next((i for i in range(shorter) if found[i] != expected[i]), shorter)
        last = next((i for i in range(shorter - first) if found[-1 - i] != expected[-1 - i]), shorter - first)
        tally.different_strings += 1
        tally.different_pieces += max(len(found), len(expected)) - first - last
        if len(tally.examples) < _NUM_EXAMPLES.value:
            tally.examples.append((string, expected, found))


def run_part(part, tokenizers, oracles):
    """Tallies {(vocabulary, casing): Tally} of one part.

    Args:
        tokenizers: {casing: {vocabulary: function from string [B] to ragged ids}}. oracles: {casing: Oracle}.
    """
    tallies = {(name, casing): Tally() for casing in _CASINGS for name in tokenizers[casing]}
    waiting, started, reported, num_bytes = [], time.monotonic(), time.monotonic(), 0

    def finish(batch, found, asked):
        for casing in _CASINGS:
            for name, answer in zip(tokenizers[casing], asked[casing].result()):
                compare(tallies[name, casing], batch, *found[casing, name], *answer)

    for batch in batches_of(strings_of(part)):
        texts = [as_reference_text(string) for string in batch]
        asked = {casing: oracles[casing].ask(texts) for casing in _CASINGS}
        found = {}
        for casing in _CASINGS:
            for name, tokenize in tokenizers[casing].items():
                ids = tokenize(batch)
                found[casing, name] = ids.row_lengths().numpy(), ids.flat_values.numpy()
        waiting.append((batch, found, asked))
        if len(waiting) > _MAX_WAITING:
            finish(*waiting.pop(0))
        num_bytes += sum(map(len, batch))
        if time.monotonic() - reported > 10:
            reported = time.monotonic()
            tally = list(tallies.values())
            print(
                f"{part}: {tally[0].strings:,} strings, {num_bytes / 1e6:.1f} MB, "
                f"{num_bytes / 1e6 / (reported - started):.2f} MB/s; strings that differ: "
                f"{sum(one.different_strings for one in tally):,}",
                file=sys.stderr,
                flush=True,
            )
    for item in waiting:
        finish(*item)
    return tallies


def show_examples(part, tallies, vocabularies):
    for (name, casing), tally in tallies.items():
        for string, expected, found in tally.examples:
            print(f"\n{part}, {name}, {casing}: {string.decode('utf-8', 'backslashreplace')!r}")
            for who, ids in (("reference", expected), ("ours", found)):
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
        method = tokenizer.tokenize
        if _WITH_OFFSETS.value:
            method = lambda strings: tokenizer.tokenize_with_offsets(strings)[0]  # noqa: E731
        return tf.function(method, input_signature=[tf.TensorSpec([None], tf.string)])

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
                for name, path in zip(names, files)
            }
            for casing in _CASINGS
        }
    vocabularies = {name: tokenizer.vocabulary for name, tokenizer in built["lower"].items()}
    entries = [len(vocabulary) for vocabulary in vocabularies.values()]
    if entries != oracles["lower"].entries:
        raise UserError(f"the reference reads {oracles['lower'].entries} entries from the vocabularies, we {entries}")
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

"""google-research/bert's tokenizer as a process that answers batches; benchmarks.tokenizer.tokenizer_exactness runs it.

    oracle-google/bin/python benchmarks/tokenizer/oracle_google_tokenization.py lower|cased VOCAB_FILE...

The interpreter is one with benchmarks/requirements-google.txt; imported are bert.tokenization and the standard library.
First comes one line of JSON on stdout: versions, entries of each vocabulary. Then, until stdin ends, for each request
(int32 count, int32 lengths [count], the strings' UTF-8 bytes) one answer for each vocabulary in turn: int32 pieces of
each string [count], then all ids as int32. Integers are in the machine's byte order.

What is computed is FullTokenizer.tokenize and convert_tokens_to_ids. Without the flag preserve_unused_tokens (off by
default; checked here) the former is BasicTokenizer, then WordpieceTokenizer on each word; so BasicTokenizer runs once
for all vocabularies, and WordpieceTokenizer once for each distinct word, its answer being kept.
"""

import array
import json
import os
import sys
import unicodedata
from importlib.metadata import version

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Whatever an import prints must not get among the answers.
answers = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)

from absl import flags
from bert import tokenization

_KEPT_WORDS = 300_000  # bounds memory: random strings hardly ever repeat a word


def _integers(count):
    numbers = array.array("i")
    numbers.frombytes(sys.stdin.buffer.read(count * numbers.itemsize))
    return numbers


def main(casing, *vocab_files):
    flags.FLAGS(sys.argv[:1])
    if flags.FLAGS.preserve_unused_tokens:
        sys.exit("preserve_unused_tokens is on; the reference is compared with it off")
    tokenizers = [tokenization.FullTokenizer(path, do_lower_case=casing == "lower") for path in vocab_files]
    words_of = tokenizers[0].basic_tokenizer.tokenize
    described = {
        "bert-tensorflow": version("bert-tensorflow"),
        "unicodedata": unicodedata.unidata_version,
        "entries": [len(tokenizer.vocab) for tokenizer in tokenizers],
    }
    answers.write(json.dumps(described).encode() + b"\n")
    answers.flush()

    known = {}  # word -> ids of its pieces, one list for each vocabulary
    while header := _integers(1):
        lengths = _integers(header[0])
        found = [(array.array("i"), array.array("i")) for _ in tokenizers]
        for length in lengths:
            num_before = [len(ids) for _, ids in found]
            for word in words_of(sys.stdin.buffer.read(length).decode("utf-8")):
                pieces = known.get(word)
                if pieces is None:
                    if len(known) >= _KEPT_WORDS:
                        known.clear()
                    pieces = known[word] = [
                        tokenizer.convert_tokens_to_ids(tokenizer.wordpiece_tokenizer.tokenize(word))
                        for tokenizer in tokenizers
                    ]
                for (_, ids), of_word in zip(found, pieces):
                    ids.extend(of_word)
            for (counts, ids), num in zip(found, num_before):
                counts.append(len(ids) - num)
        for counts, ids in found:
            answers.write(counts.tobytes() + ids.tobytes())
        answers.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])

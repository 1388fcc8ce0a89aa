"""google-research/bert's FullTokenizer, for tokenizer_exactness and tokenizer_speed.

reference_answers runs this script in an environment with benchmarks/requirements-google.txt. The script imports
bert.tokenization and the packages that bert.tokenization needs. The requests:

- vocab_files and do_lower_case: makes a tokenizer of each vocabulary. Answers entries (the size of each vocabulary) and
  unicodedata (the version of Python's Unicode data).
- texts and arrays_file: tokenizes texts with each vocabulary. arrays_file gets counts_N (pieces of each text) and ids_N
  (all ids) for the N-th vocabulary.
- texts alone: times the first tokenizer on texts. Answers seconds.

The ids are those of FullTokenizer.tokenize and convert_tokens_to_ids. Without the flag preserve_unused_tokens (off by
default, and checked here) FullTokenizer runs BasicTokenizer and then WordpieceTokenizer on each word. For arrays_file
this script therefore runs BasicTokenizer once for all vocabularies, and keeps the pieces of each distinct word.
"""

import os
import sys
import time
import unicodedata

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from absl import flags
from bert import tokenization

PACKAGES = ("bert-tensorflow",)
_KEPT_WORDS = 300_000  # limits the memory; random strings hardly ever repeat a word
_tokenizers = []
_ids_by_word = {}  # word -> ids of its pieces, a list for each vocabulary

flags.FLAGS(sys.argv[:1])
if flags.FLAGS.preserve_unused_tokens:
    sys.exit(
        "the flag preserve_unused_tokens of bert.tokenization is on by default, expected off; install the packages of "
        "benchmarks/requirements-google.txt"
    )


def answer(request):
    """The answer to a request; see the module's docstring."""
    if "vocab_files" in request:
        return _make(request["vocab_files"], request["do_lower_case"])
    if "arrays_file" not in request:
        return _time(request["texts"])
    columns = [([], []) for _ in _tokenizers]
    for text in request["texts"]:
        lengths = [len(ids) for _, ids in columns]
        for word in _tokenizers[0].basic_tokenizer.tokenize(text):
            for (_, ids), word_ids in zip(columns, _ids_of(word), strict=True):
                ids.extend(word_ids)
        for (counts, ids), length in zip(columns, lengths, strict=True):
            counts.append(len(ids) - length)
    arrays = {}
    for number, (counts, ids) in enumerate(columns):
        arrays |= {f"counts_{number}": np.array(counts, np.int32), f"ids_{number}": np.array(ids, np.int32)}
    np.savez(request["arrays_file"], **arrays)
    return {}


def _make(vocab_files, do_lower_case):
    _tokenizers[:] = [tokenization.FullTokenizer(path, do_lower_case=do_lower_case) for path in vocab_files]
    _ids_by_word.clear()
    entries = [len(tokenizer.vocab) for tokenizer in _tokenizers]
    return {"entries": entries, "unicodedata": unicodedata.unidata_version}


def _ids_of(word):
    ids = _ids_by_word.get(word)
    if ids is None:
        if len(_ids_by_word) >= _KEPT_WORDS:
            _ids_by_word.clear()
        ids = _ids_by_word[word] = [
            tokenizer.convert_tokens_to_ids(tokenizer.wordpiece_tokenizer.tokenize(word)) for tokenizer in _tokenizers
        ]
    return ids


def _time(texts):
    tokenizer = _tokenizers[0]
    started = time.perf_counter()
    for text in texts:
        tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text))
    return {"seconds": time.perf_counter() - started}

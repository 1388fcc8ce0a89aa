"""Checksums of google-research/bert's pieces on random strings and on code points in context.

The reference is that of generate_tokenization.py. tests/random_text.py makes the strings again, so they are not stored.

    python tests/golden/generate_tokenization_random.py

Writes tokenization_random.npz beside this file, with these keys:
  metadata                 JSON: reference, versions, seed, num_random, first_codes, codes_per_block
  random_VOCAB_CASING      uint32 [num_random]: the checksum of random_string(seed, number)
  code_points_VOCAB_CASING uint32 [blocks]: the checksum of the code points first .. first + codes_per_block - 1. Spaces
                           join the contexts of a code point. The blocks are planes 0 and 1 without surrogates, and
                           the first 512 code points of the tags' plane
VOCAB is synthetic (tokenization_vocab.txt) or character (random_text.character_vocabulary). CASING is lower or cased.
A checksum is the CRC-32 of the ids as little-endian int32. A -1 follows the ids of each string.
"""

import json
import os
import pathlib
import sys
import tempfile
import unicodedata
import zlib
from importlib.metadata import version

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from absl import flags
from bert import tokenization

OUTPUT_DIR = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(OUTPUT_DIR.parents[1]))

from tests import random_text  # noqa: E402  (the line above adds its folder)

VERSIONS = {"bert-tensorflow": "1.0.4", "unicodedata": "14.0.0"}
SEED = 3
NUM_RANDOM = 5000
CODES_PER_BLOCK = 32
FIRST_CODES = [
    first
    for first in (*range(0, 0x20000, CODES_PER_BLOCK), *range(0xE0000, 0xE0200, CODES_PER_BLOCK))
    if not 0xD800 <= first < 0xE000
]


def checksum(rows):
    """CRC-32 of lists of ids."""
    return zlib.crc32(b"".join(np.array([*ids, -1], "<i4").tobytes() for ids in rows))


def main():
    installed = {"bert-tensorflow": version("bert-tensorflow"), "unicodedata": unicodedata.unidata_version}
    if installed != VERSIONS:
        raise SystemExit(f"reference versions are {installed}, expected {VERSIONS}")
    flags.FLAGS(sys.argv[:1])  # the reference reads the flag preserve_unused_tokens

    arrays = {
        "metadata": json.dumps(
            {
                "reference": "bert/tokenization.py FullTokenizer",
                "versions": VERSIONS,
                "seed": SEED,
                "num_random": NUM_RANDOM,
                "first_codes": FIRST_CODES,
                "codes_per_block": CODES_PER_BLOCK,
            }
        )
    }
    with tempfile.TemporaryDirectory() as directory:
        character = os.path.join(directory, "character.txt")
        with open(character, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(entry + "\n" for entry in random_text.character_vocabulary())
        for vocabulary, path in (("synthetic", str(OUTPUT_DIR / "tokenization_vocab.txt")), ("character", character)):
            for casing in ("lower", "cased"):
                tokenizer = tokenization.FullTokenizer(path, do_lower_case=casing == "lower")

                def ids_of(text, tokenizer=tokenizer):
                    return tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text))

                arrays[f"random_{vocabulary}_{casing}"] = np.array(
                    [checksum([ids_of(random_text.random_string(SEED, number))]) for number in range(NUM_RANDOM)],
                    np.uint32,
                )
                arrays[f"code_points_{vocabulary}_{casing}"] = np.array(
                    [
                        checksum(
                            [
                                ids_of(" ".join(random_text.code_point_contexts(code)))
                                for code in range(first, first + CODES_PER_BLOCK)
                            ]
                        )
                        for first in FIRST_CODES
                    ],
                    np.uint32,
                )
    path = OUTPUT_DIR / "tokenization_random.npz"
    np.savez_compressed(path, **arrays)
    print(f"{path} {path.stat().st_size} bytes, {NUM_RANDOM} strings, {len(FIRST_CODES) * CODES_PER_BLOCK} code points")


if __name__ == "__main__":
    main()

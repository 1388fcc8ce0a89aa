"""Compares the spans of our pieces with those of Hugging Face's tokenizers, where both have the same ids.

python -m benchmarks.tokenizer.tokenizer_offsets --vocab_dir=VOCABS --squad_dir=TASKS/squad \\
    --enwiki_files=ENWIKI --zhwiki_files=ZHWIKI --max_megabytes=5

The benchmark compares tokenize_with_offsets of pipelines.wordpiece.tokenizer with Encoding.offsets of tokenizers, in
characters. The texts are lines of Wikipedia, contexts and questions of XQuAD, every assigned code point in several
contexts, and random strings that mix scripts and marks. Each text runs with the fitting vocabularies. Code points and
random strings also run with a vocabulary of every character (tests.random_text), where no rare character turns the rest
of its word into [UNK].

Strings whose ids differ are counted but not compared. tokenizer_exactness decides which side is right about them. Byte
spans are checked against our own character spans. Mismatches are listed by kind: the edge, and the Unicode categories
of the characters between the two edges.

One kind of mismatch is known, and our spans are right. Canonical ordering (NFD) may move a mark that stays, such as
U+1D165, past a mark that is dropped. tokenizers then assigns each mark to the character in its new place. In U+0345
U+0308 U+1D165 the single piece comes from the last character, but tokenizers assigns it to the first. Such mismatches
are counted separately if normalization keeps a part of the characters at both edges of our span. The exit code is 1 if
there is any other mismatch.
"""

import collections
import dataclasses
import json
import os
import random
import sys
import tempfile
import unicodedata

from absl import flags

from benchmarks.tokenizer import tokenizer_peers
from keras_bert_app.cli.common import app
from tests import random_text

_VOCAB_DIR = flags.DEFINE_string("vocab_dir", "", "Directory of the files bert-base-NAME-vocab.txt.")
_SQUAD_DIR = flags.DEFINE_string("squad_dir", "", "Directory of the files xquad.LANGUAGE.json; empty: without XQuAD.")
_ENWIKI_FILES = flags.DEFINE_string("enwiki_files", "", "English text, read line by line; empty: left out.")
_ZHWIKI_FILES = flags.DEFINE_string("zhwiki_files", "", "Chinese text, read line by line; empty: left out.")
_MAX_MEGABYTES = flags.DEFINE_float("max_megabytes", None, "Most text of each Wikipedia (10^6 bytes); empty: all.")
_NUM_RANDOM = flags.DEFINE_integer(
    "num_random_strings", 20_000, "Random strings of 1 to 40 characters; 0 leaves these and the code points out."
)
_NUM_EXAMPLES = flags.DEFINE_integer("num_examples", 3, "Examples shown of each kind of mismatch.")

_BATCH_SIZE = 256
_EVERY_CHARACTER = "every character"
# (vocabulary, do_lower_case, the texts that it fits)
_FITTING = (
    ("uncased", True, ("enwiki", "XQuAD en", "code points", "random")),
    ("cased", False, ("enwiki", "XQuAD en")),
    ("chinese", True, ("zhwiki", "XQuAD zh")),
    (
        "multilingual-cased",
        False,
        ("enwiki", "zhwiki", "XQuAD en", "XQuAD de", "XQuAD zh", "XQuAD es", "code points", "random"),
    ),
    (_EVERY_CHARACTER, True, ("code points", "random")),
    (_EVERY_CHARACTER, False, ("code points", "random")),
)
# Letters with and without accents, capitals whose lower case is longer, jamo, CJK, marks that stand alone or in the
# wrong order, characters that cleaning removes, white space, punctuation and emoji sequences.
_RANDOM_CHARACTERS = (
    "abcXYZ019 \t\n\r\xa0\u2009\u2028\u3000.,-'_$^`\u2026\u201c\xe9\xc9\xc5\u0130\u1e9e\xdf\ufb01\xbd\u03a3\u03c3"
    "\u03c2\u0390\u1f82\u0439\u0401\u05d0\u05b7\u0627\u064b\u0e01\u0e34\u0915\u093e\u094d\ud55c\uae00\u1112\u1161"
    "\u11ab\u4e2d\u6587\u304b\u3099\u30ac\u0300\u0301\u0307\u0308\u0323\u0327\u0345\u20dd\u0903\x00\x07\x7f\x85"
    "\xad\u200b\u200d\u200e\u2060\ufeff\ufffd\ufe0f\U0001f468\U0001f469\U0001f3fd\U0001d15e\U0001d165\U00020000"
    "\U0002f800\U000e0041\uff21\uff0c\u212b\u2126"
)


@dataclasses.dataclass
class Comparison:
    """Counts of one text with one vocabulary.

    Attributes:
        strings: int. Number of strings.
        other_ids: int. Strings whose ids differ, which are not compared.
        pieces: int. Pieces whose spans are compared.
        mismatches: int. Pieces whose spans differ.
        reordered: int. Mismatches that the reordering of marks explains.
        byte_errors: int. Pieces whose byte span does not match their character span.
        kinds: dict. Kind of mismatch -> [number, examples].
    """

    strings: int = 0
    other_ids: int = 0
    pieces: int = 0
    mismatches: int = 0
    reordered: int = 0
    byte_errors: int = 0
    kinds: dict = dataclasses.field(default_factory=lambda: collections.defaultdict(lambda: [0, []]))

    def note(self, kind: str, example: str) -> None:
        self.kinds[kind][0] += 1
        if len(self.kinds[kind][1]) < _NUM_EXAMPLES.value:
            self.kinds[kind][1].append(example)


def main(arguments):
    del arguments
    (vocab_dir,) = app.required("vocab_dir")
    with app.quiet_start():
        from pipelines.wordpiece.tokenizer import BertTokenizer
        from pipelines.wordpiece.vocabulary import write_vocabulary
    texts = _texts()
    total = collections.Counter()
    listed = []
    print(
        "| text | vocabulary | strings | strings with different ids | pieces compared | spans that differ "
        "| because of reordered marks | bytes unlike characters |\n|---|---|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as directory:
        every_character = os.path.join(directory, "vocab.txt")
        write_vocabulary(random_text.character_vocabulary(), every_character)
        for vocabulary, do_lower_case, names in _FITTING:
            path = os.path.join(vocab_dir, f"bert-base-{vocabulary}-vocab.txt")
            tokenizer = BertTokenizer(
                every_character if vocabulary == _EVERY_CHARACTER else path,
                do_lower_case,
                verify_casing=vocabulary != _EVERY_CHARACTER,
            )
            peer = tokenizer_peers.hf_tokenizer(tokenizer.vocabulary, do_lower_case)
            label = f"{vocabulary}, lower-cased" if do_lower_case else vocabulary
            for name in (name for name in names if name in texts):
                result = compare(tokenizer, peer, texts[name])
                print(
                    f"| {name} | {label} | {result.strings:,} | {result.other_ids:,} | {result.pieces:,} | "
                    f"{result.mismatches:,} | {result.reordered:,} | {result.byte_errors:,} |",
                    flush=True,
                )
                total.update(mismatches=result.mismatches - result.reordered, byte_errors=result.byte_errors)
                listed += [(name, label, kind, *counted) for kind, counted in result.kinds.items()]
    if listed:
        print("\n| text | vocabulary | kind | number | examples: piece, text around, ours, theirs |")
        print("|---|---|---|---|---|")
        for *what, number, examples in sorted(listed, key=lambda row: -row[3]):
            print("|", " | ".join([*what, f"{number:,}", "; ".join(examples).replace("|", "\\|")]), "|")
    sys.exit(1 if total["mismatches"] or total["byte_errors"] else 0)


def _texts():
    """The texts to compare, as a dict from name to list of strings."""
    wikipedias = {"enwiki": _ENWIKI_FILES.value, "zhwiki": _ZHWIKI_FILES.value}
    texts = {
        name: tokenizer_peers.read_lines(files, _MAX_MEGABYTES.value) for name, files in wikipedias.items() if files
    }
    if _SQUAD_DIR.value:
        for language in ("en", "de", "zh", "es"):
            with open(os.path.join(_SQUAD_DIR.value, f"xquad.{language}.json"), encoding="utf-8") as stream:
                paragraphs = [paragraph for article in json.load(stream)["data"] for paragraph in article["paragraphs"]]
            texts[f"XQuAD {language}"] = [
                text
                for paragraph in paragraphs
                for text in [paragraph["context"], *(qa["question"] for qa in paragraph["qas"])]
            ]
    if _NUM_RANDOM.value:
        draw = random.Random(12)
        texts["random"] = [
            "".join(draw.choices(_RANDOM_CHARACTERS, k=draw.randint(1, 40))) for _ in range(_NUM_RANDOM.value)
        ]
        assigned = [
            character
            for character in map(chr, range(sys.maxunicode + 1))
            if unicodedata.category(character) not in ("Cn", "Co", "Cs")
        ]
        texts["code points"] = [f"{c} a{c} {c}b un{c}able\u4e2d{c}\u6587{c}{c}" for c in assigned]
    return texts


def compare(tokenizer, peer, texts: list[str]) -> Comparison:
    """Compares the spans of texts.

    Args:
        tokenizer: BertTokenizer.
        peer: tokenizers.Tokenizer.
        texts: list of str.
    """
    import tensorflow as tf

    ours = tf.function(tokenizer.tokenize_with_offsets, input_signature=[tf.TensorSpec([None], tf.string)])
    result = Comparison()
    for first in range(0, len(texts), _BATCH_SIZE):
        batch = texts[first : first + _BATCH_SIZE]
        columns = [ragged.to_list() for ragged in ours(tf.constant([text.encode() for text in batch]))]
        for text, encoding, ids, *spans in zip(
            batch, peer.encode_batch(batch, add_special_tokens=False), *columns, strict=True
        ):
            result.strings += 1
            _check_bytes(text, spans, result)
            if encoding.ids != ids:
                result.other_ids += 1
                continue
            result.pieces += len(ids)
            our_spans = zip(*spans[2:], strict=True)
            for piece, our_span, their_span in zip(encoding.tokens, our_spans, encoding.offsets, strict=True):
                if our_span != their_span:
                    is_reordered = _is_reordered(text, our_span, their_span)
                    result.mismatches += 1
                    result.reordered += is_reordered
                    kind = "reordered marks" if is_reordered else _kind(text, piece, our_span, their_span)
                    result.note(kind, _example(text, piece, our_span, their_span))
    return result


def _check_bytes(text, spans, result):
    """Counts the pieces whose byte span does not match their character span."""
    data = text.encode()
    bytes_before = [0]
    for character in text:
        bytes_before.append(bytes_before[-1] + len(character.encode()))
    for start_byte, end_byte, start, end in zip(*spans, strict=True):
        is_inside = 0 <= start <= end < len(bytes_before)
        if not is_inside or (bytes_before[start], bytes_before[end]) != (start_byte, end_byte):
            result.byte_errors += 1
            result.note("bytes unlike characters", f"{data[start_byte:end_byte]!r}, {text[start:end]!r}")


def _is_reordered(text, ours, theirs):
    """Whether NFD reorders marks in or next to the spans, and the characters at our edges do not vanish."""
    first, last = min(ours[0], theirs[0]), max(ours[1], theirs[1])
    while first and (unicodedata.combining(text[first]) or _is_removed(text[first])):
        first -= 1
    while last < len(text) and (unicodedata.combining(text[last]) or _is_removed(text[last])):
        last += 1
    cleaned = [character for character in text[first:last] if not _is_removed(character)]
    decomposed = [unicodedata.normalize("NFD", character) for character in cleaned]
    edges = [unicodedata.normalize("NFD", text[edge]) for edge in (ours[0], ours[1] - 1)]
    stays = all(any(unicodedata.category(part) not in ("Cc", "Cf", "Mn") for part in edge) for edge in edges)
    return stays and unicodedata.normalize("NFD", "".join(cleaned)) != "".join(decomposed)


def _is_removed(character):
    return character == "\ufffd" or (unicodedata.category(character) in ("Cc", "Cf") and character not in "\t\n\r")


def _kind(text, piece, ours, theirs):
    """The kind of a mismatch, such as "end: theirs is longer by Mn"."""
    edges = []
    for edge, our_edge, their_edge in zip(("start", "end"), ours, theirs, strict=True):
        if our_edge != their_edge:
            between = text[min(our_edge, their_edge) : max(our_edge, their_edge)]
            categories = dict.fromkeys(map(unicodedata.category, between))
            ours_is_longer = (our_edge < their_edge) == (edge == "start")
            edges.append(f"{edge}: {'ours' if ours_is_longer else 'theirs'} is longer by {'+'.join(categories)}")
    return ", ".join(edges) + (" ([UNK])" if piece == "[UNK]" else "")


def _example(text, piece, ours, theirs):
    around = text[max(0, min(ours[0], theirs[0]) - 3) : max(ours[1], theirs[1]) + 3]
    return f"{piece} in {ascii(around)}, {ours}, {theirs}"


if __name__ == "__main__":
    app.run(main, __doc__)

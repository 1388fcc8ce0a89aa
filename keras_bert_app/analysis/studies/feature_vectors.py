"""Token vectors of chosen layers, with words and their places.

The vectors and the format follow google-research/bert's extract_features.py, with additions. A line of the input is one
text, or two texts with " ||| " between them. The vectors are written to two files.

features.jsonl has one line for each text. As in extract_features.py, linex_index is the number of the line from 0, and
features has an entry for each token. An entry has the token and its layers. A layer has index (from 0, -1 is the last)
and values, rounded to six places. This program adds start and end, the characters of the line that the token stands for
(null for [CLS] and [SEP]), and words. A word has word, start and end, first_token and end_token, the end exclusive.

features.npz has T tokens of R texts with W words:
    vectors: float32 [T, layers, H].
    layers: int32 [layers].
    row_splits: int64 [R + 1]. The first token of each text.
    token_ids: int32 [T].
    token_characters: int32 [T, 2]. -1 for [CLS] and [SEP].
    word_splits: int64 [R + 1]. The first word of each text.
    word_tokens: int32 [W, 2]. The tokens of each word, counted from 0 for [CLS] of its text, the end exclusive.
    word_characters: int32 [W, 2]. The characters of the line that each word stands for, the end exclusive.
"""

import io
import itertools
import json
import re
import typing
from collections.abc import Callable, Sequence

import numpy as np

from keras_bert_app.analysis import input_texts
from keras_bert_app.analysis.encoded_sentences import encode_rows, row_length
from keras_bert_app.analysis.encoders import Subject, require_segments, untrained
from keras_bert_app.analysis.findings import Findings, Table
from keras_bert_app.analysis.options import Options
from keras_bert_app.errors import UserError
from keras_bert_app.tasks.features import truncated
from keras_bert_app.tasks.readers.tables import lines_of

SUMMARY = "token vectors of chosen layers, with words and character offsets, as .npz and JSON lines"
NEEDS = ("input_file",)
TAKES = ("layers", "max_sentences", "seed")
_PAIR = re.compile(r"(.*) \|\|\| (.*)", re.DOTALL)  # extract_features.py, read_examples
_MOST_VALUES = 1 << 28  # 1 GB of float32; the .npz takes as much memory again
_MOST_COMPARED = 200  # texts in the table


class Row(typing.NamedTuple):
    """One line of the input.

    Attributes:
        line: str.
        a: input_texts.Text. Segment A.
        b: input_texts.Text or None. Segment B.
        b_start: int. The character of the line where segment B begins.
    """

    line: str
    a: input_texts.Text
    b: input_texts.Text | None
    b_start: int

    @property
    def pieces(self) -> tuple[list, list | None]:
        return self.a.pieces, self.b.pieces if self.b else None


def run(subject: Subject, options: Options, log: Callable[[str], None]) -> Findings:
    """Writes the token vectors, and compares their lengths and cosines with an untrained encoder.

    Args:
        subject: Subject. The encoder to look into.
        options: Options. Uses input_file, layers, max_sentences (the number of lines) and seed.
        log: Callable. Receives progress lines.

    Returns:
        Findings.

    Raises:
        UserError: a layer does not exist, the file has no line, or the vectors take too much memory.
    """
    layers = checked_layers(options.layers, subject.config.num_hidden_layers)
    rows, num_cut = _read(subject, options)
    num_tokens = sum(row_length(row.pieces) for row in rows)
    num_values = num_tokens * len(layers) * subject.config.widest_state
    if num_values > _MOST_VALUES:
        raise UserError(
            f"{options.input_file}: its vectors of {len(layers)} layers would be {num_values * 4 / 1e9:.1f} GB in "
            f"memory; expected at most {_MOST_VALUES * 4 / 1e9:.1f} GB; give fewer --layers, or "
            f"--max_sentences={len(rows) * _MOST_VALUES // num_values}"
        )
    log(f"features: {len(rows):,} texts, {num_tokens:,} tokens, {len(layers)} layers")
    encoded = _encoded(subject, rows, layers)
    arrays = _arrays(rows, encoded, layers)
    file = io.BytesIO()
    np.savez(file, **arrays)
    few = rows[:_MOST_COMPARED]
    baseline = _encoded(untrained(subject, options.seed), few, layers)
    remarks = [
        f"{len(rows):,} texts, {num_tokens:,} tokens with [CLS] and [SEP], {len(arrays['word_tokens']):,} words; "
        f"{num_cut:,} texts of more than {subject.config.max_position_embeddings} tokens lost their last words.",
        "In features.npz the tokens of text i are vectors[row_splits[i]:row_splits[i + 1]].",
        "mean cosine: the mean over all pairs of tokens. Near 1, all vectors point in nearly the same direction, and "
        "cosines say little.",
        *["The vectors of narrower layers end with zeros."] * (not subject.config.has_equal_layers),
    ]
    files = {
        "features.npz": file.getvalue(),
        "features.jsonl": _jsonl(rows, encoded, layers, subject.tokenizer.vocabulary),
    }
    return Findings(
        "features",
        f"Token vectors of {options.input_file}",
        [_table(encoded[: len(few)], baseline, layers)],
        remarks,
        files,
        {"layers": layers, "texts": len(rows), "tokens": num_tokens},
    )


def checked_layers(layers: Sequence[str], num_layers: int) -> list[int]:
    """Converts numbers of layers.

    Args:
        layers: sequence of str.
        num_layers: int. The number of layers of the encoder.

    Returns:
        list of int, in the given order. Negative numbers stay negative.

    Raises:
        UserError: an entry is no number or no layer, or there is no entry.
    """
    for layer in layers:
        if not re.fullmatch(r"-?\d+", layer) or not -num_layers - 1 <= int(layer) <= num_layers:
            raise UserError(
                f"--layers={layer} is no layer of the model; expected {-num_layers - 1} to {num_layers}; 0 is the "
                "embeddings' output, and -1 the last layer"
            )
    if not layers:
        raise UserError("--layers is empty; give numbers with commas between them, such as -1,-2")
    return [int(layer) for layer in layers]


def _read(subject, options):
    """(list of Row, number of rows that lost words)."""
    lines = [line for _, line in itertools.islice(lines_of(options.input_file), options.most_sentences() or None)]
    if not lines:
        raise UserError(f"{options.input_file}: has no line; give a file with one text in each line")
    matches = [_PAIR.fullmatch(line) for line in lines]
    if any(matches):
        require_segments(subject.config, f"{options.input_file} has pairs of texts")
    firsts = input_texts.cut(
        subject.tokenizer, [match[1] if match else line for match, line in zip(matches, lines, strict=True)]
    )
    seconds = input_texts.cut(subject.tokenizer, [match[2] if match else "" for match in matches])
    rows, num_cut = [], 0
    for line, match, first, second in zip(lines, matches, firsts, seconds, strict=True):
        given = [first, second] if match else [first]
        sizes = [sum(map(len, text.pieces)) for text in given]
        kept = truncated([range(size) for size in sizes], subject.config.max_position_embeddings - 1 - len(given))
        given = [text.beginning(len(some)) for text, some in zip(given, kept, strict=True)]
        num_cut += sum(sizes) > sum(map(len, kept))
        rows.append(Row(line, given[0], given[1] if match else None, match.start(2) if match else 0))
    return rows, num_cut


def _encoded(subject, rows, layers):
    """list of (token_ids [S], spans [W, 2], vectors [S, layers, H]) in the order of the rows."""
    result = [None] * len(rows)
    for encoded in encode_rows(subject, [row.pieces for row in rows]):
        result[encoded.number] = encoded.token_ids, encoded.spans, encoded.states[layers].transpose(1, 0, 2)
    return result


def _characters(row):
    """(int32 [S, 2], int32 [W, 2]): the characters of the line that each token and each word stands for.

    Special tokens have -1.
    """
    special = np.full((1, 2), -1, np.int32)
    a_spans, b_spans = row.a.characters, [spans + row.b_start for spans in row.b.characters] if row.b else []
    tokens = [special, *a_spans, special, *b_spans] + [special] * bool(row.b)
    words = [(spans[0, 0], spans[-1, 1]) for spans in [*a_spans, *b_spans]]
    return np.concatenate(tokens).astype(np.int32), np.array(words, np.int32).reshape(-1, 2)


def _arrays(rows, encoded, layers):
    """The arrays of features.npz."""

    def splits(parts):
        return np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)

    ids, spans, vectors = zip(*encoded, strict=True)
    tokens, words = zip(*map(_characters, rows), strict=True)
    return {
        "vectors": np.concatenate(vectors),
        "layers": np.array(layers, np.int32),
        "row_splits": splits(ids),
        "token_ids": np.concatenate(ids),
        "token_characters": np.concatenate(tokens),
        "word_splits": splits(spans),
        "word_tokens": np.concatenate(spans),
        "word_characters": np.concatenate(words),
    }


def _jsonl(rows, encoded, layers, vocabulary):
    """Yields the lines of features.jsonl in UTF-8."""
    for number, (row, (ids, spans, vectors)) in enumerate(zip(rows, encoded, strict=True)):
        tokens, words = (places.tolist() for places in _characters(row))
        features = [
            {
                "token": vocabulary[piece],
                "start": start if start >= 0 else None,
                "end": end if end >= 0 else None,
                "layers": [
                    {"index": layer, "values": [round(value, 6) for value in vector]}
                    for layer, vector in zip(layers, token_vectors, strict=True)
                ],
            }
            for piece, (start, end), token_vectors in zip(ids, tokens, vectors.tolist(), strict=True)
        ]
        described_words = [
            {"word": row.line[start:end], "start": start, "end": end, "first_token": first, "end_token": last}
            for (start, end), (first, last) in zip(words, spans.tolist(), strict=True)
        ]
        line = {"linex_index": number, "features": features, "words": described_words}
        yield (json.dumps(line, ensure_ascii=False) + "\n").encode()


def _table(encoded, baseline, layers):
    """The table of vector lengths and mean cosines, next to an untrained encoder."""

    def length_and_cosine(vectors):
        lengths = np.linalg.norm(vectors, axis=1)
        total, count = np.sum(vectors / lengths[:, None], axis=0, dtype=np.float64), len(vectors)
        return float(lengths.mean()), float((total @ total - count) / max(count * (count - 1), 1))

    rows = []
    for at, layer in enumerate(layers):
        length, cosine = length_and_cosine(np.concatenate([vectors[:, at] for _, _, vectors in encoded]))
        other_length, other_cosine = length_and_cosine(np.concatenate([vectors[:, at] for _, _, vectors in baseline]))
        rows.append((str(layer), length, other_length, cosine, other_cosine))
    count = sum(len(ids) for ids, _, _ in encoded)
    return Table(
        f"Vectors of {count:,} tokens of {len(encoded):,} texts",
        ("layer", "length", "untrained", "mean cosine", "untrained"),
        rows,
    )

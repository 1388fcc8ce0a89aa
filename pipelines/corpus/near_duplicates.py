"""Near-duplicate documents by MinHash and locality-sensitive hashing.

The search needs about 40 bytes of memory per document.

Tokens are lower-cased runs of ASCII letters, digits and bytes above ASCII. A character from U+3000 on (Chinese,
Japanese, Korean) is a separate token. A document is the set of its runs of 5 consecutive tokens. The share of equal
minima among NUM_HASHES estimates the Jaccard similarity J of two sets. The standard error is sqrt(J(1 - J)/128), which
is 0.035 at J = 0.8. Only pairs with a whole band of 8 equal minima are compared. The probability of such a band is 0.95
at a similarity of 0.8, 0.994 at 0.85 and 0.9999 at 0.9. Sources: Broder 1997; Leskovec, Rajaraman and Ullman, Mining of
Massive Datasets, chapter 3.
"""

from collections.abc import Callable, Iterator

import numpy as np

from pipelines.corpus.fingerprints import blocks, line_ends, mixed, segment_hashes

THRESHOLD = 0.8
NUM_HASHES = 128
_BANDS = 16
_TOKENS = 5
SIGNATURE = np.dtype(("<u2", (NUM_HASHES,)))
_HASHES_AT_A_TIME = 16
_PAIRS_AT_A_TIME = 1 << 16
# Bytes below the first digit are in no token. 0xE3 is the first byte of U+3000 in UTF-8.
_SEPARATOR, _NEWLINE, _FIRST_DIGIT, _FIRST_IDEOGRAPH = 0, 10, ord("0"), 0xE3


def signatures(records: list[bytes]) -> np.ndarray:
    """Computes the MinHash signatures of documents, 256 bytes each.

    Args:
        records: list of bytes. Sentences joined by newlines.

    Returns:
        SIGNATURE [N]; zeros for a document without a token.
    """
    hashes, documents = _shingles(records)
    result = np.zeros((len(records), NUM_HASHES), np.uint16)
    if not len(hashes):
        return result
    present, starts = np.unique(documents, return_index=True)
    for first in range(0, NUM_HASHES, _HASHES_AT_A_TIME):
        rows = slice(first, first + _HASHES_AT_A_TIME)
        values = hashes * _FACTORS[rows, None]
        values += _TERMS[rows, None]
        minima = np.minimum.reduceat(values, starts, axis=1)
        result[present, rows] = (mixed(minima.astype(np.uint64)) >> np.uint64(48)).T
    return result


def _shingles(records):
    """Hashes all runs of 5 tokens, uint32; returns the hashes and the document of each.

    A shorter document gives one hash of all its tokens.
    """
    tokens, lines, first_line = [], [], 0
    for block in blocks(records):
        ends_of_lines = line_ends(block)
        hashes, starts = token_hashes(block)
        tokens.append(hashes)
        lines.append(np.searchsorted(ends_of_lines, starts, side="right") + first_line)
        first_line += len(ends_of_lines)
    tokens = np.concatenate(tokens)
    if not len(tokens):
        return np.zeros(0, np.uint32), np.zeros(0, np.int64)
    ends = np.cumsum([record.count(b"\n") + 1 for record in records])
    documents = np.searchsorted(ends, np.concatenate(lines), side="right")
    padded = np.concatenate([documents, np.full(_TOKENS - 1, -1)])
    hashes = tokens.copy()
    for step in range(1, _TOKENS):
        same = documents[step:] == documents[:-step]
        hashes[:-step] += np.where(same, tokens[step:] * _STEPS[step], np.uint64(0))
    is_whole = documents == padded[_TOKENS - 1 :]
    is_whole[0] = True
    is_whole[1:] |= documents[1:] != documents[:-1]
    return (mixed(hashes[is_whole]) >> np.uint64(32)).astype(np.uint32), documents[is_whole]


def token_hashes(block: np.ndarray, with_newlines: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Hashes the tokens of a block of text.

    Args:
        block: uint8 [bytes], as fingerprints.blocks makes it.
        with_newlines: bool. Whether each newline is a token too.

    Returns:
        (uint64 [tokens] hashes, int64 [tokens] positions of the first bytes).
    """
    folded = np.frombuffer(block.tobytes().translate(_FOLDED_LINES if with_newlines else _FOLDED), np.uint8)
    is_inside = folded >= _FIRST_DIGIT
    is_start = folded >= _FIRST_IDEOGRAPH
    is_start[0] |= is_inside[0]
    is_start[1:] |= is_inside[1:] & ~is_inside[:-1]
    if with_newlines:
        is_start |= folded == _NEWLINE
    starts = np.flatnonzero(is_start)
    if not len(starts):
        return np.zeros(0, np.uint64), starts
    # Separators are zero bytes, so a token's hash may extend to the start of the next token.
    return segment_hashes(folded[starts[0] :], np.append(starts[1:], len(folded)) - starts[0]), starts


def near_duplicates(
    keys: np.ndarray,
    is_heldout: np.ndarray,
    dropped: np.ndarray,
    signature_blocks: Callable[[], Iterator[np.ndarray]],
    signatures_of: Callable[[np.ndarray], np.ndarray],
    threshold: float = THRESHOLD,
) -> np.ndarray:
    """Chooses the documents to drop, so that one document remains of every cluster of near-duplicates.

    Pairs with a similarity of at least `threshold` are linked. A cluster is all documents that links connect, directly
    or through other documents. The document with the smallest key remains. Training documents come before held-out
    documents, so that a held-out document never removes a training document.

    Args:
        keys: uint64 [N]. The keys of the documents.
        is_heldout: bool [N]. Whether a document is held out.
        dropped: bool [N]. Documents that are dropped already and take no part.
        signature_blocks: function without arguments. It yields the signatures in order, [n, 128] at a time.
        signatures_of: function of document numbers [n] in any order. It returns their signatures [n, 128].
        threshold: float. The smallest similarity that links two documents.

    Returns:
        bool [N]. Whether to drop each document.
    """
    parents = np.arange(len(keys))
    order = np.lexsort((keys, is_heldout))
    for band in range(_BANDS):
        hashes = np.concatenate([_band_hashes(block, band) for block in signature_blocks()])
        candidates = order[(~dropped & (hashes != 0))[order]]
        candidates = candidates[np.argsort(hashes[candidates], kind="stable")]
        is_first = np.ones(len(candidates), bool)
        is_first[1:] = hashes[candidates[1:]] != hashes[candidates[:-1]]
        firsts = candidates[np.maximum.accumulate(np.where(is_first, np.arange(len(candidates)), 0))]
        others = np.flatnonzero(~is_first)
        # Compare each document with the first of its group and with its neighbour: all pairs would take quadratic time.
        for left, right in ((firsts[others], candidates[others]), (candidates[others - 1], candidates[others])):
            _link(parents, left, right, signatures_of, threshold)
    roots = _roots(parents, np.arange(len(keys)))
    result = np.zeros(len(keys), bool)
    linked = order[~dropped[order]]
    _, first = np.unique(roots[linked], return_index=True)
    result[linked] = True
    result[linked[first]] = False
    return result


def _band_hashes(block, band):
    """Hashes one band of each signature, uint64 [n]; signatures of zeros give 0."""
    rows = NUM_HASHES // _BANDS
    packed = np.ascontiguousarray(block[:, band * rows : (band + 1) * rows]).view("<u8")
    return np.where(block.any(axis=1), mixed(mixed(packed[:, 0]) + packed[:, 1]) | np.uint64(1), np.uint64(0))


def _link(parents, left, right, signatures_of, threshold):
    for start in range(0, len(left), _PAIRS_AT_A_TIME):
        pair = slice(start, start + _PAIRS_AT_A_TIME)
        a, b = left[pair], right[pair]
        is_unlinked = _roots(parents, a) != _roots(parents, b)
        a, b = a[is_unlinked], b[is_unlinked]
        if not len(a):
            continue
        is_similar = (signatures_of(a) == signatures_of(b)).mean(axis=1) >= threshold
        for first, second in zip(a[is_similar].tolist(), b[is_similar].tolist(), strict=True):
            first, second = _root(parents, first), _root(parents, second)
            parents[max(first, second)] = min(first, second)


def _root(parents, node):
    while parents[node] != node:
        parents[node] = parents[parents[node]]
        node = parents[node]
    return node


def _roots(parents, nodes):
    roots = parents[nodes]
    while not np.array_equal(higher := parents[roots], roots):
        roots = higher
    return roots


_FOLDED = bytes(byte if chr(byte).isalnum() or byte >= 0x80 else _SEPARATOR for byte in bytes(range(256)).lower())
_FOLDED_LINES = _FOLDED[:_NEWLINE] + bytes([_NEWLINE]) + _FOLDED[_NEWLINE + 1 :]
_STEPS = mixed(np.arange(1000, 1000 + _TOKENS, dtype=np.uint64)) | np.uint64(1)
# The hash functions are factor * x + term modulo 2**32; odd factors make them one to one.
_FACTORS = (mixed(np.arange(1, NUM_HASHES + 1, dtype=np.uint64)) >> np.uint64(32)).astype(np.uint32) | np.uint32(1)
_TERMS = (mixed(np.arange(1001, NUM_HASHES + 1001, dtype=np.uint64)) >> np.uint64(32)).astype(np.uint32)

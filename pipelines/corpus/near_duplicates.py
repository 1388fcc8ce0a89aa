"""Near-duplicate documents by MinHash and locality-sensitive hashing, in memory of some 40 bytes a document.

Tokens are lower-cased runs of ASCII letters, digits and bytes above ASCII; a character from U+3000 on (Chinese,
Japanese, Korean) is a token of its own. Two documents are compared by their sets of 5 tokens in a row:
the share of NUM_HASHES minima that agree estimates the Jaccard similarity of the sets, with a standard error of
sqrt(J(1 - J)/128), 0.035 at 0.8. Only pairs that agree in a whole band of 8 minima are compared; the chance of that is
0.95 at a similarity of 0.8, 0.994 at 0.85 and 0.9999 at 0.9. (Broder 1997; Leskovec, Rajaraman and Ullman, Mining of
Massive Datasets, chapter 3.)
"""

import numpy as np

from pipelines.corpus.fingerprints import blocks, line_ends, mixed, segment_hashes

THRESHOLD = 0.8
NUM_HASHES = 128
_BANDS = 16
_TOKENS = 5
SIGNATURE = np.dtype(("<u2", (NUM_HASHES,)))
_HASHES_AT_A_TIME = 16
_PAIRS_AT_A_TIME = 1 << 16
_SEPARATOR, _FIRST_IDEOGRAPH = 0, 0xE3  # the first byte of U+3000 in UTF-8


def signatures(records):
    """SIGNATURE [N] of documents, 256 bytes each; zeros for a document without a token."""
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
    """Hashes (uint32) of all runs of 5 tokens, of a shorter document's tokens at once, and the document of each."""
    tokens, lines, first_line = [], [], 0
    for block in blocks(records):
        ends_of_lines = line_ends(block)
        block = np.frombuffer(block.tobytes().translate(_FOLDED), np.uint8)
        is_start = block != _SEPARATOR
        is_start[1:] &= block[:-1] == _SEPARATOR
        is_start |= block >= _FIRST_IDEOGRAPH
        starts = np.flatnonzero(is_start)
        if len(starts):  # a token's hash is that of all up to the next one: separators are zeros
            first = starts[0]
            tokens.append(segment_hashes(block[first:], np.append(starts[1:], len(block)) - first))
            lines.append(np.searchsorted(ends_of_lines, starts, side="right") + first_line)
        first_line += len(ends_of_lines)
    if not tokens:
        return np.zeros(0, np.uint32), np.zeros(0, np.int64)
    tokens = np.concatenate(tokens)
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


def near_duplicates(keys, is_heldout, dropped, signature_blocks, signatures_of, threshold=THRESHOLD):
    """Which documents to drop so that of every cluster of near-duplicates one is left: that of the smallest key.

    A training document goes before a held-out one: what is held out never takes anything from training.

    A cluster is what pairs of a similarity of at least threshold link, also over several steps.

    Args:
        keys: uint64 [N]. is_heldout: bool [N]. dropped: bool [N], documents that are not there.
        signature_blocks: a function of no arguments; yields the signatures in order, some [n, 128] at a time.
        signatures_of: function of document numbers [n], ascending or not; returns their signatures [n, 128].

    Returns:
        bool [N].
    """
    parents = np.arange(len(keys))
    order = np.lexsort((keys, is_heldout))
    for band in range(_BANDS):
        hashes = np.concatenate([_band_hashes(block, band) for block in signature_blocks()])
        there = order[(~dropped & (hashes != 0))[order]]
        there = there[np.argsort(hashes[there], kind="stable")]
        is_first = np.ones(len(there), bool)
        is_first[1:] = hashes[there[1:]] != hashes[there[:-1]]
        firsts = there[np.maximum.accumulate(np.where(is_first, np.arange(len(there)), 0))]
        others = np.flatnonzero(~is_first)
        # With its group's first and with its neighbour: linear where all pairs would be quadratic.
        for left, right in ((firsts[others], there[others]), (there[others - 1], there[others])):
            _link(parents, left, right, signatures_of, threshold)
    roots = _roots(parents, np.arange(len(keys)))
    result = np.zeros(len(keys), bool)
    linked = order[~dropped[order]]
    _, first = np.unique(roots[linked], return_index=True)
    result[linked] = True
    result[linked[first]] = False
    return result


def _band_hashes(block, band):
    """uint64 [n]; 0 for signatures of zeros."""
    rows = NUM_HASHES // _BANDS
    halves = np.ascontiguousarray(block[:, band * rows : (band + 1) * rows]).view("<u8")
    return np.where(block.any(axis=1), mixed(mixed(halves[:, 0]) + halves[:, 1]) | np.uint64(1), np.uint64(0))


def _link(parents, left, right, signatures_of, threshold):
    for start in range(0, len(left), _PAIRS_AT_A_TIME):
        pair = slice(start, start + _PAIRS_AT_A_TIME)
        a, b = left[pair], right[pair]
        apart = _roots(parents, a) != _roots(parents, b)
        a, b = a[apart], b[apart]
        if not len(a):
            continue
        alike = (signatures_of(a) == signatures_of(b)).mean(axis=1) >= threshold
        for one, other in zip(a[alike].tolist(), b[alike].tolist()):
            one, other = _root(parents, one), _root(parents, other)
            parents[max(one, other)] = min(one, other)


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
_STEPS = mixed(np.arange(1000, 1000 + _TOKENS, dtype=np.uint64)) | np.uint64(1)
# Of the hash functions factor * x + term modulo 2**32; odd factors make them bijections.
_FACTORS = (mixed(np.arange(1, NUM_HASHES + 1, dtype=np.uint64)) >> np.uint64(32)).astype(np.uint32) | np.uint32(1)
_TERMS = (mixed(np.arange(1001, NUM_HASHES + 1001, dtype=np.uint64)) >> np.uint64(32)).astype(np.uint32)

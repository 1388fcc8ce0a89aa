"""Patterns of attention heads over a corpus, and clusters of similar heads.

See Clark et al. 2019, What Does BERT Look At?, sections 3 and 6.

Dimensions: L layers, N heads of each, S tokens of a sentence with [CLS] and [SEP], V pieces of the vocabulary.
"""

import unicodedata
from collections.abc import Callable

import numpy as np

from keras_bert_app.analysis import input_texts, sentence_bootstrap
from keras_bert_app.analysis.encoded_sentences import encode_rows
from keras_bert_app.analysis.encoders import Subject, untrained
from keras_bert_app.analysis.findings import Findings, Table
from keras_bert_app.analysis.head_distances import Distances, head_clusters, silhouette
from keras_bert_app.analysis.options import Options
from keras_bert_app.analysis.studies.attention_maps import entropy
from keras_bert_app.drawing.pattern_pictures import draw_heads, draw_shares
from keras_bert_app.terminal.progress import reported

SUMMARY = "what each head attends to over a corpus; heads in clusters by the distance of their attention"
NEEDS = ("input_file",)
TAKES = ("max_sentences", "num_seeds", "seed")

PATTERNS = ("[CLS]", "[SEP]", "punctuation", "previous", "next", "itself", "entropy")
_MOST_PIECES = 126  # 128 tokens with [CLS] and [SEP], as in Clark et al.
_MOST_DISTANCE_ROWS = 4000  # tokens whose attention counts for distances; 144 heads make 10,296 pairs
_MOST = 0.5  # Clark et al. call a share of over one half high
_DEFAULT_SENTENCES = 1000  # minutes of work for an encoder and its untrained baselines


def run(subject: Subject, options: Options, log: Callable[[str], None]) -> Findings:
    """Measures what each head attends to, compares it with baselines, and clusters the heads.

    The baselines are untrained encoders and uniform attention.

    Args:
        subject: Subject. The encoder to look into.
        options: Options. Uses input_file, max_sentences, num_seeds and seed.
        log: Callable. Receives progress lines.

    Returns:
        Findings.

    Raises:
        UserError: the file has no sentence that fits.
    """
    most = options.most_sentences(_DEFAULT_SENTENCES)
    sentences, _ = input_texts.corpus_sentences(options.input_file, most, subject.tokenizer.kind)
    texts, _, left_out = input_texts.encodable(subject, sentences, _MOST_PIECES)
    is_punctuation = punctuation_pieces(subject.tokenizer.vocabulary)
    shares, distances, bounds = _corpus_shares(subject, texts, is_punctuation, log)
    others, other_distances = [], []
    for seed in range(options.seed, options.seed + options.num_seeds):
        seed_shares, seed_distances, _ = _corpus_shares(untrained(subject, seed), texts, is_punctuation, log)
        others.append(seed_shares)
        other_distances.append(seed_distances)
    others = np.stack(others)
    uniform = _uniform(texts, subject.tokenizer, is_punctuation)
    clusters, kinds = head_clusters(distances.matrix()), [_kind(head) for head in shares.reshape(-1, len(PATTERNS))]
    tables = [
        _pattern_table(shares, bounds, others, uniform),
        _layer_table(shares, others),
        _cluster_table(shares, clusters, kinds),
        _distance_table(distances, other_distances, shares.shape),
    ]
    remarks = [
        f"{len(texts):,} sentences, {_num_tokens(texts):,} tokens; shares are means over the tokens that attend. "
        f"Untrained: {options.num_seeds} seeds. Heads are named layer-head, from 1.",
        f"Entropy is in nats. Distances between heads are means over {distances.num_rows:,} of the tokens.",
        *_verdicts(shares, bounds, uniform),
        input_texts.read_remark(options, len(sentences), _DEFAULT_SENTENCES),
        *([left_out] if left_out else []),
    ]
    files = _pictures(f"{subject.name} encoder, {len(texts):,} sentences", shares, uniform, distances, clusters, kinds)
    values = {
        "patterns": PATTERNS,
        "shares": shares.tolist(),
        "intervals": bounds.tolist(),
        "distances": distances.matrix().tolist(),
        "clusters": clusters.tolist(),
    }
    return Findings("patterns", f"Attention patterns over {options.input_file}", tables, remarks, files, values)


def _num_tokens(texts):
    return sum(2 + sum(map(len, text.pieces)) for text in texts)


def _pictures(name, shares, uniform, distances, clusters, kinds):
    """dict of file name -> PNG."""
    return {
        "patterns.png": draw_shares(
            shares,
            PATTERNS,
            uniform,
            f"What heads attend to: {name}\ndashed line of the scale: equal attention to all tokens; the map of "
            "entropy shows the entropy divided by that of equal attention",
        ),
        "patterns_heads.png": draw_heads(
            distances.matrix(),
            clusters,
            kinds,
            shares.shape[:2],
            f"Heads by the Jensen-Shannon distance of their attention: {name}",
        ),
    }


def punctuation_pieces(vocabulary: list[str]) -> np.ndarray:
    """Marks the pieces that are punctuation.

    ASCII symbols count as punctuation, as in google-research/bert's _is_punctuation.

    Args:
        vocabulary: list of str.

    Returns:
        bool [V].
    """

    def is_mark(character):
        return unicodedata.category(character)[0] == "P" or "!" <= character <= "~" and not character.isalnum()

    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    return np.array(
        [piece not in special and all(map(is_mark, piece.removeprefix("##"))) and piece != "##" for piece in vocabulary]
    )


def head_shares(attention: np.ndarray, token_ids: np.ndarray, sep_id: int, is_punctuation: np.ndarray) -> np.ndarray:
    """Sums the attention of all tokens of a sentence to each pattern.

    Args:
        attention: float [L, N, S, S].
        token_ids: int [S]. The first token is [CLS].
        sep_id: int. The id of [SEP].
        is_punctuation: bool [V]. See punctuation_pieces.

    Returns:
        float [L, N, patterns], in the order of PATTERNS.
    """
    places = np.arange(len(token_ids))
    return np.stack(
        [
            attention[..., 0].sum(axis=-1),
            attention[..., token_ids == sep_id].sum(axis=(-1, -2)),
            attention[..., is_punctuation[token_ids]].sum(axis=(-1, -2)),
            attention[..., places[1:], places[:-1]].sum(axis=-1),
            attention[..., places[:-1], places[1:]].sum(axis=-1),
            attention[..., places, places].sum(axis=-1),
            entropy(attention).sum(axis=-1),
        ],
        axis=-1,
    )


def _corpus_shares(subject, texts, is_punctuation, log):
    """Measures the patterns of all heads over a corpus.

    Returns (float [L, N, patterns], means over tokens; Distances; float [2, L, N, patterns], the means' 95 %
    intervals).
    """
    sums, sizes, distances = [], [], Distances()
    rows = [(text.pieces, None) for text in texts]
    # encode_rows yields the sentences in the order of their lengths. Equal steps therefore take all lengths.
    every = max(1, _num_tokens(texts) // _MOST_DISTANCE_ROWS)
    for number, encoded in enumerate(
        reported(encode_rows(subject, rows, with_attention=True), len(rows), f"sentences through {subject.name}", log)
    ):
        sums.append(head_shares(encoded.attention, encoded.token_ids, subject.tokenizer.sep_id, is_punctuation))
        sizes.append(len(encoded.token_ids))
        if number % every == 0:
            distances.add(encoded.attention.reshape(-1, *encoded.attention.shape[2:]))
    sums, sizes = np.array(sums), np.array(sizes)
    flat = sums.reshape(len(sums), -1)
    bounds = sentence_bootstrap.interval(lambda counts: counts @ flat / (counts @ sizes)[:, None], len(sums))
    return sums.sum(axis=0) / sizes.sum(), distances, bounds.reshape(2, *sums.shape[1:])


def _uniform(texts, tokenizer, is_punctuation):
    """float [patterns]: the shares of attention that is uniform over the tokens of a sentence."""
    total, count = 0.0, 0
    for text in texts:
        ids = np.concatenate([[tokenizer.cls_id], *text.pieces, [tokenizer.sep_id]])
        uniform = np.full((1, 1, len(ids), len(ids)), 1 / len(ids))
        total, count = total + head_shares(uniform, ids, tokenizer.sep_id, is_punctuation)[0, 0], count + len(ids)
    return total / count


def head_name(layer: int, head: int) -> str:
    """Names a head, such as 3-12.

    Args:
        layer: int, from 0.
        head: int, from 0.

    Returns:
        str, with both numbers from 1.
    """
    return f"{layer + 1}-{head + 1}"


def _best(shares):
    """(layer, head) of the largest value in [L, N]."""
    return np.unravel_index(np.argmax(shares), shares.shape)


def _pattern_table(shares, bounds, others, uniform):
    rows = []
    for at, name in enumerate(PATTERNS):
        pattern_shares, best = shares[..., at], _best(shares[..., at])
        rows.append(
            (
                name,
                float(pattern_shares.mean()),
                float(uniform[at]),
                float(others[..., at].mean()),
                float(pattern_shares[best]),
                *map(float, bounds[:, *best, at]),
                head_name(*best),
                float(others[..., at].max(axis=(1, 2)).mean()),
                float(np.ptp(others[..., at].max(axis=(1, 2)))),
                None if name == "entropy" else int((bounds[0, ..., at] > _MOST).sum()),
            )
        )
    return Table(
        "What heads attend to",
        (
            "to",
            "mean of heads",
            "equal to all",
            "untrained",
            "highest",
            "low",
            "high",
            "head",
            "highest untrained",
            "spread",
            "heads over half",
        ),
        rows,
    )


def _layer_table(shares, others):
    rows = [
        (str(layer + 1), *map(float, shares[layer].mean(axis=0)), float(others[:, layer, :, -1].mean()))
        for layer in range(len(shares))
    ]
    return Table("By layer, mean of the heads", ("layer", *PATTERNS, "entropy untrained"), rows)


def _kind(head):
    """The pattern with the most attention of a head, or "broad" if its share is below one quarter."""
    at = int(np.argmax(head[:-1]))
    return PATTERNS[at] if head[at] >= 0.25 else "broad"


def _cluster_table(shares, clusters, kinds):
    num_heads = shares.shape[1]
    flat, rows = shares.reshape(-1, len(PATTERNS)), []
    for cluster in sorted(set(clusters), key=lambda cluster: -np.sum(clusters == cluster)):
        members = np.flatnonzero(clusters == cluster)
        layers = [
            f"{count} of layer {layer + 1}" for layer, count in enumerate(np.bincount(members // num_heads)) if count
        ]
        member_kinds = [kinds[member] for member in members]
        kind = max(sorted(set(member_kinds)), key=member_kinds.count)
        rows.append(
            (
                f"{cluster + 1}",
                len(members),
                f"{kind} ({member_kinds.count(kind)})",
                *(float(value) for value in flat[members].mean(axis=0)),
                ", ".join(layers),
            )
        )
    return Table("Clusters of heads (Ward), means", ("cluster", "heads", "mostly to", *PATTERNS, "which"), rows)


def _distance_table(distances, others, shape):
    layers = np.repeat(np.arange(shape[0]), shape[1])

    def layer_statistics(matrix):
        is_same = layers[:, None] == layers
        is_other = ~is_same
        np.fill_diagonal(is_same, False)
        within = float(matrix[is_same].mean()) if is_same.any() else None
        between = float(matrix[is_other].mean()) if is_other.any() else None
        return within, between, silhouette(matrix, layers)

    rows = [("trained", distances.num_rows, *layer_statistics(distances.matrix()))]
    rows += [
        (f"untrained {seed}", other.num_rows, *layer_statistics(other.matrix())) for seed, other in enumerate(others)
    ]
    return Table(
        "Jensen-Shannon distance between heads (nats)",
        ("encoder", "tokens", "within a layer", "between layers", "silhouette of layers"),
        rows,
    )


def _verdicts(shares, bounds, uniform):
    """Remarks that compare the heads with BERT-base in Clark et al."""

    def heads_over_half(at):
        return [head_name(*head) for head in np.argwhere(bounds[0, ..., at] > _MOST)]

    heads_by_pattern = {name: heads_over_half(at) for at, name in enumerate(PATTERNS[:-1])}
    named = "; ".join(f"{name}: {', '.join(heads)}" for name, heads in heads_by_pattern.items() if heads)
    neighbours = len(heads_by_pattern["previous"]) + len(heads_by_pattern["next"])
    by_layer = shares.mean(axis=1)
    most_special, broadest = int(np.argmax(by_layer[:, :2].sum(axis=1))) + 1, int(np.argmax(by_layer[:, -1])) + 1
    return [
        f"Heads with over half of their attention on one kind of token: {named or 'none'} (the whole 95 % interval is "
        "over half; sentences are drawn again with replacement).",
        "Clark et al. found heads of BERT-base for the previous (4) and the next token (5). This model has "
        f"{len(heads_by_pattern['previous'])} and {len(heads_by_pattern['next'])}"
        + (
            ": the finding shows here."
            if neighbours
            else ": the finding does not show here."
            if bounds[1, ..., 3:5].max() < _MOST  # places of "previous" and "next"
            else ", but the intervals of some heads reach half: the sentences do not decide it."
        ),
        "Clark et al. found over half of the attention of middle layers on [SEP], and the broadest heads in the first "
        f"layers. In this model, layer {most_special} gives the most attention to [CLS] and [SEP] "
        f"({by_layer[most_special - 1, :2].sum():.2f}; with equal attention to all tokens {uniform[:2].sum():.2f}), "
        f"and layer {broadest} of {len(shares)} has the highest entropy.",
    ]

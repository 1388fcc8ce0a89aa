"""What attention heads do over a corpus, and which do alike (Clark et al. 2019, What Does BERT Look At?, sections 3
and 6).

Dimensions: L layers, N heads of each, S tokens of a sentence with [CLS] and [SEP].
"""

import unicodedata

import numpy as np

from keras_bert_app.analysis import input_texts
from keras_bert_app.analysis.encoded_sentences import encode_rows
from keras_bert_app.analysis.encoders import untrained
from keras_bert_app.analysis.findings import Findings, Table
from keras_bert_app.analysis.head_distances import Distances, head_clusters, silhouette
from keras_bert_app.analysis.studies.attention_maps import entropy
from keras_bert_app.drawing.pattern_pictures import draw_heads, draw_shares
from keras_bert_app.terminal.progress import reported

SUMMARY = "what each head attends to over a corpus; heads in clusters by the distance of their attention"
NEEDS = ("input_file",)

PATTERNS = ("[CLS]", "[SEP]", "punctuation", "previous", "next", "itself", "entropy")
_MOST_PIECES = 126  # with [CLS] and [SEP] the 128 of Clark et al.
_MOST_DISTANCE_ROWS = 4000  # tokens whose attention the distances are taken over; 144 heads are 10,296 pairs
_MOST = 0.5  # Clark et al. call a head's share high that is over one half
_BY_ITSELF = 1000  # sentences: minutes of work for an encoder and its untrained ones


def run(subject, options, log):
    """Findings; options.input_file, max_sentences, num_seeds, seed."""
    sentences, _ = input_texts.corpus_sentences(options.input_file, options.most_sentences(_BY_ITSELF))
    given, _, remark = input_texts.encodable(subject, sentences, _MOST_PIECES)
    is_punctuation = punctuation_pieces(subject.tokenizer.vocabulary)
    shares, distances = _of_corpus(subject, given, is_punctuation, log)
    others, other_distances = [], []
    for seed in range(options.seed, options.seed + options.num_seeds):
        found = _of_corpus(untrained(subject, seed), given, is_punctuation, log)
        others.append(found[0]), other_distances.append(found[1])
    others = np.stack(others)
    # Attention alike to all: what each share would be.
    uniform = _uniform(given, subject.tokenizer, is_punctuation)
    clusters, kinds = head_clusters(distances.matrix()), [_kind(head) for head in shares.reshape(-1, len(PATTERNS))]
    tables = [
        _pattern_table(shares, others, uniform),
        _layer_table(shares, others),
        _cluster_table(shares, clusters, kinds),
        _distance_table(distances, other_distances, shares.shape),
    ]
    name = f"{subject.name} encoder, {len(given):,} sentences"
    files = {
        "patterns.png": draw_shares(
            shares,
            PATTERNS,
            uniform,
            f"What heads attend to: {name}\ndashed line of the scale: attention "
            "alike to all tokens; entropy as a share of what that has",
        ),
        "patterns_heads.png": draw_heads(
            distances.matrix(),
            clusters,
            kinds,
            shares.shape[:2],
            f"Heads by the Jensen-Shannon distance of their attention: {name}",
        ),
    }
    remarks = [
        f"{len(given):,} sentences, {sum(2 + sum(map(len, text.pieces)) for text in given):,} tokens; shares are "
        f"means over the tokens that attend. Untrained: {options.num_seeds} seeds. Heads are named layer-head, from 1.",
        f"Entropy is in nats. Distances are taken over {distances.num_rows:,} of the tokens.",
        *_said(shares, uniform),
        input_texts.read_remark(options, len(sentences), _BY_ITSELF),
        *([remark] if remark else []),
    ]
    values = {
        "patterns": PATTERNS,
        "shares": shares.tolist(),
        "distances": distances.matrix().tolist(),
        "clusters": clusters.tolist(),
    }
    return Findings("patterns", f"Attention patterns over {options.input_file}", tables, remarks, files, values)


def punctuation_pieces(vocabulary):
    """bool [V]: the pieces that are punctuation; ASCII symbols are, as google-research/bert's _is_punctuation has
    it."""

    def is_mark(character):
        return unicodedata.category(character)[0] == "P" or "!" <= character <= "~" and not character.isalnum()

    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    return np.array(
        [piece not in special and all(map(is_mark, piece.removeprefix("##"))) and piece != "##" for piece in vocabulary]
    )


def head_shares(attention, token_ids, sep_id, is_punctuation):
    """float [L, N, patterns]: sums over the tokens of what each attends to, as PATTERNS.

    Args:
        attention: [L, N, S, S]. token_ids: [S], the first is [CLS]. is_punctuation: bool [V].
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


def _of_corpus(subject, given, is_punctuation, log):
    """(float [L, N, patterns], means over tokens; Distances)."""
    total, count, distances = 0.0, 0, Distances()
    rows = [(text.pieces, None) for text in given]
    # Not the first sentences alone: they come by length.
    every = max(1, sum(2 + sum(map(len, text.pieces)) for text in given) // _MOST_DISTANCE_ROWS)
    for number, one in enumerate(
        reported(encode_rows(subject, rows, with_attention=True), len(rows), f"sentences through {subject.name}", log)
    ):
        total = total + head_shares(one.attention, one.token_ids, subject.tokenizer.sep_id, is_punctuation)
        count += len(one.token_ids)
        if number % every == 0:
            distances.add(one.attention.reshape(-1, *one.attention.shape[2:]))
    return total / count, distances


def _uniform(given, tokenizer, is_punctuation):
    """[patterns]: what attention would be that is alike to all tokens of the sentence."""
    total, count = 0.0, 0
    for text in given:
        ids = np.concatenate([[tokenizer.cls_id], *text.pieces, [tokenizer.sep_id]])
        alike = np.full((1, 1, len(ids), len(ids)), 1 / len(ids))
        total, count = total + head_shares(alike, ids, tokenizer.sep_id, is_punctuation)[0, 0], count + len(ids)
    return total / count


def head_name(layer, head):
    return f"{layer + 1}-{head + 1}"


def _best(shares):
    """(layer, head) of the largest in [L, N]."""
    return np.unravel_index(np.argmax(shares), shares.shape)


def _pattern_table(shares, others, uniform):
    rows = []
    for at, name in enumerate(PATTERNS):
        of_heads, best = shares[..., at], _best(shares[..., at])
        rows.append(
            (
                name,
                float(of_heads.mean()),
                float(uniform[at]),
                float(others[..., at].mean()),
                float(of_heads[best]),
                head_name(*best),
                float(others[..., at].max(axis=(1, 2)).mean()),
                float(np.ptp(others[..., at].max(axis=(1, 2)))),
                None if name == "entropy" else int((of_heads > _MOST).sum()),
            )
        )
    return Table(
        "What heads attend to",
        (
            "to",
            "mean of heads",
            "alike to all",
            "untrained",
            "highest",
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
    """What a head mostly attends to: the pattern with the most of its attention if that is a quarter or more, else
    "broad"."""
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
        of_kind = [kinds[member] for member in members]
        kind = max(sorted(set(of_kind)), key=of_kind.count)
        rows.append(
            (
                f"{cluster + 1}",
                len(members),
                f"{kind} ({of_kind.count(kind)})",
                *(float(value) for value in flat[members].mean(axis=0)),
                ", ".join(layers),
            )
        )
    return Table("Clusters of heads (Ward), means", ("cluster", "heads", "mostly to", *PATTERNS, "which"), rows)


def _distance_table(distances, others, shape):
    layers = np.repeat(np.arange(shape[0]), shape[1])

    def of_layers(matrix):
        is_same = layers[:, None] == layers
        is_other = ~is_same
        np.fill_diagonal(is_same, False)
        within = float(matrix[is_same].mean()) if is_same.any() else None
        between = float(matrix[is_other].mean()) if is_other.any() else None
        return within, between, silhouette(matrix, layers)

    rows = [("trained", distances.num_rows, *of_layers(distances.matrix()))]
    rows += [(f"untrained {seed}", one.num_rows, *of_layers(one.matrix())) for seed, one in enumerate(others)]
    return Table(
        "Jensen-Shannon distance between heads (nats)",
        ("encoder", "tokens", "within a layer", "between layers", "silhouette of layers"),
        rows,
    )


def _said(shares, uniform):
    """What Clark et al. found in BERT-base, and what is here."""

    def over(at):
        return [head_name(*head) for head in np.argwhere(shares[..., at] > _MOST)]

    found = {name: over(at) for at, name in enumerate(PATTERNS[:-1])}
    named = "; ".join(f"{name}: {', '.join(heads)}" for name, heads in found.items() if heads)
    neighbours = len(found["previous"]) + len(found["next"])
    by_layer = shares.mean(axis=1)
    most_special, broadest = int(np.argmax(by_layer[:, :2].sum(axis=1))) + 1, int(np.argmax(by_layer[:, -1])) + 1
    return [
        f"Heads that give over half of their attention to one thing: {named or 'none'}.",
        "Clark et al. found heads of BERT-base for the previous (4) and the next token (5): here "
        f"{len(found['previous'])} and "
        f"{len(found['next'])}" + (", so it shows." if neighbours else ", so it does not show."),
        "They found over half of the attention of middle layers on [SEP], and the broadest heads in the first "
        "layers: here most to "
        f"[CLS] and [SEP] gives layer {most_special} ({by_layer[most_special - 1, :2].sum():.2f}, alike to all "
        f"{uniform[:2].sum():.2f}), and the broadest is layer {broadest} of {len(shares)}.",
    ]

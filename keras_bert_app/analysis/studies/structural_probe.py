"""Trees in the vectors of words, found by a structural probe.

See Hewitt and Manning 2019, A Structural Probe for Finding Syntax in Word Representations. tree_probe trains two linear
maps to k dimensions. With the first, the squared distance of two mapped words is their distance in the tree. With the
second, the squared length of a mapped word is its depth. The same probe also learns control trees, which random draws
for word types decide (control_tasks.control_trees). These trees show how much the probe can memorize.

One half of the dev documents serves to choose the best layer. Every score comes from the second half.

Dimensions: L layers, S reported sentences, M sentences of one length, W words.
"""

from collections.abc import Callable

import numpy as np

from keras_bert_app.analysis import (
    encoders,
    sentence_bootstrap,
    span_items,
    split_halves,
    tree_probe,
    tree_scores,
)
from keras_bert_app.analysis.encoders import Subject
from keras_bert_app.analysis.findings import Findings, Table
from keras_bert_app.analysis.layer_probes import LayerProbes, chain_scores, uuas_difference
from keras_bert_app.analysis.options import Options
from keras_bert_app.drawing import probe_pictures, tree_pictures
from keras_bert_app.errors import UserError

SUMMARY = "trees in the vectors, by layer: distances and depths after a linear map of low rank"
NEEDS = ("train_file", "dev_file")
TAKES = ("probe_rank", "max_sentences", "num_seeds", "seed")

_HEADINGS = ("UUAS", "distance Spearman", "root accuracy", "depth Spearman")  # headings for tree_scores.MEASURES
_FAR = 0.1  # if all leads are surely above this, the remark says that the finding of the paper holds
_NUM_DRAWN, _DRAWN_LENGTHS = 4, range(9, 15)


def run(subject: Subject, options: Options, log: Callable[[str], None]) -> Findings:
    """Trains the probe on every layer, and compares it with baselines.

    The baselines are control trees, untrained encoders and a chain of words.

    Args:
        subject: Subject. The encoder to look into.
        options: Options. Uses train_file, dev_file, max_sentences, probe_rank, num_seeds and seed.
        log: Callable. Receives progress lines.

    Returns:
        Findings.

    Raises:
        UserError: a file has no sentence that fits, or less than two dev sentences have an edge between two words.
    """
    train, dev = (
        span_items.read_trees(subject, path, options.most_sentences())
        for path in (options.train_file, options.dev_file)
    )
    train_trees, dev_trees = train.sentences, dev.sentences
    groups = tree_scores.groups_of(dev_trees, tree_probe.starts_of(dev_trees))
    is_reported = _reported(options, dev_trees, groups)
    log(f"{options.train_file}: {len(train_trees):,} trees; {options.dev_file}: {len(dev_trees):,}")
    seeds = range(options.seed, options.seed + options.num_seeds)
    rank = min(options.probe_rank, subject.config.hidden_size)
    probes = LayerProbes(train_trees, dev_trees, groups, is_reported, rank, seeds, log)
    trained, control, distances = probes.scores([subject] * len(seeds), subject.name, with_control=True)
    untrained, _, _ = probes.scores([encoders.untrained(subject, seed) for seed in seeds], "untrained")
    chain = chain_scores(groups, is_reported)
    by_name = {"trained": trained, "control": control, "untrained": untrained, "neighbours": chain}
    lengths = {
        f"layer {trained.layer}": tree_scores.by_length(trained.mean(trained.layer), trained.sentences),
        f"untrained {untrained.layer}": tree_scores.by_length(untrained.mean(untrained.layer), trained.sentences),
        "neighbours": tree_scores.by_length(chain.mean(0), trained.sentences),
    }
    title = f"{tree_scores.sentences_of(groups).edges.sum():,} edges of {len(dev_trees):,} trees, rank {rank}: UUAS on "
    title += f"{trained.sentences.edges.sum():,} edges of {len(trained.sentences.edges):,} trees"
    return Findings(
        "structural_probe",
        f"Structural probe: {subject.name}",
        [_uuas_table(title, chain, trained, control, untrained), _other_table(chain, trained, untrained)],
        _remarks(options, trained, control, untrained, chain, probes.control_baseline(), (train.remark, dev.remark)),
        _pictures(rank, trained, control, untrained, chain, lengths, _drawn(dev_trees, groups, distances)),
        {
            "measures": list(tree_scores.MEASURES),
            "layer": trained.layer,
            "trained": _json(trained.by_seed),
            "control": _json(control.by_seed),
            "untrained": _json(untrained.by_seed),
            "intervals": {name: _json(scores.intervals) for name, scores in by_name.items()},
            "neighbours": dict(zip(tree_scores.MEASURES, _json(chain.by_seed[0, 0]), strict=True)),
            "by_length": lengths,
        },
    )


def _reported(options, dev_trees, groups):
    """Selects the half whose scores are reported, bool [trees].

    Raises UserError if less than two trees have an edge.
    """
    is_reported = split_halves.reported_half(
        tree_scores.sentences_of(groups).edges > 0,
        np.array([tree.document for tree in dev_trees]),
        np.arange(len(dev_trees)),
    )
    if is_reported is None:
        raise UserError(
            f"{options.dev_file}: less than two of its {len(dev_trees):,} sentences have a dependency other than "
            "punctuation; expected at least two, one to choose the layer and one to measure it"
        )
    return is_reported


def _uuas_table(title, chain, trained, control, untrained):
    rows = []
    for scores in (chain, trained, untrained):
        for layer, by_seed in enumerate(scores.by_seed[:, :, 0]):
            row = [
                scores.name if scores is chain else f"{scores.name} {layer}",
                float(by_seed.mean()),
                *_cells(scores.intervals[layer][:, 0]),
                None if scores is chain else float(by_seed.std()),
            ]
            if scores is trained:
                control_uuas = control.by_seed[layer, :, 0].mean()
                row += [
                    float(control_uuas),
                    float(by_seed.mean() - control_uuas),
                    *uuas_difference(trained, layer, control, layer),
                ]
            rows.append(row + [None] * (9 - len(row)))
    return Table(title, ("layer", "UUAS", "low", "high", "spread", "control", "selectivity", "low", "high"), rows)


def _other_table(chain, trained, untrained):
    rows = [
        [
            scores.name if scores is chain else f"{scores.name} {layer}",
            *_cells(
                np.stack([scores.by_seed[layer].mean(axis=0)[1:], *scores.intervals[layer][:, 1:]], axis=1).ravel()
            ),
        ]
        for scores in (chain, trained, untrained)
        for layer in range(len(scores.values))
    ]
    columns = [cell for heading in _HEADINGS[1:] for cell in (heading, "low", "high")]
    return Table("The other measures on the same trees", ("layer", *columns), rows)


def _cells(values):
    return [None if np.isnan(value) else float(value) for value in values]


def _pictures(rank, trained, control, untrained, chain, by_length, drawn_trees):
    """dict of file name -> PNG."""

    def curve(label, scores, at):
        bounds = scores.intervals[:, :, at].T
        return label, scores.by_seed[:, :, at].mean(axis=1), bounds

    panels = []
    for at, heading in enumerate(_HEADINGS):
        curves = [curve("trained", trained, at), curve("untrained", untrained, at)]
        curves += [curve("control trees", control, at)] if at == 0 else []
        panels.append((heading, curves, float(chain.by_seed[0, 0, at]), "neighbours"))
    headings = dict(zip(tree_scores.MEASURES, _HEADINGS, strict=True))
    return {
        "structural_probe.png": probe_pictures.draw_layers(
            panels, f"{trained.name}: trees in the vectors, rank {rank}; bars are 95 % intervals"
        ),
        "structural_probe_lengths.png": probe_pictures.draw_lengths(
            [
                (headings[name], {kind: correlations[name] for kind, correlations in by_length.items()})
                for name in tree_scores.BY_LENGTH
            ],
            f"{trained.name}: mean correlation of the sentences of each length",
        ),
        "structural_probe_trees.png": tree_pictures.draw_trees(
            drawn_trees,
            f"{trained.name}: gold trees above the words, predicted trees of layer {trained.layer} below the words",
        ),
    }


def _json(scores):
    """An array as lists, with None for NaN, which JSON lacks."""
    return np.where(np.isnan(scores), None, scores).tolist()


def _drawn(trees, groups, distances):
    """list of (words, gold edges, predicted edges) of a few trees of medium length."""
    result = []
    for group, predicted in zip(groups, distances, strict=True):
        if group.heads.shape[1] in _DRAWN_LENGTHS and len(result) < _NUM_DRAWN:
            row = int(group.counted.sum(axis=1).argmax())
            parents = tree_scores.minimum_spanning_trees(predicted[row : row + 1], group.counted[row : row + 1])[0]
            gold = tree_scores.right_edges(group, np.full(group.heads.shape, -1))[1][row]
            result.append(
                (
                    trees[group.numbers[row]].words,
                    [(word, int(group.heads[row, word])) for word in np.flatnonzero(gold)],
                    [(word, int(parents[word])) for word in np.flatnonzero(parents >= 0)],
                )
            )
    return result


def _remarks(options, trained, control, untrained, chain, control_baseline, read):
    best, uuas = trained.layer, trained.by_seed[:, :, 0].mean(axis=1)
    baselines = {
        "layer 0": (trained, 0, uuas[0]),
        "untrained at its best layer": (untrained, untrained.layer, untrained.by_seed[untrained.layer, :, 0].mean()),
        "words joined to their neighbours": (chain, 0, chain.by_seed[0, 0, 0]),
    }
    bounds = {name: uuas_difference(trained, best, *baseline[:2]) for name, baseline in baselines.items()}
    selectivity, control_uuas = uuas_difference(trained, best, control, best), control.by_seed[best, :, 0].mean()
    return [
        f"UUAS {uuas[best]:.4f} at layer {best} of {trained.name} "
        f"({sentence_bootstrap.written(trained.intervals[best][:, 0])}): "
        + ", ".join(
            f"{sentence_bootstrap.compared(bounds[name])} {name} ({value:.4f}; difference "
            f"{bounds[name][0]:.4f} to {bounds[name][1]:.4f})"
            for name, (*_, value) in baselines.items()
        )
        + f". {_verdict(list(bounds.values()))}",
        f"Selectivity at layer {best}: {uuas[best] - control_uuas:.4f} ({sentence_bootstrap.written(selectivity)}). "
        f"The probe finds {control_uuas:.4f} of the edges of control trees, in which the head of each word type "
        "is the first or the last word, drawn at random, the same in both files (after a task for edges by Hewitt and "
        f"Liang 2019). Joining all words to the first one finds {control_baseline:.4f} of them.",
        "One half of the documents of the dev file (or of its sentences, where there is one document) chooses the "
        "layers; all scores are of the other half. Intervals cover 95 % and come from sentences that are drawn again "
        "with replacement; the choice of the training sentences is not part of them.",
        f"Mean and standard deviation over seeds ({options.num_seeds}); untrained: another encoder with random "
        f"weights for each. Probes are trained for at most {tree_probe.MOST_EPOCHS} epochs and "
        f"{tree_probe.MOST_STEPS:,} steps of {tree_probe.BATCH_SIZE} sentences. {'; '.join(read)}. The longer trees do "
        "not count.",
        "Layer 0 is the embeddings. UUAS and root accuracy ignore punctuation; Spearman is the mean over "
        "sentences of a length, then over lengths 5 to 50. "
        "neighbours: distances and depths in a chain that starts at the first word.",
    ]


def _verdict(bounds):
    """Says whether the finding shows. bounds are the intervals of the leads over all baselines."""
    lowest = min(low for low, _ in bounds)
    if lowest > _FAR:
        return f"The lead over each of them is more than {_FAR:g}, as Hewitt and Manning found."
    if lowest > 0:
        return "The probe is above each of them: Hewitt and Manning's finding shows."
    if any(high < 0 for _, high in bounds):
        return "Hewitt and Manning's finding does not show here."
    return "These sentences do not decide Hewitt and Manning's finding."

"""Edge probing: what each layer knows of parts of speech, dependencies and names.

See Tenney et al. 2019, BERT Rediscovers the Classical NLP Pipeline. One probe reads each layer, and one more probe
reads a learned mix of all layers. The centre of gravity of the mix says where the encoder solves a task. The same
probes also learn a control task (control_tasks), which shows how much of the accuracy the probes could memorize.

One half of the dev documents serves to choose the best layer. Every accuracy comes from the second half.

Dimensions: L layers, n items.
"""

from collections.abc import Callable

import numpy as np

from keras_bert_app.analysis import edge_answers, mix_probe, sentence_bootstrap, span_items
from keras_bert_app.analysis.encoders import Subject, untrained
from keras_bert_app.analysis.findings import Findings, Table
from keras_bert_app.analysis.options import Options
from keras_bert_app.drawing import probe_pictures
from keras_bert_app.errors import UserError

SUMMARY = "what each layer knows of parts of speech, dependencies and names, and each task's centre of gravity"
NEEDS = ("train_file", "dev_file")
TAKES = ("ner_train_file", "ner_dev_file", "max_sentences", "num_seeds", "seed")


def run(subject: Subject, options: Options, log: Callable[[str], None]) -> Findings:
    """Trains the probes of each task, and compares them with baselines.

    The baselines are control tasks, the most frequent label and untrained encoders.

    Args:
        subject: Subject. The encoder to look into.
        options: Options. Uses train_file, dev_file, ner_train_file, ner_dev_file, max_sentences, num_seeds and seed.
        log: Callable. Receives progress lines.

    Returns:
        Findings.

    Raises:
        UserError: see check; a file has no items, or only one dev sentence has items.
    """
    check(options)
    sources = _read(subject, options)
    tasks = _tasks(subject, sources, log)
    seeds = range(options.seed, options.seed + options.num_seeds)
    untrained_answers = _untrained_answers(subject, sources, seeds, log)
    answers = {
        name: edge_answers.task_answers(name, train, dev, untrained_answers[name], seeds, log)
        for name, (train, dev) in tasks.items()
    }
    return Findings(
        "edge_probing",
        f"Edge probing: {subject.name}",
        [_accuracy_table(answers), _selectivity_table(answers), _centre_table(answers), *_layer_tables(answers)],
        _remarks(answers, options, tasks, sources),
        {
            "edge_probing.png": probe_pictures.draw_mixes(
                [_panel(name, own) for name, own in answers.items()], f"{subject.name}: what layers know"
            )
        },
        {
            "untrained": {name: float(own.untrained.mean()) for name, own in answers.items()},
            "shares": {name: own.shares.tolist() for name, own in answers.items()},
            "by_layer": {name: own.by_layer.mean(axis=1).tolist() for name, own in answers.items()},
            "control_by_layer": {name: own.control.mean(axis=1).tolist() for name, own in answers.items()},
            "intervals": {name: [own.interval(right) for right in own.by_layer] for name, own in answers.items()},
            "layer": {name: own.layer for name, own in answers.items()},
        },
    )


def check(options: Options) -> None:
    """Checks that both files with names are given, or neither.

    Args:
        options: Options.

    Raises:
        UserError: one of the two files is given alone.
    """
    for name, other in (("ner_train_file", "ner_dev_file"), ("ner_dev_file", "ner_train_file")):
        if getattr(options, name) and not getattr(options, other):
            raise UserError(
                f"--{name}={getattr(options, name)}: --{other} is missing; named entities need both files; give "
                "both, or neither"
            )


def _read(subject, options):
    """Reads all files before any sentence is encoded, so that faults show early.

    Returns:
        list of (Source of trees, Source of names or None), for training and for measuring.
    """
    trees = [
        span_items.read_trees(subject, path, options.most_sentences())
        for path in (options.train_file, options.dev_file)
    ]
    names = [
        span_items.read_names(subject, path, options.most_sentences())
        for path in (options.ner_train_file, options.ner_dev_file)
        if path
    ]
    span_items.require_two(options.dev_file, [len(tree) > 1 for tree in trees[1].sentences])
    if names:
        span_items.require_two(options.ner_dev_file, [span_items.has_name(dev) for dev in names[1].sentences])
    return list(zip(trees, names or [None, None], strict=True))


def _tasks(subject, sources, log):
    """dict of task name -> (Items to train on, Items to measure on)."""
    train, dev = (span_items.items_of_trees(subject, trees, log) for trees, _ in sources)
    tasks = {"part of speech": (train[0], dev[0]), "dependency": (train[1], dev[1])}
    if sources[0][1]:
        tasks["named entity"] = tuple(span_items.items_of_names(subject, names, log) for _, names in sources)
    return tasks


def _untrained_answers(subject, sources, seeds, log):
    """Trains probes that read the mix of all layers, for encoders with random weights.

    Returns a dict of task name -> float [n], the share of seeds with a right answer.
    """
    answers = {}
    for seed in seeds:
        log(f"probes of an encoder with random weights, seed {seed}")
        for name, (train, dev) in _tasks(untrained(subject, seed), sources, log).items():
            right, _ = mix_probe.right_answers(train, dev, range(len(train.vectors)), seed)
            answers.setdefault(name, []).append(right)
    return {name: np.mean(by_seed, axis=0) for name, by_seed in answers.items()}


def _accuracy_table(answers):
    rows = []
    for name, own in answers.items():
        best = own.by_layer[own.layer]
        rows.append(
            [
                name,
                own.num_items,
                len(best),
                float(own.majority.mean()),
                float(own.untrained.mean()),
                float(own.by_layer[0].mean()),
                own.layer,
                float(best.mean()),
                *own.interval(best),
                float(own.seed_spread[own.layer]),
                float(own.mixed.mean()),
                *own.interval(own.mixed),
            ]
        )
    columns = ("task", "items", "reported", "majority", "untrained", "layer 0", "layer", "accuracy", "low", "high")
    return Table("Accuracy of probes", (*columns, "spread", "mix of all", "low", "high"), rows)


def _selectivity_table(answers):
    rows = []
    for name, own in answers.items():
        for layer in dict.fromkeys((0, own.layer)):
            right, control = own.by_layer[layer], own.control[layer]
            rows.append(
                [
                    name,
                    layer,
                    float(right.mean()),
                    float(control.mean()),
                    *own.interval(control),
                    float((right - control).mean()),
                    *own.difference(right, control),
                    own.seen,
                ]
            )
    columns = ("task", "layer", "accuracy", "control", "low", "high", "selectivity", "low", "high", "seen types")
    return Table("Selectivity: the accuracy minus the accuracy of the control task", columns, rows)


def _centre_table(answers):
    rows = []
    for name, own in answers.items():
        bounds = sentence_bootstrap.seed_interval(own.centres())
        known = bounds if np.isfinite(bounds).all() else (None, None)
        rows.append([name, float(own.centres().mean()), *known, float(own.centres().std())])
    return Table("Centres of gravity of the mix", ("task", "centre", "low", "high", "spread"), rows)


def _layer_tables(answers):
    """Tables of the accuracy by layer, for the tasks and for their control tasks."""
    for title, values in (("Accuracy", "by_layer"), ("Control accuracy", "control")):
        columns = [cell for name in answers for cell in (name, "low", "high")]
        rows = [
            [
                str(layer),
                *(
                    cell
                    for own in answers.values()
                    for cell in (
                        float(getattr(own, values)[layer].mean()),
                        *own.interval(getattr(own, values)[layer]),
                    )
                ),
            ]
            for layer in range(len(next(iter(answers.values())).by_layer))
        ]
        yield Table(f"{title} by layer", ("layer", *columns), rows)


def _panel(name, own):
    """See probe_pictures.draw_mixes."""
    curves = [
        ("one layer", own.by_layer.mean(axis=1), np.array([own.interval(right) for right in own.by_layer]).T),
        ("control task", own.control.mean(axis=1), np.array([own.interval(right) for right in own.control]).T),
    ]
    return name, curves, float(own.majority.mean()), float(own.untrained.mean()), own.shares


def _remarks(answers, options, tasks, sources):
    lines = [_order_remark(answers)]
    for name, own in answers.items():
        best = own.by_layer[own.layer]
        others = {
            "the untrained": own.untrained,
            "layer 0": own.by_layer[0],
            "the control task": own.control[own.layer],
        }
        words = [
            f"{sentence_bootstrap.compared(own.difference(best, right))} {other} ({right.mean():.4f})"
            for other, right in others.items()
        ]
        lines.append(
            f"{name}: {best.mean():.4f} at layer {own.layer} ({sentence_bootstrap.written(own.interval(best))}), "
            f"{', '.join(words)}; selectivity {(best - own.control[own.layer]).mean():.4f} "
            f"({sentence_bootstrap.written(own.difference(best, own.control[own.layer]))})."
        )
    lines += [
        "One half of the documents of the dev file (or of its sentences, where there is one document) chooses the "
        "layer; all accuracies are of the other half. Intervals cover 95 % and come from sentences that are drawn "
        "again with replacement; the choice of the training sentences is not part of them.",
        "Control task (Hewitt and Liang 2019): each word, dependent or name gets a random label from the distribution "
        "of the labels, the same in both files and another for each seed. seen types: the share of dev items whose "
        "word, dependent or name is in the training items; only their control labels can be learned.",
        f"Probes with a hidden layer of {mix_probe.HIDDEN_SIZE}, {mix_probe.EPOCHS} epochs over "
        + ", ".join(f"{len(train.labels):,} items of {name}" for name, (train, _) in tasks.items())
        + f"; mean and standard deviation (spread) over {options.num_seeds} seeds. All layers are scaled to the same "
        "mean square before they are mixed. untrained: the mix of an encoder with random weights, which differ for "
        "each seed. "
        "The places of pairs and names are given; the probe predicts only their labels.",
        f"At most {span_items.MOST_ITEMS:,} items of each task and file, taken evenly. "
        + "; ".join(source.remark for pair in sources for source in pair if source)
        + ".",
    ]
    if len(tasks) < 3:
        lines.append("Give --ner_train_file and --ner_dev_file for named entities.")
    return lines


def _order_remark(answers):
    """Says whether the centres of gravity are in the order of Tenney et al.

    The remark gives the intervals of the distances between the centres.
    """
    centres = {name: own.centres() for name, own in answers.items()}
    names, num_layers = list(answers), next(iter(answers.values())).shares.shape[1] - 1
    gaps = [
        sentence_bootstrap.seed_interval(centres[after] - centres[before])
        for before, after in zip(names, names[1:], strict=False)
    ]
    ordered = sorted(names, key=lambda name: centres[name].mean())
    measured = (
        "Centres of gravity: "
        + " < ".join(f"{name} {centres[name].mean():.2f}" for name in ordered)
        + f" (from 0 to {num_layers}; a mix with equal shares has {num_layers / 2:.1f}). "
    )
    if len(next(iter(centres.values()))) < 2:
        return measured + "One seed gives no interval of their distances, so their order is not known."
    bounds = ", ".join(f"{low:.3f} to {high:.3f}" for low, high in gaps)
    verdict = (
        "They are in the order of Tenney et al."
        if all(low > 0 for low, _ in gaps)
        else f"Tenney et al. found {' < '.join(names)}; these seeds do not decide it."
        if all(high > 0 for _, high in gaps)
        else f"They are not in the order of Tenney et al., {' < '.join(names)}."
    )
    return f"{measured}{verdict} 95 % intervals of the distances over seeds: {bounds}."

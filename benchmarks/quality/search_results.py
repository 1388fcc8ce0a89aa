"""Writes the results of search_settings as files, and reads them for the table of quality_per_minute."""

import json
import os
from collections.abc import Iterable

from benchmarks.common import report
from benchmarks.quality import choosing_documents
from benchmarks.quality.quality_contenders import parsed
from keras_bert_app.errors import UserError
from pipelines import storage

_FILE = "best.json"


def best_of(trials: dict) -> dict[str, str]:
    """The entry with the highest accuracy for each peer.

    Args:
        trials: dict. Entry of --contenders -> result of its trial.

    Returns:
        dict. Name of the peer -> entry. The first of equal trials counts.
    """
    best = {}
    for entry, result in trials.items():
        name = parsed(entry).name
        if name not in best or result["accuracy"] > trials[best[name]]["accuracy"]:
            best[name] = entry
    return best


def at_the_edge(trials: dict) -> list[str]:
    """Warnings about the best entries whose peak rate is the lowest or the highest of the search.

    Args:
        trials: dict. Entry of --contenders -> result of its trial.
    """
    lines = []
    for name, best in best_of(trials).items():
        rates = sorted({parsed(entry).learning_rate for entry in trials if parsed(entry).name == name})
        edges = {rates[0]: "lowest", rates[-1]: "highest"} if len(rates) > 1 else {}
        if word := edges.get(parsed(best).learning_rate):
            lines.append(f"{best}: its peak rate is the {word} that was tried; add another to --learning_rates")
    return lines


def table(trials: dict):
    """Yields a table in Markdown: a line for each trial, the best of each peer in bold.

    Args:
        trials: dict. Entry of --contenders -> result of its trial.
    """
    best = best_of(trials).values()
    yield "| peer | peak rate | precision | initial range | dropout | steps | held-out MLM accuracy | MLM loss |"
    yield "|---|---|---|---|---|---|---|---|"
    for entry, result in trials.items():
        contender = parsed(entry)
        accuracy = f"{result['accuracy']:.4f}"
        yield (
            f"| {contender.name} | {contender.learning_rate:g} | {contender.precision} "
            f"| {contender.initializer_range:g} | {contender.dropout:g} | {result['steps']:,} "
            f"| {f'**{accuracy}**' if entry in best else accuracy} "
            f"| {'not finite' if result['loss'] is None else format(result['loss'], '.4f')} |"
        )
    for unigram in [result["unigram_accuracy"] for result in trials.values() if result["loss"] is not None][:1]:
        yield f"| none: the most frequent piece | | | | | | {unigram:.4f} | |"


def keep(directory: str, trials: dict, settings: dict) -> None:
    """Writes table.md, and best.json, which quality_per_minute reads.

    Args:
        directory: str. Where the files go.
        trials: dict. Entry of --contenders -> result of its trial.
        settings: dict with config, minutes, seed and num_documents (number of documents that chose).
    """
    names = [parsed(entry).name for entry in trials]
    counts = {name: names.count(name) for name in dict.fromkeys(names)}
    found = {**settings, "num_trials": counts, "best": best_of(trials)}
    storage.write_whole(os.path.join(directory, _FILE), json.dumps(found, indent=1))
    machines = dict.fromkeys(report.in_words(result["machine"]) for result in trials.values())
    storage.write_whole(os.path.join(directory, "table.md"), "\n".join([*machines, "", *table(trials)]) + "\n")


def sentences(directory: str, corpus_dir: str, seeds: Iterable[int], contenders: Iterable[str]) -> list[str]:
    """Lines for quality_per_minute: contenders with the best settings, and numbers of trials.

    Args:
        directory: str. The directory of a finished search.
        corpus_dir: str. The corpus whose held-out documents are reported on.
        seeds: the seeds that are reported on.
        contenders: entries of --contenders.

    Returns:
        list of str. A paragraph in Markdown, and "".

    Raises:
        UserError: the search is not finished, its documents or its seed are among the reported ones, or no contender
            has the settings that the search chose.
    """
    path = os.path.join(directory, _FILE)
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} cannot be read ({getattr(error, 'strerror', error)}); give as --search_dir the --directory of a "
            "finished run of benchmarks.quality.search_settings"
        ) from error
    if found["seed"] in seeds:
        raise UserError(
            f"--search_dir={directory}: seed {found['seed']} chose the settings; leave it out of --seeds, or search "
            "with another --seed"
        )
    choosing_documents.refuse_if_reported(directory, corpus_dir)
    best = {name: parsed(entry) for name, entry in found["best"].items()}
    chosen = [entry for entry in contenders if parsed(entry) == best.get(parsed(entry).name)]
    if not chosen:
        raise UserError(
            f"--search_dir={directory} chose {', '.join(found['best'].values())}, and --contenders has none of them; "
            "add them"
        )
    trials = ", ".join(f"{entry}: best of {found['num_trials'][parsed(entry).name]}" for entry in chosen)
    return [
        f"Settings of the peers: {trials} trials with the steps of {found['minutes']:g} minutes (config "
        f"{found['config']}, seed {found['seed']}), by the accuracy on {found['num_documents']:,} other held-out "
        "documents.",
        "",
    ]

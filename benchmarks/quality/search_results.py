"""Writes the results of search_settings as files, and reads them for the table of quality_per_minute."""

import json
import os
from collections.abc import Iterable

from benchmarks.common import report
from benchmarks.quality import choosing_documents
from benchmarks.quality.language_models import LANGUAGE_MODELS
from benchmarks.quality.quality_contenders import parsed
from keras_bert_app.errors import UserError
from pipelines import storage

_FILE = "best.json"


def best_of(trials: dict, language_model: str) -> dict[str, str]:
    """The best entry of each peer, by the first figure of the language model.

    Args:
        trials: dict. Entry of --contenders -> result of its trial.
        language_model: a key of LANGUAGE_MODELS.

    Returns:
        dict. Name of the peer -> entry. The first of equal trials counts.
    """
    best, is_better = {}, LANGUAGE_MODELS[language_model].is_better
    for entry, result in trials.items():
        name = parsed(entry).name
        if name not in best or is_better(result["figures"], trials[best[name]]["figures"]):
            best[name] = entry
    return best


def in_words(result: dict, language_model: str) -> str:
    """The first figure of a trial and its steps.

    Args:
        result: result of a trial.
        language_model: a key of LANGUAGE_MODELS.
    """
    title, *_ = next(iter(LANGUAGE_MODELS[language_model].figures))
    value, *_ = _cells(result, language_model)
    return f"{title} {value} after {result['steps']:,} steps"


def _cells(result, language_model):
    """The figures of a trial as text."""
    figures = result["figures"]
    return [
        format(figures[key], form) if figures else "not finite"
        for _, key, form in LANGUAGE_MODELS[language_model].figures
    ]


def at_the_edge(trials: dict, language_model: str) -> list[str]:
    """Warnings about the best entries whose peak rate is the lowest or the highest of the search.

    Args:
        trials: dict. Entry of --contenders -> result of its trial.
        language_model: a key of LANGUAGE_MODELS.
    """
    lines = []
    for name, best in best_of(trials, language_model).items():
        rates = sorted({parsed(entry).learning_rate for entry in trials if parsed(entry).name == name})
        edges = {rates[0]: "lowest", rates[-1]: "highest"} if len(rates) > 1 else {}
        if word := edges.get(parsed(best).learning_rate):
            lines.append(f"{best}: its peak rate is the {word} that was tried; add another to --learning_rates")
    return lines


def table(trials: dict, language_model: str):
    """Yields a table in Markdown: a line for each trial, the best of each peer in bold.

    Args:
        trials: dict. Entry of --contenders -> result of its trial.
        language_model: a key of LANGUAGE_MODELS.
    """
    kind, best = LANGUAGE_MODELS[language_model], best_of(trials, language_model).values()
    titles = ["peer", "peak rate", "precision", "initial range", "dropout", "steps"]
    titles += [title for title, _, _ in kind.figures]
    yield f"| {' | '.join(titles)} |"
    yield "|---" * len(titles) + "|"
    for entry, result in trials.items():
        contender = parsed(entry)
        first, *others = _cells(result, language_model)
        cells = [f"**{first}**" if entry in best else first, *others]
        yield (
            f"| {contender.name} | {contender.learning_rate:g} | {contender.precision} "
            f"| {contender.initializer_range:g} | {contender.dropout:g} | {result['steps']:,} | {' | '.join(cells)} |"
        )
    what, key = kind.baseline
    for figures in [result["figures"] for result in trials.values() if result["figures"]][:1]:
        cells = [format(figures[key], kind.figures[0][2]), *[""] * (len(kind.figures) - 1)]
        yield f"| none: {what} | | | | | | {' | '.join(cells)} |"


def keep(directory: str, trials: dict, settings: dict) -> None:
    """Writes table.md, and best.json, which quality_per_minute reads.

    Args:
        directory: str. Where the files go.
        trials: dict. Entry of --contenders -> result of its trial.
        settings: dict with language_model, config, minutes, seed and num_documents (number of documents that chose).
    """
    language_model = settings["language_model"]
    names = [parsed(entry).name for entry in trials]
    counts = {name: names.count(name) for name in dict.fromkeys(names)}
    found = {**settings, "num_trials": counts, "best": best_of(trials, language_model)}
    storage.write_whole(os.path.join(directory, _FILE), json.dumps(found, indent=1))
    machines = dict.fromkeys(report.in_words(result["machine"]) for result in trials.values())
    storage.write_whole(
        os.path.join(directory, "table.md"), "\n".join([*machines, "", *table(trials, language_model)]) + "\n"
    )


def sentences(
    directory: str, corpus_dir: str, seeds: Iterable[int], contenders: Iterable[str], language_model: str
) -> list[str]:
    """Lines for quality_per_minute: contenders with the best settings, and numbers of trials.

    Args:
        directory: str. The directory of a finished search.
        corpus_dir: str. The corpus whose held-out documents are reported on.
        seeds: the seeds that are reported on.
        contenders: entries of --contenders.
        language_model: a key of LANGUAGE_MODELS.

    Returns:
        list of str. A paragraph in Markdown, and "".

    Raises:
        UserError: the search is not finished, was of another language model, its documents or its seed are among the
            reported ones, or no contender has the settings that the search chose.
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
    if found["language_model"] != language_model:
        raise UserError(
            f"--search_dir={directory}: searched settings for --language_model={found['language_model']}, not for "
            f"{language_model}; give the directory of another search"
        )
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
    title, *_ = next(iter(LANGUAGE_MODELS[language_model].figures))
    trials = ", ".join(f"{entry}: best of {found['num_trials'][parsed(entry).name]}" for entry in chosen)
    return [
        f"Settings of the peers: {trials} trials with the steps of {found['minutes']:g} minutes (config "
        f"{found['config']}, seed {found['seed']}), by the {title} on {found['num_documents']:,} other "
        "documents.",
        "",
    ]

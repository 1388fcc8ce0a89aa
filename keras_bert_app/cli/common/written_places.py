"""Checks of output places. They protect exports, runs and corpora, and files that exist already."""

import os
from collections.abc import Iterable, Mapping

from absl import flags

from keras_bert_app.errors import UserError
from pipelines import storage

flags.disclaim_key_flags()  # --help then lists --overwrite under the command that calls define_overwrite

EXPORT, RUN, CORPUS = "an export", "a run", "a corpus"
_GRAPH, _CONFIG, _RESULTS = "saved_model.pb", "config.json", "results.json"
_CORPUS_MANIFEST, _UNFINISHED_CORPUS = "manifest.json", ".incomplete"
# runs.work_directory and interop.own_layout write this key into each config.json.
_RUN_KEY = b'"vocab_sha256"'
_MOST_CONFIG_BYTES = 10_000_000
# Files that only runs of this package have. A new run would overwrite them.
_FILES_OF_A_RUN = ("metrics.jsonl", "curves.png", "results.json", "checkpoints")


def check(places: Mapping[str, str]) -> None:
    """Refuses to write inside an export, a run or a corpus.

    Args:
        places: dict name of a flag -> the kind that its place may have: EXPORT (a directory of versions), RUN, CORPUS,
            or "" for none of these.

    Raises:
        UserError: a place lies inside an export, a run or a corpus, or has a kind that its flag does not allow.
    """
    for flag, own_kind in places.items():
        if path := flags.FLAGS[flag].value:
            # An export also writes to directories next to its own.
            endings = ("", "_ids", "_preprocess") if own_kind == EXPORT else ("",)
            for ending in endings:
                _check_place(f"{path.rstrip('/')}{ending}", f"--{flag}={path}", own_kind)


def _check_place(path, given, own_kind):
    place = path if storage.is_remote(path) else os.path.realpath(path)
    kind = kind_of(place)
    is_version = kind == EXPORT and _GRAPH in _names_in(place)
    if kind and (kind != own_kind or is_version):
        advice = _next_version(path) if is_version and own_kind == EXPORT else ""
        raise UserError(f"{given}: is {kind}, whose files must not change; {advice or 'name another place'}")
    if own_kind == RUN and not kind:
        for name in sorted({*_FILES_OF_A_RUN} & _names_in(place)):
            raise UserError(
                f"{given}: holds {name} but no {_CONFIG} of a run, so that {name} would be lost; name another "
                f"directory, or move {name} away"
            )
    for parent in _parents(place):
        parent_kind = kind_of(parent)
        # Each seed of a run with several seeds is a run by itself, and lies in the directory of the whole run.
        if parent_kind and not (kind == own_kind == RUN and _is_run_of_seeds(parent)):
            advice = _next_version(path) if own_kind == parent_kind == EXPORT else ""
            raise UserError(
                f"{given}: lies in {_shown(parent, path)}, which is {parent_kind}; its files must not change; "
                f"{advice or 'name a place outside of it'}"
            )


def _next_version(path):
    """Returns advice for a path that ends in the number of a version, and "" for other paths."""
    directory, name = os.path.split(path.rstrip("/"))
    return f"give --export_dir={directory or '.'} for the next version" if name.isdigit() else ""


def kind_of(directory: str) -> str:
    """Finds out whether a directory is an export, a run or a corpus.

    Args:
        directory: str. A local or remote directory, which may be missing.

    Returns:
        str: EXPORT, RUN or CORPUS, or "" for all other directories.
    """
    names = _names_in(directory)
    if _GRAPH in names or any(
        name.isdigit() and storage.exists(os.path.join(directory, name, _GRAPH)) for name in names
    ):
        return EXPORT
    if _CONFIG in names and _is_run_config(os.path.join(directory, _CONFIG)) or _is_run_of_seeds(directory):
        return RUN
    has_shards = any(name.endswith(".tfrecord") for name in names)
    if _UNFINISHED_CORPUS in names or has_shards and _CORPUS_MANIFEST in names:
        return CORPUS
    return ""


def _names_in(directory):
    try:
        return set(storage.list_directory(directory))
    except OSError:  # the user may not list a directory above the place
        return set()


def _is_run_config(path):
    try:
        is_small = storage.is_file(path) and storage.size_of(path) <= _MOST_CONFIG_BYTES
        return is_small and _RUN_KEY in storage.read_range(path, 0, _MOST_CONFIG_BYTES)
    except OSError:
        return False


def _is_run_of_seeds(directory):
    names = _names_in(directory)
    return _RESULTS in names and any(
        name.startswith("seed-") and name[5:].isdigit() and _is_run_config(os.path.join(directory, name, _CONFIG))
        for name in names
    )


def _parents(place):
    """Yields the directories above a place, the nearest first. For a remote place the last one is its bucket."""
    root = place.index("://") + 3 if storage.is_remote(place) else 0
    while (parent := os.path.dirname(place[root:])) and place[:root] + parent != place:
        place = place[:root] + parent
        yield place


def _shown(parent, path):
    """Returns the directory as the user writes paths: relative if the given path is relative."""
    return parent if os.path.isabs(path) or storage.is_remote(path) else os.path.relpath(parent)


def define_overwrite() -> flags.FlagHolder:
    """Defines --overwrite, and returns its holder."""
    return flags.DEFINE_bool("overwrite", False, "Replace files that are there already.")


def check_new(paths: Iterable[str], flag: str) -> None:
    """Refuses to replace files, unless the user gave --overwrite.

    Args:
        paths: iterable of str. The files that the command writes.
        flag: str. The name of the flag for their place.

    Raises:
        UserError: one of the files exists already.
    """
    if flags.FLAGS["overwrite"].value:
        return
    for path in paths:
        if storage.is_file(path):
            raise UserError(
                f"--{flag}={flags.FLAGS[flag].value}: {path} is there already; --overwrite replaces it, or name "
                "another place"
            )

"""Held-out text of several corpora, without the text that any training corpus also has.

WORKDIR/heldout_apart/ holds the text that is left. Its manifest records which corpora were compared.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping

from keras_bert_app.runs import work_directory
from keras_bert_app.terminal.progress import ReadingProgress
from keras_bert_app.training.pretraining_corpora import PretrainingCorpora
from pipelines import storage
from pipelines.choices import SYMBOL_FORMATS
from pipelines.corpus.manifest import FORMAT_VERSION, MANIFEST_NAME, SPLITS, load_manifest, overlap_text, shard_paths
from pipelines.data_error import DataError

_COUNTS = ("documents", "heldout_documents_dropped", "heldout_sentences_dropped")


def keep_apart(workdir: str, manifests: Mapping[str, dict]) -> None:
    """Compares held-out text with the training text of all corpora, once for each run.

    Corpora may share documents, and the seed of each corpus decides which of them it holds out. The function drops
    held-out text that training text has too, and prints what it dropped.

    Args:
        workdir: the work directory.
        manifests: the manifest of each corpus, by directory.
    """
    if len(manifests) < 2 or all(manifest.get("input_format") in SYMBOL_FORMATS for manifest in manifests.values()):
        return  # lines of symbols repeat without a copy of a text
    digests = [shard["sha256"] for manifest in manifests.values() for s in SPLITS for shard in manifest[s]["shards"]]
    source = hashlib.sha256(json.dumps(digests).encode()).hexdigest()
    kept = _manifest(workdir)
    if kept is None or kept.get("source") != source:
        kept = _compare(workdir, manifests, source)
    for line in _lines(kept, manifests):
        print(line, flush=True)


def with_heldout_apart(workdir: str, corpora: PretrainingCorpora) -> PretrainingCorpora:
    """Replaces the held-out text of corpora by the text that keep_apart has left.

    Args:
        workdir: the work directory.
        corpora: the corpora as their manifests name them.

    Returns:
        PretrainingCorpora.
    """
    kept = _manifest(workdir) if len(corpora.train_shards) > 1 else None
    if kept is None or not _has_dropped(kept):
        return corpora
    return dataclasses.replace(
        corpora,
        heldout_shards=tuple(shard_paths(_directory(workdir), kept, "heldout")),
        num_heldout_documents=kept["heldout"]["documents"],
        num_heldout_dropped=corpora.num_heldout_dropped + kept["counts"]["heldout_documents_dropped"],
    )


def _directory(workdir):
    return work_directory.path_in(workdir, "heldout_apart")


def _manifest(workdir):
    """The manifest of the text that is left; None if it is missing or damaged."""
    try:
        kept = load_manifest(_directory(workdir))
    except DataError:
        return None
    counts = kept.get("counts")
    is_whole = isinstance(counts, dict) and all(isinstance(counts.get(name), int) for name in _COUNTS)
    return kept if is_whole and isinstance(kept["heldout"].get("documents"), int) else None


def _compare(workdir, manifests, source):
    from pipelines.corpus import heldout_text, shards  # resumed runs and runs on one corpus do not need these

    train, heldout = (
        [shard_paths(directory, manifest, split) for directory, manifest in manifests.items()] for split in SPLITS
    )
    storage.make_directories(directory := _directory(workdir))
    progress = ReadingProgress("comparing held-out text with all training text")
    train_shards = [path for paths in train for path in paths]
    written, counts, overlap = heldout_text.write_apart(train_shards, heldout, directory, progress)
    progress.line.clear()
    manifest = {
        "format_version": FORMAT_VERSION,
        "source": source,
        "train": shards.split_summary([]),
        "heldout": shards.split_summary(written),
        "counts": counts,
        "heldout_overlap": overlap,
    }
    storage.write_whole(os.path.join(directory, MANIFEST_NAME), json.dumps(manifest, indent=1) + "\n")
    return manifest


def _has_dropped(kept):
    return bool(kept["counts"]["heldout_sentences_dropped"])


def _lines(kept, manifests):
    if _has_dropped(kept):
        documents, dropped_documents, dropped_sentences = (kept["counts"][name] for name in _COUNTS)
        line = (
            f"held-out text of all corpora: {dropped_documents:,} of {documents:,} documents and {dropped_sentences:,} "
            "sentences were dropped, because the training text of another corpus has them too"
        )
        if len({(manifest.get("seed"), manifest.get("holdout_fraction")) for manifest in manifests.values()}) > 1:
            line += "; corpora with the same --seed and --holdout_fraction hold out the same documents"
        yield line
    if line := overlap_text(kept):
        yield f"held-out text of all corpora: {line}"

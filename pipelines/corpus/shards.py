"""Writes and hashes shard files in a staging directory, then moves them into place.

The manifest moves last, because a corpus with a manifest counts as complete.
"""

import itertools
import json
import os
import re
from collections.abc import Iterator
from concurrent import futures

from pipelines import storage
from pipelines.corpus.manifest import MANIFEST_NAME, SPLITS
from pipelines.corpus.staging import read_json, write_json
from pipelines.data_error import DataError

SHARD_BYTES = 8_000_000  # the amount of text in a shard, unless a number of shards is given
_SHARD_NAME = re.compile(r"(train|heldout)-\d{5}-of-\d{5}\.tfrecord")
_COUNTS = ("documents", "sentences", "words", "bytes", "text_bytes")


def number_of_shards(num_documents: int, num_bytes: int, wanted: int | None = None) -> int:
    """Computes the number of shards of a split.

    Args:
        num_documents: int.
        num_bytes: int. The size of the documents.
        wanted: int, or None for one shard for every SHARD_BYTES.

    Returns:
        int. Each shard gets two documents or more, because next-sentence pairs need a second document.
    """
    return min(wanted or max(1, round(num_bytes / SHARD_BYTES)), max(1, num_documents // 2))


def shard_sizes(num_documents: int, num_shards: int) -> list[int]:
    """Computes the number of documents of each shard; these numbers differ by at most one.

    Args:
        num_documents: int.
        num_shards: int.

    Returns:
        list of int [num_shards].
    """
    ends = [index * num_documents // num_shards for index in range(num_shards + 1)] if num_shards else [0]
    return [end - start for start, end in zip(ends, ends[1:], strict=False)]


def shard_name(split: str, index: int, num_shards: int) -> str:
    """Returns the file name of a shard.

    Args:
        split: str. "train" or "heldout".
        index: int. The number of the shard, from 0.
        num_shards: int. The number of shards of the split.

    Returns:
        str.
    """
    return f"{split}-{index:05d}-of-{num_shards:05d}.tfrecord"


def finished_shards(directory: str, split: str, num_shards: int, source: str) -> list[dict]:
    """Finds the shards that an earlier run finished from the same source; each is read and hashed.

    Args:
        directory: str. The local staging directory.
        split: str. "train" or "heldout".
        num_shards: int. The number of shards of the split.
        source: str. The hash of the runs from which the shards are made.

    Returns:
        list of dict, as write_shards returns it, up to the first shard that is missing or damaged.
    """
    finished = []
    for index in range(num_shards):
        path = os.path.join(directory, shard_name(split, index, num_shards))
        note = read_json(path + ".json")
        if (
            note is None
            or note["source"] != source
            or not os.path.exists(path)
            or os.path.getsize(path) != note["shard"]["bytes"]
            or storage.sha256_of(path) != note["shard"]["sha256"]
        ):
            break
        finished.append(note["shard"])
    return finished


def write_shards(
    directory: str,
    split: str,
    records: Iterator[tuple[bytes, int]],
    sizes: list[int],
    done: list[dict],
    source: str,
    hashing: futures.Executor,
) -> list[dict]:
    """Writes records as shards.

    The first len(done) shards exist already, and `records` starts after them.

    Args:
        directory: str. The staging directory.
        split: str. "train" or "heldout".
        records: iterator of (record, number of words in it).
        sizes: list of int, as shard_sizes returns it.
        done: list of dict, as finished_shards returns it.
        source: str. A hash of the runs from which the records come. A JSON file beside each local shard holds it.
        hashing: Executor. It reads the shards again and hashes them.

    Returns:
        list of dict: file, documents, sentences, words, bytes, text_bytes and sha256 of each shard.
    """
    pending = []
    for index in range(len(done), len(sizes)):
        name = shard_name(split, index, len(sizes))
        counts = _write_shard(os.path.join(directory, name), itertools.islice(records, sizes[index]))
        pending.append(hashing.submit(_hash_shard, directory, name, counts, source))
    return done + [future.result() for future in pending]


def _write_shard(path, records):
    import tensorflow as tf

    documents = sentences = words = text_bytes = 0
    with tf.io.TFRecordWriter(path) as writer:
        for record, words_in_it in records:
            writer.write(record)
            documents += 1
            sentences += record.count(b"\n") + 1
            words += words_in_it
            text_bytes += len(record)
    return {"documents": documents, "sentences": sentences, "words": words, "text_bytes": text_bytes}


def _hash_shard(directory, name, counts, source):
    path = os.path.join(directory, name)
    shard = {"file": name, **counts, "bytes": storage.size_of(path), "sha256": storage.sha256_of(path)}
    if not storage.is_remote(directory):
        write_json(path + ".json", {"source": source, "shard": shard})
    return shard


def split_summary(shards: list[dict]) -> dict:
    """Makes the entry of a split in the manifest: total counts and the shards that are not empty.

    Args:
        shards: list of dict, as write_shards returns it.

    Returns:
        dict.
    """
    shards = [shard for shard in shards if shard["documents"]]
    return {
        **{key: sum(shard[key] for shard in shards) for key in _COUNTS},
        "shards": [
            {key: shard[key] for key in ("file", "documents", "sentences", "bytes", "sha256")} for shard in shards
        ],
    }


# The report files that prepare_corpus puts beside the shards, for people and programs.
REPORTS = ("report.json", "report.txt", "report.png")


def take_back(output_dir: str, staging: str) -> None:
    """Moves shards back to the staging directory, if a run was stopped while it published them.

    Args:
        output_dir: str. The directory of the corpus.
        staging: str. The staging directory of the shards.

    Raises:
        DataError: output_dir has shards that no stopped run published.
    """
    import tensorflow as tf

    for name in tf.io.gfile.listdir(output_dir):
        if _SHARD_NAME.fullmatch(name):
            path = os.path.join(output_dir, name)
            if tf.io.gfile.exists(os.path.join(staging, name + ".json")):
                tf.io.gfile.rename(path, os.path.join(staging, name), overwrite=True)
            else:
                raise DataError(
                    f"{path}: is there already, and does not come from a stopped run; name another "
                    "output_dir, or delete the shards in it"
                )


def publish(staging: str, output_dir: str, manifest: dict, others: dict[str, bytes]) -> None:
    """Moves the shards into place, then the manifest, which completes the corpus.

    Args:
        staging: str. The staging directory of the shards.
        output_dir: str. The directory of the corpus.
        manifest: dict.
        others: dict of bytes by name. Further files of the corpus.
    """
    import tensorflow as tf

    others = {**others, MANIFEST_NAME: (json.dumps(manifest, indent=2) + "\n").encode()}
    for name, data in others.items():
        with tf.io.gfile.GFile(os.path.join(staging, name), "wb") as file:
            file.write(data)
    shards = [shard["file"] for split in SPLITS for shard in manifest[split]["shards"]]
    for name in [*shards, *others]:
        tf.io.gfile.rename(os.path.join(staging, name), os.path.join(output_dir, name), overwrite=name not in shards)

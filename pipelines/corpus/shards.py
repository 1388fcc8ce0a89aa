"""Shard files: written and hashed in a directory aside, then moved into place with the manifest."""

import itertools
import json
import os
import re

from pipelines.corpus.manifest import MANIFEST_NAME, SPLITS, file_sha256
from pipelines.corpus.staging import read_json, write_json
from pipelines.data_error import DataError

_SHARD_NAME = re.compile(r"(train|heldout)-\d{5}-of-\d{5}\.tfrecord")
_COUNTS = ("documents", "sentences", "words", "bytes", "text_bytes")


def shard_sizes(num_documents, num_shards):
    """How many documents each shard gets: about equally many."""
    ends = [index * num_documents // num_shards for index in range(num_shards + 1)] if num_shards else [0]
    return [end - start for start, end in zip(ends, ends[1:])]


def shard_name(split, index, num_shards):
    return f"{split}-{index:05d}-of-{num_shards:05d}.tfrecord"


def finished_shards(directory, split, num_shards, source):
    """The shards that an earlier run finished from the same source, from the first on; each is read and hashed."""
    found = []
    for index in range(num_shards):
        path = os.path.join(directory, shard_name(split, index, num_shards))
        note = read_json(path + ".json")
        if (
            note is None
            or note["source"] != source
            or not os.path.exists(path)
            or os.path.getsize(path) != note["shard"]["bytes"]
            or file_sha256(path) != note["shard"]["sha256"]
        ):
            break
        found.append(note["shard"])
    return found


def write_shards(directory, split, records, sizes, done, source, hashing):
    """Write records as shards of sizes documents each, of which the first len(done) are there and not in records.

    Args:
        records: iterator of (record, words in it). sizes: of shard_sizes. done: of finished_shards.
        source: a hash of what the records come from, noted beside each shard of a local directory.
        hashing: an executor, in which shards are read back and hashed.

    Returns:
        list of dict: file, documents, sentences, words, bytes, text_bytes, sha256 of each shard.
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
    import tensorflow as tf

    path = os.path.join(directory, name)
    shard = {"file": name, **counts, "bytes": tf.io.gfile.stat(path).length, "sha256": file_sha256(path)}
    if "://" not in directory:
        write_json(path + ".json", {"source": source, "shard": shard})
    return shard


def split_summary(shards):
    """What the manifest says of a split."""
    shards = [shard for shard in shards if shard["documents"]]
    return {
        **{key: sum(shard[key] for shard in shards) for key in _COUNTS},
        "shards": [
            {key: shard[key] for key in ("file", "documents", "sentences", "bytes", "sha256")} for shard in shards
        ],
    }


# What publish lays beside the shards, for people and programs.
REPORTS = ("report.json", "report.txt", "report.png")


def take_back(output_dir, staging):
    """Move shards that a run published just before it was stopped back to staging.

    Raises:
        DataError: there are others, which are not ours to remove.
    """
    import tensorflow as tf

    for name in tf.io.gfile.listdir(output_dir):
        if _SHARD_NAME.fullmatch(name):
            path = os.path.join(output_dir, name)
            if tf.io.gfile.exists(os.path.join(staging, name + ".json")):
                tf.io.gfile.rename(path, os.path.join(staging, name), overwrite=True)
            else:
                raise DataError(
                    f"{path}: is there already, and not from a run that was stopped; name another "
                    "output_dir, or delete the shards in it"
                )


def publish(staging, output_dir, manifest, others):
    """Move the shards into place, then the manifest, which makes a corpus of them.

    Args:
        others: further files of the corpus, bytes by name.
    """
    import tensorflow as tf

    others = {**others, MANIFEST_NAME: (json.dumps(manifest, indent=2) + "\n").encode()}
    for name, data in others.items():
        with tf.io.gfile.GFile(os.path.join(staging, name), "wb") as file:
            file.write(data)
    shards = [shard["file"] for split in SPLITS for shard in manifest[split]["shards"]]
    for name in [*shards, *others]:
        tf.io.gfile.rename(os.path.join(staging, name), os.path.join(output_dir, name), overwrite=name not in shards)

"""Shard files: written and hashed in a directory aside, then moved into place with the manifest."""

import contextlib
import itertools
import json
import os
import re
import tempfile

from pipelines.errors import DataError
from pipelines.manifest import MANIFEST_NAME, SPLITS, file_sha256

_STAGING = ".incomplete"
_SHARD_NAME = re.compile(r"(train|heldout)-\d{5}-of-\d{5}\.tfrecord")


@contextlib.contextmanager
def staging_directories(output_dir):
    """Directories for unfinished shards and for the spools, removed again whatever happens."""
    import tensorflow as tf

    staging = os.path.join(output_dir, _STAGING)
    try:
        if tf.io.gfile.exists(staging):  # left by a run that was killed
            tf.io.gfile.rmtree(staging)
        tf.io.gfile.makedirs(staging)
        try:
            local = None if "://" in output_dir else staging
            with tempfile.TemporaryDirectory(dir=local) as spool_dir:
                yield staging, spool_dir
        finally:
            tf.io.gfile.rmtree(staging)
    except (OSError, tf.errors.OpError) as error:
        raise DataError(f"{output_dir}: the corpus could not be written ({error})") from error


def write_split(directory, split, records, num_documents, num_shards):
    """Write records as num_shards shards of about equally many documents."""
    total = dict.fromkeys(("documents", "sentences", "words", "bytes", "text_bytes"), 0)
    shards = []
    for index in range(num_shards):
        documents = ((index + 1) * num_documents // num_shards
                     - index * num_documents // num_shards)
        name = f"{split}-{index:05d}-of-{num_shards:05d}.tfrecord"
        found = _write_shard(os.path.join(directory, name), itertools.islice(records, documents))
        if found["documents"]:
            shards.append({"file": name, **{key: found[key] for key in
                                            ("documents", "sentences", "bytes", "sha256")}})
        for key in total:
            total[key] += found[key]
    return {**total, "shards": shards}


def _write_shard(path, records):
    import tensorflow as tf

    documents = sentences = words = text_bytes = 0
    with tf.io.TFRecordWriter(path) as writer:
        for record in records:
            writer.write(record)
            documents += 1
            sentences += record.count(b"\n") + 1
            words += len(record.split())
            text_bytes += len(record)
    return {"documents": documents, "sentences": sentences, "words": words,
            "text_bytes": text_bytes, "bytes": tf.io.gfile.stat(path).length,
            "sha256": file_sha256(path)}


def publish(staging, output_dir, manifest):
    """Move the shards into place, then the manifest, which makes a corpus of them."""
    import tensorflow as tf

    for name in tf.io.gfile.listdir(output_dir):
        if _SHARD_NAME.fullmatch(name):  # of a run that was killed: there is no manifest
            tf.io.gfile.remove(os.path.join(output_dir, name))
    with tf.io.gfile.GFile(os.path.join(staging, MANIFEST_NAME), "w") as file:
        file.write(json.dumps(manifest, indent=2) + "\n")
    shards = [shard["file"] for split in SPLITS for shard in manifest[split]["shards"]]
    for name in [*shards, MANIFEST_NAME]:
        tf.io.gfile.rename(os.path.join(staging, name), os.path.join(output_dir, name))

"""What stands in a prepared corpus: manifest.json, written last and checked before use."""

import hashlib
import json
import os

from pipelines.data_error import DataError

FORMAT_VERSION = 1
MANIFEST_NAME = "manifest.json"
SPLITS = ("train", "heldout")
_MEND = "prepare the corpus anew"
_RECORD_FRAME_BYTES = 16  # of a TFRecord: length 8, its checksum 4, the data's checksum 4


def load_manifest(corpus_dir: str, verify: bool = True) -> dict:
    """Read and check the manifest of a corpus that prepare_corpus wrote.

    Args:
        corpus_dir: the directory.
        verify: also read every shard and compare its sha256. Existence and size are always
            compared.

    Raises:
        DataError: the manifest is missing, unreadable or of another version, or a shard is
            missing or differs; names the path, what was expected and what was found.
    """
    path = os.path.join(corpus_dir, MANIFEST_NAME)
    manifest = _read_manifest(path)
    for split in SPLITS:
        for shard in manifest[split]["shards"]:
            _check_shard(os.path.join(corpus_dir, shard["file"]), shard, verify)
    return manifest


def shard_paths(corpus_dir: str, manifest: dict, split: str) -> list[str]:
    """The paths of the shards of a split ("train" or "heldout"), in order."""
    if split not in SPLITS:
        raise DataError(f"split is {split!r}; expected one of {', '.join(SPLITS)}")
    return [os.path.join(corpus_dir, shard["file"]) for shard in manifest[split]["shards"]]


def file_sha256(path: str) -> str:
    import tensorflow as tf

    digest = hashlib.sha256()
    with tf.io.gfile.GFile(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _read_manifest(path):
    import tensorflow as tf

    if not tf.io.gfile.exists(path):
        raise DataError(
            f"{path}: not there; expected a directory that prepare_corpus wrote to its end: name that one, or {_MEND}"
        )
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            manifest = json.loads(file.read())
    except (ValueError, RecursionError, tf.errors.OpError) as error:
        raise DataError(f"{path}: unreadable ({error}); {_MEND}") from error
    version = manifest.get("format_version") if isinstance(manifest, dict) else None
    if version != FORMAT_VERSION:
        raise DataError(f"{path}: format_version is {version!r}; expected {FORMAT_VERSION}: {_MEND}")
    for split in SPLITS:
        shards = manifest[split].get("shards") if isinstance(manifest.get(split), dict) else None
        if not isinstance(shards, list) or not all(map(_is_shard, shards)):
            raise DataError(
                f"{path}: {split!r} does not list its shards with file, documents, sentences, bytes and sha256; {_MEND}"
            )
    return manifest


def _is_shard(shard):
    return (
        isinstance(shard, dict)
        and all(isinstance(shard.get(key), int) for key in ("documents", "sentences", "bytes"))
        and all(isinstance(shard.get(key), str) for key in ("file", "sha256"))
        and shard["file"] == os.path.basename(shard["file"]) != ""
    )


def _check_shard(path, shard, verify):
    import tensorflow as tf

    if not tf.io.gfile.exists(path):
        raise DataError(f"{path}: missing; expected a shard of {shard['bytes']} bytes: {_MEND}")
    size = tf.io.gfile.stat(path).length
    if size != shard["bytes"]:
        raise DataError(f"{path}: {size} bytes; expected {shard['bytes']}; {_records_text(path, shard)}: {_MEND}")
    if verify and (found := file_sha256(path)) != shard["sha256"]:
        raise DataError(f"{path}: sha256 is {found}; expected {shard['sha256']}; {_records_text(path, shard)}: {_MEND}")


def _records_text(path, shard):
    """How far a damaged file can be read. Lengths and data of records have checksums of their own."""
    import tensorflow as tf

    whole = end = 0
    fault = "then the file ends"
    try:
        for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
            whole += 1
            end += len(record) + _RECORD_FRAME_BYTES
    except tf.errors.OpError:
        fault = f"the next one, at byte {end}, is damaged or cut"
    return f"{whole} of {shard['documents']} records are whole, {fault}"

"""The manifest of a prepared corpus: manifest.json, which is written last and checked before use."""

import json
import os

from pipelines import storage
from pipelines.data_error import DataError

FORMAT_VERSION = 1
MANIFEST_NAME = "manifest.json"
SPLITS = ("train", "heldout")
_MEND = "prepare the corpus again"
_RECORD_FRAME_BYTES = 16  # in a TFRecord: length 8, its checksum 4, the checksum of the data 4
# The counts of a manifest that users should know, each with its meaning.
FAULTS = (
    ("duplicates", "documents dropped as equal to another"),
    ("near_duplicates", "documents dropped as near-duplicates of another"),
    ("heldout_sentences_dropped", "held-out sentences dropped that training documents have too"),
    ("heldout_documents_dropped", "held-out documents dropped that had fewer than two sentences left"),
    ("invalid_utf8_lines", "lines with invalid UTF-8, repaired with U+FFFD"),
    ("capped_lines", "lines over the size limit, cut into pieces"),
    ("capped_documents", "documents over the size limit, cut into several"),
    ("bad_records", "JSON records over the size limit, left out"),
    ("empty_lines", "lines of JSON records, or FASTA records, that have no symbol; left out"),
)


# A corpus can give next-sentence pairs if at least this share of its documents has two or more sentences.
LEAST_SHARE_WITH_PAIRS = 0.1
# A held-out sentence overlaps with training if at least OVERLAP_SHARE of its words are in runs of OVERLAP_RUN words
# that training also has.
OVERLAP_SHARE, OVERLAP_RUN = 0.8, 8


def most_with_two_sentences(split: dict) -> float:
    """Computes an upper bound of the share of documents with two or more sentences in a split.

    Args:
        split: dict. The entry of the split in a manifest.

    Returns:
        float.
    """
    return (split["sentences"] - split["documents"]) / max(split["documents"], 1)


def load_manifest(corpus_dir: str, verify: bool = True) -> dict:
    """Reads and checks the manifest of a corpus that prepare_corpus wrote.

    Args:
        corpus_dir: str. The directory of the corpus.
        verify: bool. Whether to read every shard and compare its SHA-256; existence and size are always checked.

    Returns:
        dict. The manifest.

    Raises:
        DataError: the manifest is missing, unreadable or of another version, or a shard is missing or differs. The
            message names the path, the expected value and the actual value.
    """
    path = os.path.join(corpus_dir, MANIFEST_NAME)
    manifest = _read_manifest(path)
    for split in SPLITS:
        for shard in manifest[split]["shards"]:
            _check_shard(os.path.join(corpus_dir, shard["file"]), shard, verify)
    return manifest


def shard_paths(corpus_dir: str, manifest: dict, split: str) -> list[str]:
    """Returns the paths of the shards of a split, in order.

    Args:
        corpus_dir: str. The directory of the corpus.
        manifest: dict, as load_manifest returns it.
        split: "train" or "heldout".

    Returns:
        list of str.

    Raises:
        DataError: the corpus has no such split.
    """
    if split not in SPLITS:
        raise DataError(f"split is {split!r}; expected one of {', '.join(SPLITS)}")
    return [os.path.join(corpus_dir, shard["file"]) for shard in manifest[split]["shards"]]


def overlap_text(manifest: dict) -> str:
    """Says in one line how much of the held-out text overlaps with training text.

    The line is "" if the overlap was not measured.

    Args:
        manifest: dict, as load_manifest returns it, or the report of a corpus.

    Returns:
        str. One line, or "".
    """
    overlap = manifest.get("heldout_overlap")
    counts = [overlap.get(name) for name in ("overlapping", "sentences")] if isinstance(overlap, dict) else [0, 0]
    if not all(isinstance(count, int) for count in counts) or counts[1] < 1:
        return ""
    return (
        f"{counts[0] / counts[1]:.1%} of {counts[1]:,} held-out sentences overlap with training: {OVERLAP_SHARE:.0%} "
        f"of their words are in runs of {OVERLAP_RUN} words that training has too"
    )


def _read_manifest(path):
    import tensorflow as tf

    if not tf.io.gfile.exists(path):
        raise DataError(
            f"{path}: does not exist; expected the directory of a complete corpus: name the output_dir of a finished "
            f"prepare_corpus, or {_MEND}"
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
    if not storage.exists(path):
        raise DataError(f"{path}: missing; expected a shard of {shard['bytes']} bytes: {_MEND}")
    size = storage.size_of(path)
    if size != shard["bytes"]:
        raise DataError(f"{path}: {size} bytes; expected {shard['bytes']}; {_records_text(path, shard)}: {_MEND}")
    if verify and (digest := storage.sha256_of(path)) != shard["sha256"]:
        raise DataError(
            f"{path}: sha256 is {digest}; expected {shard['sha256']}; {_records_text(path, shard)}: {_MEND}"
        )


def _records_text(path, shard):
    """Says how many records of a damaged file are readable; each record has its own checksums."""
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

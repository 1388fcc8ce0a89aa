"""Text to a corpus: shuffled documents without duplicates in TFRecord shards, and held-out ones.

A document's place is a keyed hash of its text: half of it decides whether the document is held
out, the other half is the key it is sorted by. Sorting by a keyed hash is a seeded shuffle over the
whole corpus, it puts duplicates side by side, and it does not depend on the order of the files
(but for dedup="none"). The sort is external (spool.py): memory holds 1/512 of the corpus at a time.
"""

import dataclasses
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Sequence

from pipelines.errors import DataError
from pipelines.manifest import (  # load_manifest and shard_paths are part of this interface
    FORMAT_VERSION, MANIFEST_NAME, load_manifest, shard_paths)
from pipelines.readers import FORMATS, ReaderCounts, expand_files, read_documents
from pipelines.shards import publish, staging_directories, write_split
from pipelines.spool import Spool

DEDUP = ("exact", "none")
SHARD_BYTES = 8_000_000
_HELDOUT_BYTES = 1 << 26  # of held-out text that is compared with the training text at a time
_WHITE_SPACE = b" \t\n\r\v\f"

__all__ = ["load_manifest", "prepare_corpus", "shard_paths"]


def prepare_corpus(output_dir: str, *, input_files: Sequence[str] | None = None,
                   documents: Iterable[Sequence[str]] | None = None, input_format: str = "auto",
                   text_field: str = "text", num_shards: int | None = None,
                   holdout_fraction: float = 0.02, seed: int = 0, dedup: str = "exact",
                   progress: Callable[[int, int], None] | None = None,
                   strict: bool = False) -> dict:
    r"""Write text as shuffled documents in TFRecord shards, with a manifest.

    A record is one document, its sentences as UTF-8 joined with "\n". Equal arguments and text
    give equal bytes. Shards are written in a directory of their own inside output_dir and moved
    up when all are whole; manifest.json comes last.

    Args:
        output_dir: where to; must not hold a corpus already.
        input_files: files, directories or globs (readers.expand_files); or else
        documents: documents as sequences of sentences.
        input_format, text_field, strict: as in readers.read_documents.
        num_shards: of the training documents; by default one for every 8 MB of text. Never more
            than there are documents.
        holdout_fraction: the share of documents held out, in [0, 1). A held-out sentence that is
            also in a training document is dropped, and a held-out document with fewer than two
            sentences left. Documents are never held out so that nothing is left to train on.
        seed: of the shuffle and of the choice of held-out documents.
        dedup: "exact" drops documents that are equal up to white space to one before, "none" none.
        progress: called with (documents, bytes of text) read so far about twice a second.

    Returns:
        The manifest. Its "bytes" are those of the shard files, "text_bytes" those of the text.

    Raises:
        DataError: an argument or a file is unusable, or no document has two sentences.
    """
    _check_arguments(output_dir, input_files, documents, input_format, num_shards,
                     holdout_fraction, seed, dedup)
    counts = ReaderCounts()
    if input_files is None:
        documents = _cleaned(documents, counts)
    else:
        documents = read_documents(expand_files(input_files), input_format, text_field, counts,
                                   strict)
    if progress:
        documents = _reported(documents, counts, progress)
    drop_duplicates = dedup == "exact"
    with staging_directories(output_dir) as (staging, spool_dir):
        train, heldout = _assign(documents, spool_dir, counts, holdout_fraction, seed,
                                 drop_duplicates)
        train_documents, train_bytes = _count(train, drop_duplicates)
        heldout_documents, _ = _count(heldout, drop_duplicates)
        num_shards = min(num_shards or max(1, round(train_bytes / SHARD_BYTES)), train_documents)
        dropped = {"heldout_sentences_dropped": 0, "heldout_documents_dropped": 0}
        kept = _without_training_sentences(heldout, train, drop_duplicates, dropped)
        manifest = {
            "format_version": FORMAT_VERSION, "seed": seed, "input_format": input_format,
            "holdout_fraction": holdout_fraction, "dedup": dedup,
            "train": write_split(staging, "train", _records(train, drop_duplicates),
                                 train_documents, num_shards),
            "heldout": write_split(staging, "heldout", kept, heldout_documents,
                                   min(1, heldout_documents))}
        duplicates = train.records + heldout.records - train_documents - heldout_documents
        manifest["counts"] = {**dataclasses.asdict(counts), "duplicates": duplicates, **dropped}
        publish(staging, output_dir, manifest)
    return manifest


def _check_arguments(output_dir, input_files, documents, input_format, num_shards,
                     holdout_fraction, seed, dedup):
    if (input_files is None) == (documents is None):
        raise DataError("prepare_corpus takes either input_files or documents; got "
                        + ("neither" if documents is None else "both"))
    if input_format not in FORMATS:
        raise DataError(f"input_format is {input_format!r}; expected one of {', '.join(FORMATS)}")
    if num_shards is not None and not 1 <= num_shards <= 99_999:
        raise DataError(f"num_shards is {num_shards}; expected 1 to 99999, or none given")
    if not 0 <= holdout_fraction < 1:
        raise DataError(f"holdout_fraction is {holdout_fraction}; expected 0 or more, less than 1")
    if not isinstance(seed, int):
        raise DataError(f"seed is {seed!r}; expected an integer")
    if dedup not in DEDUP:
        raise DataError(f"dedup is {dedup!r}; expected one of {', '.join(DEDUP)}")
    manifest = os.path.join(output_dir, MANIFEST_NAME)
    exists = os.path.exists
    if "://" in output_dir:
        import tensorflow as tf

        exists = tf.io.gfile.exists
    if exists(manifest):
        raise DataError(f"{manifest} is there already; expected an output_dir without a corpus: "
                        "name another, or delete that one")


def _cleaned(documents, counts):
    for document in documents:
        sentences = [stripped for sentence in document
                     if (stripped := sentence.replace("\n", " ").strip())]
        if sentences:
            counts.documents += 1
            counts.sentences += len(sentences)
            counts.bytes += sum(map(len, map(_encode, sentences)))
            yield sentences


def _reported(documents, counts, progress):
    last = time.monotonic()
    for document in documents:
        yield document
        if time.monotonic() - last >= 0.5:
            progress(counts.documents, counts.bytes)
            last = time.monotonic()
    progress(counts.documents, counts.bytes)


def _assign(documents, spool_dir, counts, holdout_fraction, seed, drop_duplicates):
    """Spool every document as training or held-out text; returns the two spools."""
    spools = {held: Spool(os.path.join(spool_dir, str(held))) for held in (False, True)}
    has_pairs = {False: False, True: False}
    hash_key = str(seed).encode()
    limit = int(holdout_fraction * 2**64)
    for number, sentences in enumerate(documents):
        record = _encode("\n".join(sentences))
        digest = hashlib.blake2b(record.translate(None, _WHITE_SPACE), digest_size=24,
                                 key=hash_key).digest()
        held = int.from_bytes(digest[16:], "big") < limit
        key = digest[:16]
        if not drop_duplicates:  # else equal documents would lie side by side
            key = hashlib.blake2b(key + number.to_bytes(8, "big"), digest_size=16).digest()
        spools[held].add(key, record)
        has_pairs[held] |= len(sentences) > 1
    if not any(has_pairs.values()):
        raise DataError(
            f"no document with two sentences in {counts.files} files, {counts.documents} "
            f"documents, {counts.sentences} sentences; expected documents of several sentences: "
            "check the files and input_format")
    train, heldout = spools[False], spools[True]
    if not has_pairs[False]:
        for key, record in heldout.sorted(drop_duplicates=False):
            train.add(key, record)
        heldout = Spool(os.path.join(spool_dir, "none"))
    return train, heldout


def _encode(text):
    """UTF-8, with U+FFFD for surrogates, which a Python string may hold but UTF-8 may not."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _records(spool, drop_duplicates):
    return (record for _, record in spool.sorted(drop_duplicates))


def _count(spool, drop_duplicates):
    documents = size = 0
    for record in _records(spool, drop_duplicates):
        documents += 1
        size += len(record)
    return documents, size


def _without_training_sentences(heldout, train, drop_duplicates, dropped):
    """Yield the held-out records less the sentences that are also in training; counts those."""
    records = _records(heldout, drop_duplicates)
    while block := list(_take_bytes(records, _HELDOUT_BYTES)):
        sentences = {sentence for record in block for sentence in record.split(b"\n")}
        shared = set()
        for record in _records(train, drop_duplicates):
            shared |= sentences.intersection(record.split(b"\n"))
        for record in block:
            document = record.split(b"\n")
            kept = [sentence for sentence in document if sentence not in shared]
            dropped["heldout_sentences_dropped"] += len(document) - len(kept)
            if len(kept) > 1:
                yield b"\n".join(kept)
            else:
                dropped["heldout_documents_dropped"] += 1


def _take_bytes(records, limit):
    size = 0
    while size < limit and (record := next(records, None)) is not None:
        size += len(record)
        yield record

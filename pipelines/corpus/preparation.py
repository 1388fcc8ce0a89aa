"""Text to a corpus: shuffled documents without duplicates in TFRecord shards, and held-out ones.

A document's place is a keyed hash of its text: a part of it decides whether the document is held out, the rest is the
key it is sorted by. Sorting by a keyed hash is a seeded shuffle over the whole corpus, it puts duplicates side by side,
and it does not depend on the order of the files (but for dedup="none"). The sort is external (spool.py), so memory is
bounded, and each of its runs, as each shard, is kept when the process is stopped (staging.py).
"""

import dataclasses
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent import futures

import numpy as np

from pipelines.corpus import corpus_reading, corpus_tasks, near_duplicates, shards, spool
from pipelines.corpus.corpus_report import Survey, report_text
from pipelines.corpus.manifest import FORMAT_VERSION, load_manifest, shard_paths
from pipelines.corpus.staging import discard, refuse_corpus, staging
from pipelines.data_error import DataError
from pipelines.text.readers import check_format, expand_files

DEDUP = ("exact", "near", "none")
SHARD_BYTES = 8_000_000

__all__ = ["load_manifest", "prepare_corpus", "shard_paths"]


def prepare_corpus(
    output_dir: str,
    *,
    input_files: Sequence[str] | None = None,
    documents: Iterable[Sequence[str]] | None = None,
    input_format: str = "auto",
    text_field: str = "text",
    num_shards: int | None = None,
    holdout_fraction: float = 0.02,
    seed: int = 0,
    dedup: str = "exact",
    progress: Callable[[int, int], None] | None = None,
    strict: bool = False,
    workers: int | None = None,
    log: Callable[[str], None] | None = None,
    draw: Callable[[dict], bytes] | None = None,
) -> dict:
    r"""Write text as shuffled documents in TFRecord shards, with a manifest and a report.

    A record is one document, its sentences as UTF-8 joined with "\n". Equal arguments and text give equal bytes,
    whatever the number of workers, and whether or not a run was stopped on the way: the same call goes on where it
    was, if the files are unchanged. All is made in a directory of its own inside output_dir and moved up when it is
    whole; manifest.json comes last.

    Args:
        output_dir: where to; must not hold a corpus already.
        input_files: files, directories or globs (readers.expand_files); or else
        documents: documents as sequences of sentences; these cannot be gone on with.
        input_format, text_field, strict: as in readers.read_documents.
        num_shards: of the training documents; by default one for every 8 MB of text. Never more
            than there are documents.
        holdout_fraction: the share of documents held out, in [0, 1). A held-out sentence that is
            also in a training document is dropped, and a held-out document with fewer than two
            sentences left. Documents are never held out so that nothing is left to train on.
        seed: of the shuffle and of the choice of held-out documents.
        dedup: "exact" drops documents that are equal up to white space to one before; "near" those, too, that are
            near-duplicates of another (near_duplicates.py); "none" none.
        progress: called with (documents, bytes of text) read so far about twice a second.
        workers: threads that split, hash and count; by default one for each core.
        log: called with lines that say what is done.
        draw: makes report.png of the report; report.json and report.txt are always written.

    Returns:
        The manifest. Its "bytes" are those of the shard files, "text_bytes" those of the text.

    Raises:
        DataError: an argument or a file is unusable, no document has two sentences, another process is at work in
            output_dir, or it cannot be written to.
    """
    if (input_files is None) == (documents is None):
        raise DataError(
            "prepare_corpus takes either input_files or documents; got " + ("neither" if documents is None else "both")
        )
    check_arguments(
        output_dir,
        input_format=input_format,
        num_shards=num_shards,
        holdout_fraction=holdout_fraction,
        seed=seed,
        dedup=dedup,
        workers=workers,
    )
    log = log or (lambda line: None)
    settings = {
        "seed": seed,
        "input_format": input_format,
        "text_field": text_field,
        "strict": strict,
        "holdout_fraction": holdout_fraction,
        "dedup": dedup,
    }
    reader = corpus_reading.Reader(workers=workers or os.cpu_count() or 1, **settings)
    tasks = None if input_files is None else corpus_tasks.file_tasks(expand_files(input_files))
    parameters = tasks and {**settings, "format_version": FORMAT_VERSION}
    with staging(output_dir, parameters, log) as found:
        if tasks is None:
            runs, counts = corpus_reading.read_documents_as_task(documents, found.spool, reader, progress)
        else:
            runs, counts = corpus_reading.read_tasks(tasks, found.spool, reader, progress, log)
        runs = _with_pairs_in_training(runs, counts, found)
        train, heldout = spool.Spool(runs["train"]), spool.Spool(runs["heldout"])
        counts = {**dataclasses.asdict(counts), **_drop_duplicates(train, heldout, dedup, log)}
        log(f"writing {train.documents - int(train.dropped.sum()):,} training documents")
        manifest = {"format_version": FORMAT_VERSION, **settings}
        survey = Survey()
        files = json.dumps([run.files for split in runs.values() for run in split])
        source = hashlib.sha256(files.encode()).hexdigest()
        shards.take_back(output_dir, found.shards)
        is_stopped = threading.Event()
        with futures.ThreadPoolExecutor(1) as beside:
            shared = beside.submit(_survey, survey, train, heldout, is_stopped)
            try:
                manifest["train"] = _write_train(train, found.shards, num_shards, source)
            except BaseException:
                is_stopped.set()
                raise
        manifest["heldout"], dropped = _write_heldout(heldout, shared.result(), found.shards)
        manifest["counts"] = {**counts, **dropped}
        report = survey.report(train, manifest["counts"], {split: manifest[split] for split in runs})
        others = {
            "report.json": (json.dumps(report, indent=1, ensure_ascii=False) + "\n").encode(),
            "report.txt": report_text(report).encode(),
        }
        if draw:
            others["report.png"] = draw(report)
        shards.publish(found.shards, output_dir, manifest, others)
    return manifest


def check_arguments(output_dir, *, input_format, num_shards, holdout_fraction, seed, dedup, workers):
    """Raises prepare_corpus's DataError for these arguments; does not need TensorFlow for a local output_dir."""
    check_format(input_format)
    if num_shards is not None and not 1 <= num_shards <= 99_999:
        raise DataError(f"num_shards is {num_shards}; expected 1 to 99999, or none given")
    if not 0 <= holdout_fraction < 1:
        raise DataError(f"holdout_fraction is {holdout_fraction}; expected 0 or more, less than 1")
    if not isinstance(seed, int):
        raise DataError(f"seed is {seed!r}; expected an integer")
    if dedup not in DEDUP:
        raise DataError(f"dedup is {dedup!r}; expected one of {', '.join(DEDUP)}")
    if workers is not None and workers < 1:
        raise DataError(f"workers is {workers}; expected 1 or more, or none given")
    refuse_corpus(output_dir, shards.REPORTS)


def _with_pairs_in_training(runs, counts, found):
    """The runs, those of held-out documents among the others if only these have documents of two sentences."""
    has_pairs = {
        split: any((entries["sentences"] > 1).any() for entries in spool.Spool(runs[split]).whole("entries"))
        for split in runs
    }
    if not any(has_pairs.values()):
        discard(found)
        raise DataError(
            f"no document with two sentences in {counts.files} files, {counts.documents} "
            f"documents, {counts.sentences} sentences; expected documents of several sentences: "
            "check the files and input_format"
        )
    return runs if has_pairs["train"] else {"train": runs["train"] + runs["heldout"], "heldout": []}


def _drop_duplicates(train, heldout, dedup, log):
    if dedup == "none":
        return {"duplicates": 0, "near_duplicates": 0}
    duplicates = spool.drop_equal(train) + spool.drop_equal(heldout)
    near = 0
    if dedup == "near":
        both = spool.Spool(train.runs + heldout.runs)
        both.dropped[:] = np.concatenate([train.dropped, heldout.dropped])
        log(f"comparing {both.documents - int(both.dropped.sum()):,} documents for near-duplicates")
        keys = np.concatenate([entries["key"] for entries in both.whole("entries")])
        is_heldout = np.arange(both.documents) >= train.documents
        found = near_duplicates.near_duplicates(
            keys, is_heldout, both.dropped, lambda: both.whole("signatures"), both.signatures
        )
        train.dropped |= found[: train.documents]
        heldout.dropped |= found[train.documents :]
        near = int(found.sum())
    return {"duplicates": duplicates, "near_duplicates": near}


def _survey(survey, train, heldout, is_stopped):
    """Shows the training documents to the survey; returns hashes of the held-out lines that training has too, sorted.

    Nine bytes are held for every held-out line. Ends early when is_stopped is set.
    """
    lines = [heldout.lines(*heldout.entries(index)[:2])["hash"] for index in range(heldout.num_ranges)]
    heldout_lines = np.unique(np.concatenate(lines))
    is_shared = np.zeros(len(heldout_lines), bool)
    for index in range(train.num_ranges):
        if is_stopped.is_set():
            break
        entries, runs, _ = train.entries(index)
        lines = train.lines(entries, runs)
        survey.add(entries, lines)
        is_shared[_places(np.sort(lines["hash"]), heldout_lines)[0]] = True
    return heldout_lines[is_shared]


def _places(values, among):
    """Of the values that are also in `among`, which is sorted: (where they stand there, where in values).

    numpy's set operations sort both, here again and again for what is large and sorted already.
    """
    places = np.searchsorted(among, values)
    found = np.flatnonzero(places < len(among))
    found = found[among[places[found]] == values[found]]
    return places[found], found


def _write_train(train, directory, num_shards, source):
    kept = [len(train.entries(index)[0]) for index in range(train.num_ranges)]
    num_shards = min(num_shards or max(1, round(_kept_bytes(train) / SHARD_BYTES)), sum(kept))
    sizes = shards.shard_sizes(sum(kept), num_shards)
    done = shards.finished_shards(directory, "train", num_shards, source)
    skipped = sum(sizes[: len(done)])

    def loaded(index):
        entries, runs, _ = train.entries(index)
        skip = max(0, skipped - sum(kept[:index]))
        entries, runs = entries[skip:], runs[skip:]
        return list(zip(train.records(entries, runs), entries["words"].tolist()))

    with futures.ThreadPoolExecutor(1) as loading, futures.ThreadPoolExecutor(1) as hashing:
        records = _ahead(loading, loaded, range(train.num_ranges))
        return shards.split_summary(shards.write_shards(directory, "train", records, sizes, done, source, hashing))


def _ahead(executor, function, arguments):
    """Yield from function(argument) of each argument, the next one being worked on meanwhile."""
    future = None
    for argument in arguments:
        previous, future = future, executor.submit(function, argument)
        if previous:
            yield from previous.result()
    if future:
        yield from future.result()


def _kept_bytes(documents):
    return sum(int(documents.entries(index)[0]["size"].sum()) for index in range(documents.num_ranges))


def _write_heldout(heldout, shared, directory):
    """The held-out documents less the sentences that are in training too; (summary, counts of what was dropped)."""
    dropped = {"heldout_sentences_dropped": 0, "heldout_documents_dropped": 0}

    def records():
        for index in range(heldout.num_ranges):
            entries, runs, _ = heldout.entries(index)
            lines = heldout.lines(entries, runs)["hash"]
            is_shared = np.zeros(len(lines), bool)
            is_shared[_places(lines, shared)[1]] = True
            first = 0
            for record, sentences in zip(heldout.records(entries, runs), entries["sentences"].tolist()):
                mine = is_shared[first : first + sentences]
                first += sentences
                dropped["heldout_sentences_dropped"] += int(mine.sum())
                kept = [line for line, drop in zip(record.split(b"\n"), mine.tolist()) if not drop]
                if len(kept) > 1:
                    yield b"\n".join(kept), sum(len(line.split()) for line in kept)
                else:
                    dropped["heldout_documents_dropped"] += 1

    num_shards = max(1, round(_kept_bytes(heldout) / SHARD_BYTES))
    sizes = shards.shard_sizes(heldout.documents, min(num_shards, heldout.documents)) if heldout.documents else []
    with futures.ThreadPoolExecutor(1) as hashing:
        written = shards.write_shards(directory, "heldout", records(), sizes, [], "", hashing)
    return shards.split_summary(written), dropped

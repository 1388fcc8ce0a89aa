"""Makes a corpus of text: TFRecord shards of shuffled training documents, and held-out documents.

A keyed hash of a document's text decides its place in the corpus. One part of the hash decides whether the document is
held out. The rest of the hash is the sort key. The seed is the key of the hash, so the sort is a seeded shuffle of the
whole corpus. The sort puts duplicates next to each other. The result does not depend on the order of the files,
except for dedup="none".

The sort is external (spool.py), so memory is bounded. An interrupted call leaves its finished sorted runs and shards
on disk (staging.py). The same call continues from them if the input files are unchanged. The result depends neither on
the number of workers nor on interruptions. prepare_corpus writes the files of the corpus to a directory inside
output_dir, and moves them to output_dir when all are complete. manifest.json moves last.

Duplicates: dedup="exact" keeps only one of several documents that differ at most in white space. dedup="near" also
drops near-duplicates (near_duplicates.py). dedup="none" keeps all documents, as does dedup="auto" for symbols, among
which two equal documents mean two things. For text "auto" is "exact".

Held-out text: the documents of one source are held out together or not at all. A document that is too long becomes
several documents of one source. The docstrings of one Python module are also one source (installed_docs.py).
Held-out sentences that are also in a training document are dropped (heldout_text.py). The report says how many of the
remaining sentences overlap with training text (overlap.py). If only held-out documents have two or more sentences, all
documents become training documents. Documents of symbols may have one line, and keep the lines that training also has.
"""

import dataclasses
import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent import futures
from typing import Any

import numpy as np

from pipelines.channels import parse_channels
from pipelines.choices import SYMBOL_FORMATS
from pipelines.corpus import corpus_reading, corpus_tasks, heldout_text, near_duplicates, shards, spool
from pipelines.corpus.corpus_report import Survey, report_text
from pipelines.corpus.manifest import FORMAT_VERSION, load_manifest, shard_paths
from pipelines.corpus.staging import discard, refuse_corpus, staging
from pipelines.data_error import DataError
from pipelines.plurals import counted
from pipelines.text import segmentation
from pipelines.text.readers import check_format, expand_files

DEDUP = ("auto", "exact", "near", "none")
# The arguments that decide the content of a corpus, in the order of the manifest.
_SETTINGS = ("seed", "input_format", "text_field", "strict", "holdout_fraction", "dedup", "segmenter")

__all__ = ["load_manifest", "prepare_corpus", "shard_paths"]


def prepare_corpus(
    output_dir: str,
    *,
    input_files: Sequence[str] | None = None,
    documents: Iterable[Sequence[str]] | None = None,
    sources: Iterable[Iterable[Sequence[str]]] | None = None,
    input_format: str = "auto",
    text_field: str = "text",
    num_shards: int | None = None,
    holdout_fraction: float = 0.02,
    seed: int = 0,
    dedup: str = "auto",
    progress: Callable[[int, int], None] | None = None,
    strict: bool = False,
    workers: int | None = None,
    log: Callable[[str], None] | None = None,
    draw: Callable[[dict], bytes] | None = None,
    segmenter: str = "none",
    channels: Sequence[Any] = (),
) -> dict:
    r"""Writes one of input_files, documents and sources as shuffled documents in shards, with a manifest and a report.

    A record is one document: its sentences in UTF-8, joined with "\n". Equal text and arguments give equal bytes.

    Args:
        output_dir: the directory of the corpus; it must not hold one already.
        input_files: files, directories or globs (readers.expand_files). Only a call with input_files can resume.
        documents: iterable of documents, each a sequence of sentences.
        sources: iterable of sources, each an iterable of documents. All documents of a source are held out, or none.
        input_format, text_field, strict: as in readers.read_documents.
        num_shards: the most training shards, of at least two documents each; by default one for every 8 MB of text.
        holdout_fraction: the share of documents that are held out, in [0, 1).
        seed: the seed of the shuffle and of the choice of held-out documents.
        dedup: one of DEDUP; see the module's docstring.
        progress: function of (documents, bytes of text) read so far; it is called about twice a second.
        workers: the number of threads; by default one for each core.
        log: function that takes a line about the current step.
        draw: function that takes the report and returns the bytes of report.png; None for no picture.
        segmenter: one of choices.SEGMENTERS. It puts spaces between the words of Chinese text.
        channels: the channels of symbols, such as "age:120" (channels.parse_channels), for the format "symbols".

    Returns:
        The manifest. "bytes" is the size of the shard files, "text_bytes" the size of the text.

    Raises:
        DataError: an argument or file is unusable, output_dir is in use, or no document has two sentences.
    """
    sources = _the_sources(input_files=input_files, documents=documents, sources=sources)
    given = {"input_format": input_format, "holdout_fraction": holdout_fraction, "seed": seed, "dedup": dedup}
    given |= {"workers": workers, "segmenter": segmenter}
    check_arguments(output_dir, num_shards=num_shards, **given)
    given |= {"dedup": _resolved(dedup, input_format), "channels": _checked_channels(channels, input_format, sources)}
    reader, log = corpus_reading.Reader(text_field=text_field, strict=strict, **given), log or (lambda line: None)
    settings = _settings(reader)
    tasks = corpus_tasks.file_tasks(expand_files(input_files)) if sources is None else None
    with staging(output_dir, tasks and {**settings, "format_version": FORMAT_VERSION}, log) as staged:
        runs, counts = _read_text(tasks, sources, staged, reader, progress, log)
        manifest, reports = _write_corpus(runs, counts, settings, output_dir, staged, num_shards, draw, log)
        shards.publish(staged.shards, output_dir, manifest, reports)
    return manifest


def _settings(reader):
    """The settings of a corpus for its manifest."""
    settings = {name: getattr(reader, name) for name in _SETTINGS}
    if reader.channels:
        settings["channels"] = list(map(str, reader.channels))
    return settings


def _as_dict(counts):
    """The counts of a reader. A text without symbols cannot have empty lines of symbols."""
    values = dataclasses.asdict(counts)
    return values if counts.empty_lines else {name: value for name, value in values.items() if name != "empty_lines"}


def _checked_channels(channels, input_format, sources):
    if channels and sources is not None:
        raise DataError("channels: only input_files have channels; leave channels out, or give input_files")
    if channels and input_format != "symbols":
        raise DataError(
            f"channels is {','.join(map(str, channels))}: text of the format {input_format} has no channels; give "
            "input_format=symbols, or leave channels out"
        )
    return parse_channels(channels)


def _resolved(dedup, input_format):
    return dedup if dedup != "auto" else "none" if input_format in SYMBOL_FORMATS else "exact"


def _the_sources(**texts):
    """The sources of documents, None for files. Raises DataError unless one text is given."""
    given = [name for name, text in texts.items() if text is not None]
    if len(given) != 1:
        raise DataError(
            f"prepare_corpus takes one of {', '.join(texts)}; got {' and '.join(given) if given else 'none of them'}"
        )
    if texts["documents"] is not None:
        return ((document,) for document in texts["documents"])
    return texts["sources"]


def _read_text(tasks, sources, staged, reader, progress, log):
    """Returns ({split: list of Run}, ReaderCounts) of the tasks, or of the sources if tasks is None."""
    if tasks is None:
        runs, counts = corpus_reading.read_sources_as_task(sources, staged.spool, reader, progress)
    else:
        runs, counts = corpus_reading.read_tasks(tasks, staged.spool, reader, progress, log)
    return _with_text_in_training(runs, counts, staged, reader.input_format in SYMBOL_FORMATS), counts


def _write_corpus(runs, counts, settings, output_dir, staged, num_shards, draw, log):
    """Drops duplicates and writes the shards. Returns (manifest, dict from report file name to bytes)."""
    train, heldout = spool.Spool(runs["train"]), spool.Spool(runs["heldout"])
    counts = {**_as_dict(counts), **_drop_duplicates(train, heldout, settings["dedup"], log)}
    num_documents = train.documents - int(train.dropped.sum())
    log(f"writing {num_documents:,} training documents")
    wanted, num_shards = num_shards, shards.number_of_shards(num_documents, _kept_bytes(train), num_shards)
    if wanted and num_shards < wanted:
        log(f"num_shards is {num_shards:,} instead of {wanted:,}, so that each shard has at least two documents")
    manifest = {"format_version": FORMAT_VERSION, **settings}
    files = json.dumps([run.files for split in runs.values() for run in split])
    source = hashlib.sha256(files.encode()).hexdigest()
    shards.take_back(output_dir, staged.shards)
    comparison = heldout_text.Comparison(heldout)
    manifest["train"], survey = _write_and_survey_train(train, comparison, staged.shards, num_shards, source)
    num_shards = shards.number_of_shards(heldout.documents, _kept_bytes(heldout))
    is_symbols = settings["input_format"] in SYMBOL_FORMATS
    shared = comparison.lines.result()[: 0 if is_symbols else None]
    manifest["heldout"], dropped = heldout_text.write_kept(heldout, shared, staged.shards, num_shards, is_symbols)
    manifest["heldout_overlap"] = comparison.overlap.result(shared)
    manifest["counts"] = {**counts, **dropped}
    report = survey.report(train, manifest)
    reports = {
        "report.json": (json.dumps(report, indent=1, ensure_ascii=False) + "\n").encode(),
        "report.txt": report_text(report).encode(),
    }
    if draw:
        reports["report.png"] = draw(report)
    return manifest, reports


def _write_and_survey_train(train, comparison, directory, num_shards, source):
    """Writes the training shards while a thread surveys the training documents. Returns (summary, Survey)."""
    is_stopped = threading.Event()
    with futures.ThreadPoolExecutor(1) as surveying:
        survey = surveying.submit(_survey, train, comparison, is_stopped)
        try:
            summary = _write_train(train, directory, num_shards, source)
        except BaseException:
            is_stopped.set()
            raise
    return summary, survey.result()


def check_arguments(
    output_dir: str,
    *,
    input_format: str,
    num_shards: int | None,
    holdout_fraction: float,
    seed: int,
    dedup: str,
    workers: int | None,
    segmenter: str = "none",
) -> None:
    """Checks arguments of prepare_corpus. If output_dir is local, the function does not load TensorFlow.

    Args:
        output_dir: str. As in prepare_corpus.
        input_format: str. As in prepare_corpus.
        num_shards: int or None. As in prepare_corpus.
        holdout_fraction: float. As in prepare_corpus.
        seed: int. As in prepare_corpus.
        dedup: str. As in prepare_corpus.
        workers: int or None. As in prepare_corpus.
        segmenter: str. As in prepare_corpus.

    Raises:
        DataError: an argument is unusable, or output_dir holds a corpus.
    """
    check_format(input_format)
    if input_format in SYMBOL_FORMATS and segmenter != "none":
        raise DataError(f"segmenter is {segmenter!r}: would cut symbols; leave it out, or give another input_format")
    segmentation.check_segmenter(segmenter)
    if num_shards is not None and not 1 <= num_shards <= 99_999:
        raise DataError(f"num_shards is {num_shards}; expected 1 to 99999; leave it out for the default")
    if not 0 <= holdout_fraction < 1:
        raise DataError(f"holdout_fraction is {holdout_fraction}; expected a number from 0 to less than 1")
    if not isinstance(seed, int):
        raise DataError(f"seed is {seed!r}; expected an integer")
    if dedup not in DEDUP:
        raise DataError(f"dedup is {dedup!r}; expected one of {', '.join(DEDUP)}")
    if workers is not None and workers < 1:
        raise DataError(f"workers is {workers}; expected 1 or more; leave it out for the default")
    refuse_corpus(output_dir, shards.REPORTS)


def _with_text_in_training(runs, counts, staged, is_symbols):
    """Moves the held-out runs to training if only held-out documents have two or more sentences, or a line of symbols.

    Returns {split: list of Run}. Raises DataError if no document has them.
    """
    least = 1 if is_symbols else 2
    has_text = {
        split: any((entries["sentences"] >= least).any() for entries in spool.Spool(runs[split]).whole("entries"))
        for split in runs
    }
    if not any(has_text.values()):
        discard(staged)
        if is_symbols:
            raise DataError(
                f"no symbol in {counted(counts.files, 'file')}; expected lines of symbols with spaces between them, or "
                "JSON lines with such lines in the field text_field"
            )
        raise DataError(
            f"no document with two sentences in {counted(counts.files, 'file')}, "
            f"{counted(counts.documents, 'document')}, {counted(counts.sentences, 'sentence')}; expected documents "
            f"of several sentences: "
            "check the files and input_format (with input_format paragraphs or documents, the reader splits lines into "
            "sentences)"
        )
    return runs if has_text["train"] else {"train": runs["train"] + runs["heldout"], "heldout": []}


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
        is_near_duplicate = near_duplicates.near_duplicates(
            keys, is_heldout, both.dropped, lambda: both.whole("signatures"), both.signatures
        )
        train.dropped |= is_near_duplicate[: train.documents]
        heldout.dropped |= is_near_duplicate[train.documents :]
        near = int(is_near_duplicate.sum())
    return {"duplicates": duplicates, "near_duplicates": near}


def _survey(train, comparison, is_stopped):
    """Adds the training documents to a Survey and to the comparison. Ends early if is_stopped is set."""
    survey = Survey()

    def records():
        for index in range(train.num_ranges):
            if is_stopped.is_set():
                break
            entries, runs, _ = train.entries(index)
            lines = train.lines(entries, runs)
            survey.add(entries, lines)
            comparison.lines.add(lines["hash"])
            if comparison.overlap.has_runs:
                yield train.records(entries, runs)

    heldout_text.in_threads(comparison.overlap.add, records())
    return survey


def _write_train(train, directory, num_shards, source):
    kept = [len(train.entries(index)[0]) for index in range(train.num_ranges)]
    sizes = shards.shard_sizes(sum(kept), num_shards)
    done = shards.finished_shards(directory, "train", num_shards, source)
    skipped = sum(sizes[: len(done)])

    def loaded(index):
        entries, runs, _ = train.entries(index)
        skip = max(0, skipped - sum(kept[:index]))
        entries, runs = entries[skip:], runs[skip:]
        return list(zip(train.records(entries, runs), entries["words"].tolist(), strict=True))

    with futures.ThreadPoolExecutor(1) as loading, futures.ThreadPoolExecutor(1) as hashing:
        records = _ahead(loading, loaded, range(train.num_ranges))
        return shards.split_summary(shards.write_shards(directory, "train", records, sizes, done, source, hashing))


def _ahead(executor, function, arguments):
    """Yields the items of function(argument) for each argument. The executor computes the next result meanwhile."""
    future = None
    for argument in arguments:
        previous, future = future, executor.submit(function, argument)
        if previous:
            yield from previous.result()
    if future:
        yield from future.result()


def _kept_bytes(documents):
    return sum(int(documents.entries(index)[0]["size"].sum()) for index in range(documents.num_ranges))

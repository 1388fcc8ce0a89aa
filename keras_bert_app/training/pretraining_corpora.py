"""The text of a pre-training: prepared from --input_files on the first start, or the corpora of --corpus_dir."""

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.errors import UserError
from keras_bert_app.files import lies_below, read_json
from keras_bert_app.runs import work_directory
from keras_bert_app.runs.work_directory import ExistingRun
from keras_bert_app.terminal.progress import ReadingProgress
from keras_bert_app.training import pretraining_data
from pipelines import storage
from pipelines.corpus.manifest import (
    FAULTS,
    LEAST_SHARE_WITH_PAIRS,
    load_manifest,
    most_with_two_sentences,
    overlap_text,
    shard_paths,
)
from pipelines.data_error import DataError
from pipelines.examples.masking_advice import masking_advice
from pipelines.text.text_files import expand_files

# The fields of the run that decide what its text is.
_SOURCE = ("input_files", "corpus_dir", "input_format", "text_field", "strict", "holdout_fraction", "seed")


@dataclasses.dataclass(frozen=True)
class PretrainingCorpora:
    """The text of a run.

    Attributes:
        train_shards: for each corpus the paths of its TFRecord files.
        heldout_shards: paths of the held-out files of all corpora; may be empty.
        num_train_documents: number of training documents of all corpora; None where it is not known.
        num_heldout_documents: the same of held-out documents.
        num_heldout_dropped: held-out documents that were dropped, since they had fewer than two sentences.
    """

    train_shards: tuple[tuple[str, ...], ...]
    heldout_shards: tuple[str, ...] = ()
    num_train_documents: int | None = None
    num_heldout_documents: int | None = None
    num_heldout_dropped: int = 0

    @classmethod
    def of_manifests(cls, manifests: Mapping[str, dict]) -> "PretrainingCorpora":
        """The shards that the manifests of several directories name."""
        train, heldout = (
            [tuple(shard_paths(directory, manifest, split)) for directory, manifest in manifests.items()]
            for split in ("train", "heldout")
        )
        return cls(
            tuple(train),
            tuple(path for paths in heldout for path in paths),
            *(sum(manifest[split]["documents"] for manifest in manifests.values()) for split in ("train", "heldout")),
            sum(manifest["counts"].get("heldout_documents_dropped", 0) for manifest in manifests.values()),
        )


def corpus_directories(workdir: str, run: PretrainingConfig) -> tuple[str, ...]:
    """The directories of a run's corpora."""
    return run.corpus_dir or (work_directory.path_in(workdir, "corpus"),)


def prepared_corpora(existing: ExistingRun, run: PretrainingConfig) -> dict[str, dict[str, Any]]:
    """Prepares the text shards of a run where that is still to do.

    WORKDIR/corpus.json notes from what they were prepared, and which they are.

    Args:
        existing: what the work directory held at the start.
        run: PretrainingConfig, resolved.

    Returns:
        dict directory -> manifest.

    Raises:
        UserError: the corpus is not the one that the run began with.
        DataError: text that cannot be used, or a damaged shard.
    """
    workdir = existing.directory
    source = {name: value for name, value in run.to_dict().items() if name in _SOURCE}
    directories, note = corpus_directories(workdir, run), _read_note(workdir)
    is_prepared = _has_manifest(directories[0])
    files = {} if existing.has_begun or not run.input_files else _files_note(run, is_prepared)
    if not existing.has_begun and note is not None:
        note, is_prepared = _without_stale_corpus(workdir, run, note, source, files, is_prepared)
    if run.input_files and not is_prepared:
        _check_apart(run.input_files, directories[0])
        storage.make_directories(workdir)
        # The note keeps the shards that a run in progress began with.
        _write_note(workdir, {**(note or {}), "source": source, **files})
        _prepare(run, directories[0])
    elif run.input_files and note is None:
        raise UserError(
            f"{directories[0]}: is there already, and not from this run; take another --workdir, or name it as "
            "--corpus_dir"
        )
    manifests = {directory: load_manifest(directory) for directory in directories}
    shards = [
        [shard["file"], shard["sha256"]]
        for manifest in manifests.values()
        for split in ("train", "heldout")
        for shard in manifest[split]["shards"]
    ]
    if existing.has_begun and note is not None and note.get("shards", shards) != shards:
        raise UserError(
            f"{', '.join(directories)}: holds another corpus than the run in --workdir={workdir} began with; "
            "give that corpus, or take another --workdir"
        )
    storage.make_directories(workdir)
    earlier_files = {"files": note["files"]} if note and "files" in note else {}
    _write_note(workdir, {**earlier_files, "source": source, "shards": shards, **files})
    return manifests


def _without_stale_corpus(workdir, run, note, source, files, is_prepared):
    """(note, whether the corpus is prepared) after a corpus of other text is removed.

    A start that saved no checkpoint may be begun anew with other text. What that start prepared is of no use then.
    """
    directory = corpus_directories(workdir, run)[0]
    # While text is still being prepared, prepare_corpus itself sees which files have changed.
    has_changed = is_prepared and files and note.get("files", files["files"]) != files["files"]
    if has_changed:
        print(f"{directory}: --input_files have changed since, and are prepared anew", flush=True)
    if note["source"] == source and not has_changed:
        return note, is_prepared
    own = work_directory.path_in(workdir, "corpus")
    is_given = os.path.realpath(own) in map(os.path.realpath, run.corpus_dir)
    if note["source"].get("input_files") and not is_given and storage.exists(own):
        _check_apart(run.input_files, own)
        storage.remove_tree(own)
    return None, _has_manifest(directory)


def _prepare(run, directory):
    # A run on a prepared corpus needs nothing of this.
    from keras_bert_app.drawing.corpus_picture import draw_corpus_report
    from pipelines.corpus import preparation

    preparation.prepare_corpus(
        directory,
        input_files=list(run.input_files),
        input_format=run.input_format,
        text_field=run.text_field,
        holdout_fraction=run.holdout_fraction,
        seed=run.seed,
        strict=run.strict,
        progress=ReadingProgress("preparing the corpus"),
        log=lambda line: print(f"preparing the corpus: {line}", flush=True),
        draw=lambda report: draw_corpus_report(report, directory),
    )


def _has_manifest(directory):
    return storage.exists(os.path.join(directory, "manifest.json"))


def _files_note(run, may_be_gone):
    """{"files": sha256 of the names and states of --input_files}; {} where the files are gone, if they may be."""
    from pipelines.corpus import corpus_tasks

    try:
        states = corpus_tasks.statuses(expand_files(run.input_files))
    except DataError:
        if not may_be_gone:
            raise
        return {}
    return {"files": hashlib.sha256(json.dumps(states).encode()).hexdigest()}


def _check_apart(input_files, corpus_dir):
    """Raises UserError where text lies in the place of the prepared corpus, which another start may empty."""
    for path in expand_files(input_files) if input_files else ():
        if lies_below(path, corpus_dir):
            raise UserError(
                f"--input_files={path}: lies in {corpus_dir}, the place of the corpus that is made of it; move the "
                "text, or take another --workdir"
            )


def _read_note(workdir):
    path = work_directory.path_in(workdir, "corpus.json")
    return read_json(path) if storage.exists(path) else None


def _write_note(workdir, note):
    storage.write_whole(work_directory.path_in(workdir, "corpus.json"), json.dumps(note, indent=1) + "\n")


def report(manifests: Mapping[str, dict], run: PretrainingConfig) -> None:
    """Prints the size of each corpus, its faults, and for several corpora the share of each in the examples."""
    for directory, manifest in manifests.items():
        _report_corpus(directory, manifest)
    if len(manifests) > 1:
        shards = PretrainingCorpora.of_manifests(manifests).train_shards
        of_bytes = pretraining_data.shares(dataclasses.replace(run, sampling_exponent=1.0), shards)
        of_examples = pretraining_data.shares(run, shards)
        for directory, size, share in zip(manifests, of_bytes, of_examples, strict=True):
            print(f"mixture: {size:6.1%} of the bytes, {share:6.1%} of the examples: {directory}", flush=True)


def _report_corpus(directory, manifest):
    train, heldout, counts = manifest["train"], manifest["heldout"], manifest["counts"]
    print(
        f"corpus {directory}: {train['documents']:,} documents, {train['sentences']:,} sentences, "
        f"{train['words']:,} words; held out {heldout['documents']:,} documents",
        flush=True,
    )
    for name, meaning in FAULTS:
        if counts.get(name):
            print(f"  {counts[name]:,} {meaning}", flush=True)
    if line := overlap_text(manifest):
        print(f"  {line}", flush=True)


def check_pairs(manifests: Mapping[str, dict], run: PretrainingConfig) -> None:
    """Checks that next-sentence pairs can be made of the documents of each corpus.

    Raises:
        UserError: hardly a document has two sentences.
    """
    if run.sentence_objective != "nsp":
        return
    for directory, manifest in manifests.items():
        train, most = manifest["train"], most_with_two_sentences(manifest["train"])
        if most < LEAST_SHARE_WITH_PAIRS:
            raise UserError(
                f"corpus {directory}: {train['documents']:,} documents have {train['sentences']:,} sentences, so at "
                f"most {most:.1%} of them have the two sentences of a next-sentence pair; prepare the text with the "
                "--input_format that it has (paragraphs: lines of several sentences), or take --sentence_objective=none"
            )


def remarks(corpora: PretrainingCorpora, run: PretrainingConfig) -> list[str]:
    """Lines about what the text of a run does not allow."""
    lines = []
    if not corpora.heldout_shards:
        dropped = corpora.num_heldout_dropped
        lines.append(
            "no documents are held out, so nothing will be evaluated; "
            + (
                f"{dropped:,} were, but none had two sentences that training does not have too"
                if dropped
                else "--holdout_fraction keeps some where text is prepared"
            )
        )
    if run.sentence_objective == "nsp":
        if corpora.num_train_documents == 1:
            lines.append(
                "the training text is one document, so there is no other one to draw random second segments from: next "
                "sentence is neither trained nor reported; --sentence_objective=sop needs one document only"
            )
        if corpora.num_heldout_documents == 1:
            lines.append(
                "one document alone is held out, so there is no other one to draw random second segments from: no "
                "next-sentence figure will be reported; a larger --holdout_fraction holds out more"
            )
    return [*lines, *masking_advice(corpora.train_shards, run.masking)]


def keep_lexicon(existing: ExistingRun, run: PretrainingConfig) -> None:
    """Copies the lexicon into the work directory, since the directory alone resumes a run."""
    if run.lexicon_file and not existing.has_begun:
        phrases = pretraining_data.read_lexicon(run.lexicon_file)
        kept = pretraining_data.lexicon_of(existing.directory)
        storage.write_whole(kept, "".join(f"{phrase}\n" for phrase in phrases))

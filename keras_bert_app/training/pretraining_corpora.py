"""The text of a pre-training, prepared from --input_files or read from --corpus_dir."""

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.errors import UserError
from keras_bert_app.files import lies_below, read_json
from keras_bert_app.runs import work_directory
from keras_bert_app.runs.work_directory import ExistingRun
from keras_bert_app.terminal.progress import ReadingProgress
from keras_bert_app.training import pretraining_data
from pipelines import storage
from pipelines.channels import Channel, parse_channels
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
from pipelines.plurals import counted
from pipelines.text.text_files import expand_files

# The fields of the run that determine its text.
_SOURCE = ("input_files", "corpus_dir", "input_format", "text_field", "strict", "holdout_fraction", "seed")


@dataclasses.dataclass(frozen=True)
class PretrainingCorpora:
    """The text of a run.

    Attributes:
        train_shards: for each corpus the paths of its TFRecord files.
        heldout_shards: paths of the held-out files of all corpora; may be empty.
        num_train_documents: number of training documents of all corpora; None if unknown.
        num_heldout_documents: number of held-out documents of all corpora; None if unknown.
        num_heldout_dropped: number of held-out documents that were dropped, because fewer than two sentences were left.
    """

    train_shards: tuple[tuple[str, ...], ...]
    heldout_shards: tuple[str, ...] = ()
    num_train_documents: int | None = None
    num_heldout_documents: int | None = None
    num_heldout_dropped: int = 0

    @classmethod
    def from_manifests(cls, manifests: Mapping[str, dict]) -> "PretrainingCorpora":
        """Collects the shards that the manifests of several directories name.

        Args:
            manifests: the manifest of each corpus, by directory.
        """
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
    """The directories of a run's corpora.

    Args:
        workdir: the work directory.
        run: PretrainingConfig.
    """
    return run.corpus_dir or (work_directory.path_in(workdir, "corpus"),)


def prepared_corpora(
    existing: ExistingRun, run: PretrainingConfig, channels: Sequence[Channel] = ()
) -> dict[str, dict[str, Any]]:
    """Prepares the text shards of a run, if they are not prepared yet.

    WORKDIR/corpus.json records the source of the shards, their names and their sha256.

    Args:
        existing: ExistingRun, the content of the work directory at the start.
        run: PretrainingConfig, resolved.
        channels: the channels of the model.

    Returns:
        dict directory -> manifest.

    Raises:
        UserError: the corpus is not the one that the run began with, or has other channels than the model.
        DataError: the text cannot be used, or a shard is damaged.
    """
    workdir = existing.directory
    source = {name: value for name, value in run.to_dict().items() if name in _SOURCE}
    if channels and run.input_files:
        source["channels"] = _names(channels)
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
        _prepare(run, directories[0], channels)
    elif run.input_files and note is None:
        raise UserError(
            f"{directories[0]}: is there already, but this run did not prepare it; take another --workdir, or give "
            "this corpus as --corpus_dir"
        )
    manifests = {directory: load_manifest(directory) for directory in directories}
    for directory, manifest in manifests.items():
        _check_channels(directory, manifest, channels)
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
    """Removes a corpus that was prepared from other text. Returns (note, whether the corpus is prepared).

    A run without a checkpoint may start again with other text. The corpus of its earlier start is then useless.
    """
    directory = corpus_directories(workdir, run)[0]
    # If the preparation is unfinished, prepare_corpus itself finds the files that have changed.
    has_changed = is_prepared and files and note.get("files", files["files"]) != files["files"]
    if has_changed:
        print(
            f"{directory}: --input_files have changed since this corpus was prepared; the run prepares it again",
            flush=True,
        )
    if note["source"] == source and not has_changed:
        return note, is_prepared
    own = work_directory.path_in(workdir, "corpus")
    is_given = os.path.realpath(own) in map(os.path.realpath, run.corpus_dir)
    if note["source"].get("input_files") and not is_given and storage.exists(own):
        _check_apart(run.input_files, own)
        storage.remove_tree(own)
    return None, _has_manifest(directory)


def _names(channels):
    """The channels without their masking, which is no matter of the text."""
    return [str(dataclasses.replace(channel, is_masked=False)) for channel in channels]


def _check_channels(directory, manifest, channels):
    of_corpus, of_model = _names(parse_channels(manifest.get("channels", ()))), _names(channels)
    if of_corpus != of_model:
        corpus, model = (
            f"the channels {','.join(names)}" if names else "no channels" for names in (of_corpus, of_model)
        )
        raise UserError(
            f"{directory}: has {corpus}, and the model has {model}; prepare the corpus again, with the --channels of "
            "the model"
        )


def _prepare(run, directory, channels):
    # A run on a prepared corpus does not need these modules.
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
        channels=channels,
    )


def _has_manifest(directory):
    return storage.exists(os.path.join(directory, "manifest.json"))


def _files_note(run, may_be_gone):
    """{"files": sha256 of the names and states of --input_files}; {} if they are gone and may_be_gone."""
    from pipelines.corpus import corpus_tasks

    try:
        states = corpus_tasks.statuses(expand_files(run.input_files))
    except DataError:
        if not may_be_gone:
            raise
        return {}
    return {"files": hashlib.sha256(json.dumps(states).encode()).hexdigest()}


def _check_apart(input_files, corpus_dir):
    """Raises UserError if an input file lies in the corpus directory, which another start may empty."""
    for path in expand_files(input_files) if input_files else ():
        if lies_below(path, corpus_dir):
            raise UserError(
                f"--input_files={path}: lies in {corpus_dir}, which the run fills with the prepared corpus; move "
                "the text, or take another --workdir"
            )


def _read_note(workdir):
    path = work_directory.path_in(workdir, "corpus.json")
    return read_json(path) if storage.exists(path) else None


def _write_note(workdir, note):
    storage.write_whole(work_directory.path_in(workdir, "corpus.json"), json.dumps(note, indent=1) + "\n")


def report(manifests: Mapping[str, dict], run: PretrainingConfig) -> None:
    """Prints the size and the faults of each corpus, and the share of each corpus in a mixture.

    Args:
        manifests: the manifest of each corpus, by directory.
        run: PretrainingConfig, for sampling_exponent.
    """
    for directory, manifest in manifests.items():
        _report_corpus(directory, manifest)
    if len(manifests) > 1:
        shards = PretrainingCorpora.from_manifests(manifests).train_shards
        byte_shares = pretraining_data.shares(dataclasses.replace(run, sampling_exponent=1.0), shards)
        example_shares = pretraining_data.shares(run, shards)
        for directory, size, share in zip(manifests, byte_shares, example_shares, strict=True):
            print(f"mixture: {size:6.1%} of the bytes, {share:6.1%} of the examples: {directory}", flush=True)


def _report_corpus(directory, manifest):
    train, heldout, counts = manifest["train"], manifest["heldout"], manifest["counts"]
    print(
        f"corpus {directory}: {counted(train['documents'], 'document')}, {counted(train['sentences'], 'sentence')}, "
        f"{counted(train['words'], 'word')}; held out {counted(heldout['documents'], 'document')}",
        flush=True,
    )
    for name, meaning in FAULTS:
        if counts.get(name):
            print(f"  {counts[name]:,} {meaning}", flush=True)
    if line := overlap_text(manifest):
        print(f"  {line}", flush=True)


def check_pairs(manifests: Mapping[str, dict], run: PretrainingConfig) -> None:
    """Checks that next-sentence pairs can be made of the documents of each corpus.

    Args:
        manifests: the manifest of each corpus, by directory.
        run: PretrainingConfig, for sentence_objective.

    Raises:
        UserError: too few documents of a corpus have two sentences.
    """
    if run.sentence_objective != "nsp":
        return
    for directory, manifest in manifests.items():
        train, most = manifest["train"], most_with_two_sentences(manifest["train"])
        if most < LEAST_SHARE_WITH_PAIRS:
            raise UserError(
                f"corpus {directory}: {train['documents']:,} documents have {train['sentences']:,} sentences, so at "
                f"most {most:.1%} of them have the two sentences of a next-sentence pair; prepare the text with the "
                "right --input_format (paragraphs: lines of several sentences), or take --sentence_objective=none"
            )


def remarks(corpora: PretrainingCorpora, run: PretrainingConfig) -> list[str]:
    """Makes a line for each thing that the text of a run does not allow, such as evaluations.

    Args:
        corpora: PretrainingCorpora.
        run: PretrainingConfig, resolved.
    """
    lines = []
    if not corpora.heldout_shards:
        dropped = corpora.num_heldout_dropped
        lines.append(
            "no documents are held out, so nothing will be evaluated; "
            + (
                f"{dropped:,} held-out documents were dropped, because none had two sentences that are not in the "
                "training text too"
                if dropped
                else "prepare the text with --holdout_fraction to hold some out"
            )
        )
    if run.sentence_objective == "nsp":
        if corpora.num_train_documents == 1:
            lines.append(
                "the training text is one document, so there is no other document for random second segments: next "
                "sentence is neither trained nor reported; with --sentence_objective=sop one document is enough"
            )
        if corpora.num_heldout_documents == 1:
            lines.append(
                "one document alone is held out, so there is no other document for random second segments: no "
                "next-sentence figure will be reported; a larger --holdout_fraction holds out more"
            )
    return [*lines, *masking_advice(corpora.train_shards, run.masking)]


def keep_lexicon(existing: ExistingRun, run: PretrainingConfig) -> None:
    """Copies the lexicon into the work directory, because a resumed run reads only that directory.

    Args:
        existing: ExistingRun, the content of the work directory at the start.
        run: PretrainingConfig, for lexicon_file.
    """
    if run.lexicon_file and not existing.has_begun:
        phrases = pretraining_data.read_lexicon(run.lexicon_file)
        kept = pretraining_data.lexicon_of(existing.directory)
        storage.write_whole(kept, "".join(f"{phrase}\n" for phrase in phrases))

"""From a checked configuration to a run: devices, corpus, the work directory, then the training."""

import contextlib
import dataclasses
import hashlib
import json
import os
import time

import tensorflow as tf

from keras_bert_app.drawing.corpus_picture import draw_corpus_report
from keras_bert_app.errors import UserError
from keras_bert_app.files import read_json
from keras_bert_app.interop import load
from keras_bert_app.interop.weights import shapes
from keras_bert_app.runs import checkpoints, lock, work_directory
from keras_bert_app.runs.shared_tokenizer import run_tokenizer
from keras_bert_app.training import initialization, pretraining_data, strategies
from keras_bert_app.training.pretrain import pretrain, trained_parts
from pipelines.corpus import corpus_tasks, preparation
from pipelines.data_error import DataError
from pipelines.text.text_files import expand_files

_WAIT_SECONDS = 6 * 3600


def launch(workdir, model_config, run, vocabulary_bytes=None, initial=None, strategy=None, stream=None):
    """Starts the run of a new work directory, or goes on with that of an old one.

    config.json is written when devices, text and starting weights have all been found good, so that a start that was
    refused leaves no run behind.

    Args:
        workdir: where it lives. model_config: BertConfig. run: PretrainingConfig, resolved.
        vocabulary_bytes: of the vocabulary file; None on resume.
        initial: what run.init_checkpoint holds, as interop.load.load_weights gives it; read from there by default.
        strategy: tf.distribute.Strategy, or None for the one that the configuration names. stream: where the trainer's
            progress goes; standard output by default.

    Returns:
        what training.pretrain.pretrain returns.

    Raises:
        UserError: something does not fit, or another run is at work in the directory.
    """
    # Machines must find each other before anything else touches TensorFlow's devices.
    strategy = strategy or strategies.make_strategy(run.strategy)
    run = strategies.with_compilation(strategies.with_precision(run, strategy), strategy)
    pretraining_data.check_ramps(run, strategy)
    if vocabulary_bytes is None:
        vocabulary_bytes = work_directory.read_vocabulary(workdir)
    if run.init_checkpoint and not checkpoints.list_checkpoints(workdir):
        initial = initial or load.load_weights(run.init_checkpoint, allow_missing=run.parts_not_needed())
        source = initial[0].vocabulary
        if source is not None and source.rstrip(b"\n") != vocabulary_bytes.rstrip(b"\n"):
            raise UserError(
                f"--init_checkpoint={run.init_checkpoint}: was trained with another vocabulary than --vocab_file; "
                "leave --vocab_file out, or make a model with the new entries by convert --vocab_file"
            )
        initialization.check_fits(shapes(model_config, trained_parts(run)), initial[0], run)
    if run.lexicon_file and not work_directory.has_checkpoint(workdir):
        pretraining_data.example_arguments(
            run, run_tokenizer(vocabulary_bytes, model_config.do_lower_case), run.lexicon_file
        )
    is_chief = strategies.is_chief(strategy)
    # Machines that train together share the directory; the chief's lock stands for all.
    with lock.locked(workdir) if is_chief else contextlib.nullcontext():
        if is_chief:
            manifests = prepared_corpora(workdir, run)
            _report(manifests, run)
            _keep_lexicon(workdir, run)
            work_directory.write_config(workdir, model_config, run, vocabulary_bytes)
        else:
            _wait_for_chief(workdir, run)
        # What a start that was begun anew finds there may be of the one before, until the chief has come here.
        strategies.wait_for_all(strategy)
        if not is_chief:
            manifests = {corpus_dir: preparation.load_manifest(corpus_dir) for corpus_dir in _corpus_dirs(workdir, run)}
        heldout = [
            shard
            for corpus_dir, manifest in manifests.items()
            for shard in preparation.shard_paths(corpus_dir, manifest, "heldout")
        ]
        return pretrain(
            workdir, _train_shards(manifests), heldout, strategy=strategy, run=run, stream=stream, initial=initial
        )


def _train_shards(manifests):
    return [preparation.shard_paths(corpus_dir, manifest, "train") for corpus_dir, manifest in manifests.items()]


def _report(manifests, run):
    """What the text was; of several corpora also the share of each in the examples."""
    for corpus_dir, manifest in manifests.items():
        _report_corpus(corpus_dir, manifest)
    if len(manifests) > 1:
        corpora = _train_shards(manifests)
        of_bytes, of_examples = (
            pretraining_data.shares(dataclasses.replace(run, sampling_exponent=1.0), corpora),
            pretraining_data.shares(run, corpora),
        )
        for corpus_dir, size, share in zip(manifests, of_bytes, of_examples):
            print(f"mixture: {size:6.1%} of the bytes, {share:6.1%} of the examples: {corpus_dir}", flush=True)


def _keep_lexicon(workdir, run):
    """Copies the lexicon beside the vocabulary, since the directory alone resumes a run."""
    kept = pretraining_data.lexicon_of(workdir)
    if run.lexicon_file and not work_directory.has_checkpoint(workdir):
        work_directory.write_whole(
            kept, "".join(f"{phrase}\n" for phrase in pretraining_data.read_lexicon(run.lexicon_file))
        )


def _report_corpus(corpus_dir, manifest):
    """Sizes, and what was not usable as it stood."""
    train, heldout, counts = manifest["train"], manifest["heldout"], manifest["counts"]
    print(
        f"corpus {corpus_dir}: {train['documents']:,} documents, {train['sentences']:,} sentences, "
        f"{train['words']:,} words; held out {heldout['documents']:,} documents",
        flush=True,
    )
    faults = {
        "duplicates": "duplicate documents dropped",
        "near_duplicates": "near-duplicate documents dropped",
        "invalid_utf8_lines": "lines with invalid UTF-8 repaired",
        "capped_lines": "overlong lines cut into pieces",
        "capped_documents": "overlong documents cut into several",
        "bad_records": "overlong JSON records left out",
    }
    for name, meaning in faults.items():
        if counts.get(name):
            print(f"  {counts[name]:,} {meaning}", flush=True)


def prepared_corpora(workdir, run):
    """{directory: manifest} of the run's text shards, prepared from --input_files on the first start.

    WORKDIR/corpus.json notes what they were prepared from and which they are.

    Raises:
        UserError: the corpus is another than the one that the run began with. DataError: text that cannot be used, or
            a damaged shard.
    """
    source = {
        name: run.to_dict()[name]
        for name in ("input_files", "corpus_dir", "input_format", "text_field", "strict", "holdout_fraction", "seed")
    }
    note = _read_note(workdir)
    corpus_dirs = _corpus_dirs(workdir, run)
    has_begun = work_directory.has_checkpoint(workdir)
    is_prepared = tf.io.gfile.exists(os.path.join(corpus_dirs[0], "manifest.json"))
    files = {} if has_begun or not run.input_files else _files(run, is_prepared)
    # While it is prepared, prepare_corpus itself sees which files have changed.
    has_changed = is_prepared and note is not None and files and note.get("files", files["files"]) != files["files"]
    if has_changed:
        print(f"{corpus_dirs[0]}: --input_files have changed since, and are prepared anew", flush=True)
    if not has_begun and note is not None and (note["source"] != source or has_changed):
        # A start that never came to a checkpoint, now with other text: what was prepared then, by that start, is of no use.
        own = work_directory.path_in(workdir, "corpus")
        is_given = os.path.realpath(own) in map(os.path.realpath, run.corpus_dir)
        if note["source"].get("input_files") and not is_given and tf.io.gfile.exists(own):
            _check_apart(run.input_files, own)
            tf.io.gfile.rmtree(own)
        note = None
    if run.input_files and not tf.io.gfile.exists(os.path.join(corpus_dirs[0], "manifest.json")):
        _check_apart(run.input_files, corpus_dirs[0])
        tf.io.gfile.makedirs(str(workdir))
        _write_note(
            workdir, {**(note or {}), "source": source, **files}
        )  # with the shards that a run in progress began with
        preparation.prepare_corpus(
            corpus_dirs[0],
            input_files=list(run.input_files),
            input_format=run.input_format,
            text_field=run.text_field,
            holdout_fraction=run.holdout_fraction,
            seed=run.seed,
            strict=run.strict,
            progress=_Progress(),
            log=lambda line: print(f"preparing the corpus: {line}", flush=True),
            draw=lambda report: draw_corpus_report(report, corpus_dirs[0]),
        )
    elif run.input_files and note is None:
        raise UserError(
            f"{corpus_dirs[0]}: is there already, and not from this run; take another --workdir, or name it as "
            "--corpus_dir"
        )
    manifests = {corpus_dir: preparation.load_manifest(corpus_dir) for corpus_dir in corpus_dirs}
    shards = [
        [shard["file"], shard["sha256"]]
        for manifest in manifests.values()
        for split in ("train", "heldout")
        for shard in manifest[split]["shards"]
    ]
    if has_begun and note is not None and note.get("shards", shards) != shards:
        raise UserError(
            f"{', '.join(corpus_dirs)}: holds another corpus than the run in --workdir={workdir} began with; "
            "give that corpus, or take another --workdir"
        )
    tf.io.gfile.makedirs(str(workdir))
    _write_note(
        workdir,
        {**({"files": note["files"]} if note and "files" in note else {}), "source": source, "shards": shards, **files},
    )
    return manifests


def _files(run, may_be_gone):
    """{"files": sha256 of what tells the files of --input_files and their states apart}; {} where they are gone, and may be."""
    try:
        found = corpus_tasks.statuses(expand_files(run.input_files))
    except DataError:
        if not may_be_gone:
            raise
        return {}
    return {"files": hashlib.sha256(json.dumps(found).encode()).hexdigest()}


def _check_apart(input_files, corpus_dir):
    """Raises UserError where text lies in the place of the prepared corpus, which a start with other settings empties."""
    place = os.path.realpath(corpus_dir)
    for path in expand_files(input_files) if input_files else ():
        if os.path.realpath(path).startswith(os.path.join(place, "")):
            raise UserError(
                f"--input_files={path}: lies in {corpus_dir}, the place of the corpus that is made of it; move the text, or "
                "take another --workdir"
            )


class _Progress:
    """A line about the preparation every five seconds."""

    def __init__(self):
        self.started = self.last = time.monotonic()

    def __call__(self, documents, num_bytes):
        now = time.monotonic()
        if now - self.last > 5:
            self.last = now
            print(
                f"preparing the corpus: {documents:,} documents, {num_bytes / 1e6:,.0f} MB, "
                f"{num_bytes / 1e6 / (now - self.started):,.1f} MB/s",
                flush=True,
            )


def _corpus_dirs(workdir, run):
    return run.corpus_dir or (work_directory.path_in(workdir, "corpus"),)


def _read_note(workdir):
    path = work_directory.path_in(workdir, "corpus.json")
    if not tf.io.gfile.exists(path):
        return None
    note = read_json(path)
    if isinstance(corpus_dir := note["source"].get("corpus_dir"), str):  # one alone, as earlier versions had it
        note["source"]["corpus_dir"] = [corpus_dir] if corpus_dir else []
    return note


def _write_note(workdir, note):
    work_directory.write_whole(work_directory.path_in(workdir, "corpus.json"), json.dumps(note, indent=1) + "\n")


def _wait_for_chief(workdir, run):
    """Other machines than the chief's wait until it has written the work directory and the corpus."""
    corpus_dirs = _corpus_dirs(workdir, run)
    needed = [
        work_directory.path_in(workdir, "config.json"),
        *(os.path.join(corpus_dir, "manifest.json") for corpus_dir in corpus_dirs),
    ]
    started = time.monotonic()
    while not all(tf.io.gfile.exists(path) for path in needed):
        if time.monotonic() - started > _WAIT_SECONDS:
            raise UserError(
                f"the chief has not written {' and '.join(needed)} in {_WAIT_SECONDS // 3600} hours; see what "
                "it printed, and give every machine the same --workdir on a file system that all of them see"
            )
        time.sleep(1.0)

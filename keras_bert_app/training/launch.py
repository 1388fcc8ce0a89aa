"""From a checked configuration to a run: the work directory, its corpus, then the training."""

import json
import os
import time

import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.training import workdir as workdirs
from keras_bert_app.training.pretrain import Interrupted, pretrain  # noqa: F401  callers catch Interrupted
from pipelines import corpus
from pipelines.errors import DataError


def launch(workdir, model_config, run, vocabulary_bytes=None):
    """Starts the run of a new work directory, or goes on with that of an old one.

    Args:
        workdir: where it lives. model_config: BertConfig. run: PretrainingConfig, resolved.
        vocabulary_bytes: of the vocabulary file; None on resume.

    Returns:
        what training.pretrain.pretrain returns.
    """
    if _is_chief_process():
        is_new = not workdirs.is_started(workdir)
        if is_new:
            workdirs.write_config(workdir, model_config, run, vocabulary_bytes)
        else:
            workdirs.update_config(workdir, model_config, run, workdirs.read_config(workdir)[2])
        try:
            corpus_dir, manifest = prepared_corpus(workdir, run)
        except DataError:
            if is_new:  # text that cannot be used is no run: the next command may name another
                workdirs.forget(workdir)
            raise
    else:
        corpus_dir, manifest = _wait_for_corpus(workdir, run)
    if _is_chief_process():
        _report(corpus_dir, manifest)
    return pretrain(workdir, corpus.shard_paths(corpus_dir, manifest, "train"),
                    corpus.shard_paths(corpus_dir, manifest, "heldout"))


def _report(corpus_dir, manifest):
    """What the text was, and what of it was not usable as it stood."""
    train, heldout, counts = manifest["train"], manifest["heldout"], manifest["counts"]
    print(f"corpus {corpus_dir}: {train['documents']:,} documents, {train['sentences']:,} sentences, "
          f"{train['words']:,} words; held out {heldout['documents']:,} documents", flush=True)
    faults = {"duplicates": "duplicate documents dropped", "invalid_utf8_lines": "lines with invalid UTF-8 repaired",
              "capped_lines": "overlong lines cut into pieces", "capped_documents": "overlong documents cut into several",
              "bad_records": "overlong JSON records left out"}
    for name, meaning in faults.items():
        if counts.get(name):
            print(f"  {counts[name]:,} {meaning}", flush=True)


def prepared_corpus(workdir, run):
    """(directory, manifest) of the run's text shards, prepared from --input_files on the first start.

    Raises:
        UserError: the corpus is another than the one that the run began with. DataError: a damaged one.
    """
    corpus_dir = _corpus_dir(workdir, run)
    if run.input_files and not tf.io.gfile.exists(os.path.join(corpus_dir, "manifest.json")):
        last = [time.monotonic()]

        def progress(documents, num_bytes):
            if time.monotonic() - last[0] > 5:
                last[0] = time.monotonic()
                print(f"preparing the corpus: {documents:,} documents, {num_bytes / 1e6:,.0f} MB", flush=True)
        corpus.prepare_corpus(corpus_dir, input_files=list(run.input_files), input_format=run.input_format,
                              text_field=run.text_field, holdout_fraction=run.holdout_fraction, seed=run.seed,
                              progress=progress)
    manifest = corpus.load_manifest(corpus_dir)
    _check_same_corpus(workdir, corpus_dir, manifest)
    return corpus_dir, manifest


def _corpus_dir(workdir, run):
    return run.corpus_dir or workdirs.path_in(workdir, "corpus")


def _check_same_corpus(workdir, corpus_dir, manifest):
    """Notes which shards the run began with, and refuses others: a position in the data means nothing in them."""
    shards = [[shard["file"], shard["sha256"]] for split in ("train", "heldout") for shard in manifest[split]["shards"]]
    path = workdirs.path_in(workdir, "corpus.json")
    if not tf.io.gfile.exists(path):
        with tf.io.gfile.GFile(path + ".tmp", "w") as file:
            file.write(json.dumps({"corpus_dir": corpus_dir, "shards": shards}, indent=1) + "\n")
        tf.io.gfile.rename(path + ".tmp", path, overwrite=True)
        return
    with tf.io.gfile.GFile(path) as file:
        began_with = json.loads(file.read())["shards"]
    if began_with != shards:
        raise UserError(f"{corpus_dir}: holds another corpus than the run in --workdir={workdir} began with; "
                        "give that corpus, or take another --workdir")


def _is_chief_process():
    cluster = json.loads(os.environ.get("TF_CONFIG", "{}"))
    return not cluster.get("task", {}).get("index", 0)


def _wait_for_corpus(workdir, run):
    """Other workers than the first wait until it has written the work directory and the corpus."""
    corpus_dir = _corpus_dir(workdir, run)
    while not (tf.io.gfile.exists(workdirs.path_in(workdir, "corpus.json"))
               and tf.io.gfile.exists(os.path.join(corpus_dir, "manifest.json"))):
        time.sleep(1.0)
    return corpus_dir, corpus.load_manifest(corpus_dir)

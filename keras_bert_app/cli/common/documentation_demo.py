"""The main job on a fresh machine, step by step: installed documentation to a masked-language model that answers.

Each step leaves its result on disk and is passed over when it is there, so that an interrupted demo goes on.
"""

import dataclasses
import os
import subprocess
import sys
import time

import tensorflow as tf

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.errors import UserError
from keras_bert_app.export.pretrained_export import export_pretrained, is_exported
from keras_bert_app.runs import work_directory
from keras_bert_app.training import evaluation, pretraining_start
from pipelines.corpus import preparation
from pipelines.text import installed_docs
from pipelines.wordpiece import vocabulary, vocabulary_learning

SENTENCES = (
    "Returns the [MASK] of the list.",
    "If the file does not [MASK], an error is raised.",
    "The function takes two [MASK] and returns a tensor.",
    "This method is used to [MASK] the values of a dictionary.",
    "The default [MASK] is None.",
)


@dataclasses.dataclass(frozen=True)
class DemoSettings:
    """What the demo trains, and for how long.

    A small, shallow model without dropout sees a few million tokens: more would not be learned in minutes. BERT's own
    beginning would spend these on leaving the unigram distribution: the weights begin wider than at 0.02 (about
    1/sqrt(128)), positions as sines, rows short, and Muon trains the layers. BUILD.md has the trials.
    """

    vocab_size: int = 8000
    model: tuple = (("hidden_dropout_prob", 0.0), ("attention_probs_dropout_prob", 0.0), ("initializer_range", 0.08))
    run: tuple = (
        ("max_seq_length", 128),
        ("global_batch_size", 16),
        ("optimizer", "muon"),
        ("learning_rate", 3e-3),
        ("position_initializer", "sinusoidal"),
        ("length_ramp_steps", 2000),
        ("num_train_steps", 3000),
        ("num_warmup_steps", 200),
        ("save_checkpoints_steps", 250),
        ("eval_steps", 1500),
        ("log_steps", 100),
    )
    holdout_fraction: float = 0.12


def run_demo(workdir, export_dir, settings=DemoSettings(), seed=12345, documents=None):
    """Runs what is left of the five steps.

    Args:
        workdir: for corpus, vocabulary and run. export_dir: for the SavedModels.
        documents: iterable of lists of sentences; by default pipelines.text.installed_docs.

    Returns:
        dict of the last evaluation's figures.
    """
    started = time.monotonic()
    _say(1, "documents: the documentation of the installed packages")
    corpus_dir = os.path.join(workdir, "corpus")
    manifest = gather_documents(corpus_dir, settings.holdout_fraction, seed, documents)
    for split, name in (("train", "to learn from"), ("heldout", "held out")):
        counts = manifest[split]
        print(
            f"  {counts['documents']:,} documents, {counts['sentences']:,} sentences, {counts['words']:,} words {name}"
        )

    _say(2, f"vocabulary: {settings.vocab_size:,} WordPiece entries")
    vocab_file = os.path.join(workdir, "vocab.txt")
    learn_vocabulary_of(corpus_dir, manifest, vocab_file, settings.vocab_size)
    print(f"  {', '.join(vocabulary.load_vocabulary(vocab_file)[1000:1012])}, ...")

    _say(3, "pre-training: masked language model and next-sentence prediction; Ctrl-C stops, `make demo` goes on")
    run_dir = os.path.join(workdir, "run")
    model_config = BertConfig.of_size("tiny", vocab_size=settings.vocab_size, **dict(settings.model))
    place = (os.path.abspath(corpus_dir),)
    run = PretrainingConfig(corpus_dir=place, seed=seed, **dict(settings.run)).resolved()
    vocabulary_bytes = vocabulary.read_bytes(vocab_file)
    if work_directory.has_checkpoint(run_dir):
        # The directory may have moved; that the corpus is the same its hashes tell.
        wanted = {name: value for name, value in run.to_dict().items() if name not in ("input_files", "corpus_dir")}
        try:
            model_config, run = work_directory.check_resumable(run_dir, model_config, wanted, vocabulary_bytes)
        except UserError as error:
            raise UserError(f"{error}; make clean-demo forgets it") from None
        run = dataclasses.replace(run, corpus_dir=place)
    figures = pretraining_start.launch(run_dir, model_config, run, vocabulary_bytes)

    _say(4, "evaluation on documents that were held out")
    for line in evaluation.summary(figures):
        print(f"  {line}")

    _say(5, f"export to {export_dir}, and answers from a fresh process that loads nothing else")
    if not is_exported(run_dir, export_dir):
        export_pretrained(run_dir, export_dir)
    answer(export_dir)
    print(
        f"\nDone in {time.monotonic() - started:,.0f} s. Ask it yourself:\n"
        f'  .venv/bin/python -m keras_bert_app.cli.fill_mask --saved_model={export_dir} "Your [MASK] here."'
    )
    return figures


def gather_documents(corpus_dir, holdout_fraction, seed, documents=None):
    """The manifest of the demo's corpus, made on the first call."""
    if not tf.io.gfile.exists(os.path.join(corpus_dir, "manifest.json")):
        documents = installed_docs.installed_documents() if documents is None else documents
        preparation.prepare_corpus(corpus_dir, documents=documents, holdout_fraction=holdout_fraction, seed=seed)
    return preparation.load_manifest(corpus_dir)


def learn_vocabulary_of(corpus_dir, manifest, vocab_file, vocab_size):
    """Writes a vocabulary learned from the training shards, unless it is there."""
    if os.path.exists(vocab_file):
        return
    shards = preparation.shard_paths(corpus_dir, manifest, "train")
    pieces, _ = vocabulary_learning.learn_vocabulary(tf.data.TFRecordDataset(shards).batch(256), vocab_size)
    vocabulary.write_vocabulary(pieces, vocab_file)


def answer(export_dir):
    """Prints the filled masks of SENTENCES, from a process that loads the SavedModel alone."""
    command = [sys.executable, "-m", "keras_bert_app.cli.fill_mask", f"--saved_model={export_dir}", *SENTENCES]
    if subprocess.run(command, check=False).returncode:
        raise UserError(f"{export_dir}: the exported model did not answer (see above); delete it and start again")


def _say(number, text):
    print(f"\n[{number}/5] {text}", flush=True)

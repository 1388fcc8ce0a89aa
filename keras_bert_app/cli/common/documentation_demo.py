"""The steps of the demo, from the documentation of installed packages to an exported model.

Each step writes its result to disk. A later call skips finished steps, so that an interrupted demo can be resumed.
"""

import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Iterable

import tensorflow as tf

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.errors import UserError
from keras_bert_app.export.pretrained_export import export_pretrained, is_exported
from keras_bert_app.runs.work_directory import ExistingRun
from keras_bert_app.training import evaluation, pretraining_start
from pipelines import storage
from pipelines.corpus import preparation
from pipelines.corpus.manifest import overlap_text
from pipelines.plurals import counted
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
    """The model of the demo, and the length of its training.

    A small, shallow model without dropout reads a few million tokens, which takes minutes. The initial weights are
    wider (about 1/sqrt(128)) than BERT's 0.02. The position embeddings start as sines, and the first rows are short.
    Muon trains the layers. docs/results/pretraining.md has the trials, each with one seed.

    Attributes:
        vocab_size: int. Entries of the vocabulary.
        model: tuple of (key, value) of BertConfig.
        run: tuple of (field, value) of PretrainingConfig.
        holdout_fraction: float. The share of documents for the evaluation.
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


def run_demo(
    workdir: str,
    export_dir: str,
    settings: DemoSettings | None = None,
    seed: int = 12345,
    sources: Iterable[list[list]] | None = None,
) -> dict[str, float]:
    """Runs the unfinished steps of the demo.

    Args:
        workdir: str. The directory of the corpus, the vocabulary and the run.
        export_dir: str. The directory of the SavedModels.
        settings: DemoSettings. The model and its training; by default DemoSettings().
        seed: int. The seed of the held-out documents, the initial weights, the pairs and the masks.
        sources: iterable of lists, each with the documents of one source; by default the modules of the installed
            packages.

    Returns:
        dict name -> float: the figures of the last evaluation.
    """
    settings = settings or DemoSettings()
    started = time.monotonic()
    _say(1, "documents: the documentation of the installed packages")
    corpus_dir = os.path.join(workdir, "corpus")
    manifest = gather_documents(corpus_dir, settings.holdout_fraction, seed, sources)
    for split, name in (("train", "to learn from"), ("heldout", "held out")):
        counts = manifest[split]
        print(
            f"  {counted(counts['documents'], 'document')}, {counted(counts['sentences'], 'sentence')}, "
            f"{counted(counts['words'], 'word')} {name}"
        )
    if line := overlap_text(manifest):
        print(f"  {line}")

    _say(2, f"vocabulary: {settings.vocab_size:,} WordPiece entries")
    vocab_file = os.path.join(workdir, "vocab.txt")
    learn_vocabulary_of(corpus_dir, manifest, vocab_file, settings.vocab_size)
    print(f"  {', '.join(vocabulary.load_vocabulary(vocab_file)[1000:1012])}, ...")

    _say(3, "pre-training: masked language model and next-sentence prediction; Ctrl-C stops, `make demo` continues")
    run_dir = os.path.join(workdir, "run")
    figures = train(run_dir, corpus_dir, vocab_file, settings, seed)

    _say(4, "evaluation on documents that were held out")
    for line in evaluation.summary(figures):
        print(f"  {line}")

    _say(5, f"export to {export_dir}, and answers from a fresh process that loads nothing else")
    if not is_exported(run_dir, export_dir):
        export_pretrained(run_dir, export_dir)
    answer(export_dir)
    print(
        f"\nDone in {time.monotonic() - started:,.0f} s. Ask the model yourself:\n"
        f'  .venv/bin/python -m keras_bert_app.cli.fill_mask --saved_model={export_dir} "Your [MASK] here."'
    )
    return figures


def gather_documents(
    corpus_dir: str, holdout_fraction: float, seed: int, sources: Iterable[list[list]] | None = None
) -> dict:
    """Makes the corpus of the demo if it does not exist, and reads its manifest.

    Args:
        corpus_dir: str. The directory of the corpus.
        holdout_fraction: float. The share of documents for the evaluation.
        seed: int. It decides which modules are held out.
        sources: iterable of lists, each with the documents of one source; by default the modules of the installed
            packages.

    Returns:
        dict: the manifest.
    """
    if not storage.exists(os.path.join(corpus_dir, "manifest.json")):
        sources = installed_docs.installed_modules() if sources is None else sources
        preparation.prepare_corpus(corpus_dir, sources=sources, holdout_fraction=holdout_fraction, seed=seed)
    return preparation.load_manifest(corpus_dir)


def learn_vocabulary_of(corpus_dir: str, manifest: dict, vocab_file: str, vocab_size: int) -> None:
    """Learns a vocabulary from the training shards, unless the file exists.

    Args:
        corpus_dir: str. The directory of the corpus.
        manifest: dict. The manifest of the corpus.
        vocab_file: str. The file to write.
        vocab_size: int. Entries of the vocabulary.
    """
    if os.path.exists(vocab_file):
        return
    shards = preparation.shard_paths(corpus_dir, manifest, "train")
    pieces, _ = vocabulary_learning.learn_vocabulary(tf.data.TFRecordDataset(shards).batch(256), vocab_size)
    vocabulary.write_vocabulary(pieces, vocab_file)


def train(run_dir: str, corpus_dir: str, vocab_file: str, settings: DemoSettings, seed: int) -> dict[str, float]:
    """Starts or resumes the pre-training.

    Args:
        run_dir: str. The work directory of the run.
        corpus_dir: str. The directory of the corpus.
        vocab_file: str. The path of the vocabulary.
        settings: DemoSettings. The model and its training.
        seed: int. The seed of the initial weights, the pairs and the masks.

    Returns:
        dict name -> float: the figures of the last evaluation.

    Raises:
        UserError: run_dir holds a run with other settings.
    """
    model_config = BertConfig.of_size("tiny", vocab_size=settings.vocab_size, **dict(settings.model))
    corpus_dirs = (os.path.abspath(corpus_dir),)
    run = PretrainingConfig(corpus_dir=corpus_dirs, seed=seed, **dict(settings.run)).resolved()
    vocabulary_bytes = vocabulary.read_bytes(vocab_file)
    existing = ExistingRun.read(run_dir)
    if existing.has_begun:
        # The directory may have moved, so its path is not compared. The trainer compares the hashes of the corpus.
        wanted = {name: value for name, value in run.to_dict().items() if name not in ("input_files", "corpus_dir")}
        try:
            model_config, run = existing.resumed(model_config, wanted, vocabulary_bytes)
        except UserError as error:
            raise UserError(f"{error}; `make clean-demo` deletes the earlier run") from None
        run = dataclasses.replace(run, corpus_dir=corpus_dirs)
    return pretraining_start.launch(run_dir, model_config, run, vocabulary_bytes, existing=existing)


def answer(export_dir: str) -> None:
    """Prints SENTENCES with filled masks. A new process loads the SavedModel and nothing else.

    Args:
        export_dir: str. The directory of the SavedModels.

    Raises:
        UserError: the process failed.
    """
    command = [sys.executable, "-m", "keras_bert_app.cli.fill_mask", f"--saved_model={export_dir}", *SENTENCES]
    if subprocess.run(command, check=False).returncode:
        raise UserError(f"{export_dir}: the exported model did not answer (see above); delete it and try again")


def _say(number, text):
    print(f"\n[{number}/5] {text}", flush=True)

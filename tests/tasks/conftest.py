"""A tiny task over texts, and runs of it."""

import contextlib
import io
import os
import signal

import numpy as np
import pytest

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import Interrupted
from keras_bert_app.runs import checkpoints
from keras_bert_app.tasks import finetuning_start
from keras_bert_app.tasks.finetune import finetune
from keras_bert_app.training import loop
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES

GOOD, BAD = ("fine", "bright", "warm", "kind"), ("grim", "dull", "cold", "mean")
FILLERS = ("the", "day", "was", "and", "a", "very", "so", "rather")
VOCABULARY = "".join(f"{piece}\n" for piece in (*SPECIAL_PIECES, ".", *GOOD, *BAD, *FILLERS)).encode()
NUM_PIECES = VOCABULARY.count(b"\n")
CONFIG = BertConfig(
    vocab_size=NUM_PIECES,
    hidden_size=22,
    num_attention_heads=2,
    num_hidden_layers=1,
    intermediate_size=37,
    max_position_embeddings=41,
    hidden_dropout_prob=0.1,
    attention_probs_dropout_prob=0.1,
    initializer_range=0.2,
)
SETTINGS = dict(
    task="classification",
    max_seq_length=29,
    global_batch_size=8,
    learning_rate=2e-3,
    num_train_epochs=5.0,
    num_warmup_steps=2,
    strategy="one_device",
    log_steps=4,
    seed=3,
)


def sentence(generator, label):
    """A sentence of fillers with one word that determines its label, "1" or "0"."""
    words = list(generator.choice(FILLERS, generator.integers(1, 17)))
    words.insert(generator.integers(0, len(words) + 1), str(generator.choice(GOOD if label == "1" else BAD)))
    return " ".join(words) + "."


def write_table(directory, name, count, seed):
    """Writes DIRECTORY/NAME.tsv with sentences of both labels in turn."""
    generator = np.random.default_rng(seed)
    with open(os.path.join(directory, f"{name}.tsv"), "w", encoding="utf-8") as file:
        file.write("sentence\tlabel\n")
        for number in range(count):
            label = "10"[number % 2]
            file.write(f"{sentence(generator, label)}\t{label}\n")


@pytest.fixture(autouse=True)
def without_pictures(monkeypatch):
    """Skips the pictures, which take a tenth of a run's time. Runs of module and session fixtures still draw them."""
    for name in (
        "keras_bert_app.tasks.finetune.draw_curves",
        "keras_bert_app.drawing.finetuning_pictures.draw_answers",
    ):
        monkeypatch.setattr(name, lambda *_: b"")


@pytest.fixture(scope="session")
def table_dir(tmp_path_factory):
    """A directory with train.tsv (92 rows) and dev.tsv (37)."""
    directory = str(tmp_path_factory.mktemp("table"))
    write_table(directory, "train", 92, 1)
    write_table(directory, "dev", 37, 2)
    return directory


def run_on(workdir, table_dir, config=CONFIG, initial=None, strategy=None, **settings):
    """(results, printed text) of a fine-tuning run."""
    output = io.StringIO()
    run = FinetuningConfig(**{**SETTINGS, "data_dir": table_dir, **settings})
    figures = finetuned(str(workdir), config, run, VOCABULARY, initial=initial, strategy=strategy, stream=output)
    return figures, output.getvalue()


def finetuned(workdir, config, run, vocabulary, **options):
    """The results of one fine-tuning run. The options are those of finetuning_start.make_start."""
    return finetune(finetuning_start.make_start(workdir, config, run, vocabulary, **options))


@pytest.fixture(scope="session")
def finished(tmp_path_factory, table_dir):
    """(work directory, results, output) of a run of 60 steps that keeps all checkpoints. No test may change it."""
    workdir = str(tmp_path_factory.mktemp("finetuned") / "run")
    return (workdir, *run_on(workdir, table_dir, save_checkpoints_steps=20, eval_steps=20, keep_checkpoints=9))


def weights_of(checkpoint):
    """dict path -> array of the tensors of a checkpoint."""
    return checkpoints.read_tensors(checkpoint)[0]


def newest(workdir):
    """The directory of the newest checkpoint of a run."""
    return checkpoints.list_checkpoints(workdir)[-1]


def launched(workdir, wanted, num_seeds=1, start=None):
    """(results, printed text) of finetuning_start.launch."""
    output = io.StringIO()
    figures = finetuning_start.launch(
        str(workdir), {**SETTINGS, **wanted}, num_seeds, start or (wanted["init_checkpoint"], True, None, None), output
    )
    return figures, output.getvalue()


@contextlib.contextmanager
def stopped_at_start():
    """Stops a fine-tuning run before its first step, which takes seconds to trace. Masked LM tuning runs to its end.

    Yields the list of the models of the stopped runs.
    """
    models, train = [], loop.train

    def stopped(training):
        if not isinstance(training.run, FinetuningConfig):
            return train(training)
        models.append(training.model)
        raise Interrupted(signal.SIGTERM, 0, False)

    with pytest.MonkeyPatch.context() as patched, pytest.raises(Interrupted):
        patched.setattr(loop, "train", stopped)
        yield models


def at_start(workdir, wanted, start=None):
    """(dict path -> array of the weights before the first step, text printed until then) of finetuning_start.launch."""
    output = io.StringIO()
    with stopped_at_start() as models:
        finetuning_start.launch(
            str(workdir), {**SETTINGS, **wanted}, 1, start or (wanted["init_checkpoint"], True, None, None), output
        )
    return {variable.path: variable.numpy() for variable in models[0].weights}, output.getvalue()


@pytest.fixture(scope="session")
def three_seeds(tmp_path_factory, table_dir):
    """The work directory of runs of three seeds, one step each. No test may change it."""
    workdir = tmp_path_factory.mktemp("three") / "seeds"
    launched(
        workdir, {"data_dir": table_dir, "num_train_steps": 1}, num_seeds=3, start=(None, False, CONFIG, VOCABULARY)
    )
    return workdir

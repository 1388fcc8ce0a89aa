"""Pre-trains the stations of the road, each for the same minutes."""

import os
import time

from benchmarks.common import own_commands
from benchmarks.road.stations import STATIONS, VOCAB_SIZE
from keras_bert_app.files import read_json
from pipelines import storage


def prepare(input_files: str, vocab_file: str, directory: str) -> tuple[str, str]:
    """Prepares the corpus, and learns the vocabulary if none is given.

    Args:
        input_files: the text.
        vocab_file: a vocabulary of 8,000 pieces, or "" to learn one.
        directory: folder of the benchmark.

    Returns:
        (directory of the corpus, path of the vocabulary).
    """
    corpus = os.path.join(directory, "corpus")
    if not storage.exists(os.path.join(corpus, "manifest.json")):
        own_commands.run("prepare_corpus", input_files=input_files, output_dir=corpus)
    if not vocab_file:
        vocab_file = os.path.join(directory, "vocab.txt")
        if not storage.exists(vocab_file):
            own_commands.run("learn_vocab", corpus_dir=corpus, vocab_file=vocab_file, vocab_size=VOCAB_SIZE)
    return corpus, vocab_file


def pretrain(
    model: str,
    models_dir: str,
    corpus: str,
    tasks_dir: str,
    configs: dict[str, str],
    vocab_file: str,
    minutes: float,
    seed: int,
) -> dict:
    """Pre-trains a model, or resumes it.

    Args:
        model: Station.model.
        models_dir: where it goes.
        corpus: directory of the corpus.
        tasks_dir: folder of the tasks. CoVe translates its multi30k.
        configs: result of write_configurations.
        vocab_file: the vocabulary.
        minutes: length of the training.
        seed: seed of the model.

    Returns:
        dict with minutes and the figures of the last evaluation on held-out text, as far as there are any.
    """
    (station, *_) = [station for station in STATIONS.values() if station.model == model]
    path = os.path.join(models_dir, model)
    if station.verb == "learn_vectors":
        return _learn_vectors(path, corpus, vocab_file, configs, minutes, {**station.pretraining, "seed": seed})
    shared = {"vocab_file": vocab_file, "train_minutes": minutes, "seed": seed, "config": configs[station.config]}
    if station.verb == "pretrain":
        shared |= {"recipe": "small_budget", "corpus_dir": corpus}
    else:
        data_dir = os.path.join(tasks_dir, "multi30k")
        shared |= {
            "task": "translation",
            "data_dir": data_dir,
            "source": "en",
            "target": "de",
            "encoder_layers": 0,
            "target_vocab_file": _german_vocabulary(models_dir, data_dir),
        }
    own_commands.run(station.verb, workdir=path, **shared, **station.pretraining)
    rows = own_commands.metrics_of(path)
    evaluations = [row for row in rows if any(name.startswith("eval_") for name in row)]
    figures = {name: value for name, value in evaluations[-1].items() if name.startswith("eval_")}
    return {"minutes": minutes, "steps": max(row.get("step", 0) for row in rows), **figures}


def _learn_vectors(path, corpus, vocab_file, configs, minutes, given):
    """Learns vectors in as many passes as fit into the minutes. One pass alone gives the time of a pass."""
    given |= {"corpus_dir": corpus, "vocab_file": vocab_file, "workers": os.cpu_count(), "overwrite": True}
    given["vector_size"] = read_json(configs["bert"])["hidden_size"]
    seconds = {}
    for epochs in (1, 0):
        epochs = epochs or max(1, int(60 * minutes / seconds[1]))
        started = time.monotonic()
        own_commands.run("learn_vectors", vectors_file=path, epochs=epochs, **given)
        seconds[epochs] = time.monotonic() - started
    return {"minutes": seconds[epochs] / 60, "epochs": epochs}


def _german_vocabulary(models_dir, data_dir):
    path = os.path.join(models_dir, "german.txt")
    if not storage.exists(path):
        own_commands.run(
            "learn_vocab", input_files=os.path.join(data_dir, "train.de*"), vocab_file=path, vocab_size=VOCAB_SIZE
        )
    return path

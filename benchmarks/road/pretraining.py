"""Pre-trains the stations of the road, each for the same minutes."""

import json
import os
import time
from typing import Any

from benchmarks.common import own_commands
from benchmarks.road.road_tasks import TRANSLATION
from benchmarks.road.stations import STATIONS, VOCAB_SIZE
from keras_bert_app.errors import UserError
from keras_bert_app.files import read_json
from pipelines import storage

_GERMAN = "german.txt"  # the vocabulary of CoVe's translations
# Trials of learn_vectors double their passes until one takes this many times as long as a single pass. A smaller
# difference could be chance.
_CLEARLY_LONGER = 1.5
_MOST_PASSES = 10_000


def prepare(input_files: str, vocab_file: str, directory: str) -> tuple[str, str]:
    """Prepares the corpus, and learns the vocabulary if none is given.

    Args:
        input_files: the text.
        vocab_file: a vocabulary of 8,000 pieces, or "" to learn one.
        directory: folder of the benchmark.

    Returns:
        (directory of the corpus, path of the vocabulary).

    Raises:
        UserError: the folder has the corpus of another text.
    """
    corpus, text_file = os.path.join(directory, "corpus"), os.path.join(directory, "text.json")
    if storage.exists(text_file) and (before := read_json(text_file)["input_files"]) != input_files:
        raise UserError(
            f"--input_files={input_files}: {directory} has the corpus of {before}; give another --output_dir"
        )
    if not storage.exists(os.path.join(corpus, "manifest.json")):
        storage.write_whole(text_file, json.dumps({"input_files": input_files}))
        own_commands.run("prepare_corpus", input_files=input_files, output_dir=corpus)
    if not vocab_file:
        vocab_file = os.path.join(directory, "vocab.txt")
        if not storage.exists(vocab_file):
            own_commands.run("learn_vocab", input_files=input_files, vocab_file=vocab_file, vocab_size=VOCAB_SIZE)
    return corpus, vocab_file


def command(
    model: str,
    corpus: str,
    models_dir: str,
    tasks_dir: str,
    configs: dict[str, str],
    vocab_file: str,
    minutes: float,
    seed: int,
) -> tuple[str, dict[str, Any]]:
    """The command that pre-trains a model.

    Args:
        model: Station.model.
        corpus: directory of the corpus.
        models_dir: where the model goes.
        tasks_dir: folder of the tasks. CoVe translates its multi30k.
        configs: result of write_configurations.
        vocab_file: the vocabulary.
        minutes: length of the training.
        seed: seed of the model.

    Returns:
        (verb, flags). learn_vectors has no flag for the minutes.
    """
    (station, *_) = [station for station in STATIONS.values() if station.model == model]
    path, shared = os.path.join(models_dir, model), {"vocab_file": vocab_file, "seed": seed, **station.pretraining}
    if station.verb == "learn_vectors":
        vectors = {"vector_size": read_json(configs["bert"])["hidden_size"], "workers": os.cpu_count()}
        return station.verb, {"vectors_file": path, "corpus_dir": corpus, **vectors, "overwrite": True, **shared}
    shared |= {"workdir": path, "train_minutes": minutes, "config": configs[station.config]}
    if station.verb == "pretrain":
        return station.verb, {"recipe": "small_budget", "corpus_dir": corpus, **shared}
    return station.verb, {
        **TRANSLATION,
        "data_dir": os.path.join(tasks_dir, TRANSLATION["data_dir"]),
        "encoder_layers": 0,
        "num_beams": 1,  # the search of the evaluations is part of the minutes
        "target_vocab_file": os.path.join(models_dir, _GERMAN),
        **shared,
    }


def run(verb: str, given: dict[str, Any], minutes: float) -> dict:
    """Pre-trains a model with the result of `command`, or resumes it.

    Args:
        verb: the command.
        given: its flags.
        minutes: length of the training. learn_vectors takes as many passes over the text as fit.

    Returns:
        dict with minutes and the figures of the last evaluation on held-out text, as far as there are any.
    """
    if verb == "learn_vectors":
        return _learn_vectors(given, minutes)
    german = given.get("target_vocab_file")
    if german and not storage.exists(german):
        captions = os.path.join(given["data_dir"], "train.de*")
        own_commands.run("learn_vocab", input_files=captions, vocab_file=german, vocab_size=VOCAB_SIZE)
    own_commands.run(verb, **given)
    rows = own_commands.metrics_of(given["workdir"])
    evaluations = [row for row in rows if any(name.startswith("eval_") for name in row)]
    last = evaluations[-1] if evaluations else {}
    figures = {name: value for name, value in last.items() if name.startswith("eval_")}
    return {"minutes": minutes, "steps": max(row.get("step", 0) for row in rows), **figures}


def _learn_vectors(given, minutes):
    """Learns vectors. A run of one pass and a clearly longer run give the time of a pass."""
    _timed(given, 1)  # this run fills the file cache, so its time says nothing about the next ones
    one, trial = _timed(given, 1), 2
    while (longer := _timed(given, trial)) < _CLEARLY_LONGER * one and trial < _MOST_PASSES:
        trial *= 2
    of_a_pass = max((longer - one) / (trial - 1), 60 * minutes / _MOST_PASSES)
    epochs = max(1, 1 + int((60 * minutes - one) / of_a_pass))
    return {"minutes": _timed(given, epochs) / 60, "epochs": epochs}


def _timed(given, epochs):
    """Learns vectors in some passes over the text, and returns the seconds of the command."""
    started = time.monotonic()
    own_commands.run("learn_vectors", epochs=epochs, **given)
    return time.monotonic() - started

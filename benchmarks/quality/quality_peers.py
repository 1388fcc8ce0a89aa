"""Pre-trains a peer for a number of minutes, with the script for its library and an interpreter that has it."""

import json
import os
import sys

from benchmarks.common import own_commands
from benchmarks.quality.quality_contenders import Contender
from keras_bert_app.config.bert_config import BertConfig
from pipelines.wordpiece.vocabulary import load_vocabulary

LENGTH = 128
_BATCH_SIZE, _WARMUP_SHARE = 32, 0.06
_SIZE = (
    "vocab_size",
    "num_hidden_layers",
    "hidden_size",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
)


def script_of(name: str) -> str:
    """The path of the script that pre-trains as a peer does.

    Args:
        name: str. "keras_hub" or "transformers".
    """
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), f"quality_{name}.py")


def pretrain(
    contender: Contender,
    model_dir: str,
    texts_dir: str,
    *,
    config: str,
    vocab_file: str,
    minutes: float,
    seed: int,
    transformers_python: str,
    language_model: str = "masked",
    num_steps: int = 0,
) -> None:
    """Trains a peer and writes its model and its log. `logged` reads the log.

    Args:
        contender: Contender with learning_rate and precision.
        model_dir: str. Where the model goes.
        texts_dir: str. Directory that quality_texts.write filled.
        config: str. Published size of the model.
        vocab_file: str. The vocabulary.
        minutes: float. Length of the training.
        seed: int. Seed of weights, masks and order.
        transformers_python: str. Interpreter with benchmarks/requirements-hf.txt.
        language_model: str. A key of language_models.LANGUAGE_MODELS.
        num_steps: int. The training ends after this number of steps instead of the minutes; 0 for the minutes.

    Raises:
        UserError: the script failed.
    """
    os.makedirs(os.path.dirname(model_dir), exist_ok=True)
    size = BertConfig.of_size(config, vocab_size=len(load_vocabulary(vocab_file)))
    given = {
        "seed": seed,
        "precision": contender.precision,
        "language_model": language_model,
        "size": {name: getattr(size, name) for name in _SIZE},
        "initializer_range": contender.initializer_range,
        "dropout": contender.dropout,
        "max_seq_length": LENGTH,
        "max_predictions_per_seq": 20,
        "batch_size": _BATCH_SIZE,
        "minutes": minutes,
        "num_steps": num_steps,
        "learning_rate": contender.learning_rate,
        "warmup_share": _WARMUP_SHARE,
        "vocab_file": os.path.abspath(vocab_file),
        "passages": os.path.join(texts_dir, "passages.txt"),
        "documents": os.path.join(texts_dir, "documents.txt"),
        "log": _log_of(model_dir),
        "output_dir": model_dir,
    }
    python = transformers_python if contender.name == "transformers" else sys.executable
    script = script_of(contender.name)
    own_commands.process(os.path.basename(script), [python, script, json.dumps(given)])


def logged(model_dir: str) -> list[dict]:
    """The rows of a training's log, with step, seconds and loss (of masked LM).

    Args:
        model_dir: str. The model_dir that was given to pretrain.
    """
    with open(_log_of(model_dir), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def pieces_per_second(log: list[dict]) -> float:
    """The speed between the first and the last line of a training's log.

    Args:
        log: rows with step and seconds, of `logged` or of our own training.
    """
    first, last = log[0], log[-1]
    if last["seconds"] <= first["seconds"]:
        return float("nan")  # a log with one line, of a short trial
    return (last["step"] - first["step"]) * _BATCH_SIZE * LENGTH / (last["seconds"] - first["seconds"])


def _log_of(model_dir):
    return model_dir + ".jsonl"

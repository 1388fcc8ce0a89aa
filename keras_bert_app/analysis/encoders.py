"""The encoder to look into, and encoders of the same shape with random weights as baselines."""

import dataclasses
import hashlib
import os
from collections.abc import Callable

import numpy as np

from keras_bert_app.config.bert_config import PARTS, BertConfig
from keras_bert_app.errors import UserError
from keras_bert_app.interop import load
from keras_bert_app.modeling.architectures import make_encoder
from keras_bert_app.modeling.encoder import BertEncoder
from keras_bert_app.modeling.pretrainer import BertPretrainer
from keras_bert_app.runs.shared_tokenizer import tokenizer_of
from pipelines.wordpiece.tokenizer import BertTokenizer


@dataclasses.dataclass(frozen=True)
class Subject:
    """An encoder with its tokenizer.

    Attributes:
        name: str. The name in tables and pictures.
        encoder: BertEncoder.
        tokenizer: BertTokenizer.
        model: BertPretrainer or None. The model of the encoder, with the heads that came with it. None for an untrained
            encoder.
        origin: dict. See origin_of.
    """

    name: str
    encoder: BertEncoder
    tokenizer: BertTokenizer
    model: BertPretrainer | None = None
    origin: dict = dataclasses.field(default_factory=dict, compare=False)

    @property
    def config(self) -> BertConfig:
        return self.encoder.config


def refuse_columns(config: BertConfig, origin: str) -> None:
    """Refuses a model with inputs that analyses do not make.

    Args:
        config: BertConfig. The configuration of the model.
        origin: str. The name of the model in the message.

    Raises:
        UserError: the model has channels, or positions that count lines.
    """
    if config.has_columns:
        raise UserError(
            f"{origin}: reads channels or positions of lines, which analyses do not give it; name a model without them"
        )


def load_subject(path: str, log: Callable[[str], None] = lambda line: None) -> Subject:
    """Loads the encoder of a model in any layout, and names it after its directory.

    Args:
        path: str. See interop.load.load_weights.
        log: Callable. Receives lines that say what was loaded.

    Returns:
        Subject.

    Raises:
        UserError: the path holds no model, or the model has no vocabulary, or has inputs that analyses do not make.
    """
    weights, lines = load.load_weights(path, allow_missing=PARTS[1:])
    for line in lines:
        log(line)
    if weights.vocabulary is None:
        raise UserError(f"{weights.origin}: has no vocab.txt; put the model's vocab.txt next to its weights")
    refuse_columns(weights.config, weights.origin)
    model = load.build_model(weights)
    return Subject(
        name_of(path),
        model.encoder,
        tokenizer_of(weights.vocabulary, weights.config),
        model,
        origin_of(weights.origin, weights.tensors),
    )


def require_layers(config: BertConfig) -> None:
    """Checks that an encoder has layers.

    Args:
        config: BertConfig.

    Raises:
        UserError: the encoder has embeddings alone.
    """
    if not config.num_hidden_layers:
        raise UserError("the encoder has embeddings and no layer (--encoder_layers=0); give a model with layers")


def require_attention(config: BertConfig) -> None:
    """Checks that an encoder has layers with attention.

    Args:
        config: BertConfig.

    Raises:
        UserError: the encoder has embeddings alone, or LSTMs.
    """
    require_layers(config)
    if config.architecture == "lstm_lm":
        raise UserError("an LSTM has no attention; give a model of architecture bert or gpt")


def require_segments(config: BertConfig, what: str) -> None:
    """Checks that a model knows a second segment.

    Args:
        config: BertConfig.
        what: str. The beginning of the error message, with the flag or the file that gives a pair of texts.

    Raises:
        UserError: the model has one segment.
    """
    if config.type_vocab_size < 2:
        raise UserError(
            f"{what}: the model has one segment (type_vocab_size 1) and was not trained on pairs; give single texts"
        )


def name_of(path: str | os.PathLike) -> str:
    """Names a model in titles by the last part of its path.

    Args:
        path: str or path object.

    Returns:
        str.
    """
    return os.path.basename(str(path).rstrip("/"))


def origin_of(weights: str, tensors: dict) -> dict[str, str]:
    """Identifies the model that findings are about.

    The hash covers the tensors, so that a directory with new weights counts as another model.

    Args:
        weights: str. A description of the files that were read.
        tensors: dict of path -> array.

    Returns:
        dict with weights and sha256, the hash of the tensors in hexadecimal digits.
    """
    digest = hashlib.sha256()
    for path in sorted(tensors):
        digest.update(path.encode())
        digest.update(np.ascontiguousarray(tensors[path]))
    return {"weights": weights, "sha256": digest.hexdigest()}


def untrained(subject: Subject, seed: int = 0) -> Subject:
    """Makes an encoder of the same shape and vocabulary with BERT's initial weights, as a baseline.

    The baseline shows the scores that the architecture reaches without training.

    Args:
        subject: Subject.
        seed: int. The seed of the weights.

    Returns:
        Subject.
    """
    encoder = make_encoder(subject.config, seed=seed)
    for weight, given in zip(encoder.non_trainable_weights, subject.encoder.non_trainable_weights, strict=True):
        weight.assign(given)  # the characters of pieces, which no run trains
    return Subject(f"untrained (seed {seed})", encoder, subject.tokenizer)

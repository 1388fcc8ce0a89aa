"""The encoder that is looked into, and what it is compared with: the same shape with random weights."""

import dataclasses
import hashlib
import os

import numpy as np

from keras_bert_app.config.bert_config import PARTS
from keras_bert_app.errors import UserError
from keras_bert_app.interop import load
from keras_bert_app.modeling.encoder import BertEncoder
from keras_bert_app.modeling.pretrainer import BertPretrainer
from pipelines.wordpiece.tokenizer import BertTokenizer


@dataclasses.dataclass(frozen=True)
class Subject:
    """An encoder with its tokenizer.

    Attributes:
        name: for tables and pictures. encoder: BertEncoder. tokenizer: BertTokenizer. model: BertPretrainer that the encoder
            is of, with the heads that came with it; None for an untrained one. origin: see origin_of.
    """

    name: str
    encoder: BertEncoder
    tokenizer: BertTokenizer
    model: BertPretrainer | None = None
    origin: dict = dataclasses.field(default_factory=dict, compare=False)

    @property
    def config(self):
        return self.encoder.config


def load_subject(path, log=lambda line: None):
    """The encoder of a model in any layout, named as its directory is.

    Args:
        path: see interop.load.load_weights. log: called with the lines that say what was loaded.

    Raises:
        UserError: nothing to load there, or it came without a vocabulary.
    """
    weights, lines = load.load_weights(path, allow_missing=PARTS[1:])
    for line in lines:
        log(line)
    if weights.vocabulary is None:
        raise UserError(f"{weights.origin}: has no vocab.txt; lay the model's vocabulary beside it")
    model = load.build_model(weights)
    return Subject(
        name_of(path),
        model.encoder,
        BertTokenizer(weights.vocabulary, weights.config.do_lower_case),
        model,
        origin_of(weights.origin, weights.tensors),
    )


def require_layers(config):
    """Raises UserError for an encoder of embeddings alone."""
    if not config.num_hidden_layers:
        raise UserError(
            "the encoder has embeddings and no layer (--encoder_layers=0), so that there is nothing to look into; give "
            "another model"
        )


def require_segments(config, what):
    """Raises UserError for a model that knows no second segment. Args: what: was given for one."""
    if config.type_vocab_size < 2:
        raise UserError(
            f"{what}: the model has one segment (type_vocab_size 1), and was never shown a pair; give single texts"
        )


def name_of(path):
    """What a model is called in titles: the last part of its path."""
    return os.path.basename(str(path).rstrip("/"))


def origin_of(weights, tensors):
    """dict by which findings know whose they are: weights, what was read; sha256 of the tensors, so that a directory that was
    written anew counts as another model.

    Args:
        weights: str. tensors: dict path -> array.
    """
    digest = hashlib.sha256()
    for path in sorted(tensors):
        digest.update(path.encode())
        digest.update(np.ascontiguousarray(tensors[path]))
    return {"weights": weights, "sha256": digest.hexdigest()}


def untrained(subject, seed=0):
    """A Subject of the same shape and vocabulary whose weights are BERT's initial ones: what the architecture alone can do."""
    return Subject(
        f"untrained (seed {seed})", BertEncoder(subject.config, seed=seed, has_pooler=False), subject.tokenizer
    )

"""The encoder that is looked into, and what it is compared with: the same shape with random weights."""

import dataclasses

from keras_bert_app.errors import UserError
from keras_bert_app.interop import load
from keras_bert_app.modeling.encoder import BertEncoder
from keras_bert_app.modeling.parts import PARTS
from keras_bert_app.modeling.pretrainer import BertPretrainer
from pipelines.wordpiece import BertTokenizer


@dataclasses.dataclass(frozen=True)
class Subject:
    """An encoder with its tokenizer.

    Attributes:
        name: for tables and pictures. encoder: BertEncoder. tokenizer: BertTokenizer. model: BertPretrainer that the encoder
            is of, with the heads that came with it; None for an untrained one.
    """

    name: str
    encoder: BertEncoder
    tokenizer: BertTokenizer
    model: BertPretrainer | None = None

    @property
    def config(self):
        return self.encoder.config


def load_subject(path, name="trained", log=lambda line: None):
    """The encoder of a model in any layout.

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
    return Subject(name, model.encoder, BertTokenizer(weights.vocabulary, weights.config.do_lower_case), model)


def untrained(subject, seed=0):
    """A Subject of the same shape and vocabulary whose weights are BERT's initial ones: what the architecture alone can do."""
    return Subject(f"untrained (seed {seed})", BertEncoder(subject.config, seed=seed, has_pooler=False), subject.tokenizer)

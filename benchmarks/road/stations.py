"""The stations of the road to BERT: how each is pre-trained, and how a task uses it."""

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.lstm_config import LstmConfig
from keras_bert_app.config.weight_shapes import shapes
from pipelines import storage

VOCAB_SIZE = 8000
# About 5 and 30 million parameters with a vocabulary of 8,000 pieces. BERT and GPT have published sizes.
_ELMO, _AWD = "elmo_tiny", "awd_lstm_tiny"
_SIZES = {
    "5m": {
        "bert": {"hidden_size": 256, "num_hidden_layers": 4},
        "elmo": {"hidden_size": 384, "intermediate_size": 384},
        "awd": {"hidden_size": 256, "intermediate_size": 448, "num_hidden_layers": 3},
    },
    "30m": {
        "bert": {"hidden_size": 512, "num_hidden_layers": 8},
        "elmo": {"hidden_size": 1024, "intermediate_size": 1024},
        "awd": {"hidden_size": 640, "intermediate_size": 1280, "num_hidden_layers": 3},
    },
}
SIZES = tuple(_SIZES)
# The best of three settings of awd_lstm_tiny in a short trial (docs/lstm.md). None was searched for ELMo.
_LSTM_RATE = {"optimizer": "adamw", "learning_rate": 1e-2, "bias_correction": True}
_BILSTM = {"bilstm_units": 128, "learning_rate": 1e-3}
_FROZEN = {"freeze_layers": -1, **_BILSTM}
# At the rate of the BiLSTM, a run of some hundred steps leaves the shares of the layers near a third each.
_MIX = {"layers": "scalar_mix", "mix_layer_norm": True, "mix_rate_factor": 20.0}


@dataclasses.dataclass(frozen=True)
class Station:
    """One station.

    Attributes:
        source: where the station comes from.
        model: name of the directory or file that its pre-training writes. Two stations may share one.
        verb: the command that pre-trains: learn_vectors, pretrain, or finetune for a translation.
        config: key of `configurations`.
        pretraining: flags of verb.
        finetuning: flags of finetune.
        of_texts: flags of finetune only for tasks over texts.
        of_tags: flags of finetune only for tagging.
        has_mix: whether the head learns a mix of the layers.
    """

    source: str
    model: str
    verb: str
    config: str
    pretraining: Mapping[str, Any]
    finetuning: Mapping[str, Any]
    of_texts: Mapping[str, Any]
    of_tags: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    has_mix: bool = False


_VECTORS = {**_BILSTM, "encoder_layers": 0, "unknown_vectors": "characters"}
_MAX = {"pooling": "max"}
_CRF = {"tag_layer": "crf"}
STATIONS = {
    "word2vec": Station("Mikolov et al. 2013", "word2vec.txt", "learn_vectors", "bert", {}, _VECTORS, _MAX, _CRF),
    "fastText": Station(
        "Bojanowski et al. 2017",
        "fasttext.txt",
        "learn_vectors",
        "bert",
        {"method": "fasttext"},
        _VECTORS,
        _MAX,
        _CRF,
    ),
    "TagLM": Station(
        "Peters et al. 2017",
        "elmo",
        "pretrain",
        "elmo",
        {"language_model": "bidirectional", **_LSTM_RATE},
        {**_FROZEN, "token_vector_size": 100},
        _MAX,
        _CRF,
    ),
    "CoVe": Station(
        "McCann et al. 2017",
        "translation",
        "finetune",
        "bert",
        {"decoder": "rnn_feedback", "attention": "additive", "bilstm_units": 256, "learning_rate": 2e-3},
        _FROZEN,
        _MAX,
    ),
    "ELMo": Station(
        "Peters et al. 2018",
        "elmo",
        "pretrain",
        "elmo",
        {"language_model": "bidirectional", **_LSTM_RATE},
        {**_FROZEN, **_MIX},
        _MAX,
        _CRF,
        has_mix=True,
    ),
    "ULMFiT": Station(
        "Howard and Ruder 2018",
        "awd",
        "pretrain",
        "awd",
        {"language_model": "causal", **_LSTM_RATE},
        {"learning_rate": 3e-3, "layer_decay": 1 / 2.6, "learning_rate_schedule": "slanted_triangular"},
        {"pooling": "concat"},
    ),
    "GPT": Station(
        "Radford et al. 2018",
        "gpt",
        "pretrain",
        "gpt",
        {"language_model": "causal"},
        {"learning_rate": 5e-4, "language_model_weight": 0.5},
        {},
    ),
    "BERT": Station("Devlin et al. 2018", "bert", "pretrain", "bert", {}, {"learning_rate": 5e-4}, {"pooling": "mean"}),
}


def configurations(size: str) -> dict[str, BertConfig]:
    """The model configurations of a size.

    Args:
        size: one of SIZES.

    Returns:
        dict with bert, gpt, elmo and awd.
    """
    sizes = _SIZES[size]
    transformer = {
        "vocab_size": VOCAB_SIZE,
        "num_attention_heads": sizes["bert"]["hidden_size"] // 64,
        "intermediate_size": 4 * sizes["bert"]["hidden_size"],
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        **sizes["bert"],
    }
    return {
        "bert": BertConfig(**transformer),
        "gpt": BertConfig(**transformer, architecture="gpt"),
        "elmo": LstmConfig.of_size(_ELMO, vocab_size=VOCAB_SIZE, **sizes["elmo"]),
        "awd": LstmConfig.of_size(_AWD, vocab_size=VOCAB_SIZE, **sizes["awd"]),
    }


def num_parameters(config: BertConfig) -> int:
    """The number of weights that pre-training learns, without the pooler and the head of sentence pairs.

    Args:
        config: BertConfig.
    """
    of_language_model = shapes(config, ("encoder", "masked_lm", "language_model"))
    return sum(_product(shape) for path, shape in of_language_model.items() if path != "encoder/embeddings/characters")


def _product(shape):
    product = 1
    for number in shape:
        product *= number
    return product


def write_configurations(size: str, directory: str) -> dict[str, str]:
    """Writes the configurations of a size as files.

    Args:
        size: one of SIZES.
        directory: where they go.

    Returns:
        dict key of `configurations` -> path.
    """
    paths = {}
    for name, config in configurations(size).items():
        paths[name] = os.path.join(directory, f"{name}.json")
        storage.write_whole(paths[name], json.dumps(config.to_dict(), indent=1) + "\n")
    return paths

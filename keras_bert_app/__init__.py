"""BERT of your own in TensorFlow and Keras 3: configuration, model, training, export.

The names below load on first use, so that `import keras_bert_app` and every `--help` stay fast.
"""

import importlib

_HOMES = {
    "BertConfig": "keras_bert_app.config.bert_config",
    "BertEncoder": "keras_bert_app.modeling.encoder",
    "BertPretrainer": "keras_bert_app.modeling.pretrainer",
    "load_pretrained": "keras_bert_app.interop.load",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__

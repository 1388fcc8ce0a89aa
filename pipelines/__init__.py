"""Turns text into fixed-shape BERT batches with TensorFlow ops alone.

The names in `__all__` are loaded on first use, so that the import itself does not load TensorFlow.
"""

import importlib

_HOMES = {
    "BertTokenizer": "pipelines.wordpiece.tokenizer",
    "DataError": "pipelines.data_error",
    "prepare_corpus": "pipelines.corpus.preparation",
    "pretraining_dataset": "pipelines.examples.dataset",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__

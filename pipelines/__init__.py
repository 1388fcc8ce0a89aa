"""Turns text into BERT batches of fixed shape: corpora, the tokenizer and pre-training examples.

The names in `__all__` are loaded on first use, so that the import itself does not load TensorFlow.
"""

import importlib
import inspect

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
    value = getattr(importlib.import_module(_HOMES[name]), name)
    if not inspect.isfunction(value):
        return value
    from pipelines.data_error import DataError, for_python

    return for_python(value, DataError)


def __dir__() -> list[str]:
    return __all__

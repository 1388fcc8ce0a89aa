"""BERT in TensorFlow and Keras 3: configuration, model, training and export.

docs/python.md has examples. The names below load on first use, so that `import keras_bert_app` and every `--help` stay
fast.
"""

import importlib
import inspect
import os

# By default TensorFlow uses oneDNN's matrix products only on CPUs with instructions for neural networks. They also make
# training faster on CPUs with AVX2 only. TensorFlow reads the variable when it is imported.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

_HOMES = {
    "BertConfig": "keras_bert_app.config.bert_config",
    "BertEncoder": "keras_bert_app.modeling.encoder",
    "BertPretrainer": "keras_bert_app.modeling.pretrainer",
    "BertTaskModel": "keras_bert_app.modeling.task_model",
    "FinetunedRun": "keras_bert_app.tasks.scoring",
    "Head": "keras_bert_app.modeling.task_head",
    "Interrupted": "keras_bert_app.errors",
    "UserError": "keras_bert_app.errors",
    "finetune": "keras_bert_app.tasks.keyword_start",
    "list_tasks": "keras_bert_app.tasks.keyword_start",
    "load_embedder": "keras_bert_app.vectors.text_embedder",
    "load_reranker": "keras_bert_app.vectors.rerankers",
    "load_pretrained": "keras_bert_app.interop.load",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    if not inspect.isfunction(value):
        return value
    from keras_bert_app.errors import UserError
    from pipelines.data_error import DataError, for_python

    return for_python(value, (UserError, DataError))


def __dir__() -> list[str]:
    return __all__

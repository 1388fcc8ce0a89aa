"""One thread for each op in a server whose models all write texts."""

import os

from keras_bert_app.files import read_json
from keras_bert_app.runs import threads
from keras_bert_app.serving import saved_model_files
from keras_bert_app.serving.model_configs import ModelConfig
from keras_bert_app.serving.servable import DESCRIPTION

_WRITES_TEXTS = "text_to_text"  # the kind in export.json


def prepare(configs: list[ModelConfig]) -> None:
    """Calls threads.use_one_thread_per_op if the newest version of every model writes texts.

    Other models answer a request faster on several threads. Call the function before a model is loaded.

    Args:
        configs: list of ModelConfig. The models to serve.
    """
    widths = [_width_of_writer(config.base_path) for config in configs]
    if widths and all(widths):
        threads.use_one_thread_per_op(max(widths))


def _width_of_writer(base_path):
    """The hidden_size of a model that writes texts; 0 for another model, and for files that cannot be read."""
    try:
        *_, newest = saved_model_files.version_directories(base_path).values()
        kind = read_json(os.path.join(newest, DESCRIPTION))["kind"]
        return int(read_json(os.path.join(newest, "config.json"))["hidden_size"]) if kind == _WRITES_TEXTS else 0
    except Exception:  # any fault of the files: the server names it when it loads the model
        return 0

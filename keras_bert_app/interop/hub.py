"""Handles of models that lie elsewhere: hf://OWNER/NAME and KerasHub's presets."""

import os
import re

from keras_bert_app.errors import UserError

_HUGGINGFACE = "hf://"
_KAGGLE = "kaggle://"
# Weights in formats that are never read here are not fetched either.
_FILES = ("*.json", "*.safetensors", "*.weights.h5", "vocab.txt", "assets/*")
# As KerasHub names its presets of BERT.
_PRESET = re.compile(
    r"(bert|all_minilm|paraphrase_minilm|multi_qa_minilm|msmarco_minilm|bge|mxbai|multilingual_e5)_[a-z0-9_]+(v1\.5_[a-z]+)?"
)


def fetch(handle):
    """(local path, format) of a handle, through huggingface_hub or kagglehub; (handle, "") of what is a path.

    Args:
        handle: a path, hf://OWNER/NAME, kaggle://..., or the name of a KerasHub preset such as bert_tiny_en_uncased.

    Raises:
        UserError: the hub cannot be reached, or has no such model.
    """
    if handle.startswith(_HUGGINGFACE):
        from huggingface_hub import snapshot_download

        directory = _guarded(
            handle, lambda: snapshot_download(handle[len(_HUGGINGFACE) :].strip("/"), allow_patterns=_FILES)
        )
        if not any(name.endswith((".safetensors", ".weights.h5")) for name in os.listdir(directory)):
            raise UserError(
                f"{handle}: has no *.safetensors, and weights that are pickled are never read; look for a version "
                "with model.safetensors, or convert it where transformers is installed"
            )
        return directory, ""
    if is_handle(handle):
        return _guarded(handle, lambda: _keras_hub_preset(handle)), "keras_hub"
    return handle, ""


def is_handle(name):
    """Whether a name stands for a model elsewhere, and is no path of a local file."""
    is_preset = _PRESET.fullmatch(name) and not os.path.exists(name)
    return name.startswith((_HUGGINGFACE, _KAGGLE)) or bool(is_preset)


def _keras_hub_preset(handle):
    """The directory of a preset's files."""
    import kagglehub

    if not handle.startswith(_KAGGLE):
        from keras_hub.models import BertBackbone

        if handle not in BertBackbone.presets:
            raise ValueError(f"KerasHub knows no such preset of BERT; it has {', '.join(sorted(BertBackbone.presets))}")
        handle = BertBackbone.presets[handle]["kaggle_handle"]
    return kagglehub.model_download(handle.removeprefix(_KAGGLE))


def _guarded(handle, download):
    try:
        return download()
    except Exception as error:  # whatever a library raises without a network, in as many classes as it likes
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"{handle}: cannot be fetched ({reason[:300]}); download the model elsewhere and give its directory"
        ) from None

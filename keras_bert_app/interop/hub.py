"""Handles of models that lie elsewhere: hf://OWNER/NAME and KerasHub's presets."""

import os
import re

from keras_bert_app.errors import UserError

_HUGGINGFACE = "hf://"
_KAGGLE = "kaggle://"
# Weights in formats that are never read here are not fetched either.
_FILES = ("*.json", "*.safetensors", "vocab.txt")


def fetch(handle):
    """(local path, format) of a handle, through huggingface_hub or keras_hub; (handle, "") of what is a path.

    Args:
        handle: a path, hf://OWNER/NAME, kaggle://..., or the name of a KerasHub preset such as bert_tiny_en_uncased.

    Raises:
        UserError: the hub cannot be reached, or has no such model.
    """
    if handle.startswith(_HUGGINGFACE):
        from huggingface_hub import snapshot_download
        directory = _guarded(handle, lambda: snapshot_download(handle[len(_HUGGINGFACE):].strip("/"), allow_patterns=_FILES))
        if not any(name.endswith(".safetensors") for name in os.listdir(directory)):
            raise UserError(f"{handle}: has no *.safetensors, and weights that are pickled are never read; look for a version "
                            "with model.safetensors, or convert it where transformers is installed")
        return directory, ""
    if handle.startswith(_KAGGLE) or (_is_preset_name(handle) and not os.path.exists(handle)):
        return _guarded(handle, lambda: _keras_hub_preset(handle)), "keras_hub"
    return handle, ""


def _is_preset_name(handle):
    return re.fullmatch(r"bert_[a-z0-9_]+", handle) is not None


def _keras_hub_preset(handle):
    """The directory of a preset's files."""
    from keras_hub.src.utils.preset_utils import get_file  # the only entry that gives the path of a preset's files
    config = get_file(handle, "config.json")
    for name in ("model.weights.h5", "assets/tokenizer/vocabulary.txt", "tokenizer.json"):
        get_file(handle, name)
    return os.path.dirname(config)


def _guarded(handle, download):
    try:
        return download()
    except Exception as error:  # whatever a library raises without a network, in as many classes as it likes
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(f"{handle}: cannot be fetched ({reason[:160]}); download the model elsewhere and give its "
                        "directory") from None

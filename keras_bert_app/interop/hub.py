"""Fetches models by their handles: hf://OWNER/NAME, kaggle://... and names of KerasHub's presets."""

import os
import re

from keras_bert_app.errors import UserError

_HUGGINGFACE = "hf://"
_KAGGLE = "kaggle://"
# The module fetches only these files, because this application never reads other formats of weights.
_FILES = ("*.json", "*.safetensors", "*.weights.h5", "vocab.txt", "assets/*")
# KerasHub's naming scheme for its presets of BERT.
_PRESET = re.compile(
    r"(bert|all_minilm|paraphrase_minilm|multi_qa_minilm|msmarco_minilm|bge|mxbai|multilingual_e5)"
    r"_[a-z0-9_]+(v1\.5_[a-z]+)?"
)


def fetch(handle: str) -> tuple[str, str]:
    """Fetches the model of a handle through huggingface_hub or kagglehub.

    Args:
        handle: str. A path, hf://OWNER/NAME, kaggle://..., or the name of a KerasHub preset such as
            bert_tiny_en_uncased.

    Returns:
        Tuple (path, format). The path is local. The format is "" if the files decide it. A path that is not a handle is
        returned unchanged, with the format "".

    Raises:
        UserError: The hub cannot be reached, or has no such model.
    """
    if handle.startswith(_HUGGINGFACE):
        from huggingface_hub import snapshot_download

        directory = _guarded(
            handle, lambda: snapshot_download(handle[len(_HUGGINGFACE) :].strip("/"), allow_patterns=_FILES)
        )
        if not any(name.endswith((".safetensors", ".weights.h5")) for name in os.listdir(directory)):
            raise UserError(
                f"{handle}: has no *.safetensors, and this program never reads pickled weights; look for a version "
                "with model.safetensors, or convert the weights where transformers is installed"
            )
        return directory, ""
    if is_handle(handle):
        return _guarded(handle, lambda: _keras_hub_preset(handle)), "keras_hub"
    return handle, ""


def is_handle(name: str) -> bool:
    """Checks whether a name is a handle of a remote model and not the path of a local file.

    Args:
        name: str. A handle or a path.

    Returns:
        bool. True for a handle. A preset's name is no handle if a local file or directory has the same name.
    """
    is_preset = _PRESET.fullmatch(name) and not os.path.exists(name)
    return name.startswith((_HUGGINGFACE, _KAGGLE)) or bool(is_preset)


def _keras_hub_preset(handle):
    import kagglehub

    if not handle.startswith(_KAGGLE):
        from keras_hub.models import BertBackbone

        if handle not in BertBackbone.presets:
            raise ValueError(f"KerasHub knows no such preset of BERT; it has {', '.join(sorted(BertBackbone.presets))}")
        handle = BertBackbone.presets[handle]["kaggle_handle"]
    return kagglehub.model_download(handle.removeprefix(_KAGGLE))


def _guarded(handle, download):
    """Runs a download and turns every error into a UserError."""
    try:
        return download()
    except Exception as error:  # Without a network the libraries raise errors of many classes.
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"{handle}: cannot be fetched ({reason[:300]}); download the model elsewhere and give its directory"
        ) from None

"""Reads and writes the steps with which a folder of sentence-transformers makes the vector of a text.

The files are modules.json and the configurations in 1_Pooling and 2_Normalize.
"""

import dataclasses
import json
import os

from keras_bert_app.errors import UserError
from keras_bert_app.files import read_json, read_whole
from pipelines import storage

_MODULES, _CONFIG = "modules.json", "config.json"
_LENGTHS = ("sentence_bert_config.json", "sentence_roberta_config.json")
_PROMPTS = "config_sentence_transformers.json"
_MOST_BYTES = 1_000_000
_MODE = "pooling_mode_"
# Active modes of sentence-transformers -> our name. The library concatenates vectors in the order cls, max, mean.
_POOLINGS = {
    ("cls_token",): "cls",
    ("mean_tokens",): "mean",
    ("max_tokens",): "max",
    ("cls_token", "mean_tokens"): "cls_mean",
}
_NEWER_NAMES = {"cls": "cls_token", "mean": "mean_tokens", "max": "max_tokens"}


@dataclasses.dataclass(frozen=True)
class SentenceTransformer:
    """The steps of a folder of sentence-transformers.

    Attributes:
        pooling: str. One of export.pooling.POOLINGS. sentence-transformers pools the last layer with [CLS] and [SEP].
        normalize: bool. Whether vectors get length 1.
        max_seq_length: int. Tokens of a row. 0 if the folder does not state this number.
        folder: str. The subfolder that has the model. "" if the folder itself has it.
        files: tuple of str. The files that state these settings.
        remarks: tuple of str. Lines about settings that this application does not follow.
    """

    pooling: str
    normalize: bool
    max_seq_length: int
    folder: str
    files: tuple
    remarks: tuple = ()


def read(directory: str) -> SentenceTransformer | None:
    """Reads the steps of a folder.

    Args:
        directory: str. Local or remote directory of a model.

    Returns:
        SentenceTransformer, or None if the folder has no modules.json.

    Raises:
        UserError: a file is damaged, or names a step that this application cannot compute.
    """
    path = os.path.join(directory, _MODULES)
    if not storage.is_directory(directory) or not storage.is_file(path):
        return None
    steps = _steps(directory, path)
    kinds = [kind for kind, _ in steps]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise UserError(
            f"{path}: has the steps {', '.join(kinds)[:200]}; expected Transformer, Pooling and perhaps Normalize; "
            "other steps are not computed here"
        )
    folder, pooling_folder = steps[0][1], steps[1][1]
    pooling = _pooling(directory, os.path.join(directory, pooling_folder, _CONFIG))
    max_seq_length, lengths_file = _max_seq_length(directory, folder)
    files = (_MODULES, os.path.join(pooling_folder, _CONFIG), *([lengths_file] if lengths_file else []))
    return SentenceTransformer(pooling, "Normalize" in kinds, max_seq_length, folder, files, _remarks(directory))


def write(directory: str, steps: SentenceTransformer, size: int, positions: int) -> None:
    """Writes the files of the steps beside a model in the layout huggingface.

    Args:
        directory: str. Local directory of the model.
        steps: SentenceTransformer. Its max_seq_length may be 0 for all positions.
        size: int. The hidden size of the model.
        positions: int. The positions of the model.
    """
    modes = next(modes for modes, name in _POOLINGS.items() if name == steps.pooling)
    names = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")
    pooling = {"word_embedding_dimension": size, **{f"{_MODE}{name}": name in modes for name in names}}
    kinds = ["Transformer", "Pooling", *(["Normalize"] if steps.normalize else [])]
    modules = [
        {
            "idx": number,
            "name": str(number),
            "path": f"{number}_{kind}" if number else "",
            "type": f"sentence_transformers.models.{kind}",
        }
        for number, kind in enumerate(kinds)
    ]
    contents = {
        _MODULES: modules,
        os.path.join("1_Pooling", _CONFIG): pooling,
        _LENGTHS[0]: {"max_seq_length": steps.max_seq_length or positions, "do_lower_case": False},
        _PROMPTS: {"prompts": {}, "default_prompt_name": None, "similarity_fn_name": "cosine"},
    }
    for kind in modules[1:]:
        storage.make_directories(os.path.join(directory, kind["path"]))
    for name, content in contents.items():
        storage.write_whole(os.path.join(directory, name), json.dumps(content, indent=2) + "\n")


def _steps(directory, path):
    """Reads modules.json. Returns a list of (class name of a step, its folder)."""
    try:
        modules = json.loads(read_whole(path, _MOST_BYTES, directory).decode("utf-8"))
        steps = [(str(module["type"]).rsplit(".", 1)[-1], module["path"]) for module in modules]
    except UserError:  # UserError is a ValueError and would match the next clause.
        raise
    except (ValueError, TypeError, KeyError, RecursionError):
        raise UserError(f"{path}: is not a list of modules with type and path; fetch it again") from None
    for _, folder in steps:
        if not isinstance(folder, str) or set(folder) & set("/\\:") or folder in (".", ".."):
            raise UserError(f"{path}: names the folder {str(folder)[:80]!r}; expected plain names of folders beside it")
    return steps


def _pooling(directory, path):
    values = read_json(path, _MOST_BYTES, directory)
    modes = sorted(key.removeprefix(_MODE) for key, value in values.items() if key.startswith(_MODE) and value)
    if isinstance(newer := values.get("pooling_mode"), str):
        modes = [_NEWER_NAMES.get(newer, newer)]
    if tuple(modes) not in _POOLINGS:
        raise UserError(
            f"{path}: pools by {' and '.join(modes)[:200] or 'nothing'}; expected cls_token, mean_tokens, "
            "max_tokens, or cls_token and mean_tokens"
        )
    return _POOLINGS[tuple(modes)]


def _max_seq_length(directory, folder):
    """Returns (tokens of a row, the file that states this number), or (0, "")."""
    for name in (os.path.join(folder, name) for name in _LENGTHS):
        path = os.path.join(directory, name)
        if storage.is_file(path):
            length = read_json(path, _MOST_BYTES, directory).get("max_seq_length")
            if length is None:
                return 0, ""
            if type(length) is not int or length < 3:
                raise UserError(f"{path}: max_seq_length is {str(length)[:40]!r}; expected a number of tokens")
            return length, name
    return 0, ""


def _remarks(directory):
    path = os.path.join(directory, _PROMPTS)
    prompt = read_json(path, _MOST_BYTES, directory).get("default_prompt_name") if storage.is_file(path) else None
    return (f"its default prompt {str(prompt)[:40]!r} is not put before texts",) if prompt else ()

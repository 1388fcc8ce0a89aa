"""Reads and writes the steps with which a folder of sentence-transformers makes the vector of a text.

The files are modules.json, the configurations in 1_Pooling and 2_Normalize, and those of the length and the prompts.
"""

import dataclasses
import json
import os

from keras_bert_app.config.prompts import NO_PROMPTS, Prompts, checked_prompts
from keras_bert_app.errors import UserError
from keras_bert_app.files import read_json, read_whole
from pipelines import storage

_MODULES, _CONFIG = "modules.json", "config.json"
# File -> its key with the tokens of a row. The first file with a number decides; sentence-transformers 6 writes the
# last one.
_LENGTHS = {
    "sentence_bert_config.json": "max_seq_length",
    "sentence_roberta_config.json": "max_seq_length",
    "tokenizer_config.json": "model_max_length",
}
_NO_LENGTH = 1_000_000  # transformers writes 1e30 for a tokenizer without a limit
_PROMPTS = "config_sentence_transformers.json"
_SIMILARITIES = ("cosine", "dot", "euclidean", "manhattan")
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
        prompts: Prompts. The prompts and the name of the default one.
        similarity: str. The similarity function that users of the model should take, such as "cosine".
        lowers_case: bool. Whether texts become lower case even if the tokenizer keeps capitals.
        truncate_dim: int or None. How many numbers of a vector sentence-transformers keeps; None for all.
    """

    pooling: str
    normalize: bool
    max_seq_length: int
    folder: str
    files: tuple
    remarks: tuple = ()
    prompts: Prompts = NO_PROMPTS
    similarity: str = "cosine"
    lowers_case: bool = False
    truncate_dim: int | None = None


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
    prompts, similarity, truncate_dim = _usage(directory)
    pooling = _pooling(directory, os.path.join(directory, pooling_folder, _CONFIG), prompts)
    max_seq_length, lengths_file, lowers_case = _tokenization(directory, folder)
    normalize, remarks = "Normalize" in kinds, []
    if similarity != "cosine" and not (similarity == "dot" and normalize):
        remarks.append(f"its similarity function is {similarity}, but search and encode compare by cosines")
    if truncate_dim:
        remarks.append(
            f"only the first {truncate_dim} numbers, as its truncate_dim says"
            + (", scaled to length 1" if normalize else "")
        )
    files = (_MODULES, os.path.join(pooling_folder, _CONFIG), *filter(None, [lengths_file]))
    files += (_PROMPTS,) if prompts.named else ()
    about = tuple(remarks), prompts, similarity, lowers_case, truncate_dim
    return SentenceTransformer(pooling, normalize, max_seq_length, folder, files, *about)


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
        # The tokenizer's own files say whether it keeps capitals.
        next(iter(_LENGTHS)): {
            "max_seq_length": min(steps.max_seq_length or positions, positions),
            "do_lower_case": steps.lowers_case,
        },
        _PROMPTS: {
            "prompts": dict(steps.prompts.texts),
            "default_prompt_name": steps.prompts.default_name,
            "similarity_fn_name": steps.similarity,
            **({"truncate_dim": steps.truncate_dim} if steps.truncate_dim else {}),
        },
    }
    for kind in modules[1:]:
        storage.make_directories(os.path.join(directory, kind["path"]))
    for name, content in contents.items():
        storage.write_whole(os.path.join(directory, name), json.dumps(content, indent=2) + "\n")


def check_case(steps: SentenceTransformer, do_lower_case: bool, origin: str) -> None:
    """Refuses a folder that lowers the case of texts for a tokenizer that keeps capitals.

    Args:
        steps: SentenceTransformer.
        do_lower_case: bool. Whether the tokenizer of the model lowers the case itself.
        origin: str. The model, for the error.

    Raises:
        UserError: texts would keep their capitals here.
    """
    if steps.lowers_case and not do_lower_case:
        raise UserError(
            f"{origin}: sentence_bert_config.json says do_lower_case, but the tokenizer keeps capitals; set "
            '"do_lower_case": true in tokenizer_config.json if the vocabulary has lower case alone, or false in both'
        )


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


def _pooling(directory, path, prompts):
    values = read_json(path, _MOST_BYTES, directory)
    if values.get("include_prompt") is False and prompts.named:
        raise UserError(
            f"{path}: pools a text without its prompt (include_prompt: false), which is not computed here; take a "
            "model with include_prompt: true"
        )
    modes = sorted(key.removeprefix(_MODE) for key, value in values.items() if key.startswith(_MODE) and value)
    if newer := values.get("pooling_mode"):
        modes = [_NEWER_NAMES.get(mode, str(mode)) for mode in ([newer] if isinstance(newer, str) else newer)]
    if tuple(modes) not in _POOLINGS:
        raise UserError(
            f"{path}: pools by {' and '.join(modes)[:200] or 'nothing'}; expected cls_token, mean_tokens, "
            "max_tokens, or cls_token and mean_tokens"
        )
    return _POOLINGS[tuple(modes)]


def _tokenization(directory, folder):
    """Returns (tokens of a row, the file that states this number, whether texts become lower case), or (0, "", ...)."""
    lowers_case = False
    for name, key in _LENGTHS.items():
        name = os.path.join(folder, name)
        path = os.path.join(directory, name)
        if not storage.is_file(path):
            continue
        values = read_json(path, _MOST_BYTES, directory)
        lowers_case = lowers_case or key == "max_seq_length" and values.get("do_lower_case") is True
        length = values.get(key)
        if length is None or isinstance(length, int | float) and length >= _NO_LENGTH:
            continue
        if type(length) is not int or length < 3:
            raise UserError(f"{path}: {key} is {str(length)[:40]!r}; expected a number of tokens")
        return length, name, lowers_case
    return 0, "", lowers_case


def _usage(directory):
    """Returns (Prompts, similarity function, size of vectors or None), which users of the model should take."""
    path = os.path.join(directory, _PROMPTS)
    values = read_json(path, _MOST_BYTES, directory) if storage.is_file(path) else {}
    similarity, size = values.get("similarity_fn_name") or "cosine", values.get("truncate_dim")
    if similarity not in _SIMILARITIES:
        raise UserError(
            f"{path}: similarity_fn_name is {str(similarity)[:40]!r}; expected {', '.join(_SIMILARITIES)} or null"
        )
    return checked_prompts(values, path), similarity, size if type(size) is int and size > 0 else None

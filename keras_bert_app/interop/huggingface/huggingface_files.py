"""Reads config.json and the tensor headers of a transformers directory. Refuses models other than BERT."""

import dataclasses
from typing import Any

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.published_keys import HUGGINGFACE
from keras_bert_app.errors import UserError
from keras_bert_app.files import check_in_folder, read_json
from keras_bert_app.interop.huggingface import safetensors_files
from keras_bert_app.interop.huggingface.huggingface_names import ARCHITECTURES
from pipelines import storage

CONFIG, WEIGHTS, _INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
_OTHER_LIBRARIES = ("tf_model.h5", "flax_model.msgpack")
_MAX_JSON_BYTES = 10_000_000  # The index of BERT-large has 40 KB.
# These keys change the outputs of an encoder. The reader ignores all other keys, as transformers ignores unknown keys.
_KEYS = {field.name for field in dataclasses.fields(BertConfig)} - {"do_lower_case"} | {
    "is_decoder",
    "add_cross_attention",
    "position_embedding_type",
    "pruned_heads",
}
# This command converts every tensor. A conversion with a model class of transformers would drop some heads, or fill
# missing heads with random values.
_CONVERSION = (
    """python -c "import glob, torch; from safetensors.torch import save_file; t = {}; """
    """[t.update(torch.load(f, weights_only=True)) for f in glob.glob('pytorch_model*.bin')]; """
    """save_file({k: v.contiguous().clone() for k, v in t.items()}, 'model.safetensors', """
    """{'format': 'pt'})\""""
)


def has_weights(directory: str) -> bool:
    """Checks whether a directory has a weights file with a name that transformers uses.

    Args:
        directory: str. Local or remote directory.

    Returns:
        bool. Also True for formats that read_entries refuses.
    """

    def has(*names):
        return any(storage.is_file(f"{directory}/{name}") for name in names)

    return has(WEIGHTS, _INDEX) or has(CONFIG) and has(*_PICKLES, *_OTHER_LIBRARIES)


def read_config(
    directory: str, model_type: str = "bert", classes: tuple[str, ...] = tuple(ARCHITECTURES)
) -> dict[str, Any]:
    """Reads config.json.

    Args:
        directory: str. Local or remote directory.
        model_type: str. The kind of model that is expected.
        classes: tuple of str. The classes of transformers that are expected.

    Returns:
        dict. The values in the file.

    Raises:
        UserError: The file is missing, or describes another model.
    """
    path = f"{directory}/{CONFIG}"
    if not storage.is_file(path):
        raise UserError(f"{directory}: has no config.json; put the config.json of these weights into this directory")
    values = read_json(path, _MAX_JSON_BYTES, directory)
    architectures, found = values.get("architectures") or [], values.get("model_type", model_type)
    if not isinstance(architectures, list) or not all(isinstance(name, str) for name in architectures):
        raise UserError(
            f"{path}: architectures is {str(architectures)[:80]!r}; expected a list such as {[classes[-1]]}"
        )
    others = [name for name in architectures if name not in classes]
    if found != model_type or others:
        named = others[0] if others else "a model"
        raise UserError(
            f"{path}: {named[:80]!r} of model_type {str(found)[:80]!r} is not read here; expected model_type "
            f"{model_type} and one of {', '.join(classes)}; models related to BERT have different layers"
        )
    for key in ("auto_map", "quantization_config"):
        if values.get(key):
            raise UserError(
                f"{path}: has {key}, so the model has its own code (auto_map) or quantized weights "
                "(quantization_config); expected transformers' own model with floating-point weights"
            )
    return values


def bert_config(directory: str, values: dict[str, Any]) -> BertConfig:
    """Builds the configuration from the values of config.json.

    Args:
        directory: str. Directory of the model, for messages.
        values: dict. See read_config.

    Returns:
        BertConfig. do_lower_case has its default value. The caller sets it later from the files of the tokenizer.

    Raises:
        UserError: A value is invalid.
    """
    known = {key: value for key, value in values.items() if key in _KEYS and value is not None}
    if not isinstance(known.get("hidden_act", ""), str):
        raise UserError(
            f"{directory}/{CONFIG}: hidden_act is {repr(known['hidden_act'])[:80]}; expected a name such as gelu"
        )
    try:
        return BertConfig.from_dict(known, HUGGINGFACE)
    except UserError as error:
        raise UserError(f"{directory}/{CONFIG}: {error}") from None


def read_entries(directory: str) -> dict[str, safetensors_files.Entry]:
    """Reads the headers of model.safetensors, or of the shards that the index names.

    Args:
        directory: str. Local or remote directory.

    Returns:
        dict name -> safetensors_files.Entry. All tensors.

    Raises:
        UserError: The weights have an unsupported format, a file is damaged, or the index contradicts the shards.
    """
    if storage.is_file(f"{directory}/{WEIGHTS}"):
        check_in_folder(f"{directory}/{WEIGHTS}", directory)
        return safetensors_files.read_header(f"{directory}/{WEIGHTS}")
    if storage.is_file(f"{directory}/{_INDEX}"):
        return _read_shards(directory)
    if any(storage.is_file(f"{directory}/{name}") for name in _PICKLES):
        raise UserError(
            f"{directory}: the weights are in pytorch_model.bin, a pickle; a pickle can run code when it is opened, so "
            "it is never opened here; if you trust the file, run the following command in this directory, with a "
            f"Python that has torch and safetensors, and then try again: {_CONVERSION}"
        )
    for name in _OTHER_LIBRARIES:
        if storage.is_file(f"{directory}/{name}"):
            raise UserError(
                f"{directory}: its weights are in {name}, which is not read here; expected "
                "model.safetensors (save_pretrained of transformers writes it)"
            )
    raise UserError(f"{directory}: has no model.safetensors; put the file with the weights into this directory")


def _read_shards(directory):
    path = f"{directory}/{_INDEX}"
    weight_map = read_json(path, _MAX_JSON_BYTES, directory).get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(shard, str) for shard in weight_map.values()):
        raise UserError(f"{path}: has no weight_map of tensor names to file names; fetch it again")
    entries = {}
    for shard in sorted(set(weight_map.values())):
        _check_shard_name(directory, shard)
        shard_entries = safetensors_files.read_header(f"{directory}/{shard}")
        indexed = {name for name, shard_of_name in weight_map.items() if shard_of_name == shard}
        if shard_entries.keys() != indexed:
            name = min(shard_entries.keys() ^ indexed)
            raise UserError(
                f"{path}: tensor {name[:80]!r} is {'not ' if name in indexed else ''}in {shard}, but the "
                f"index says that it is{'' if name in indexed else ' not'}; the files belong to two different models; "
                "fetch all files of one model again"
            )
        entries |= shard_entries
    return entries


def _check_shard_name(directory, shard):
    """Refuses a shard outside of the directory, because an index must not make the reader open other files."""
    if not shard.endswith(".safetensors") or not shard.isprintable() or set(shard) & set("/\\:"):
        raise UserError(
            f"{directory}/{_INDEX}: names the shard {shard[:80]!r}; expected plain names of .safetensors "
            "files in the same directory"
        )
    path = f"{directory}/{shard}"
    if not storage.is_file(path):
        raise UserError(f"{directory}: the index names {shard}, but this file is missing; fetch it")
    check_in_folder(path, directory)

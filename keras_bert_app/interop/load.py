"""Weights of any layout: one door for --init_checkpoint, `convert` and load_pretrained."""

import contextlib
import dataclasses
import importlib
import os
import shutil

import numpy as np

from keras_bert_app.errors import UserError
from keras_bert_app.interop import archives, hub
from keras_bert_app.interop.weights import checked
from keras_bert_app.modeling.pretrainer import BertPretrainer
from keras_bert_app.runs import seeds, work_directory
from pipelines.wordpiece import casing
from pipelines.wordpiece.vocabulary import checked_pieces

# The module of each layout, in the order in which a directory is tested for them.
_MODULES = {
    "workdir": "own_layout",
    "keras_hub": "keras_hub.keras_hub_layout",
    "huggingface": "huggingface.huggingface_layout",
    "google_tf1": "google_tf1.google_layout",
    "model_garden": "model_garden.model_garden_layout",
}
FORMATS = tuple(_MODULES)


def format_module(name):
    """The module of a format: recognizes(path), read(path), write(weights, directory)."""
    return importlib.import_module(f"keras_bert_app.interop.{_MODULES[name]}")


def detect(path):
    """The format of a directory.

    Raises:
        UserError: none that is known; what lies there is said.
    """
    for name in FORMATS:
        if format_module(name).recognizes(path):
            return name
    if not work_directory.exists(path):
        raise UserError(
            f"{path}: there is no such file or directory; expected a model in one of the layouts "
            f"{', '.join(FORMATS)}, or a handle such as hf://NAME"
        )
    found = ", ".join(sorted(_names_in(path))[:8]) if _names_in(path) is not None else "a file"
    raise UserError(
        f"{path}: in none of the layouts {', '.join(FORMATS)} (found: {found or 'nothing'}); expected for "
        "instance config.json with model.safetensors, or bert_config.json with bert_model.ckpt.index"
    )


def _names_in(path):
    """What lies in a directory; None for what is none."""
    if "://" not in path:
        return os.listdir(path) if os.path.isdir(path) else None
    import tensorflow as tf

    return tf.io.gfile.listdir(path) if tf.io.gfile.isdir(path) else None


def load_weights(path, source_format="auto", allow_missing=(), allow_unexpected=False):
    """The weights of a model in any layout, checked against its configuration.

    Args:
        path: a directory, a .zip or .tar.gz of one, a checkpoint prefix, or a handle: hf://OWNER/NAME, or the name of a
            KerasHub preset.
        source_format: of FORMATS, or "auto".
        allow_missing: parts that the source need not have; allow_unexpected: whether it may have tensors more.

    Returns:
        (Weights, lines that say what was loaded and what was not).

    Raises:
        UserError: see detect and weights.checked.
    """
    path = str(path)
    path = _best_seed(path)
    with located(path, source_format) as (place, found_format):
        weights = format_module(found_format).read(place)
        if place != path:
            # Of an archive nothing is left after this: tensors may be views of its files.
            weights = dataclasses.replace(
                weights,
                origin=weights.origin.replace(place, path),
                tensors={name: np.array(tensor) for name, tensor in weights.tensors.items()},
            )
    return checked(weights, allow_missing, allow_unexpected)


def _best_seed(path):
    """A path or handle as text; of runs of several seeds the best one's."""
    return str(path) if hub.is_handle(str(path)) else str(seeds.best(path))


@contextlib.contextmanager
def located(path, source_format="auto"):
    """(directory or checkpoint prefix, format) of a path, a handle or an archive, which is unpacked for the while; of runs of several
    seeds the best one's.

    Raises:
        UserError: see detect, hub.fetch and archives.unpacked.
    """
    place, format_of_handle = hub.fetch(_best_seed(path))
    with archives.unpacked(place) if archives.is_archive(place) else contextlib.nullcontext(place) as place:
        try:
            yield place, source_format if source_format != "auto" else format_of_handle or detect(place)
        except UserError as error:
            # Nobody finds the temporary directory of an archive.
            raise UserError(str(error).replace(place, str(path))) from None


def with_vocabulary(weights, vocabulary_bytes):
    """Weights that came without a vocabulary, with this one."""
    pieces = checked_pieces(vocabulary_bytes, "vocab.txt")
    if len(pieces) > weights.config.vocab_size:
        raise UserError(
            f"the vocabulary has {len(pieces):,} entries, {weights.origin} {weights.config.vocab_size:,} rows; "
            "give the one that it was trained with"
        )
    config = weights.config
    if weights.vocabulary is None and not weights.says_casing and not casing.fits(pieces, config.do_lower_case):
        config = config.replace(
            do_lower_case=not config.do_lower_case
        )  # what the source could not tell without a vocabulary
    casing.verify(pieces, config.do_lower_case, "vocab.txt")
    return dataclasses.replace(weights, config=config, vocabulary=vocabulary_bytes)


def write_weights(weights, target_format, directory):
    """Writes a layout, reads it back and compares.

    Returns:
        lines that say what the layout cannot hold, and how many tensors came back bit for bit.

    Raises:
        UserError: the directory is there already, or the layout cannot hold these weights or this model.
    """
    module = format_module(target_format)
    if weights.config.is_causal and target_format != "workdir":
        raise UserError(
            f"{weights.origin}: attends to what stands before alone (is_causal), for which {target_format} has no "
            "place; write --to=workdir"
        )
    lines = list(module.write(weights, directory))
    try:
        found = module.read(directory)
    except UserError:
        shutil.rmtree(directory)  # nobody could use it
        raise
    same = [
        path
        for path, tensor in weights.tensors.items()
        if path in found.tensors and np.array_equal(found.tensors[path], tensor, equal_nan=True)
    ]
    differing = [path for path in weights.tensors if path in found.tensors and path not in same]
    if differing:
        raise UserError(
            f"{directory}: {len(differing)} tensors were not written as they are, first {differing[0]}; this "
            "is a fault of this program or of the disk; delete the directory"
        )
    return [
        *lines,
        f"wrote {target_format} {directory}: {len(same)} of {len(weights.tensors)} tensors, read back bit for bit",
    ]


def load_pretrained(path, dtype="float32", allow_missing=()):
    """A BertPretrainer with the weights of a run or of any layout that load_weights reads.

    A part that is missing, and allowed to be, is not in the model: it has no outputs that could be taken for answers.

    Args:
        path: see load_weights. dtype: "float32" or "mixed_bfloat16". allow_missing: of "pooler", "masked_lm",
            "next_sentence".

    Raises:
        UserError: nothing to load there, a damaged file, or weights that do not fit the configuration.
    """
    weights, _ = load_weights(path, allow_missing=allow_missing)
    return build_model(weights, dtype)


def build_model(weights, dtype="float32"):
    """A BertPretrainer of the parts that some Weights hold."""
    model = BertPretrainer(weights.config, dtype=dtype, parts=weights.parts())
    assign(model, weights)
    return model


def assign(model, weights):
    """Copies tensors into a model's variables of the same path. Returns the paths of variables that have none."""
    left = []
    for variable in model.weights:
        if variable.path in weights.tensors:
            variable.assign(weights.tensors[variable.path])
        else:
            left.append(variable.path)
    return left

"""Loads and writes the weights of any layout, for --init_checkpoint, `convert` and load_pretrained."""

import contextlib
import dataclasses
import importlib
import os
import shutil
from collections.abc import Collection, Iterator
from types import ModuleType

import numpy as np

from keras_bert_app.errors import UserError
from keras_bert_app.interop import archives, hub
from keras_bert_app.interop.weights import Weights, checked
from keras_bert_app.modeling.architectures import Pretrainer, make_pretrainer
from keras_bert_app.runs import seeds
from pipelines import storage
from pipelines.wordpiece import casing, vocabulary_checks
from pipelines.wordpiece.vocabulary import checked_pieces

# Layout -> its module, in the order in which `detect` tries them.
_MODULES = {
    "workdir": "own_layout",
    "keras_hub": "keras_hub.keras_hub_layout",
    "gpt2": "gpt2.gpt2_layout",
    "huggingface": "huggingface.huggingface_layout",
    "google_tf1": "google_tf1.google_layout",
    "model_garden": "model_garden.model_garden_layout",
}
FORMATS = tuple(_MODULES)


def format_module(name: str) -> ModuleType:
    """Imports the module of a layout.

    Args:
        name: str. One of FORMATS.

    Returns:
        Module with recognizes(path), read(path) and write(weights, directory).
    """
    return importlib.import_module(f"keras_bert_app.interop.{_MODULES[name]}")


def detect(path: str) -> str:
    """Finds the layout of a directory or checkpoint.

    Args:
        path: str. Local or remote path.

    Returns:
        str. One of FORMATS.

    Raises:
        UserError: The path does not exist or has an unknown layout. The message names the files in the directory.
    """
    for name in FORMATS:
        if format_module(name).recognizes(path):
            return name
    if not storage.exists(path):
        raise UserError(
            f"{path}: there is no such file or directory; expected a model in one of the layouts "
            f"{', '.join(FORMATS)}, or a handle such as hf://OWNER/NAME"
        )
    content = ", ".join(storage.list_directory(path)[:8]) if storage.is_directory(path) else "a file"
    raise UserError(
        f"{path}: in none of the layouts {', '.join(FORMATS)} (found: {content or 'nothing'}); expected for "
        "instance config.json with model.safetensors, or bert_config.json with bert_model.ckpt.index"
    )


def load_weights(
    path: str | os.PathLike,
    source_format: str = "auto",
    allow_missing: Collection[str] = (),
    allow_unexpected: bool = False,
    allow_absent: bool = False,
) -> tuple[Weights, list[str]]:
    """Loads the weights of a model in any layout, and checks them against the configuration.

    Args:
        path: str or os.PathLike. A directory, a .zip or .tar.gz of one, a checkpoint prefix, hf://OWNER/NAME, or the
            name of a KerasHub preset.
        source_format: str. One of FORMATS, or "auto" to detect it.
        allow_missing: collection of str. Parts that the source may lack.
        allow_unexpected: bool. Whether the source may have tensors that this model does not have.
        allow_absent: bool. Whether the source may lack the parts that a model of its class never has.

    Returns:
        Tuple (Weights, lines that say which tensors are loaded and which are not).

    Raises:
        UserError: See detect and weights.checked.
    """
    path = _best_seed(path)
    with located(path, source_format) as (place, layout):
        weights = format_module(layout).read(place)
        if place != path:
            # The files of an archive are deleted when this block ends, and the tensors may be views of these files.
            weights = dataclasses.replace(
                weights,
                origin=weights.origin.replace(place, path),
                tensors={name: np.array(tensor) for name, tensor in weights.tensors.items()},
            )
    return checked(weights, allow_missing, allow_unexpected, allow_absent)


def _best_seed(path):
    """Returns a path or handle as str. For a run with several seeds it returns the directory of the best seed."""
    return str(path) if hub.is_handle(str(path)) else str(seeds.best(path))


@contextlib.contextmanager
def located(path: str | os.PathLike, source_format: str = "auto") -> Iterator[tuple[str, str]]:
    """Finds the files of a model.

    Fetches a handle, unpacks an archive, and selects the best of several seeds.

    Args:
        path: str or os.PathLike. See load_weights.
        source_format: str. One of FORMATS, or "auto" to detect it.

    Yields:
        Tuple (directory or checkpoint prefix, layout). The files of an archive exist until the block ends.

    Raises:
        UserError: See detect, hub.fetch and archives.unpacked.
    """
    fetched, handle_format = hub.fetch(_best_seed(path))
    with archives.unpacked(fetched) if archives.is_archive(fetched) else contextlib.nullcontext(fetched) as place:
        try:
            yield place, source_format if source_format != "auto" else handle_format or detect(place)
        except UserError as error:
            # The user does not know the temporary directory of an archive. The message names the archive instead.
            raise UserError(str(error).replace(place, str(path))) from None


def with_vocabulary(weights: Weights, vocabulary_bytes: bytes) -> Weights:
    """Sets the vocabulary of weights.

    If the weights have no vocabulary and their source does not state do_lower_case, the vocabulary decides it.

    Args:
        weights: Weights. Any weights.
        vocabulary_bytes: bytes. Content of vocab.txt.

    Returns:
        Weights. A copy with this vocabulary.

    Raises:
        UserError: The vocabulary has more entries than the embedding table has rows.
        DataError: The vocabulary is not usable, or contradicts do_lower_case.
    """
    pieces = checked_pieces(vocabulary_bytes, "vocab.txt")
    if len(pieces) > weights.config.vocab_size:
        raise UserError(
            f"the vocabulary has {len(pieces):,} entries, but {weights.origin} has {weights.config.vocab_size:,} "
            "rows; give the vocabulary that the model was trained with"
        )
    config = weights.config
    is_guess = weights.vocabulary is None and not weights.says_casing and config.tokenizer == "wordpiece"
    if is_guess and not casing.fits(pieces, config.do_lower_case):
        config = config.replace(do_lower_case=not config.do_lower_case)
    vocabulary_checks.verify(pieces, config.tokenizer, config.do_lower_case, "vocab.txt")
    return dataclasses.replace(weights, config=config, vocabulary=vocabulary_bytes)


def write_weights(weights: Weights, target_format: str, directory: str) -> list[str]:
    """Writes a layout, reads it back and compares the tensors.

    Args:
        weights: Weights. Weights to write.
        target_format: str. One of FORMATS.
        directory: str. Local directory that does not exist yet or is empty.

    Returns:
        list of str. Lines that say which properties the layout cannot store, and how many tensors came back bit for
        bit.

    Raises:
        UserError: The directory exists and is not empty, or the layout cannot store these weights or this model.
    """
    module = format_module(target_format)
    if weights.config.architecture == "lstm_lm" and target_format != "workdir":
        raise UserError(f"{weights.origin}: is an LSTM, which {target_format} cannot store; write --to=workdir")
    if weights.config.is_causal and target_format not in ("workdir", "gpt2"):
        raise UserError(
            f"{weights.origin}: is causal (no token attends to later tokens), and {target_format} cannot store this; "
            "write --to=workdir"
        )
    if weights.config.tokenizer == "symbols" and target_format not in ("workdir", "huggingface", "gpt2"):
        raise UserError(
            f"{weights.origin}: reads symbols, and {target_format} knows only WordPiece; write --to=huggingface or "
            "--to=workdir"
        )
    if (weights.config.has_columns or weights.config.token_vectors) and target_format != "workdir":
        raise UserError(
            f"{weights.origin}: has channels, positions of lines or token vectors, which {target_format} cannot store; "
            "write --to=workdir"
        )
    lines = list(module.write(weights, directory))
    try:
        written = module.read(directory)
    except UserError:
        shutil.rmtree(directory)  # Files that cannot be read are useless.
        raise
    same = [
        path
        for path, tensor in weights.tensors.items()
        if path in written.tensors and np.array_equal(written.tensors[path], tensor, equal_nan=True)
    ]
    differing = [path for path in weights.tensors if path in written.tensors and path not in same]
    if differing:
        raise UserError(
            f"{directory}: {len(differing)} tensors changed when they were written, first {differing[0]}; "
            "this is a fault of this program or of the disk; delete the directory"
        )
    return [
        *lines,
        f"wrote {target_format} {directory}: {len(same)} of {len(weights.tensors)} tensors, read back bit for bit",
    ]


def load_pretrained(
    path: str | os.PathLike, dtype: str = "float32", allow_missing: Collection[str] = (), seed: int = 0
) -> Pretrainer:
    """Builds a model with the weights of a run or of any layout that load_weights reads.

    Args:
        path: str or os.PathLike. See load_weights.
        dtype: str. "float32" or "mixed_bfloat16".
        allow_missing: str or collection of str. Parts that may be missing: some of "pooler", "masked_lm",
            "next_sentence", "language_model".
        seed: int. The seed of the dropout in Keras's fit.

    Returns:
        BertPretrainer, or LanguageModel for a GPT. A missing part is not in the model, so the model never returns
        outputs of random weights.

    Raises:
        UserError: The path has no model, a file is damaged, or the weights do not match the configuration.
    """
    allow_missing = (allow_missing,) if isinstance(allow_missing, str) else allow_missing
    weights, _ = load_weights(path, allow_missing=allow_missing)
    return build_model(weights, dtype, seed)


def build_model(weights: Weights, dtype: str = "float32", seed: int = 0) -> Pretrainer:
    """Builds a model with the parts that the weights have.

    Args:
        weights: Weights. Values of the variables.
        dtype: str. "float32" or "mixed_bfloat16".
        seed: int. The seed of the dropout in Keras's fit.

    Returns:
        BertPretrainer, or LanguageModel for a GPT. The model lacks the parts that are missing in the weights.
    """
    model = make_pretrainer(weights.config, seed=seed, dtype=dtype, parts=weights.parts())
    assign(model, weights)
    return model


def assign(model, weights: Weights) -> list[str]:
    """Copies tensors into a model's variables of the same path.

    Args:
        model: keras model or layer. Its variables are changed.
        weights: Weights. Values of the variables.

    Returns:
        list of str. Paths of variables without a tensor. These variables are unchanged.
    """
    unassigned = []
    for variable in model.weights:
        if variable.path in weights.tensors:
            variable.assign(weights.tensors[variable.path])
        else:
            unassigned.append(variable.path)
    return unassigned

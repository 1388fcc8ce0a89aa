"""Compares the vectors of a folder of sentence-transformers with those that sentence-transformers makes itself."""

import importlib.metadata
import os
import sys
import tempfile

import numpy as np
import tensorflow as tf

from keras_bert_app.config.prompts import Prompts
from keras_bert_app.export.sentence_vectors import EmbeddingModule, Pooling, embedding_module
from keras_bert_app.interop import parity
from keras_bert_app.interop.reference import reference_process
from pipelines.plurals import counted

PACKAGE = "sentence-transformers"
_SCRIPT = os.path.join("huggingface", "sentence_transformers_reference.py")
# Empty text, capitals, accents, other scripts, punctuation; `_texts` adds one that is longer than a row.
_TEXTS = ("", "A cat sat on the mat.", "WHERE is Émile's naïve café?", "3,5 kg – 中文, русский & 100% [of] it!")
_MOST_PROMPTS = 8


def check(path: str, reference_python: str = "") -> tuple[list[str], bool]:
    """Compares the vectors of a few texts, without a named prompt and with each prompt of the folder.

    Args:
        path: str. A local folder with modules.json.
        reference_python: str. Interpreter that has sentence-transformers. "" means this interpreter.

    Returns:
        Tuple (lines, is_same). The lines name the reference and show the table of interop.parity.compare. If no
        interpreter has sentence-transformers, one line says that nothing was compared.

    Raises:
        UserError: the folder has steps that are not computed here, or sentence-transformers failed.
    """
    if not reference_python and not _is_installed():
        return [_not_compared("this environment")], True
    module, _ = embedding_module(path, Pooling(vector_size=0))  # the reference gives whole vectors
    names = list(module.about.prompts)[:_MOST_PROMPTS]
    texts = _texts(module)
    interpreter = reference_python or sys.executable
    script = os.path.join(os.path.dirname(os.path.abspath(parity.__file__)), _SCRIPT)
    mend = f"expected an interpreter with {PACKAGE} as --reference_python"
    with (
        tempfile.TemporaryDirectory() as directory,
        reference_process.ReferenceProcess(
            interpreter, script, f"{path}: {PACKAGE} under {interpreter}", mend
        ) as asked,
    ):
        if PACKAGE not in asked.versions:
            return [_not_compared(interpreter)], True
        outputs = os.path.join(directory, "outputs.npz")
        asked.ask(model=os.path.abspath(path), texts=texts, prompt_names=names, outputs_file=outputs)
        with np.load(outputs, allow_pickle=False) as stored:
            theirs = {_shown(name): stored[f"arr_{number}"] for number, name in enumerate(["", *names])}
        made_by = " on ".join(f"{package} {version}" for package, version in asked.versions.items())
    lines, is_same = parity.compare(_our_vectors(module, texts, names), theirs)
    return [f"sentence vectors of {counted(len(texts), 'text')} compared with {made_by}", *lines], is_same


def _our_vectors(module: EmbeddingModule, texts: list[str], names: list[str]) -> dict[str, np.ndarray]:
    """The vectors without a named prompt, and with each of some prompts."""
    prompts, signatures = Prompts(module.about.prompts, module.about.default_prompt_name), module.exported
    vectors = {_shown(""): signatures["serving_default"](tf.constant(texts))["embedding"]}
    for name in names:
        rows = dict(signatures["tokenize"](tf.constant([prompts.texts[name] + text for text in texts])))
        rows.pop("truncated")
        vectors[_shown(name)] = signatures["ids"](**rows)["embedding"]
    return {name: values.numpy() for name, values in vectors.items()}


def _shown(name):
    return f"vectors_{name}" if name else "vectors"


def _texts(module):
    return [*_TEXTS, "the end of this text is cut off " * (module.about.max_seq_length // 7 + 1)]


def _not_compared(where):
    return (
        f"sentence vectors: not compared, because {where} has no {PACKAGE}; --reference_python with {PACKAGE} compares "
        "them"
    )


def _is_installed():
    try:
        return bool(importlib.metadata.version(PACKAGE))
    except importlib.metadata.PackageNotFoundError:
        return False

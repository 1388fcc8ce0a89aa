"""Names of all analyses. Each analysis is a module of keras_bert_app.analysis.studies.

A study module defines:
    SUMMARY: str. One line that says what the analysis shows.
    NEEDS: tuple of str. The Options that the user must give.
    TAKES: tuple of str. The other Options that it reads.
    run(subject, options, log): the analysis. It takes an encoders.Subject and returns findings.Findings. It calls log
        with lines of progress.
    check(options): optional. It raises UserError for faults that are visible before a model is loaded.
    MODEL_FROM: optional str. The option that can replace init_checkpoint. If the user gives that option, the
        subject may be None.
"""

import importlib
import types

from keras_bert_app.errors import UserError, nearest

# Name of an analysis -> its module in keras_bert_app.analysis.studies.
_MODULES = {
    "attention": "attention_maps",
    "patterns": "attention_patterns",
    "grammar_heads": "grammar_heads",
    "coreference": "coreference",
    "attention_probe": "attention_probe",
    "structural_probe": "structural_probe",
    "edge_probing": "edge_probing",
    "head_importance": "head_importance",
    "pruning": "head_pruning",
    "senses": "word_senses",
    "minimal_pairs": "minimal_pairs",
    "surprise": "surprise",
    "endings": "endings",
    "features": "feature_vectors",
}
NAMES = tuple(_MODULES)


def check(name: str) -> None:
    """Checks the name of an analysis without loading its module.

    Args:
        name: str. The name, as in NAMES.

    Raises:
        UserError: no analysis has this name. The message suggests the nearest name.
    """
    if name not in NAMES:
        raise UserError(f"--what={name} is not known: {nearest(name, NAMES)}")


def find(name: str) -> types.ModuleType:
    """Loads the module of an analysis.

    Args:
        name: str. The name, as in NAMES.

    Returns:
        The module.

    Raises:
        UserError: no analysis has this name.
    """
    check(name)
    return importlib.import_module(f"keras_bert_app.analysis.studies.{_MODULES[name]}")

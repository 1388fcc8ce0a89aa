"""All analyses by name: each is a module of keras_bert_app.analysis.studies.

Such a module has SUMMARY, one line; NEEDS, names of Options that must be given; and
run(subject, options, log) -> findings.Findings, where subject is an encoders.Subject and log is called with lines of progress.
It may have check(options), which raises UserError for what can be told before a model is loaded; and MODEL_FROM, the name of
an option that gives the model in place of init_checkpoint: with it the subject may be None.
"""

import importlib

from keras_bert_app.errors import UserError, nearest

# The module of each analysis in keras_bert_app.analysis.studies.
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


def check(name):
    """Loads nothing.

    Raises:
        UserError: there is no such analysis; the nearest is named.
    """
    if name not in NAMES:
        raise UserError(f"--what={name} is not known: {nearest(name, NAMES)}")


def find(name):
    """The module of an analysis.

    Raises:
        UserError: see check.
    """
    check(name)
    return importlib.import_module(f"keras_bert_app.analysis.studies.{_MODULES[name]}")

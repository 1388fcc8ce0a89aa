"""All analyses by name: each is the module keras_bert_app.analysis.NAME.

Such a module has SUMMARY, one line; NEEDS, names of Options that must be given; and
run(subject, options, log) -> findings.Findings, where subject is an encoders.Subject and log is called with lines of progress.
It may have check(options), which raises UserError for what can be told before a model is loaded; and MODEL_FROM, the name of
an option that gives the model in place of init_checkpoint: with it the subject may be None.
"""

import importlib

from keras_bert_app.config import nearest
from keras_bert_app.errors import UserError

NAMES = ("attention", "patterns", "grammar_heads", "coreference", "attention_probe",
         "structural_probe", "edge_probing", "head_importance", "pruning",
         "senses", "minimal_pairs", "surprise", "endings", "features")


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
    return importlib.import_module(f"keras_bert_app.analysis.{name}")

"""The tasks of GLUE (Wang et al. 2018) in their official files, and of XNLI and PAWS-X, which look alike.

GLUE's TSV files have no quoting; CoLA's have no header but in the test file; labels stand in the order of the original's
processors (google-research/bert run_classifier.py).
"""

import os

from keras_bert_app.errors import UserError
from keras_bert_app.tasks import sequences
from keras_bert_app.tasks.sequences import CLASSIFICATION, REGRESSION, Example
from keras_bert_app.tasks.tables import read_rows, text_of
from keras_bert_app.tasks.task import Task

_NLI = ("contradiction", "entailment", "neutral")
_ENTAILS = ("entailment", "not_entailment")
_COLA_COLUMNS = ("source", "label", "star", "sentence")
_FILES = {"train": ("train.tsv",), "dev": ("dev.tsv",), "test": ("test.tsv",)}
_STS_RANGE = (0.0, 5.0)


def _reader(text_a, text_b=None, label="label", kind=CLASSIFICATION, columns=None):
    """A function (path, run, has_labels) over files with these columns. Args: columns: where files have no header."""
    def read(path, run, has_labels):
        header = None if columns is None or os.path.basename(path).startswith("test") else columns
        examples = []
        for number, row in read_rows(path, header):
            value = None
            if has_labels:
                value = text_of(path, number, row, label)
                if kind == REGRESSION:
                    value = _score(path, number, value)
            examples.append(Example(row.get("index") or str(len(examples)), text_of(path, number, row, text_a),
                                    text_of(path, number, row, text_b) if text_b else None, value, f"{path}:{number}"))
        return examples
    return read


def _score(path, number, value):
    low, high = _STS_RANGE
    try:
        score = float(value)
    except ValueError:
        score = float("nan")
    if not low <= score <= high:
        raise UserError(f"{path}:{number}: score {value!r}; expected a number from {low:g} to {high:g}")
    return score


def _glue(name, summary, read, metrics=("accuracy",), labels=(), kind=CLASSIFICATION, files=None):
    return Task(name, summary, sequences, kind, read, files or _FILES, metrics, labels)


TASKS = (
    _glue("cola", "CoLA: is an English sentence acceptable", _reader("sentence", columns=_COLA_COLUMNS),
          ("matthews_correlation", "accuracy"), ("0", "1")),
    _glue("sst-2", "SST-2: is a phrase of a film review positive", _reader("sentence"), labels=("0", "1")),
    _glue("mrpc", "MRPC: do two sentences say the same", _reader("#1 String", "#2 String", "Quality"),
          ("accuracy", "f1"), ("0", "1")),
    _glue("qqp", "QQP: do two questions ask the same", _reader("question1", "question2", "is_duplicate"),
          ("accuracy", "f1"), ("0", "1")),
    _glue("sts-b", "STS-B: how alike two sentences are, 0 to 5", _reader("sentence1", "sentence2", "score", REGRESSION),
          ("spearman", "pearson"), kind=REGRESSION),
    _glue("mnli", "MNLI: does one sentence follow from the other", _reader("sentence1", "sentence2", "gold_label"),
          labels=_NLI, files={"train": ("train.tsv",), "dev": ("dev_matched.tsv",), "test": ("test_matched.tsv",),
                              "dev_mismatched": ("dev_mismatched.tsv",), "test_mismatched": ("test_mismatched.tsv",)}),
    _glue("qnli", "QNLI: does a sentence answer a question", _reader("question", "sentence"), labels=_ENTAILS),
    _glue("rte", "RTE: does one sentence follow from the other", _reader("sentence1", "sentence2"), labels=_ENTAILS),
    _glue("wnli", "WNLI: what a pronoun stands for, as inference", _reader("sentence1", "sentence2"), labels=("0", "1")),
    _glue("ax", "AX: GLUE's diagnostic sentences, for a model of mnli", _reader("sentence1", "sentence2"), labels=_NLI,
          files={"test": ("diagnostic.tsv", "AX.tsv"), "dev": ("diagnostic-full.tsv",)}),
    _glue("xnli", "XNLI: inference in 15 languages", _reader("sentence1", "sentence2", "gold_label"), labels=_NLI,
          files={"train": ("train.tsv",), "dev": ("xnli.dev.tsv", "dev.tsv"), "test": ("xnli.test.tsv", "test.tsv")}),
    _glue("paws-x", "PAWS-X: do two sentences with the same words say the same", _reader("sentence1", "sentence2"),
          ("accuracy", "f1"), ("0", "1"),
          files={"train": ("translated_train.tsv", "train.tsv"), "dev": ("dev_2k.tsv", "dev.tsv"),
                 "test": ("test_2k.tsv", "test.tsv")}),
)

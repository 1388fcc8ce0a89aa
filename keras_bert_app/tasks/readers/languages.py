"""Tasks in several languages: training in one language, scores in all languages (zero-shot transfer).

--language names the language that trains the model and chooses the best weights, English by default. A run ends with
the scores of the split dev_languages, for all languages together and for each language. evaluate --split=test gives
such scores of the test files.
"""

import os

from keras_bert_app.errors import UserError
from keras_bert_app.tasks.families import sequences
from keras_bert_app.tasks.families.sequences import CLASSIFICATION, Example
from keras_bert_app.tasks.readers.glue import NLI, guid_of, read_nli
from keras_bert_app.tasks.readers.tables import label_of, read_rows, text_of
from keras_bert_app.tasks.task import Task

_PAWS_X_LANGUAGES = ("de", "en", "es", "fr", "ja", "ko", "zh")


def _read_xnli(path, run, has_labels):
    # Only names such as multinli.train.de.tsv have a language. Dev and test files have a column with the language of
    # each row. GLUE's train.tsv is English.
    parts = os.path.basename(path).split(".")
    language = parts[2] if path.endswith(".tsv") and parts[:2] == ["multinli", "train"] else "en"
    return read_nli(path, run, has_labels, lambda row: row.get("language", language))


def _read_paws_x(path, run, has_labels):
    directory = os.path.basename(os.path.dirname(os.path.abspath(path)))
    language = directory if directory in _PAWS_X_LANGUAGES else ""
    return [
        Example(
            guid_of(row, number),
            text_of(path, line, row, "sentence1"),
            text_of(path, line, row, "sentence2"),
            label_of(path, line, row, "label") if has_labels else None,
            f"{path}:{line}",
            language,
        )
        for number, (line, row) in enumerate(read_rows(path))
    ]


def _of_the_language(split, examples, run):
    if not run.language or split not in ("train", "dev"):
        return examples
    kept = [example for example in examples if example.group in ("", run.language)]
    if examples and not kept:
        languages = ", ".join(sorted({example.group for example in examples}))
        raise UserError(
            f"--language={run.language}: {examples[0].place.rpartition(':')[0]} has {languages}; give one of "
            "these, or '' for all"
        )
    return kept


def _task(name, summary, read, metrics, labels, files, is_ordered=False):
    return Task(
        name,
        summary,
        sequences,
        CLASSIFICATION,
        read,
        files,
        metrics,
        labels,
        {"language": "en"},
        part=_of_the_language,
        reads=("language",),
        is_ordered=is_ordered,
    )


TASKS = (
    _task(
        "xnli",
        "XNLI: inference in 15 languages; --language names the language of training, all languages are scored",
        _read_xnli,
        ("accuracy",),
        NLI,
        {
            "train": ("multinli/multinli.train.{language}.tsv", "multinli.train.{language}.tsv", "train.tsv"),
            "dev": ("xnli.dev.tsv",),
            "test": ("xnli.test.tsv",),
            "dev_languages": ("xnli.dev.tsv",),
        },
        is_ordered=True,
    ),
    _task(
        "paws-x",
        "PAWS-X: do two sentences with the same words say the same, in 7 languages; --language as for xnli",
        _read_paws_x,
        ("accuracy", "f1"),
        ("0", "1"),
        {
            "train": ("{language}/*train.tsv", "*train.tsv"),
            "dev": ("{language}/dev_2k.tsv", "dev_2k.tsv"),
            "test": ("{language}/test_2k.tsv", "test_2k.tsv"),
            "dev_languages": ("{language}/dev_2k.tsv",),
        },
    ),
)

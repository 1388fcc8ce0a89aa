"""The flags of `ask` and `predict` for raw texts from the command line or from a file."""

import os
import sys
from collections.abc import Iterator, Sequence

from absl import flags

from keras_bert_app.cli.common import input_files
from keras_bert_app.errors import UserError
from keras_bert_app.vectors import text_sources
from pipelines import storage
from pipelines.plurals import counted
from pipelines.text.text_files import ReaderCounts

flags.disclaim_key_flags()  # --help then lists them under the command that calls `define`

_FLAGS = {
    "text": "A text to answer.",
    "text_pair": "The second text of a pair, one for each --text.",
    "question": "A question about --context.",
    "context": "The text that --question asks about, or that --choice continues.",
    "query": "A query for --document.",
    "document": "A document that a reranker scores for --query; give it several times, for one --query or for each.",
    "choice": "One of the choices that go with --context.",
}
# Names of a model's inputs -> the flags that give them.
_FLAGS_OF = {
    ("text",): ("text",),
    ("text_a", "text_b"): ("text", "text_pair"),
    ("query", "document"): ("query", "document"),
    ("question", "context"): ("question", "context"),
    ("context", "choices"): ("context", "choice"),
    ("context", "question", "choices"): ("context", "question", "choice"),
}
_MANY = "choices"  # this input takes all remaining columns


def define() -> None:
    """Defines the flags."""
    for name, help_text in _FLAGS.items():
        flags.DEFINE_multi_string(name, [], help_text)
    flags.DEFINE_string(
        "text_file",
        "",
        "Instead of texts: a plain text file with one example in each line. Tabs separate a text from its pair, a "
        "query from its document, a question from its context, and a context from its choices.",
    )


def is_given() -> bool:
    """Returns whether the user gave any of the flags."""
    return any(flags.FLAGS[name].value for name in (*_FLAGS, "text_file"))


def check(texts: Sequence[str] = ()) -> None:
    """Checks the flags before a model is loaded.

    Args:
        texts: sequence of str. Positional arguments, which have the meaning of --text.

    Raises:
        UserError: the user gave both texts and a file, or the file is missing.
    """
    given = [name for name in _FLAGS if flags.FLAGS[name].value or name == "text" and texts]
    path = flags.FLAGS["text_file"].value
    if path and given:
        raise UserError(f"--text_file and --{given[0]} were both given; give one of them")
    if path and not storage.is_remote(path) and (os.path.isdir(path) or not input_files.is_local_other(path)):
        # A pipe can be read only once, so it is not opened here.
        next(text_sources.read_texts(path, "lines"), None)


def rows(names: Sequence[str], texts: Sequence[str] = ()) -> Iterator[dict]:
    """Yields the examples of the flags.

    Args:
        names: sequence of str. The names of the model's inputs.
        texts: sequence of str. Positional arguments, which have the meaning of --text.

    Yields:
        dict name of an input -> str, or a list of str for choices.

    Raises:
        UserError: the flags give other inputs than the model needs, or a line has the wrong number of columns.
    """
    if path := flags.FLAGS["text_file"].value:
        yield from _rows_of_file(names, path)
        return
    values = {name: list(flags.FLAGS[name].value) for name in _FLAGS}
    values["text"] = [*texts, *values["text"]]
    needed = _FLAGS_OF[tuple(names)]
    expected = " and ".join(f"--{name}" for name in needed)
    for name in _FLAGS:
        if bool(values[name]) != (name in needed):
            fault = f"--{name} is missing" if name in needed else f"--{name} does not apply"
            raise UserError(f"{fault}: this model takes {expected}")
    if _MANY in names:
        for name in needed[:-1]:
            if len(values[name]) > 1:
                raise UserError(f"--{name} was given {len(values[name])} times; give it once, with the --choice flags")
        yield {name: values["choice"] if name == _MANY else values[name][0] for name in names}
        return
    columns = [values[name] for name in needed]
    if names[-1] == "context" and len(columns[1]) == 1:
        columns[1] *= len(columns[0])  # several questions about one text
    if names[-1] == "document" and len(columns[0]) == 1:
        columns[0] *= len(columns[1])  # several documents for one query
    if len({len(column) for column in columns}) > 1:
        counts = ", ".join(f"--{name} {len(column)} times" for name, column in zip(needed, columns, strict=True))
        raise UserError(f"{expected} belong together, but there is {counts}; give each as often as the others")
    for row in zip(*columns, strict=True):
        yield dict(zip(names, row, strict=True))


def _rows_of_file(names, path):
    has_many, number, counts = names[-1] == _MANY, 0, ReaderCounts()
    for number, line in enumerate(text_sources.read_texts(path, "lines", counts=counts), 1):
        columns = line.decode("utf-8", "replace").split("\t") if len(names) > 1 else [line.decode("utf-8", "replace")]
        if len(columns) < len(names) or len(columns) > len(names) and not has_many:
            expected = ", ".join([*names[:-1], "its choices"] if has_many else names)
            raise UserError(
                f"{path}:{number}: has {counted(len(columns), 'column')}; expected {expected}, with tabs between them"
            )
        if has_many:
            last = len(names) - 1
            columns = [*columns[:last], columns[last:]]
        yield dict(zip(names, columns, strict=True))
    if not number:
        raise UserError(f"{path}: has no text, not even an empty line; give a file with one example a line")
    for line in text_sources.remarks(counts, 0):
        print(f"{path}: {line}", file=sys.stderr)

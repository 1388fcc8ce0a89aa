"""Words and tags in columns: the files of the CoNLL shared tasks, and CoNLL-U."""

import dataclasses
import os
import re
import sys
from collections.abc import Sequence

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.tasks.readers.tables import lines_of

_WORD, _BLANK, _DOCUMENT, _OTHER = "word", "blank", "document", "other"
# CoNLL-U (universaldependencies.org/format.html): ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC, between tabs.
_FORM, _UPOS, _NUMBER_OF_COLUMNS = 1, 3, 10


@dataclasses.dataclass(frozen=True)
class Sentence:
    """Words with their tags.

    Attributes:
        guid: its number in the file. path: of the file. lines: line number of each word. document: number of its one.
        words: tuple of str. tags: tuple of str as the file has them; None where it has no such column.
        tag_column: number of that column, from 0.
        scheme: one of entities.SCHEMES that the file's tags are written in; "" where tags are no entities'.
    """

    guid: str
    path: str
    lines: Sequence[int]
    document: int
    words: tuple
    tags: tuple | None
    tag_column: int
    scheme: str = ""

    @property
    def place(self):
        return f"{self.path}:{self.lines[0]}"


def read_sentences(path, label_column, has_labels, text_columns=()):
    """The sentences of a file, in their order.

    Columns stand between tabs, or else between spaces, as the first word's line shows. Blank lines end a sentence, and documents begin at
    -DOCSTART- lines (of CoNLL-U at # newdoc). A line before a sentence that begins with # is a comment, as GermEval 2014 and MultiCoNER
    have them, where it has not as many columns as the lines of words.

    Args:
        path: CoNLL-U where it ends in .conllu, else plain columns. label_column: number of the tag's column, from 0;
            the default of FinetuningConfig is the last one, in CoNLL-U UPOS. has_labels: whether there must be tags.
        text_columns: (number of the word's column,); () for the first, in CoNLL-U FORM.

    Raises:
        UserError: more or fewer columns than in the first line, an empty column, no such column; file:line and why.
    """
    word_column, tag_column = _columns(path, label_column, text_columns)
    sentences, document, number_of_columns = [], 0, _NUMBER_OF_COLUMNS if _is_conllu(path) else None
    words, tags, numbers = [], [], []

    def end_sentence():
        if words:
            is_contiguous = numbers[-1] - numbers[0] + 1 == len(numbers)
            lines = range(numbers[0], numbers[-1] + 1) if is_contiguous else tuple(numbers)
            sentences.append(
                Sentence(str(len(sentences)), path, lines, document, tuple(words), tuple(tags) or None, tag_column)
            )
            words.clear(), tags.clear(), numbers.clear()

    for number, _, kind, fields in _lines(path):
        if kind != _WORD:
            if kind != _OTHER:
                end_sentence()
            document += kind == _DOCUMENT
            continue
        number_of_columns = number_of_columns or len(fields)
        if len(fields) != number_of_columns:
            raise UserError(
                f"{path}:{number}: has {_columns_text(fields)}; expected {number_of_columns}, "
                + ("as the lines before" if sentences or words else "between tabs")
            )
        if word_column >= len(fields):
            raise UserError(
                f"{path}:{number}: has {_columns_text(fields)}; expected a word in column {word_column}, from 0 "
                "(the run's --text_columns)"
            )
        has_tags = _has_tags(path, number, fields, word_column, tag_column, has_labels)
        for name, column, values in (("word", word_column, words), ("tag", tag_column, tags))[: 1 + has_tags]:
            if not fields[column]:
                raise UserError(f"{path}:{number}: the column of the {name} is empty; expected a {name} in each line")
            # The same few words and tags come again and again.
            values.append(sys.intern(fields[column]))
        numbers.append(number)
    end_sentence()
    return sentences


def write_tagged(directory, path, tags, tag_column):
    """Writes the lines of a file with predicted tags; after those of another file, where there are some.

    Plain columns become predictions.txt: each word's line with its tag as a last column, all other lines as they stand
    (-DOCSTART- lines filled up to as many columns), which is what conlleval reads. It compares the last two columns, so that
    the right tags of another column than the last are repeated before the predicted ones. CoNLL-U becomes predictions.conllu, the tags
    in their column.

    Args:
        tags: iterator over those of the file's words; where it ends, the new file does.
    """
    is_conllu = _is_conllu(path)
    word_line, fields = next((line, fields) for _, line, kind, fields in _lines(path) if kind == _WORD)
    separator, number_of_columns = "\t" if "\t" in word_line else " ", len(fields)
    repeats = not is_conllu and tag_column not in (-1, number_of_columns - 1) and tag_column < number_of_columns
    name = os.path.join(directory, "predictions.conllu" if is_conllu else "predictions.txt")
    with open(name, "a", encoding="utf-8", newline="\n") as file:
        if file.tell():
            file.write("\n")  # the last sentence of the file before may end without a blank line
        for _, line, kind, fields in _lines(path):
            if kind == _WORD:
                tag = next(tags, None)
                if tag is None:
                    break
                if is_conllu:
                    line = separator.join([*fields[:tag_column], tag, *fields[tag_column + 1 :]])
                else:
                    line = separator.join([line.rstrip(" "), *([fields[tag_column]] if repeats else []), tag])
            elif kind == _DOCUMENT and not is_conllu:
                given = line.split()
                fill = ["-X-"] * (number_of_columns - len(given) - 1) + ["O"] * (number_of_columns > len(given))
                line = separator.join([*given[:number_of_columns], *fill, *(["O"] if repeats else []), "O"])
            file.write(line + "\n")


def _lines(path):
    """Yields (number, line, kind, fields); the fields are None but for a word."""
    is_conllu = _is_conllu(path)
    separator, number_of_columns = ("\t", _NUMBER_OF_COLUMNS) if is_conllu else _layout(path)
    kind = _BLANK
    for number, line in lines_of(path):
        fields, before = None, kind
        if not line.strip(" \t"):
            kind = _BLANK
        elif is_conllu and line.startswith("#"):
            kind = _DOCUMENT if line.startswith("# newdoc") else _OTHER
        elif line.startswith("-DOCSTART-") and not is_conllu:
            kind = _DOCUMENT
        # A range of words that are written as one, and a word that is not written.
        elif is_conllu and re.match(r"\d+[-.]\d+\t", line):
            kind = _OTHER
        else:
            kind, fields = _WORD, _fields(line, separator)
            if line.startswith("#") and before != _WORD and len(fields) != number_of_columns:
                kind, fields = _OTHER, None
        yield number, line, kind, fields


def _layout(path):
    """(what stands between the columns, their number) of plain columns, as the first word's line shows; of a # if there is no other."""
    shown = ""
    for _, line in lines_of(path):
        if line.strip(" \t") and not line.startswith("-DOCSTART-"):
            shown = shown if shown and line.startswith("#") else line
            if not line.startswith("#"):
                break
    separator = "\t" if "\t" in shown else " "
    return separator, len(_fields(shown, separator))


def _fields(line, separator):
    # Of spaces there may be several; other white space may be part of a word, or be one.
    return [field for field in line.split(" ") if field] if separator == " " else line.rstrip(" ").split("\t")


def _is_conllu(path):
    return path.lower().endswith(".conllu")


def _columns(path, label_column, text_columns):
    """(number of the word's column, number of the tag's)."""
    word_column = _FORM if _is_conllu(path) else 0
    if text_columns:
        if len(text_columns) > 1 or not text_columns[0].isdecimal():
            raise UserError(
                f"--text_columns={','.join(text_columns)}: expected the number of the column with the words, from 0; by "
                "default it is the first, in CoNLL-U the second"
            )
        word_column = int(text_columns[0])
    if label_column == FinetuningConfig.label_column:
        return word_column, _UPOS if _is_conllu(path) else -1
    if not label_column.isdecimal():
        raise UserError(
            f"--label_column={label_column}: expected the number of a column, from 0; by default it is the "
            "last, in CoNLL-U the fourth"
        )
    return word_column, int(label_column)


def _has_tags(path, number, fields, word_column, tag_column, has_labels):
    """Whether a line has the tags' column; if labels are not asked for, it need not."""
    is_there = tag_column < len(fields) and tag_column % len(fields) != word_column
    if has_labels and not is_there:
        which = "-1, the last," if tag_column < 0 else f"{tag_column}, from 0"
        raise UserError(
            f"{path}:{number}: has {_columns_text(fields)}; expected a word and a tag, in column {which} "
            "(--label_column)"
        )
    return is_there


def _columns_text(fields):
    return f"{len(fields)} column{'s' * (len(fields) != 1)}"

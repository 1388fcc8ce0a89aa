"""Words and tags in columns: the files of the CoNLL shared tasks, and CoNLL-U."""

import dataclasses
import os
import re
import sys
from collections.abc import Mapping, Sequence

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.tasks.readers.tables import lines_of
from pipelines.plurals import counted

_WORD, _BLANK, _DOCUMENT, _OTHER = "word", "blank", "document", "other"
# CoNLL-U (universaldependencies.org/format.html) separates its columns by tabs: ID FORM LEMMA UPOS XPOS FEATS HEAD
# DEPREL DEPS MISC.
_FORM, _UPOS, _NUMBER_OF_COLUMNS = 1, 3, 10
_CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")
_CJK_SENTENCE = re.compile(f"{_CJK.pattern}[。！？]|[。！？]{_CJK.pattern}")
_LONGEST_CJK_WORD = 25  # characters; names of organizations may be longer, but are not single words
_ENDS_SENTENCE = re.compile("[^\\W\\d_]{2}[.!?…][\"'»”’)]*$")


@dataclasses.dataclass(frozen=True)
class Sentence:
    """Words with their tags.

    Attributes:
        guid: Number of the sentence in the file.
        path: The file.
        lines: Line number of each word.
        document: Number of the document in the file.
        words: tuple of str.
        tags: tuple of str, as in the file; None if the file has no column of tags.
        tag_column: Number of the column of tags, from 0.
        scheme: The key of SCHEMES in which the tags are written; "" if the tags do not mark entities.
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
    def place(self) -> str:
        """file:line of the first word."""
        return f"{self.path}:{self.lines[0]}"


def read_sentences(
    path: str, label_column: str, has_labels: bool, text_columns: tuple[str, ...] = ()
) -> list[Sentence]:
    """The sentences of a file in their order.

    The line of the first word decides whether tabs or spaces separate the columns. Blank lines end a sentence.
    -DOCSTART- lines begin a document; in CoNLL-U these are # newdoc lines. GermEval 2014 and MultiCoNER have
    comments before sentences: lines that begin with # and have another number of columns than the lines of words.

    Args:
        path: str. CoNLL-U if it ends in .conllu, else plain columns.
        label_column: str. Number of the column of tags, from 0. The default of FinetuningConfig is the last column,
            or UPOS in CoNLL-U.
        has_labels: bool. Whether the file must have tags.
        text_columns: (number of the column of words,). () for the first column, or FORM in CoNLL-U.

    Raises:
        UserError: a line has more or fewer columns than the first one, or a column is empty or missing. The message
            has file:line.
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
        if not has_labels and not _is_conllu(path) and _is_prose(fields, word_column):
            raise UserError(
                f"{path}:{number}: is prose ({' '.join(fields)[:40]!r}); expected a column of single words, one word a "
                "line; plain sentences go into --text_file"
            )
        number_of_columns = number_of_columns or len(fields)
        if len(fields) != number_of_columns:
            hint = "as the lines before" if sentences or words else "between tabs"
            advice = "" if has_labels else "; plain sentences go into --text_file"
            raise UserError(
                f"{path}:{number}: has {_columns_text(fields)}; expected {number_of_columns}, {hint}{advice}"
            )
        has_tags = _has_tags(path, number, fields, word_column, tag_column, has_labels)
        for name, column, values in (("word", word_column, words), ("tag", tag_column, tags))[: 1 + has_tags]:
            if not fields[column]:
                raise UserError(f"{path}:{number}: the column of the {name} is empty; expected a {name} in each line")
            # The same words and tags occur many times. Interned strings save memory.
            values.append(sys.intern(fields[column]))
        numbers.append(number)
    end_sentence()
    return sentences


def write_tagged(directory: str, path: str, tags: Mapping[int, str], tag_column: int) -> None:
    """Writes the lines of a file with predicted tags, or appends them to the lines of an earlier file.

    Plain columns go to predictions.txt, which conlleval reads: the line of each word with the predicted tag as an
    additional last column, and all other lines without a change. -DOCSTART- lines are filled up to the same number of
    columns. conlleval compares the last two columns. If the right tags are not in the last column, the function
    repeats them before the predicted tags. CoNLL-U goes to predictions.conllu, with the predicted tags in the column
    tag_column. Sentences without predicted tags are left out.

    Args:
        directory: str. The directory for the predictions.
        path: str. The file that was tagged.
        tags: dict. Line number of a word -> its tag.
        tag_column: int. Number of the column of tags, from 0.
    """
    is_conllu = _is_conllu(path)
    word_line, fields = next((line, fields) for _, line, kind, fields in _lines(path) if kind == _WORD)
    separator, number_of_columns = "\t" if "\t" in word_line else " ", len(fields)
    repeats = not is_conllu and tag_column not in (-1, number_of_columns - 1) and tag_column < number_of_columns
    name = os.path.join(directory, "predictions.conllu" if is_conllu else "predictions.txt")
    with open(name, "a", encoding="utf-8", newline="\n") as file:
        if file.tell():
            file.write("\n")  # the last sentence of the previous file may end without a blank line
        for lines in _tagged_sentences(path, tags):
            for number, line, kind, fields in lines:
                if kind == _WORD and number not in tags:
                    continue
                if kind == _WORD and is_conllu:
                    line = separator.join([*fields[:tag_column], tags[number], *fields[tag_column + 1 :]])
                elif kind == _WORD:
                    right = [fields[tag_column]] if repeats else []
                    line = separator.join([line.rstrip(" "), *right, tags[number]])
                elif kind == _DOCUMENT and not is_conllu:
                    given = line.split()
                    fill = ["-X-"] * (number_of_columns - len(given) - 1) + ["O"] * (number_of_columns > len(given))
                    line = separator.join([*given[:number_of_columns], *fill, *(["O"] if repeats else []), "O"])
                file.write(line + "\n")


def _tagged_sentences(path, tags):
    """Yields the lines of each sentence with tags, as _lines does, beside the lines that belong to no sentence.

    A sentence without tags leaves only the line that begins its document.
    """
    document, lines, has_words, is_tagged, was_tagged = [], [], False, False, True
    for entry in _lines(path):
        number, _, kind, _ = entry
        lines.append(entry)
        document = [] if kind == _DOCUMENT else document
        has_words, is_tagged = has_words or kind == _WORD, is_tagged or number in tags
        if kind == _BLANK and has_words:
            if is_tagged:
                yield [*document, *lines]
                document = []
            else:
                document = [each for each in lines if each[2] == _DOCUMENT][-1:] or document
            lines, was_tagged, has_words, is_tagged = [], is_tagged, False, False
    if is_tagged or was_tagged and not has_words:
        yield [*document, *lines]


def _is_prose(fields, word_column):
    """Whether the fields of a line are a sentence, not a word with its columns.

    Inside a word, no mark that ends a sentence stands next to a Chinese or Japanese character. A last column with a tag
    or a lemma does not end like a sentence, unless the column repeats the word.
    """
    word, last = fields[min(word_column, len(fields) - 1)], fields[-1]
    if _CJK_SENTENCE.search(word) or len(_CJK.findall(word)) > _LONGEST_CJK_WORD:
        return True
    return len(fields) > 1 and _ENDS_SENTENCE.search(last) is not None and last.casefold() != word.casefold()


def _lines(path):
    """Yields (number, line, kind, fields); fields are None unless the kind is _WORD."""
    is_conllu = _is_conllu(path)
    separator, number_of_columns = ("\t", _NUMBER_OF_COLUMNS) if is_conllu else _layout(path)
    kind = _BLANK
    for number, line in lines_of(path):
        fields, previous = None, kind
        if not line.strip(" \t"):
            kind = _BLANK
        elif is_conllu and line.startswith("#"):
            kind = _DOCUMENT if line.startswith("# newdoc") else _OTHER
        elif line.startswith("-DOCSTART-") and not is_conllu:
            kind = _DOCUMENT
        # A multiword token ("1-2") or an empty node ("1.1") of CoNLL-U.
        elif is_conllu and re.match(r"\d+[-.]\d+\t", line):
            kind = _OTHER
        else:
            kind, fields = _WORD, _fields(line, separator)
            if line.startswith("#") and previous != _WORD and len(fields) != number_of_columns:
                kind, fields = _OTHER, None
        yield number, line, kind, fields


def _layout(path):
    """(separator, number of columns) of the first line of a word, or of a line with # if there is no other line."""
    shown = ""
    for _, line in lines_of(path):
        if line.strip(" \t") and not line.startswith("-DOCSTART-"):
            shown = shown if shown and line.startswith("#") else line
            if not line.startswith("#"):
                break
    separator = "\t" if "\t" in shown else " "
    return separator, len(_fields(shown, separator))


def _fields(line, separator):
    # Several spaces may separate two columns. Other white space may be a word or a part of one.
    return [field for field in line.split(" ") if field] if separator == " " else line.rstrip(" ").split("\t")


def _is_conllu(path):
    return path.lower().endswith(".conllu")


def _columns(path, label_column, text_columns):
    """(number of the column of words, number of the column of tags)."""
    word_column = _FORM if _is_conllu(path) else 0
    if text_columns:
        if len(text_columns) > 1 or not text_columns[0].isdecimal():
            raise UserError(
                f"--text_columns={','.join(text_columns)}: expected the number of the column with the words, from 0; "
                "by default it is the first, in CoNLL-U the second"
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
    """Whether a line has a column of tags, apart from the column of words.

    Raises:
        UserError: the line has no column of words, or has_labels is True and the line has no column of tags.
    """
    if word_column >= len(fields):
        raise UserError(
            f"{path}:{number}: has {_columns_text(fields)}; expected a word in column {word_column}, from 0 "
            "(the run's --text_columns)"
        )
    has_tags = tag_column < len(fields) and tag_column % len(fields) != word_column
    if has_labels and not has_tags:
        shown_column = "-1, the last," if tag_column < 0 else f"{tag_column}, from 0"
        raise UserError(
            f"{path}:{number}: has {_columns_text(fields)}; expected a word and a tag, in column {shown_column} "
            "(--label_column)"
        )
    return has_tags


def _columns_text(fields):
    return counted(len(fields), "column")

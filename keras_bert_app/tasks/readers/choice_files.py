"""Readers of the official files of SWAG, HellaSwag, DREAM and CODAH, for multiple choice."""

import json
import os
import re

from keras_bert_app.errors import UserError
from keras_bert_app.tasks.families import multiple_choice
from keras_bert_app.tasks.families.multiple_choice import MULTIPLE_CHOICE, Example
from keras_bert_app.tasks.readers import disjoint_parts
from keras_bert_app.tasks.readers.tables import column_of, label_of, lines_of, read_rows, text_of, without_surrogates
from keras_bert_app.tasks.task import SPLITS, Task

_SWAG_ENDINGS = tuple(f"ending{number}" for number in range(4))
_CODAH_COLUMNS = ("category", "prompt", *_SWAG_ENDINGS, "label")
_CODAH_FOLDS, _CODAH_WHOLE = 5, "full_data.tsv"
_WORD = re.compile(r"\w+")


def _read_swag(path, run, has_labels):
    """The context is sent1. Each choice is sent2 and an ending (Devlin et al. 2018, section 4.4)."""
    examples = []
    for number, row in read_rows(path):
        beginning = text_of(path, number, row, "sent2")
        choices = tuple(f"{beginning} {text_of(path, number, row, name)}" for name in _SWAG_ENDINGS)
        label = _position(path, number, label_of(path, number, row, "label"), choices) if has_labels else None
        examples.append(
            Example(str(len(examples)), text_of(path, number, row, "sent1"), "", choices, label, f"{path}:{number}")
        )
    return examples


def _read_hellaswag(path, run, has_labels):
    """The context is ctx_a. Each choice is ctx_b and an ending. The name is the split and the number of the row."""
    examples = []
    for number, row in read_rows(path):
        beginning, endings = row.get("ctx_b") or "", column_of(path, number, row, "endings")
        if (
            not isinstance(endings, list)
            or len(endings) != 4
            or not all(isinstance(text, str) for text in (beginning, *endings))
        ):
            raise UserError(f"{path}:{number}: endings {str(endings)[:40]!r}; expected a list of 4 texts")
        choices = tuple(f"{beginning} {ending}" if beginning else ending for ending in endings)
        label = _position(path, number, label_of(path, number, row, "label"), choices) if has_labels else None
        examples.append(
            Example(
                f"{row.get('split', 'row')}-{len(examples)}",
                text_of(path, number, row, "ctx_a"),
                "",
                choices,
                label,
                f"{path}:{number}",
            )
        )
    return examples


def _read_codah(path, run, has_labels):
    examples, columns = [], _CODAH_COLUMNS
    if not has_labels and next(lines_of(path), (1, ""))[1].count("\t") == len(columns) - 2:
        columns = columns[:-1]
    for number, row in read_rows(path, columns):
        choices = tuple(row[name] for name in _SWAG_ENDINGS)
        label = _position(path, number, row["label"], choices) if has_labels else None
        examples.append(Example(str(len(examples)), row["prompt"], "", choices, label, f"{path}:{number}"))
    return examples


def _fold(split, examples, run):
    """The examples of a split of CODAH.

    The function divides CODAH's file of all examples into five parts of nearly the same size: one for test, the next
    one for dev, three for training. Questions that share a prompt or an ending are in one part. No prompt and no ending
    of dev or test therefore occurs in training. These parts are not CODAH's own folds, so their scores cannot be
    compared with published scores. If a file belongs to one of CODAH's own folds (data/cv_split), the function returns
    all its examples.

    Raises:
        UserError: --fold is given for files of one fold; the file of the split is missing although other splits have
            files; or the questions share too many texts to be divided.
    """
    directory, name = os.path.split(examples[0].place.rpartition(":")[0]) if examples else ("", "")
    fold_files = [other for other in map(_split_file, SPLITS) if os.path.exists(os.path.join(directory, other))]
    if name == _CODAH_WHOLE and fold_files:
        raise UserError(
            f"{os.path.join(directory, _split_file(split))}: is missing beside {', '.join(fold_files)}; give the "
            f"directory of one whole fold, or a directory that has only {_CODAH_WHOLE}"
        )
    if name != _CODAH_WHOLE:
        if examples and run.fold:
            raise UserError(
                f"--fold={run.fold}: {directory} is a single fold ({name}); leave out --fold, or give the directory "
                "of another fold"
            )
        return examples
    splits = {run.fold: "test", (run.fold + 1) % _CODAH_FOLDS: "dev"}
    return [
        example
        for example, part in zip(examples, _parts_of_codah(examples), strict=True)
        if splits.get(part, "train") == split
    ]


def _parts_of_codah(examples):
    """The part of each example. No two parts share a prompt or an ending."""
    first_of_group = disjoint_parts.groups(
        [{_words(text) for text in (example.context, *example.choices)} - {""} for example in examples]
    )
    if len(set(first_of_group)) < _CODAH_FOLDS:
        raise UserError(
            f"{examples[0].place.rpartition(':')[0]}: its {len(examples):,} questions form "
            f"{len(set(first_of_group))} groups with common prompts or endings, too few for {_CODAH_FOLDS} parts; "
            f"divide the file into {', '.join(map(_split_file, SPLITS))} yourself"
        )
    return disjoint_parts.balanced(first_of_group, _CODAH_FOLDS)


def _words(text):
    """The words of a text without differences of case; the whole text if it has no words."""
    return " ".join(_WORD.findall(text.casefold())) or text.strip()


def _split_file(split):
    return f"{split}.tsv"


def _position(path, number, value, choices):
    if str(value) not in map(str, range(len(choices))):
        raise UserError(f"{path}:{number}: label {str(value)[:40]!r}; expected 0 to {len(choices) - 1}")
    return int(value)


def _read_dream(path, run, has_labels):
    """The context is the turns of a dialogue. Each question about the dialogue gives one example."""
    examples = []
    for number, item in _array_items(path):
        try:
            turns, questions, name = item
            context = "\n".join(turns)
            for index, asked in enumerate(questions):
                question, choices = asked["question"], tuple(asked["choice"])
                if not all(isinstance(text, str) for text in (question, *choices)):
                    raise TypeError
                answer = asked["answer"] if has_labels else None
                if len(choices) != 3 or has_labels and answer not in choices:
                    raise UserError(
                        f"{path}:{number}: {name}: the answer {answer!r} to {question!r} is none of "
                        f"{len(choices)} choices; expected one of 3"
                    )
                examples.append(
                    Example(
                        f"{name}-{index}",
                        context,
                        question,
                        choices,
                        choices.index(answer) if has_labels else None,
                        f"{path}:{number}",
                    )
                )
        except UserError:
            raise
        except (TypeError, ValueError, KeyError):
            raise UserError(
                f"{path}:{number}: expected [[turns], [{{question, choice, answer}}], name], as DREAM has it"
            ) from None
    return examples


def _array_items(path):
    """Yields (line number where an item begins, item) for a file that is one JSON array.

    Raises:
        UserError: the file is not a JSON array, or is incomplete. The message has file:line.
    """
    text = "\n".join(line for _, line in lines_of(path))
    decoder, line, counted = json.JSONDecoder(), 1, 0
    at = _next(text, 0)
    if text[at : at + 1] != "[":
        raise UserError(f"{path}:1: is not a JSON array; expected one array with the dialogues of DREAM")
    at = _next(text, at + 1)
    while text[at : at + 1] != "]":
        line, counted = line + text.count("\n", counted, at), at
        try:
            item, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise UserError(
                f"{path}:{getattr(error, 'lineno', line)}: is not JSON ({getattr(error, 'msg', error)})"
            ) from None
        yield line, without_surrogates(item) if "\\ud" in text[at:end].lower() else item
        at = _next(text, end)
        if text[at : at + 1] == ",":
            at = _next(text, at + 1)
        elif text[at : at + 1] != "]":
            raise UserError(f"{path}:{1 + text.count(chr(10), 0, at)}: the JSON array ends here without its closing ]")


def _next(text, at):
    """The index of the next character that is no white space."""
    while text[at : at + 1].isspace():
        at += 1
    return at


def _task(name, summary, read, files, part=None, reads=()):
    return Task(name, summary, multiple_choice, MULTIPLE_CHOICE, read, files, ("accuracy",), part=part, reads=reads)


TASKS = (
    _task(
        "swag",
        "SWAG: which of four endings continues a sentence",
        _read_swag,
        {"train": ("train.csv",), "dev": ("val.csv",), "test": ("test.csv",)},
    ),
    _task(
        "hellaswag",
        "HellaSwag: which of four endings continues a text; harder than SWAG",
        _read_hellaswag,
        {"train": ("hellaswag_train.jsonl",), "dev": ("hellaswag_val.jsonl",), "test": ("hellaswag_test.jsonl",)},
    ),
    _task(
        "dream",
        "DREAM: which of three choices answers a question about a dialogue; --max_seq_length=256 or more",
        _read_dream,
        {"train": ("train.json",), "dev": ("dev.json",), "test": ("test.json",)},
    ),
    _task(
        "codah",
        "CODAH: which of four endings continues a sentence; the files of one fold, or one file of all examples, which "
        "--fold divides into parts that share no prompt and no ending",
        _read_codah,
        {split: (_split_file(split), _CODAH_WHOLE) for split in SPLITS},
        _fold,
        ("fold",),
    ),
)

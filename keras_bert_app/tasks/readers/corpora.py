"""Tasks over public corpora, read from the files of their archives: Reuters-21578 and 20 Newsgroups."""

import collections
import html
import re

from keras_bert_app.errors import UserError
from keras_bert_app.tasks.families import sequences
from keras_bert_app.tasks.families.sequences import CLASSIFICATION, MULTI_LABEL, Example
from keras_bert_app.tasks.readers.tables import label_of, read_rows, text_of
from keras_bert_app.tasks.task import Task

_ATTRIBUTE = re.compile(r'(\w+)="(.*?)"')
_TOPICS = re.compile(r"<TOPICS>(.*?)</TOPICS>", re.DOTALL)
_TOPIC = re.compile(r"<D>(.*?)</D>")
_TEXT = re.compile(r"<TEXT[^>]*>(.*)</TEXT>", re.DOTALL)
_PARTS = re.compile(r"<(TITLE|BODY)>(.*?)</\1>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
# The 90 topics that have a training and a test document in the ModApte split, as is usual (Yang and Liu 1999). 7,770
# of its 9,603 training documents and 3,019 of its 3,299 test documents have at least one of these topics.
REUTERS_TOPICS = tuple(
    """
    acq alum barley bop carcass castor-oil cocoa coconut coconut-oil coffee copper copra-cake corn cotton cotton-oil
    cpi cpu crude dfl dlr dmk earn fuel gas gnp gold grain groundnut groundnut-oil heat hog housing income
    instal-debt interest ipi iron-steel jet jobs l-cattle lead lei lin-oil livestock lumber meal-feed money-fx
    money-supply naphtha nat-gas nickel nkr nzdlr oat oilseed orange palladium palm-oil palmkernel pet-chem platinum
    potato propane rand rape-oil rapeseed reserves retail rice rubber rye ship silver sorghum soy-meal soy-oil
    soybean strategic-metal sugar sun-meal sun-oil sunseed tea tin trade veg-oil wheat wpi yen zinc""".split()
)
_DEV_PERIOD = 10  # every tenth training document is a dev document


def _read_reuters(path, run, has_labels):
    """The documents of the ModApte split with one of the 90 topics; without labels, all documents.

    A text is title and body. If TOPICS is YES, the group of a document is its LEWISSPLIT, "train" or "test".
    """
    with open(path, "rb") as file:
        text = file.read().decode("latin-1")  # one byte of the corpus is not UTF-8
    before, *documents = text.split("<REUTERS ")
    examples, line = [], 1 + before.count("\n")
    if not documents:
        raise UserError(f"{path}:1: has no document; expected a reut2-*.sgm of Reuters-21578")
    for marked_up in documents:
        attributes, _, document = marked_up.partition(">")
        document, end, _ = document.partition("</REUTERS>")
        attributes, topics = dict(_ATTRIBUTE.findall(attributes)), _TOPICS.search(document)
        if not end or topics is None or not {"TOPICS", "LEWISSPLIT", "NEWID"} <= set(attributes):
            raise UserError(f"{path}:{line}: is no whole document of Reuters-21578; extract the file again")
        split = attributes["LEWISSPLIT"].lower()
        is_of_modapte = attributes["TOPICS"] == "YES" and split in ("train", "test")
        labels = tuple(sorted(set(_TOPIC.findall(topics[1])) & set(REUTERS_TOPICS)))
        if not has_labels or is_of_modapte and labels:
            examples.append(
                Example(
                    attributes["NEWID"],
                    _reuters_text(document),
                    None,
                    labels if has_labels else None,
                    f"{path}:{line}",
                    split if is_of_modapte else "",
                )
            )
        line += marked_up.count("\n")
    return examples


def _reuters_text(document):
    text = _TEXT.search(document)
    if text is None:
        return ""
    # A text of TYPE="UNPROC" has no title and no body.
    parts = [part for _, part in _PARTS.findall(text[1])] or [_TAG.sub(" ", text[1])]
    # The corpus writes control characters of the news wire as &#2; and &#3;, which html.unescape removes.
    return "\n".join(" ".join(html.unescape(part).split()) for part in parts)


def _part_of_reuters(split, examples, run):
    return _with_dev_of_train(
        split, [example for example in examples if (example.group == "test") == (split == "test")]
    )


def _read_newsgroups(path, run, has_labels):
    examples = []
    for number, row in read_rows(path):
        if has_labels:
            label_of(path, number, row, "label")
        examples.append(
            Example(
                text_of(path, number, row, "id"),
                text_of(path, number, row, "text"),
                None,
                text_of(path, number, row, "label") if has_labels else None,
                f"{path}:{number}",
            )
        )
    return examples


def _part_of_newsgroups(split, examples, run):
    """The examples with the classes in turn, because the files are sorted by class."""
    seen, turns = collections.Counter(), []
    for example in (part := _with_dev_of_train(split, examples)):
        turns.append(seen[example.label])
        seen[example.label] += 1
    return [part[number] for number in sorted(range(len(part)), key=turns.__getitem__)]


def _with_dev_of_train(split, examples):
    """The train or dev part of the training examples: every tenth example is dev."""
    if split not in ("train", "dev"):
        return examples
    return [
        example
        for number, example in enumerate(examples)
        if (number % _DEV_PERIOD == _DEV_PERIOD - 1) == (split == "dev")
    ]


_SGM = ("reut2-{all}.sgm", "reuters21578/reut2-{all}.sgm")
_NEWS_TRAIN = ("train.jsonl", "20newsgroups-bydate/train.jsonl")

TASKS = (
    Task(
        "reuters",
        "Reuters-21578, ModApte split, 90 topics, several to a document; extract the archive of reut2-*.sgm; "
        "every tenth training document is dev",
        sequences,
        MULTI_LABEL,
        _read_reuters,
        {"train": _SGM, "dev": _SGM, "test": _SGM},
        ("micro_f1", "macro_f1", "exact_match"),
        REUTERS_TOPICS,
        part=_part_of_reuters,
    ),
    Task(
        "newsgroups",
        "20 Newsgroups, by date, with the headers of the messages; extract the archive of train.jsonl and "
        "test.jsonl (id, label, text); every tenth training document is dev",
        sequences,
        CLASSIFICATION,
        _read_newsgroups,
        {"train": _NEWS_TRAIN, "dev": _NEWS_TRAIN, "test": ("test.jsonl", "20newsgroups-bydate/test.jsonl")},
        ("accuracy", "macro_f1"),
        part=_part_of_newsgroups,
    ),
)

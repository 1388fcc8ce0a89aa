"""Reuters-21578: documents with several topics, read from the files of its archive.

The test split is the ModApte test. About a tenth of the training documents is dev. Documents that begin alike stay
together, in training or in dev, because the corpus has many near copies. If every tenth training document were dev, 46
of 777 dev documents would have a near copy in training. A near copy has nearly the same set of words (Jaccard
similarity of at least 0.9, without numbers). Documents begin alike if they have the same first words in the title or
in the body, without numbers.
"""

import html
import itertools
import re

from keras_bert_app.errors import UserError
from keras_bert_app.tasks import sampling
from keras_bert_app.tasks.families import sequences
from keras_bert_app.tasks.families.sequences import MULTI_LABEL, Example
from keras_bert_app.tasks.readers import disjoint_parts
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
_DEV_SHARE = 0.1
_WORD = re.compile(r"[^\W\d_]+")
_FIRST_WORDS = 16  # fewer words would group most of the short company results ("Shr 3 cts vs 2 cts")


def _read(path, run, has_labels):
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
            raise UserError(f"{path}:{line}: is not a whole document of Reuters-21578; extract the file again")
        split = attributes["LEWISSPLIT"].lower()
        is_of_modapte = attributes["TOPICS"] == "YES" and split in ("train", "test")
        labels = tuple(sorted(set(_TOPIC.findall(topics[1])) & set(REUTERS_TOPICS)))
        if not has_labels or is_of_modapte and labels:
            examples.append(
                Example(
                    attributes["NEWID"],
                    _text(document),
                    None,
                    labels if has_labels else None,
                    f"{path}:{line}",
                    split if is_of_modapte else "",
                )
            )
        line += marked_up.count("\n")
    return examples


def _text(document):
    text = _TEXT.search(document)
    if text is None:
        return ""
    # A text of TYPE="UNPROC" has no title and no body.
    parts = [part for _, part in _PARTS.findall(text[1])] or [_TAG.sub(" ", text[1])]
    # The corpus writes control characters of the news wire as &#2; and &#3;, which html.unescape removes.
    return "\n".join(" ".join(html.unescape(part).split()) for part in parts)


def _part(split, examples, run):
    """The ModApte test, the dev part of its training documents, or the other training documents."""
    documents = [example for example in examples if (example.group == "test") == (split == "test")]
    if split == "test":
        return documents
    groups = disjoint_parts.groups([_beginnings(document.text_a) for document in documents])
    is_dev = sampling.held_out(documents, _DEV_SHARE, lambda document: document.label or (), groups)
    return [
        document for document, is_held_out in zip(documents, is_dev, strict=True) if is_held_out == (split == "dev")
    ]


def _beginnings(text):
    """The first words of the title and of the body, without numbers, as a set of (0 or 1, words)."""
    beginnings = []
    for part in text.casefold().split("\n")[:2]:
        words = (word[0] for word in _WORD.finditer(part))
        beginnings.append(" ".join(itertools.islice(words, _FIRST_WORDS)))
    return {(number, words) for number, words in enumerate(beginnings) if words}


_SGM = ("reut2-{all}.sgm", "reuters21578/reut2-{all}.sgm")

TASKS = (
    Task(
        "reuters",
        "Reuters-21578, ModApte split, 90 topics, several to a document; extract the archive of reut2-*.sgm; "
        "about a tenth of the training documents is dev; documents that begin alike stay together",
        sequences,
        MULTI_LABEL,
        _read,
        {"train": _SGM, "dev": _SGM, "test": _SGM},
        ("micro_f1", "macro_f1", "exact_match"),
        REUTERS_TOPICS,
        part=_part,
    ),
)

"""20 Newsgroups: messages without headers, quotes and footers, with a baseline by thread and sender.

Headers, quotes and footers reveal the group of many messages. The reader removes them as
fetch_20newsgroups(remove=("headers", "footers", "quotes")) of scikit-learn does. Some texts are then empty. Empty
texts still count as examples, as in scikit-learn.

The test split is the official split by date. 2,419 of its 7,532 messages have the subject of a training message. The
baseline therefore predicts the class from subject and sender. The dev split has about a tenth of the threads of the
training messages.
"""

import collections
import dataclasses
import hashlib
import os
import re
from collections.abc import Sequence

from keras_bert_app.tasks.families import sequences
from keras_bert_app.tasks.families.sequences import CLASSIFICATION, Example
from keras_bert_app.tasks.readers.tables import label_of, read_rows, text_of
from keras_bert_app.tasks.task import Examples, Task

_DEV_SHARE = 10  # dev has one thread in 10
_END_OF_HEADERS = "\n\n"
# A subject may continue on the next line. The pattern does not read this line, because 88 of the 96 such lines hold
# identifiers of other messages.
_FIELD = re.compile(r"^(From|Subject):(.*)", re.MULTILINE)
_REPLY = re.compile(r"(re(\[\d+\]|\^\d+)?\s*:\s*)*")
_ADDRESS = re.compile(r"[^\s<>()\"]+@[^\s<>()\"]+")
_QUOTED = (">", "|", "In article", "Quoted from")
_INTRODUCES_QUOTE = ("writes in", "writes:", "wrote:", "says:", "said:")


@dataclasses.dataclass(frozen=True)
class Message(Example):
    """A message and its class.

    Attributes:
        subject: The subject in lower case, without "Re:" at the beginning and without repeated white space. All
            messages of a thread have the same subject.
        sender: The sender's address in lower case. If the field From has no address, the whole field in the same form
            as subject.
    """

    subject: str = ""
    sender: str = ""


def without_headers(text: str) -> str:
    """The text after the first blank line; "" if the text has no blank line."""
    return text.partition(_END_OF_HEADERS)[2]


def without_footer(text: str) -> str:
    """The text before its last blank line or line of hyphens.

    If no line but the first is blank or has only hyphens, the function returns the whole text.
    """
    lines = text.strip().split("\n")
    for number in range(len(lines) - 1, 0, -1):
        if not lines[number].strip().strip("-"):
            return "\n".join(lines[:number])
    return text


def without_quotes(text: str) -> str:
    """The text without quoted lines and without lines that introduce a quotation, such as "he writes:"."""
    phrases = [phrase for phrase in _INTRODUCES_QUOTE if phrase in text]
    return "\n".join(
        line
        for line in text.split("\n")
        if not line.startswith(_QUOTED) and not any(phrase in line for phrase in phrases)
    )


def _read(path, run, has_labels):
    """The messages of a file. If the first paragraph has neither From nor Subject, the text has no headers."""
    messages, without_fields = [], 0
    for number, row in read_rows(path):
        if has_labels:
            label_of(path, number, row, "label")
        text = text_of(path, number, row, "text")
        fields = dict(_FIELD.findall(text.partition(_END_OF_HEADERS)[0]))
        without_fields += not fields
        messages.append(
            Message(
                text_of(path, number, row, "id"),
                without_quotes(without_footer(without_headers(text) if fields else text)),
                None,
                text_of(path, number, row, "label") if has_labels else None,
                f"{path}:{number}",
                subject=_REPLY.sub("", _normalized(fields.get("Subject", "")), count=1),
                sender=_address(_normalized(fields.get("From", ""))),
            )
        )
    return Examples(messages, remarks=_remarks(path, messages, without_fields))


def _normalized(text):
    return " ".join(text.split()).casefold()


def _address(sender):
    address = _ADDRESS.search(sender)
    return address[0] if address else sender


def _remarks(path, messages, without_fields):
    all_messages = f"of {len(messages):,} messages of {os.path.basename(path)}"
    empty = sum(not message.text_a.strip() for message in messages)
    return [
        *([f"{empty:,} {all_messages} are empty without headers, quotes and footers"] if empty else []),
        *([f"{without_fields:,} {all_messages} have no headers to remove"] if without_fields else []),
    ]


def _part(split, examples, run):
    """The examples of a split, with one example of each class in turn.

    The files are sorted by class, so the first examples of a file would all have one class. The dev split has about a
    tenth of the threads of the training messages.
    """
    if split in ("train", "dev"):
        examples = [message for message in examples if _is_dev(message.subject or message.guid) == (split == "dev")]
    seen, turns = collections.Counter(), []
    for message in examples:
        turns.append(seen[message.label])
        seen[message.label] += 1
    return [examples[number] for number in sorted(range(len(examples)), key=turns.__getitem__)]


def _is_dev(thread):
    digest = hashlib.sha256(thread.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8]) % _DEV_SHARE == 0


def look_up(
    task: Task, train_examples: Sequence[Message], examples: Sequence[Message], labels: tuple[str, ...]
) -> tuple[str, list[dict]]:
    """(description, predictions) of a baseline that reads only the headers.

    The baseline predicts the most frequent class of the training messages with the same subject. If no training message
    has the subject, the messages with the same sender decide. If no training message has the sender either, all
    training messages decide. If several classes are equally frequent, the one that comes first in `labels` wins.

    Args:
        task: Task.
        train_examples: The training messages of a run.
        examples: The messages to predict.
        labels: Names of the classes.
    """
    counts_of = collections.defaultdict(collections.Counter)
    for message in train_examples:
        for key in _keys(message):
            counts_of[key][message.label] += 1
    shares_of = {key: {label: counts[label] / counts.total() for label in labels} for key, counts in counts_of.items()}
    predictions = []
    for message in examples:
        shares = next(shares_of[key] for key in _keys(message) if key in shares_of)
        predictions.append({"label": max(labels, key=shares.__getitem__), "probabilities": shares})
    return "most frequent class of messages with the same subject, or else the same sender", predictions


def _keys(message):
    """The keys of a message for the baseline: its subject, its sender, and a key that all messages share."""
    named = (("subject", message.subject), ("sender", message.sender))
    return [*(key for key in named if key[1]), ("", "")]


_TRAIN = ("train.jsonl", "20newsgroups-bydate/train.jsonl")

TASKS = (
    Task(
        "newsgroups",
        "20 Newsgroups, split by date; the reader removes headers, quotes and footers; extract the archive that has "
        "train.jsonl and test.jsonl (id, label, text with headers); dev has about a tenth of the training threads",
        sequences,
        CLASSIFICATION,
        _read,
        {"train": _TRAIN, "dev": _TRAIN, "test": ("test.jsonl", "20newsgroups-bydate/test.jsonl")},
        ("accuracy", "macro_f1"),
        part=_part,
        baseline=look_up,
    ),
)

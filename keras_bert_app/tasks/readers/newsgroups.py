"""20 Newsgroups: messages without headers, quotes and footers, with a baseline by thread and sender.

Headers, quotes and footers reveal the group of many messages. The reader removes them as
fetch_20newsgroups(remove=("headers", "footers", "quotes")) of scikit-learn does. Some texts are then empty. They count
as examples, as in scikit-learn.

The test split is the official one, by date: 2,419 of its 7,532 messages have the subject of a training message.
Therefore the baseline predicts the class by subject and sender. About a tenth of the threads of the training messages
is dev.
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
# The pattern leaves out a line that continues a subject: 88 of the 96 such lines hold identifiers of other messages.
_FIELD = re.compile(r"^(From|Subject):(.*)", re.MULTILINE)
_REPLY = re.compile(r"(re(\[\d+\]|\^\d+)?\s*:\s*)*")
_ADDRESS = re.compile(r"[^\s<>()\"]+@[^\s<>()\"]+")
_QUOTED = (">", "|", "In article", "Quoted from")
_INTRODUCES_QUOTE = ("writes in", "writes:", "wrote:", "says:", "said:")


@dataclasses.dataclass(frozen=True)
class Message(Example):
    """A message and its class.

    Attributes:
        subject: The subject without "Re:", case and white space, which all messages of a thread share.
        sender: The sender's address, or all of From if it has no address, without case and white space.
    """

    subject: str = ""
    sender: str = ""


def without_headers(text: str) -> str:
    """The text after the first blank line; "" if there is none."""
    return text.partition(_END_OF_HEADERS)[2]


def without_footer(text: str) -> str:
    """The text before its last blank line or line of hyphens.

    The text stays whole if it has no such line, or has it only as its first line.
    """
    lines = text.strip().split("\n")
    for number in range(len(lines) - 1, 0, -1):
        if not lines[number].strip().strip("-"):
            return "\n".join(lines[:number])
    return text


def without_quotes(text: str) -> str:
    """The lines that neither quote nor introduce a quotation."""
    phrases = [phrase for phrase in _INTRODUCES_QUOTE if phrase in text]
    return "\n".join(
        line
        for line in text.split("\n")
        if not line.startswith(_QUOTED) and not any(phrase in line for phrase in phrases)
    )


def _read(path, run, has_labels):
    """The messages of a file. A text without From and Subject in its first paragraph has no headers to remove."""
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
    of_messages = f"of {len(messages):,} messages of {os.path.basename(path)}"
    empty = sum(not message.text_a.strip() for message in messages)
    return [
        *([f"{empty:,} {of_messages} are empty without headers, quotes and footers"] if empty else []),
        *([f"{without_fields:,} {of_messages} have no headers to remove"] if without_fields else []),
    ]


def _part(split, examples, run):
    """The examples of a split with the classes in turn, because the files are sorted by class.

    A tenth of the threads of the training messages is dev.
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

    The baseline predicts the most frequent class of the training messages with the same subject. If there are none, it
    takes the messages with the same sender. If there are none either, it takes all messages. Among equally frequent
    classes it predicts the first one.

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
    return "class of the same subject, else of the same sender", predictions


def _keys(message):
    """The keys of a message for the baseline: its subject, its sender, and a key that all messages share."""
    named = (("subject", message.subject), ("sender", message.sender))
    return [*(key for key in named if key[1]), ("", "")]


_TRAIN = ("train.jsonl", "20newsgroups-bydate/train.jsonl")

TASKS = (
    Task(
        "newsgroups",
        "20 Newsgroups, by date, without headers, quotes and footers; extract the archive of train.jsonl and "
        "test.jsonl (id, label, text with headers); about a tenth of the training threads is dev",
        sequences,
        CLASSIFICATION,
        _read,
        {"train": _TRAIN, "dev": _TRAIN, "test": ("test.jsonl", "20newsgroups-bydate/test.jsonl")},
        ("accuracy", "macro_f1"),
        part=_part,
        baseline=look_up,
    ),
)

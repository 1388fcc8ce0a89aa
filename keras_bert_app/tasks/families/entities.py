"""Entities in tags: spans and counts as in conlleval, F1, and the schemes of the tags."""

import collections
import functools
from collections.abc import Iterable, Sequence

from keras_bert_app.config.finetuning_config import SCHEMES

# Letters of BILOU and BMES, with the letters of BIOES that have the same meaning.
_READ_AS = {"L": "E", "U": "S", "M": "I"}
_LETTERS = frozenset("OBIES").union(_READ_AS)


def is_entity_tag(tag: str) -> bool:
    """Whether a tag is O or a letter of SCHEMES, alone or with a dash and a type."""
    letter, dash, kind = tag.partition("-")
    return letter in _LETTERS and bool(kind) == bool(dash) and not (letter == "O" and dash)


@functools.lru_cache(4096)
def _parsed(tag):
    letter, _, kind = tag.partition("-")
    return _READ_AS.get(letter, letter), kind


def spans(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """The entities of one sentence, in any scheme.

    The function reads tags that no scheme allows as conlleval does. An I- or E- after O or after another type starts an
    entity. An entity without an end tag ends before the next start. E- and S- follow version 0.2 of conlleval's port on
    PyPI, because the original (version 2004-01-26) does not know S- and reads E-X B-X as one entity.

    Args:
        tags: list of str, such as B-PER.

    Returns:
        list of (type, first word, word after the last).
    """
    entities, first, previous = [], 0, ("O", "")
    for number, tag in enumerate((*tags, "O")):
        current = _parsed(tag)
        ends = previous[0] != "O" and (current[0] in "OBS" or previous[0] in "ES" or current[1] != previous[1])
        if ends:
            entities.append((previous[1], first, number))
        if ends or previous[0] == "O":
            first = number
        previous = current
    return entities


def write_tags(entities: Iterable[tuple[str, int, int]], num_words: int, scheme: str) -> list[str]:
    """The tags of one sentence.

    Args:
        entities: The result of spans.
        num_words: int. Words of the sentence.
        scheme: str. A key of SCHEMES.
    """
    tags = ["O"] * num_words
    begin, inside, last, single = SCHEMES[scheme]
    previous = None, None
    for kind, start, end in entities:
        letters = single if end - start == 1 else begin + inside * (end - start - 2) + last
        if scheme == "IOB1" and previous == (kind, start):
            letters = "B" + letters[1:]
        tags[start:end] = [f"{letter}-{kind}" if kind else letter for letter in letters]
        previous = kind, end
    return tags


def is_in(scheme: str, tags: Sequence[str]) -> bool:
    """Whether a scheme of SCHEMES writes the entities of a sentence with exactly these tags."""
    return write_tags(spans(tags), len(tags), scheme) == list(tags)


def scheme_of(sentences: Sequence[Sequence[str]]) -> str:
    """The scheme of SCHEMES that a file's tags follow; IOB2 if the tags do not decide it.

    Args:
        sentences: list of sequences of tags.
    """
    letters = {tag[0] for tag in set().union(*sentences)} - {"O"}
    if not letters <= set("BI"):
        return next((name for name in ("IOE2", "BIOES", "BILOU", "BMES") if letters <= set(SCHEMES[name])), "BIOES")
    starts_with_i, breaks_iob1 = False, False
    for tags in sentences if "I" in letters else ():
        previous = None, None
        for kind, start, end in spans(tags):
            is_begin = tags[start][0] == "B"
            starts_with_i |= not is_begin
            breaks_iob1 |= is_begin and previous != (kind, start)
            previous = kind, end
    return "IOB1" if starts_with_i and not breaks_iob1 else "IOB2"


def count(right: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, tuple[int, int, int]]:
    """Counts entities as conlleval does. Every entity ends within its sentence.

    Args:
        right: list of sentences, each a list of tags.
        predicted: list of sentences, each a list of tags.

    Returns:
        dict type -> (right entities, predicted entities, predicted entities with right bounds and type).
    """
    counts = [collections.Counter() for _ in range(3)]
    for right_tags, predicted_tags in zip(right, predicted, strict=True):
        right_spans, predicted_spans = spans(right_tags), spans(predicted_tags)
        both = set(right_spans) & set(predicted_spans)
        for counter, entities in zip(counts, (right_spans, predicted_spans, both), strict=True):
            counter.update(kind for kind, _, _ in entities)
    return {kind: tuple(counter[kind] for counter in counts) for kind in sorted(counts[0] | counts[1])}


def precision_recall_f1(counts: dict[str, tuple[int, int, int]]) -> tuple[float, float, float]:
    """(precision, recall, F1) over all types; 0 if the divisor is 0.

    Args:
        counts: The result of count.
    """
    num_right, num_predicted, num_both = totals(counts)
    return (
        num_both / max(num_predicted, 1),
        num_both / max(num_right, 1),
        f1(num_right, num_predicted, num_both),
    )


def totals(counts: dict[str, tuple[int, int, int]]) -> tuple[int, int, int]:
    """(right entities, predicted entities, predicted entities with right bounds and type) of all types."""
    return tuple(sum(values) for values in zip((0, 0, 0), *counts.values(), strict=True))


def f1(num_right: int, num_predicted: int, num_both: int) -> float:
    """The F1 of totals; 0 if there is no entity."""
    return 2 * num_both / max(num_right + num_predicted, 1)

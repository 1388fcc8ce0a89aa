"""Entities in tags: their spans as conlleval reads them, counts and F1, and the schemes in which tags write them."""

import collections
import functools

from keras_bert_app.config.finetuning_config import SCHEMES

_READ_AS = {"L": "E", "U": "S", "M": "I"}
_LETTERS = frozenset("OBIES").union(_READ_AS)


def is_entity_tag(tag):
    """Whether a tag is O, or one of the letters of SCHEMES, alone or with a dash and a type."""
    letter, dash, kind = tag.partition("-")
    return letter in _LETTERS and bool(kind) == bool(dash) and not (letter == "O" and dash)


@functools.lru_cache(4096)
def _parsed(tag):
    letter, _, kind = tag.partition("-")
    return _READ_AS.get(letter, letter), kind


def spans(tags):
    """The entities of one sentence, list of (type, first word, word after the last), whatever the scheme.

    Tags that no scheme allows are read as conlleval reads them: an I- or E- after O or after another type starts an
    entity, and one without an end ends before what starts the next. For E- and S- that is conlleval's port on PyPI,
    version 0.2: the original (version 2004-01-26) knows no S- and takes E-X B-X for one entity.

    Args:
        tags: list of str, such as B-PER.
    """
    found, first, before = [], 0, ("O", "")
    for at, tag in enumerate((*tags, "O")):
        now = _parsed(tag)
        ends = before[0] != "O" and (now[0] in "OBS" or before[0] in "ES" or now[1] != before[1])
        if ends:
            found.append((before[1], first, at))
        if ends or before[0] == "O":
            first = at
        before = now
    return found


def write_tags(entities, num_words, scheme):
    """The tags of one sentence, list of str.

    Args:
        entities: as spans gives them. scheme: one of SCHEMES.
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


def is_in(scheme, tags):
    """Whether the tags of a sentence are as a scheme of SCHEMES writes them."""
    return write_tags(spans(tags), len(tags), scheme) == list(tags)


def scheme_of(sentences):
    """The scheme of SCHEMES that a file's tags are written in; IOB2 where they do not tell.

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


def count(right, predicted):
    """dict type -> (entities that are there, those predicted, those right in bounds and type), as conlleval counts.

    Args:
        right, predicted: lists of sentences, each a list of tags; an entity never reaches into the next sentence.
    """
    counts = [collections.Counter() for _ in range(3)]
    for sentence, answer in zip(right, predicted, strict=True):
        there, found = spans(sentence), spans(answer)
        for counter, entities in zip(counts, (there, found, set(there) & set(found))):
            counter.update(kind for kind, _, _ in entities)
    return {kind: tuple(counter[kind] for counter in counts) for kind in sorted(counts[0] | counts[1])}


def precision_recall_f1(counts):
    """(precision, recall, F1) over all types, 0 where there is nothing to divide by. Args: counts: of count."""
    there, found, right = (sum(values) for values in zip((0, 0, 0), *counts.values()))
    return right / max(found, 1), right / max(there, 1), 2 * right / max(there + found, 1)

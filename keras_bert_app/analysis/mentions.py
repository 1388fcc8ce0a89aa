"""Mentions of entities in CorefUD's annotation (Entity= in the MISC column), as UD GUM has it."""

import dataclasses
import re

from keras_bert_app.analysis.treebank import Tree
from keras_bert_app.errors import UserError

# "(7-person-new" opens entity 7, "7)" closes it, and "(7-person-new)" does both. No space separates brackets.
# "(7[1/2]-person" and "7[1/2])" open and close the first of two parts of a mention.
_BRACKET = re.compile(
    r"\((?P<opens>[^-()\[\]]+)(?:\[(?P<part>\d+)/\d+\])?[^()]*(?P<closes>\))?"
    r"|(?P<ends>[^-()\[\]]+)(?:\[\d+/\d+\])?\)"
)


@dataclasses.dataclass(frozen=True)
class Mention:
    """One mention of an entity.

    Attributes:
        entity: str. The id of the entity.
        sentence: int. The number of the sentence's tree.
        first: int. The first word of the mention in the sentence.
        end: int. The word after the last one.
        head: int. The word of the mention whose head lies outside the mention.
    """

    entity: str
    sentence: int
    first: int
    end: int
    head: int


def read_mentions(trees: list[Tree]) -> list[Mention]:
    """Reads the mentions of trees. If a mention has several parts, only the first part counts.

    Args:
        trees: list of treebank.Tree.

    Returns:
        list of Mention, sorted by sentence and head.

    Raises:
        UserError: brackets do not pair up within a sentence, or no word has an annotation. The message names file and
            line.
    """
    result = []
    for number, tree in enumerate(trees):
        for entity, first, end in _spans(tree):
            inside = range(first, end)
            head = next((word for word in inside if tree.heads[word] not in inside), first)
            result.append(Mention(entity, number, first, end, head))
    if not result:
        raise UserError(
            f"{trees[0].path}: no word has Entity= in its MISC column; expected CoNLL-U with coreference, "
            "such as UD English GUM"
        )
    return sorted(result, key=lambda mention: (mention.sentence, mention.head, mention.first))


def _spans(tree):
    """list of (entity, first word, word after the last)."""
    opened, result = [], []
    for word, misc in enumerate(tree.misc):
        value = next((field[7:] for field in misc.split("|") if field.startswith("Entity=")), "")
        at, location = 0, f"{tree.path}:{tree.lines[word]}"
        while at < len(value):
            bracket = _BRACKET.match(value, at)
            if not bracket:
                raise UserError(
                    f"{location}: Entity={value} cannot be read from {value[at : at + 20]!r} on; expected "
                    "brackets such as (7-person or 7)"
                )
            at = bracket.end()
            if bracket["opens"]:
                is_first = bracket["part"] in (None, "1")
                if not bracket["closes"]:
                    opened.append((bracket["opens"], word, is_first))
                elif is_first:
                    result.append((bracket["opens"], word, word + 1))
                continue
            place = next((place for place in reversed(range(len(opened))) if opened[place][0] == bracket["ends"]), None)
            if place is None:
                raise UserError(
                    f"{location}: Entity={value} closes {bracket['ends']}, which is not open in the sentence"
                )
            entity, first, is_first = opened.pop(place)
            if is_first:
                result.append((entity, first, word + 1))
    if opened:
        raise UserError(f"{tree.path}:{tree.lines[0]}: entity {opened[0][0]} is opened and not closed in this sentence")
    return result

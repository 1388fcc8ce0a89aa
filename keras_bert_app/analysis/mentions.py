"""Reads mentions of entities from CorefUD's annotation (Entity= in the MISC column), such as in UD English GUM."""

import dataclasses
import re

from keras_bert_app.analysis.treebank import Tree
from keras_bert_app.errors import UserError

# "(7-person-new" opens entity 7, "7)" closes it, and "(7-person-new)" does both. No space separates brackets.
# If a mention has two parts, "(7[1/2]-person" opens its first part and "7[1/2])" closes its first part.
_BRACKET = re.compile(
    r"\((?P<opens>[^-()\[\]]+)(?:\[(?P<part>\d+)/\d+\])?[^()]*(?P<closes>\))?"
    r"|(?P<ends>[^-()\[\]]+)(?:\[\d+/\d+\])?\)"
)


@dataclasses.dataclass(frozen=True)
class Mention:
    """One mention of an entity.

    Attributes:
        entity: str. The id of the entity.
        sentence: int. The place of the sentence's tree in the list of trees, from 0.
        first: int. The place of the mention's first word in the sentence, from 0.
        end: int. The place after the mention's last word.
        head: int. The place of the mention's first word whose own head lies outside the mention.
    """

    entity: str
    sentence: int
    first: int
    end: int
    head: int


def read_mentions(trees: list[Tree]) -> list[Mention]:
    """Reads the mentions of trees. If a mention has several parts, the function uses only the first part.

    Args:
        trees: list of treebank.Tree.

    Returns:
        list of Mention, sorted by sentence, head and first word.

    Raises:
        UserError: an annotation is malformed, an opening and a closing bracket in a sentence do not match, or no word
            has an annotation. The message names the file and, for a fault in a sentence, the line.
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
    """Returns a list of (entity, place of the first word, place after the last word) of a sentence."""
    opened, result = [], []
    for word, misc in enumerate(tree.misc):
        value = next((field[7:] for field in misc.split("|") if field.startswith("Entity=")), "")
        at, location = 0, f"{tree.path}:{tree.lines[word]}"
        while at < len(value):
            bracket = _BRACKET.match(value, at)
            if not bracket:
                raise UserError(
                    f"{location}: Entity={value} cannot be read from {value[at : at + 20]!r} on; expected an "
                    "opening bracket such as '(7-person' or a closing bracket such as '7)'"
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
                    f"{location}: Entity={value} closes {bracket['ends']}, which is not open in the sentence; expected "
                    f"an opening bracket such as '({bracket['ends']}-person' before it in the sentence"
                )
            entity, first, is_first = opened.pop(place)
            if is_first:
                result.append((entity, first, word + 1))
    if opened:
        raise UserError(
            f"{tree.path}:{tree.lines[0]}: entity {opened[0][0]} is opened but not closed in this sentence; expected a "
            f"closing bracket such as '{opened[0][0]})'"
        )
    return result

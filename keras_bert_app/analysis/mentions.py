"""Who is spoken of where: mentions in CorefUD's annotation (Entity= in the MISC column), as UD GUM has it."""

import dataclasses
import re

from keras_bert_app.errors import UserError

# "(7-person-new" opens entity 7, "7)" closes it, "(7-person-new)" does both; brackets follow each other without space.
# A part of a mention in several is "(7[1/2]-person" and "7[1/2])".
_BRACKET = re.compile(
    r"\((?P<opens>[^-()\[\]]+)(?:\[(?P<part>\d+)/\d+\])?[^()]*(?P<closes>\))?"
    r"|(?P<ends>[^-()\[\]]+)(?:\[\d+/\d+\])?\)"
)


@dataclasses.dataclass(frozen=True)
class Mention:
    """entity: its id. sentence: number of its tree. first, end: its words there, the end exclusive. head: the word in
    it whose head lies outside."""

    entity: str
    sentence: int
    first: int
    end: int
    head: int


def read_mentions(trees):
    """list of Mention, sorted by sentence and head; of a mention in parts the first part.

    Raises:
        UserError: brackets that do not pair up within a sentence, or no annotation at all: file:line and why.
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
        at, place_of = 0, f"{tree.path}:{tree.lines[word]}"
        while at < len(value):
            found = _BRACKET.match(value, at)
            if not found:
                raise UserError(
                    f"{place_of}: Entity={value} cannot be read from {value[at : at + 20]!r} on; expected "
                    "brackets such as (7-person or 7)"
                )
            at = found.end()
            if found["opens"]:
                is_first = found["part"] in (None, "1")
                if not found["closes"]:
                    opened.append((found["opens"], word, is_first))
                elif is_first:
                    result.append((found["opens"], word, word + 1))
                continue
            place = next((place for place in reversed(range(len(opened))) if opened[place][0] == found["ends"]), None)
            if place is None:
                raise UserError(f"{place_of}: Entity={value} closes {found['ends']}, which is not open in the sentence")
            entity, first, is_first = opened.pop(place)
            if is_first:
                result.append((entity, first, word + 1))
    if opened:
        raise UserError(f"{tree.path}:{tree.lines[0]}: entity {opened[0][0]} is opened and not closed in this sentence")
    return result

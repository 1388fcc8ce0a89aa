"""Whether a vocabulary is cased: read from a configuration, and checked against the entries themselves.

A tokenizer with the wrong casing fails in silence: an uncased vocabulary makes every capitalised word [UNK], and a third of
a cased one can never occur. google-research/bert guards against it by the names of its checkpoints
(tokenization.validate_case_matches_checkpoint); the entries tell it of any vocabulary.
"""

import json
import string
import unicodedata

from pipelines.data_error import DataError
from pipelines.wordpiece.vocabulary import read_bytes

# Of the entries with an ASCII letter, 0.33 have a capital in Google's cased vocabulary, 0.29 in the multilingual cased one,
# 0 in the uncased one and 0.0005 in the Chinese one.
_MIN_CAPITAL_SHARE = 0.05
# Why a vocabulary is lower-cased that is said not to be.
NO_CAPITALS = "the vocabulary has no capital, and text is lower-cased for it"
_CONFIGURATIONS = ("config.json", "bert_config.json", "tokenizer_config.json")


def verify(vocabulary, do_lower_case, name):
    """Refuses a casing under which a vocabulary cannot work.

    Args:
        vocabulary: pieces. do_lower_case: what the tokenizer will do. name: of the vocabulary, for the message.

    Raises:
        DataError: lower-casing, but many entries have capitals; or none, but the entries are lower-cased ones.
    """
    entries = [piece for piece in vocabulary if not (piece.startswith("[") and piece.endswith("]"))]
    capitals = [piece for piece in entries if piece != piece.lower()]
    if do_lower_case:
        with_letters = sum(any("a" <= character <= "z" for character in piece.lower()) for piece in entries)
        if len(capitals) > _MIN_CAPITAL_SHARE * max(with_letters, 1):
            raise DataError(
                f"vocabulary {name} is cased ({len(capitals):,} of its {len(vocabulary):,} entries have capitals, such as "
                f"{capitals[0]!r}), but do_lower_case is true and no text would ever match those; set do_lower_case to false"
            )
    elif (
        set(string.ascii_lowercase).issubset(entries)
        and set(string.ascii_uppercase).isdisjoint(entries)
        and not any(_has_accents(piece) for piece in entries)
    ):
        raise DataError(
            f"vocabulary {name} is uncased (its {len(vocabulary):,} entries have a to z, but no capital and no accent), but "
            "do_lower_case is false and every word with a capital would be [UNK]; set do_lower_case to true"
        )


def fits(vocabulary, do_lower_case):
    """Whether verify would let a vocabulary pass."""
    try:
        verify(vocabulary, do_lower_case, "")
    except DataError:
        return False
    return True


def from_configuration(directory):
    """do_lower_case as a directory's config.json, bert_config.json or tokenizer_config.json names it.

    Raises:
        DataError: none of them does.
    """
    for name in _CONFIGURATIONS:
        try:
            configuration = json.loads(read_bytes(f"{directory}/{name}"))
        except (DataError, ValueError):
            continue
        if isinstance(configuration, dict) and isinstance(configuration.get("do_lower_case"), bool):
            return configuration["do_lower_case"]
    raise DataError(
        f"{directory}: no {', '.join(_CONFIGURATIONS[:-1])} or {_CONFIGURATIONS[-1]} there says do_lower_case; "
        "say whether the vocabulary is uncased by do_lower_case=True or False"
    )


def _has_accents(piece):
    """Whether a Latin letter in it carries an accent; a Japanese voicing mark, also one to Unicode, tells nothing."""
    decomposed = unicodedata.normalize("NFD", piece)
    return any(
        "a" <= letter <= "z" and unicodedata.category(mark) == "Mn" for letter, mark in zip(decomposed, decomposed[1:])
    )

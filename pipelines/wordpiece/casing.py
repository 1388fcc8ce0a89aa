"""Reads from a configuration whether a vocabulary is cased, and checks it against the entries.

A tokenizer with the wrong casing fails silently. If text for an uncased vocabulary is not lower-cased, every word with
a capital becomes [UNK]. If text for a cased vocabulary is lower-cased, a third of the entries never occurs.
google-research/bert checks the names of its checkpoints (tokenization.validate_case_matches_checkpoint). This module
checks the entries of any vocabulary.
"""

import json
import string
import unicodedata
from collections.abc import Sequence

from pipelines import storage
from pipelines.data_error import DataError
from pipelines.wordpiece.vocabulary import read_bytes

# The share of entries with a capital, among entries with an ASCII letter, is 0.33 in Google's cased vocabulary. It is
# 0.29 in the multilingual cased one, 0 in the uncased one and 0.0005 in the Chinese one.
_MIN_CAPITAL_SHARE = 0.05
# The reason to lower-case text for a vocabulary whose configuration says otherwise.
NO_CAPITALS = "the vocabulary has no capital, and text is lower-cased for it"
_MAX_BYTES = 100_000_000  # the largest configuration that is read
_CONFIGURATIONS = ("config.json", "bert_config.json", "tokenizer_config.json")


def verify(vocabulary: Sequence[str], do_lower_case: bool, name: str) -> None:
    """Refuses a casing under which a vocabulary cannot work.

    Args:
        vocabulary: list of str. The pieces.
        do_lower_case: whether the tokenizer lower-cases.
        name: the name of the vocabulary in the message.

    Raises:
        DataError: do_lower_case is true but many entries have capitals, or it is false but the entries are lower-cased.
    """
    entries = [piece for piece in vocabulary if not (piece.startswith("[") and piece.endswith("]"))]
    capitals = [piece for piece in entries if piece != piece.lower()]
    if do_lower_case:
        with_letters = sum(any("a" <= character <= "z" for character in piece.lower()) for piece in entries)
        if len(capitals) > _MIN_CAPITAL_SHARE * max(with_letters, 1):
            raise DataError(
                f"vocabulary {name} is cased ({len(capitals):,} of its {len(vocabulary):,} entries have capitals, "
                f"such as {capitals[0]!r}), but do_lower_case is true and no text would match these entries; set "
                "do_lower_case to false"
            )
    elif (
        set(string.ascii_lowercase).issubset(entries)
        and set(string.ascii_uppercase).isdisjoint(entries)
        and not any(_has_accents(piece) for piece in entries)
    ):
        raise DataError(
            f"vocabulary {name} is uncased (its {len(vocabulary):,} entries have a to z, but no capital and no "
            "accent), but do_lower_case is false and every word with a capital would be [UNK]; set do_lower_case to "
            "true"
        )


def fits(vocabulary: Sequence[str], do_lower_case: bool) -> bool:
    """Returns whether verify accepts a vocabulary.

    Args:
        vocabulary: list of str. The pieces.
        do_lower_case: whether the tokenizer lower-cases.

    Returns:
        bool.
    """
    try:
        verify(vocabulary, do_lower_case, "")
    except DataError:
        return False
    return True


def from_configuration(directory: str) -> bool:
    """Reads do_lower_case from the first configuration file that has it.

    The files are config.json, bert_config.json and tokenizer_config.json, in this order.

    Args:
        directory: the directory of these files.

    Returns:
        bool.

    Raises:
        DataError: none of these files has do_lower_case.
    """
    for configuration in _configurations(directory):
        if isinstance(configuration.get("do_lower_case"), bool):
            return configuration["do_lower_case"]
    raise DataError(
        f"{directory}: no {', '.join(_CONFIGURATIONS[:-1])} or {_CONFIGURATIONS[-1]} in it has do_lower_case; "
        "give do_lower_case=True or False (True for an uncased vocabulary)"
    )


def configuration_of_symbols(directory: str) -> dict | None:
    """Returns the configuration that says that the vocabulary has symbols, or None.

    Args:
        directory: the directory of the files that from_configuration reads.
    """
    for configuration in _configurations(directory):
        if configuration.get("tokenizer") == "symbols":
            return configuration
    return None


def _configurations(directory):
    """Yields the content of the configuration files that can be read."""
    for name in _CONFIGURATIONS:
        path = f"{directory}/{name}"
        # The directory may come from a stranger. A path in it may be a pipe, or a file of gigabytes.
        if not storage.is_file(path) or storage.size_of(path) > _MAX_BYTES:
            continue
        try:
            configuration = json.loads(read_bytes(path))
        except (DataError, ValueError, RecursionError):
            continue
        if isinstance(configuration, dict):
            yield configuration


def _has_accents(piece):
    """Returns whether a Latin letter of a piece has an accent.

    Japanese voicing marks do not count, although Unicode treats them as accents.
    """
    decomposed = unicodedata.normalize("NFD", piece)
    return any(
        "a" <= letter <= "z" and unicodedata.category(mark) == "Mn"
        for letter, mark in zip(decomposed, decomposed[1:], strict=False)
    )

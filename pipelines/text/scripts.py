"""The script of a character or word, such as Latin or Han, from the character names of Unicode."""

import functools
import unicodedata

# Names of letters in Unicode mostly begin with the script. The first words below are not the usual name of a script.
_SCRIPTS = {
    "Cjk": "Han",
    "Ideographic": "Han",
    "Angstrom": "Latin",
    "Feminine": "Latin",
    "Kelvin": "Latin",
    "Masculine": "Latin",
    "Micro": "Greek",
    "Ohm": "Greek",
}
_FORMS = ("FULLWIDTH ", "HALFWIDTH ")
_MODIFIER = "MODIFIER LETTER "
NUMBERS, MARKS, SYMBOLS, OTHER = "numbers", "marks", "punctuation and symbols", "other"
_NOT_LETTERS = {"N": NUMBERS, "M": MARKS, "P": SYMBOLS, "S": SYMBOLS}


@functools.lru_cache(maxsize=1 << 16)
def script_of_character(character: str) -> str:
    """Names the script of a character.

    Args:
        character: str of length 1.

    Returns:
        "Latin", "Greek", "Han", "Hiragana", ... for a letter; NUMBERS, MARKS, SYMBOLS or OTHER for other characters.
    """
    category = unicodedata.category(character)
    if category[0] != "L":
        return _NOT_LETTERS.get(category[0], OTHER)
    name = unicodedata.name(character, "OTHER")
    for form in _FORMS:
        name = name.removeprefix(form)
    if name.startswith(_MODIFIER):  # superscript letters and stand-alone accents
        return "Latin" if name.startswith((_MODIFIER + "SMALL", _MODIFIER + "CAPITAL")) else SYMBOLS
    if "KATAKANA" in name:  # KATAKANA-HIRAGANA PROLONGED SOUND MARK
        return "Katakana"
    script = name.split()[0].capitalize()
    return _SCRIPTS.get(script, OTHER if script == OTHER.capitalize() else script)


def script_of_word(word: str) -> str:
    """Names the script of a word.

    The first letter decides, or the first character if the word has no letter.

    Args:
        word: str, not empty.

    Returns:
        str, as script_of_character returns it.
    """
    first = script_of_character(word[0])
    if first in (NUMBERS, MARKS, SYMBOLS, OTHER):
        for character in word[1:]:
            if unicodedata.category(character)[0] == "L":
                return script_of_character(character)
    return first

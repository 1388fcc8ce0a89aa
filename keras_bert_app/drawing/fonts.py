"""Text that the installed fonts can draw."""

import contextlib
import functools
import os
import unicodedata
from collections.abc import Iterable

# Fonts of common systems for scripts that matplotlib's own DejaVu Sans lacks.
_FALLBACKS = (
    "Noto Sans",
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Noto Sans Thai",
    "Noto Sans Devanagari",
    "WenQuanYi Micro Hei",
    "Droid Sans Fallback",
    "PingFang SC",
    "Hiragino Sans",
    "Microsoft YaHei",
    "Malgun Gothic",
    "Arial Unicode MS",
)
_HAN, _KANA, _HANGUL = "\u4e2d", "\u3042", "\ud55c"
_CJK_NAMES = ("CJK", "KANGXI", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "FULLWIDTH", "HALFWIDTH")
_SMALLEST_CJK_FONT = 1 << 20  # bytes; fonts with thousands of characters are larger
# Packages of Debian and Ubuntu, and of Fedora.
_CJK_PACKAGES = "fonts-noto-cjk (Fedora: google-noto-sans-cjk-fonts)"
_OTHER_PACKAGES = "fonts-noto-core (Fedora: google-noto-sans-fonts)"

_escaped: set[str] = set()  # texts that `drawable` escaped since the last call of escaped_texts


@functools.cache
def _fonts():
    """Returns the installed font families in the order of preference, and the code points that they cover."""
    from matplotlib import font_manager

    manager = font_manager.fontManager
    families, code_points = [], set()

    def add(family):
        families.append(family)
        code_points.update(font_manager.get_font(font_manager.findfont(family)).get_charmap())

    def add_listed():
        installed = {entry.name for entry in manager.ttflist}
        for family in _FALLBACKS:
            if family in installed and family not in families:
                add(family)

    add("DejaVu Sans")
    add_listed()
    if not {ord(_HAN), ord(_KANA), ord(_HANGUL)} <= code_points:
        _add_new_files(font_manager)
        add_listed()
        for family in _others_with(font_manager, {ord(_HAN), ord(_KANA), ord(_HANGUL)} - code_points):
            add(family)
    return families, code_points


def _add_new_files(font_manager):
    """Adds fonts that are newer than matplotlib's list of fonts, which matplotlib keeps for later runs."""
    known = {entry.fname for entry in font_manager.fontManager.ttflist}
    for path in font_manager.findSystemFonts():
        if path not in known:
            with contextlib.suppress(OSError, RuntimeError, ValueError):  # a damaged file, or no font
                font_manager.fontManager.addfont(path)


def _others_with(font_manager, wanted):
    """Yields the families of further fonts until the wanted code points are covered."""
    for entry in sorted(font_manager.fontManager.ttflist, key=lambda entry: (entry.style != "normal", entry.name)):
        if not wanted:
            return
        with contextlib.suppress(OSError, RuntimeError):
            if os.path.getsize(entry.fname) < _SMALLEST_CJK_FONT:
                continue
            # matplotlib may choose a file of another weight for the family. That file has the same characters.
            covered = wanted.intersection(font_manager.get_font(entry.fname).get_charmap())
            if covered:
                wanted = wanted - covered
                yield entry.name


def families() -> list[str]:
    """Returns the font families for rcParams["font.family"].

    matplotlib takes a character from the first family that has it.
    """
    return _fonts()[0]


def drawable(text: str, max_characters: int = 28) -> str:
    """Shortens a text in the middle, and escapes it if the installed fonts lack one of its characters.

    Args:
        text: str. Any text.
        max_characters: int. The longest text that stays whole.

    Returns:
        str: the text, or the code points of its first characters, such as "U+4E2D".
    """
    text = unicodedata.normalize("NFC", text)  # an uncased vocabulary holds Hangul syllables in parts
    if len(text) > max_characters:
        half = (max_characters - 3) // 2
        text = f"{text[:half]}...{text[-half:]}"
    if not _undrawable(text):
        return text.replace("$", r"\$")  # matplotlib draws text between two dollar signs as mathematics
    _escaped.add(text)
    escaped = [f"U+{ord(character):04X}" for character in text[:3]]
    return " ".join(escaped) + ("..." if len(text) > 3 else "")


def escaped_texts() -> list[str]:
    """Returns the texts that `drawable` escaped since the last call."""
    texts = sorted(_escaped)
    _escaped.clear()
    return texts


def advice(texts: Iterable[str]) -> str:
    """Names the packages to install for texts that no installed font can draw.

    Args:
        texts: iterable of str. The texts of a picture.

    Returns:
        str: one sentence. "" if no character is missing, or if no usual font has it.
    """
    names = [unicodedata.name(character, "") for text in texts for character in _undrawable(text)]
    letters = [name for name in names if "LETTER" in name or name.startswith(_CJK_NAMES)]
    if not letters:  # private use, control characters, and signs that no usual font has
        return ""
    packages = dict.fromkeys(
        _CJK_PACKAGES if name.startswith(_CJK_NAMES) else _OTHER_PACKAGES for name in sorted(letters)
    )
    return f"no installed font has the characters written as U+...; install {' and '.join(packages)}"


def _undrawable(text):
    """Returns the characters of a text that no installed font has."""
    code_points = _fonts()[1]
    return [character for character in text if ord(character) not in code_points or not character.isprintable()]

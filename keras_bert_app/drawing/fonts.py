"""Text that the installed fonts can draw."""

import functools
import unicodedata

# Beyond matplotlib's own DejaVu Sans: what the usual systems have for the scripts that it lacks.
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


@functools.cache
def _fonts():
    """Family names to draw with, in order, and the code points that they have."""
    from matplotlib import font_manager

    installed = {entry.name for entry in font_manager.fontManager.ttflist}
    families = ["DejaVu Sans", *(name for name in _FALLBACKS if name in installed)]
    code_points = set()
    for family in families:
        code_points.update(font_manager.get_font(font_manager.findfont(family)).get_charmap())
    return families, code_points


def families():
    """Font families for rcParams["font.family"]; a character missing in one is taken from the next."""
    return _fonts()[0]


def drawable(text, max_characters=28):
    """The text, shortened in the middle, with U+4E2D in place of a character that no installed font has."""
    text = unicodedata.normalize("NFC", text)  # an uncased vocabulary holds Hangul in parts
    if len(text) > max_characters:
        half = (max_characters - 3) // 2
        text = f"{text[:half]}...{text[-half:]}"
    code_points = _fonts()[1]
    if all(ord(character) in code_points and character.isprintable() for character in text):
        return text.replace("$", r"\$")  # else two of them would set mathematics
    escaped = [f"U+{ord(character):04X}" for character in text[:3]]
    return " ".join(escaped) + ("..." if len(text) > 3 else "")

"""Text that the installed fonts can draw."""

import functools
import unicodedata

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


@functools.cache
def _fonts():
    """The installed font families in the order of preference, and the code points that they cover."""
    from matplotlib import font_manager

    installed = {entry.name for entry in font_manager.fontManager.ttflist}
    families = ["DejaVu Sans", *(name for name in _FALLBACKS if name in installed)]
    code_points = set()
    for family in families:
        code_points.update(font_manager.get_font(font_manager.findfont(family)).get_charmap())
    return families, code_points


def families() -> list[str]:
    """Font families for rcParams["font.family"]. matplotlib takes a character from the first family that has it."""
    return _fonts()[0]


def drawable(text: str, max_characters: int = 28) -> str:
    """Shortens a text in the middle, and escapes it (U+4E2D ...) if no installed font has all of its characters."""
    text = unicodedata.normalize("NFC", text)  # an uncased vocabulary holds Hangul syllables in parts
    if len(text) > max_characters:
        half = (max_characters - 3) // 2
        text = f"{text[:half]}...{text[-half:]}"
    code_points = _fonts()[1]
    if all(ord(character) in code_points and character.isprintable() for character in text):
        return text.replace("$", r"\$")  # matplotlib sets text between two dollar signs as mathematics
    escaped = [f"U+{ord(character):04X}" for character in text[:3]]
    return " ".join(escaped) + ("..." if len(text) > 3 else "")

"""The character classes of Unicode 14 that google-research/bert's tokenization depends on.

Reference: unicodedata and str.lower of Python 3.11 (Unicode 14.0.0), which bert/tokenization.py calls. See README.md.

    python3.11 tests/golden/generate_unicode_14.py

Writes pipelines/wordpiece/unicode_14_classes.py, with ranges of hexadecimal numbers.
"""

import pathlib
import textwrap
import unicodedata

OUTPUT = pathlib.Path(__file__).parents[2] / "pipelines/wordpiece/unicode_14_classes.py"
CHARACTERS = [chr(code) for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF]


def is_cased(character):
    """Whether str.lower makes a sigma after the character final. Such characters are cased and not case-ignorable."""
    return (character + "Σ").lower().endswith("ς")


def is_case_ignorable(character):
    """Whether str.lower skips the character when it looks for a cased one before a sigma."""
    return ("A" + character + "Σ").lower().endswith("ς") and not is_cased(character)


CLASSES = {
    "FORMAT": ("category Cf", lambda c: unicodedata.category(c) == "Cf"),
    "SPACE_SEPARATOR": ("category Zs", lambda c: unicodedata.category(c) == "Zs"),
    "NONSPACING_MARK": ("category Mn", lambda c: unicodedata.category(c) == "Mn"),
    "PUNCTUATION": ("categories P*", lambda c: unicodedata.category(c).startswith("P")),
    "CASED": ("cased and not case-ignorable", is_cased),
    "CASE_IGNORABLE": ("case-ignorable", is_case_ignorable),
}


def ranges_of(contains):
    """[(first, last)] of the code points that a class contains."""
    ranges = []
    for character in filter(contains, CHARACTERS):
        code = ord(character)
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return ranges


def main():
    if unicodedata.unidata_version != "14.0.0":
        raise SystemExit(f"this Python has Unicode {unicodedata.unidata_version}, expected 14.0.0 (Python 3.11)")
    lines = [
        '"""Character classes of Unicode 14.0.0, as the inside of a regular expression\'s class.',
        "",
        "tests/golden/generate_unicode_14.py writes this file. Do not edit it.",
        '"""',
        "",
        "",
        "def _character_class(ranges):",
        '    return "".join(',
        '        f"\\\\x{{{first}}}-\\\\x{{{last or first}}}" '
        'for first, _, last in (item.partition("-") for item in ranges.split())',
        "    )",
        "",
    ]
    for name, (meaning, contains) in CLASSES.items():
        items = [f"{first:X}" if first == last else f"{first:X}-{last:X}" for first, last in ranges_of(contains)]
        text = textwrap.fill(
            " ".join(items), 116, break_on_hyphens=False, initial_indent="    ", subsequent_indent="    "
        )
        lines += ["", f"# {meaning}", f'{name} = _character_class("""', text, '""")']
    OUTPUT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{OUTPUT}: {OUTPUT.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()

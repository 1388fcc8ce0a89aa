"""From a docstring to its paragraphs of prose, found by the layout of its lines.

Docstrings mix prose with reStructuredText, Markdown, Google, NumPy and Sphinx conventions. First
`_without_code` blanks what is laid out as code or a table, then `prose_paragraphs` joins the lines that
belong together: a paragraph, a list item, the description of an argument. Markup inside a line stays.
"""

import inspect
import re
from collections.abc import Iterator

MAX_LINE_LENGTH = 2000  # a longer one is data, and the patterns need more than linear time

_FENCE = re.compile(r"\s*(```+|~~~+)(?!.*```)")
_PROMPT = re.compile(r"\s*(?:>>>|In \[\d+\]:)")
_UNDERLINE = re.compile(r"\s*([=\-~^\"'#*+_`.:])\1{2,}\s*$")
_TABLE_BORDER = re.compile(r"\s*(?:[=-]{2,} +)+[=-]{2,}\s*$")
_TABLE_ROW = re.compile(r"\s*(?:\||\+[-=+]{2,})|\s*\S[^.]*? {3,}\S.* {3,}\S")
_SHELL_OR_COMMENT = re.compile(r"\s*(?:[$%#]+\s|#|@\w|--?\w[\w-]*(?:[=\s]|$))")
_DIRECTIVE = re.compile(r"\s*\.\.(?:\s+([\w-]+)::)?(?:\s+(.*)|$)")
_PROSE_DIRECTIVES = frozenset(
    "admonition attention caution danger deprecated hint important note seealso tip topic versionadded "
    "versionchanged warning".split()
)
_SIGNATURE = re.compile(r"\s*(?:(?:async |class |def )*[\w.]+\((?:[^()]|\([^()]*\))*\)(?:\s*(?:->|=|:).*)?)$")
_SIGNATURE_LEAD = re.compile(r"[\w.]+\([^()]*\)\s*(?:->\s*[\w.\[\], |]+?\s*)?(?:--|:)\s+")
_CODE_LINE = re.compile(
    r"\s*(?:import \w|from [\w.]+ import|(?:def|class) \w+.*:|return\b|(?:for|with|if|elif|while|else|try|except)\b.*:$"
    r"|[\w.\[\]'\", ]{1,40}\s[-+*/|]?=\s|[\w.]+[=(]\S|[\])}({\[]|</?\w|\.\.\.)|.*(?:[,(\[{;}]$(?<!,)|::=)"
)

_ITEM_SECTIONS = "args arguments kwargs params parameters attributes properties members options fields methods".split()
_RAISE_SECTIONS = "raises raise except exceptions warns".split()
_RESULT_SECTIONS = "returns return yields yield receives output outputs".split()
_NAMED_SECTIONS = _ITEM_SECTIONS + _RAISE_SECTIONS + _RESULT_SECTIONS
_DROPPED_SECTIONS = "references reference see_also input_shape output_shape input_shapes output_shapes".split()
_OTHER_SECTIONS = "example examples example_usage usage note notes warning warnings inputs input".split()
_SECTION_NAMES = "|".join(_NAMED_SECTIONS + _DROPPED_SECTIONS + _OTHER_SECTIONS).replace("_", " ")
_SECTION = re.compile(
    rf"\W*(?:call |keyword |optional |required |input |other )?({_SECTION_NAMES})\W*:\W*$", re.IGNORECASE
)
_SECTION_LEAD = re.compile(r"(?:Args|Arguments|Returns?|Yields?|Raises|Attributes|Parameters)\s*:\s+", re.IGNORECASE)
_ITEM_NAME = re.compile(
    r"[\w*`'\".,/|\[\] -]{1,60}?\s*(?:\((?:[^()]|\([^()]*\))*\))?\s*(?::(?:\s+|$)|\s--?\s|(?<=\))$)"
)
_RESULT_TYPE = re.compile(r"(?:(?:\[?`[^`]*`\]?(?:,? or |, | \| )?)+|[\w.]+(?:\[[\w., |\[\]]*\])?):(?:\s+|$)")
_RAISED = re.compile(r"(?:[-*] )?[`\[~.:\w]*?([A-Z]\w*(?:`?(?:,| or) `?[A-Z]\w*)*)`?\]?(?:\(\S*\))?\s*(?::|--?|$)\s*")
_CONDITION = re.compile(r"(?:if|when|in case|on|for)\b", re.IGNORECASE)
_LOOSE_ITEM = re.compile(r"[a-z_]\w*\s*(?:\([^()]*\))?\s*:\s+(?=\S)")  # outside of any section
_BULLET = re.compile(r"\s*(?:[-*+•]|\(?(?:\d{1,2}|[a-zA-Z])[.)]|#\.|\d\.\d\.?)\s+(?=\S)")
_BULLET_NAME = re.compile(r"(?:\*\*|``?|\")[^`*\"]+(?:``?|\*\*|\")(?:\s*\([^()]*\))?\s*(?::|--?|–)\s+")
_FIELD = re.compile(r"\s*:(\w+)(?:\s+~?([^:]*))?:(?:\s+(.*)|$)")
_PROSE_FIELDS = frozenset(
    "arg argument cvar ivar key keyword kwarg kwparam note param parameter return returns var yield yields".split()
)


def prose_paragraphs(docstring: str) -> Iterator[str]:
    """Yields the paragraphs, list items and descriptions of arguments, each joined to one line, in order."""
    block: list[str] = []  # the lines of the paragraph being gathered
    block_indent: int | None = 0  # where its next line should begin; None: anywhere
    section, section_indent, item_indent = "", -1, None
    is_numpy = False  # sections by underlined headings, items by "name : type" and a deeper description
    loose_items = False  # in a run of lines "name: description" outside of any section
    raised = ""  # the exception whose description comes on the next line

    def flush() -> Iterator[str]:
        if not block:
            return
        code_lines = sum(bool(_CODE_LINE.match(line)) for line in block)
        if 2 * code_lines <= len(block) - (len(block) == 1):
            yield " ".join(block)
        block.clear()

    lines = [*_without_code(inspect.cleandoc(docstring).split("\n")), ""]
    for line, next_line in zip(lines, lines[1:]):
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if not text or _UNDERLINE.match(line):
            yield from flush()
            loose_items = False
            continue
        if _UNDERLINE.match(next_line):
            yield from flush()
            section = text.lower().removeprefix("other ").replace(" ", "_")
            section_indent, item_indent, is_numpy = -1, None, True
            continue
        if text.endswith((":", ":*")) and (header := _SECTION.match(line)):
            yield from flush()
            section = header.group(1).lower().replace(" ", "_")
            section_indent, item_indent, is_numpy = indent, None, False
            continue
        if section and indent <= section_indent:
            yield from flush()
            section = ""
        if section in _DROPPED_SECTIONS:
            continue
        if not block and section and item_indent is None:
            item_indent = indent
        is_item = section and item_indent is not None and indent <= item_indent

        if field := _FIELD.match(line):
            yield from flush()
            name, argument, text = field.groups()
            if name.startswith("raise"):
                raised = argument or ""
            elif name not in _PROSE_FIELDS:
                text = ""
            block_indent = None
        elif is_numpy and is_item and section in _NAMED_SECTIONS and not (block and block_indent == indent):
            yield from flush()
            if section in _RAISE_SECTIONS:
                raised = text
            elif len(text.split()) >= 4 and " : " not in text:  # prose in place of a term
                block, block_indent = [text], indent
            continue
        elif is_item and section in _RAISE_SECTIONS and (item := _RAISED.match(text)):
            yield from flush()
            raised, text, block_indent = item.group(1).replace("`", ""), text[item.end() :], None
        elif is_item and section in _ITEM_SECTIONS and (item := _ITEM_NAME.match(text)):
            yield from flush()
            raised, text, block_indent = "", text[item.end() :], None
        elif (loose_items or not block) and (item := _LOOSE_ITEM.match(text)):
            yield from flush()
            text, block_indent, loose_items = text[item.end() :], None, True
        elif bullet := _BULLET.match(line):
            yield from flush()
            text = _BULLET_NAME.sub("", text[bullet.end() - indent :], count=1)
            block_indent = None
        elif not block:
            if is_item and section in _RESULT_SECTIONS:
                text = _RESULT_TYPE.sub("", text, count=1)
            text = _SIGNATURE_LEAD.sub("", _SECTION_LEAD.sub("", text, count=1), count=1)
            text = "" if _SIGNATURE.match(text) else text
            block_indent = indent
        elif block_indent is None:
            block_indent = indent
        elif indent > block_indent and len(block) == 1:
            if len(block[0].split()) < 4 or block[0].endswith(":"):  # the term of a definition list
                block.clear()
            block_indent = indent
        elif indent != block_indent:
            yield from flush()
            block_indent = indent
        if not text:  # a name whose description begins on the next line
            continue
        if raised and not block:
            if _CONDITION.match(text):
                text = f"Raises {raised} {text[0].lower()}{text[1:]}"
            raised = ""
        block.append(text)
    yield from flush()


def _without_code(lines: list[str]) -> Iterator[str]:
    """The lines with fenced and literal blocks, doctests, tables, shell lines and comments left blank and
    directives such as '.. note::' taken off their text."""
    skip_deeper_than = None  # in a literal block or directive: the indentation of its owner
    skip_to_blank = False  # in a doctest or table
    fence_end = -1
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if number <= fence_end:
            continue
        if not line.strip():
            skip_to_blank = False
            yield ""
        elif len(line) > MAX_LINE_LENGTH:
            yield ""
        elif skip_deeper_than is not None and indent > skip_deeper_than:
            continue
        elif skip_to_blank:
            continue
        elif fence := _FENCE.match(line):
            closing = (n for n in range(number + 1, len(lines)) if lines[n].strip().startswith(fence.group(1)))
            fence_end = next(closing, number)
            yield ""
        elif _PROMPT.match(line) or _TABLE_BORDER.match(line):
            skip_to_blank = True
            yield ""
        elif _UNDERLINE.match(line):
            skip_deeper_than = None
            yield line
        elif _TABLE_ROW.match(line) or _SHELL_OR_COMMENT.match(line):
            yield ""
        elif directive := _DIRECTIVE.match(line):
            name, text = directive.groups()
            skip_deeper_than = None if name in _PROSE_DIRECTIVES else indent
            yield ""
            if name in _PROSE_DIRECTIVES and text and not text[0].isdigit():
                yield " " * indent + text
        elif line.rstrip().endswith("::"):
            skip_deeper_than = indent
            yield line.rstrip()[:-1]
        else:
            skip_deeper_than = None
            yield line

"""The paragraphs of prose in a docstring, recognized by the layout of the lines.

Docstrings mix prose with reStructuredText, Markdown, Google, NumPy and Sphinx conventions. `_without_code` blanks lines
with the layout of code or of a table. `prose_paragraphs` then joins the lines of a paragraph, a list item or the
description of an argument. Markup inside a line stays.
"""

import inspect
import re
from collections.abc import Iterator

MAX_LINE_LENGTH = 2000  # a longer line is data, and the patterns need more than linear time

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
    """Finds the prose in a docstring.

    Args:
        docstring: str.

    Yields:
        str. Paragraphs, list items and descriptions of arguments in order, each joined to one line.
    """
    reader = _ParagraphReader()
    lines = [*_without_code(inspect.cleandoc(docstring).split("\n")), ""]
    for line, next_line in zip(lines, lines[1:], strict=False):
        yield from reader.read(line, next_line)
    yield from reader.finish_block()


class _ParagraphReader:
    """Joins the lines of a docstring to paragraphs; it holds the state between two lines."""

    def __init__(self):
        self.block: list[str] = []  # the lines of the current paragraph
        self.block_indent: int | None = 0  # the indentation of the next line of the block; None: any
        self.section = ""
        self.section_indent = -1
        self.item_indent: int | None = None
        self.is_numpy = False  # sections have underlined headings; items are "name : type" with an indented description
        self.loose_items = False  # the last lines were "name: description" outside of any section
        self.raised = ""  # an exception whose description starts on the next line

    def finish_block(self) -> list[str]:
        """Ends the current paragraph; returns it joined, or nothing if it is mostly code."""
        block, self.block = self.block, []
        code_lines = sum(bool(_CODE_LINE.match(line)) for line in block)
        is_prose = block and 2 * code_lines <= len(block) - (len(block) == 1)
        return [" ".join(block)] if is_prose else []

    def read(self, line: str, next_line: str) -> Iterator[str]:
        """Reads one line; yields the paragraphs that end before it."""
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if not text or _UNDERLINE.match(line):
            yield from self.finish_block()
            self.loose_items = False
            return
        if self._starts_section(line, next_line):
            yield from self.finish_block()
            return
        if self.section and indent <= self.section_indent:
            yield from self.finish_block()
            self.section = ""
        if self.section in _DROPPED_SECTIONS:
            return
        if not self.block and self.section and self.item_indent is None:
            self.item_indent = indent
        is_item = self.section and self.item_indent is not None and indent <= self.item_indent

        if (description := self._field_description(line)) is not None:
            yield from self.finish_block()
            text, self.block_indent = description, None
        elif is_item and self._is_numpy_item(indent):
            yield from self.finish_block()
            self._read_numpy_item(text, indent)
            return
        elif (description := self._item_description(line, is_item)) is not None:
            yield from self.finish_block()
            text, self.block_indent = description, None
        elif not self.block:
            text, self.block_indent = self._without_lead(text, is_item), indent
        else:
            yield from self._continue_block(indent)
        if text:  # else the description of a name starts on the next line
            self._append(text)

    def _starts_section(self, line, next_line):
        """Recognizes a heading of a section, and remembers the section."""
        text = line.strip()
        if _UNDERLINE.match(next_line):
            self.section = text.lower().removeprefix("other ").replace(" ", "_")
            self.section_indent, self.item_indent, self.is_numpy = -1, None, True
            return True
        if text.endswith((":", ":*")) and (header := _SECTION.match(line)):
            self.section = header.group(1).lower().replace(" ", "_")
            self.section_indent, self.item_indent, self.is_numpy = len(line) - len(line.lstrip()), None, False
            return True
        return False

    def _field_description(self, line):
        """Returns the prose of a field such as ":param name: prose".

        The result is "" for fields without prose, and None for lines that are no field.
        """
        field = _FIELD.match(line)
        if not field:
            return None
        name, argument, text = field.groups()
        if name.startswith("raise"):
            self.raised = argument or ""
        elif name not in _PROSE_FIELDS:
            return ""
        return text or ""

    def _is_numpy_item(self, indent):
        return self.is_numpy and self.section in _NAMED_SECTIONS and not (self.block and self.block_indent == indent)

    def _read_numpy_item(self, text, indent):
        """Drops the name and type of an item, but keeps prose that stands where an item is expected."""
        if self.section in _RAISE_SECTIONS:
            self.raised = text
        elif len(text.split()) >= 4 and " : " not in text:
            self.block, self.block_indent = [text], indent

    def _item_description(self, line, is_item):
        """Returns the text after the name or bullet that starts an item; None if the line starts no item."""
        text = line.strip()
        if is_item and self.section in _RAISE_SECTIONS and (item := _RAISED.match(text)):
            self.raised = item.group(1).replace("`", "")
            return text[item.end() :]
        if is_item and self.section in _ITEM_SECTIONS and (item := _ITEM_NAME.match(text)):
            self.raised = ""
            return text[item.end() :]
        if (self.loose_items or not self.block) and (item := _LOOSE_ITEM.match(text)):
            self.loose_items = True
            return text[item.end() :]
        if bullet := _BULLET.match(line):
            return _BULLET_NAME.sub("", text[bullet.end() - (len(line) - len(line.lstrip())) :], count=1)
        return None

    def _without_lead(self, text, is_item):
        """Removes a type, a section name or a signature from the start of a paragraph."""
        if is_item and self.section in _RESULT_SECTIONS:
            text = _RESULT_TYPE.sub("", text, count=1)
        text = _SIGNATURE_LEAD.sub("", _SECTION_LEAD.sub("", text, count=1), count=1)
        return "" if _SIGNATURE.match(text) else text

    def _continue_block(self, indent):
        """Ends the block if the indentation changes; drops it if it is the term of a definition list."""
        if self.block_indent is not None and indent != self.block_indent:
            if indent < self.block_indent or len(self.block) > 1:
                yield from self.finish_block()
            elif len(self.block[0].split()) < 4 or self.block[0].endswith(":"):
                self.block.clear()
        self.block_indent = indent

    def _append(self, text):
        if self.raised and not self.block:
            if _CONDITION.match(text):
                text = f"Raises {self.raised} {text[0].lower()}{text[1:]}"
            self.raised = ""
        self.block.append(text)


def _without_code(lines: list[str]) -> Iterator[str]:
    """Blanks fenced and literal blocks, doctests, tables, shell lines and comments.

    Directives such as '.. note::' are removed from their text.
    """
    skip_deeper_than = None  # inside a literal block or directive: the indentation of the line that opens it
    skip_to_blank = False  # inside a doctest or table
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

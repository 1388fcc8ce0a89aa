"""Channels: further inputs of a token beside its id, such as an age. The module does not load TensorFlow.

In a text, the values of a symbol stand behind it: "E11.9|45" has the value 45 in the first channel, "E11.9|45|0.5,0.1"
also has a vector of two numbers in the second one. A value may be empty, and a symbol alone has no values.
"""

import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import Any

from pipelines.data_error import DataError
from pipelines.plurals import counted

SEPARATOR = "|"  # between a symbol and its values
NUMBERS_SEPARATOR = ","  # between the numbers of a vector
NUMBER = r"[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]{1,2})?"  # a form that Python and TensorFlow read
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_VALUE = re.compile(r"(v?)([0-9]{1,8})(:masked)?")
_RESERVED = ("word_ids", "mask", "type_ids", "positions")  # input_mask, for example, is another input of the model
_LARGEST_SIZE, _LARGEST_WIDTH = 10_000_000, 65_536
_LARGEST_NUMBER, _LEAST_NUMBER = 3e38, 1e-37  # of float32
_FORM = (
    f"NAME:SIZE for numbers from 0 to SIZE - 1, such as age:120, or NAME:vWIDTH for vectors, such as signal:v16, with "
    f"SIZE up to {_LARGEST_SIZE:,} and WIDTH up to {_LARGEST_WIDTH:,}; :masked after it hides the value at [MASK]"
)


@dataclasses.dataclass(frozen=True, repr=False)
class Channel:
    """An input of each token beside its id.

    Attributes:
        name: small letters, digits and underscores. The model's input is input_NAME.
        size: the number of values of a channel of numbers, 0 to size - 1; 0 for vectors.
        width: the length of the vectors of a channel of vectors; 0 for numbers.
        is_masked: whether a token has no value where the input has [MASK] in its place.
    """

    name: str
    size: int = 0
    width: int = 0
    is_masked: bool = False

    @property
    def num_columns(self) -> int:
        """The number of int32 values that a token needs for the channel."""
        return self.width or 1

    @property
    def input_name(self) -> str:
        """The name of the model's input."""
        return f"input_{self.name}"

    def __str__(self):
        """The form that parse_channels reads."""
        return f"{self.name}:{self.size or f'v{self.width}'}{':masked' * self.is_masked}"

    __repr__ = __str__


def parse_channels(values: Iterable[Any]) -> tuple[Channel, ...]:
    """Makes the channels that a configuration or a flag names.

    Args:
        values: each a Channel, or a str such as "age:120", "signal:v16" or "dose:10:masked".

    Returns:
        tuple of Channel.

    Raises:
        DataError: a value has another form, or two channels have one name.
    """
    channels = tuple(value if isinstance(value, Channel) else _parsed(value) for value in values)
    names = [channel.name for channel in channels]
    for name in names:
        if names.count(name) > 1:
            raise DataError(f"channels {','.join(names)}: {name!r} is there twice; give each channel its own name")
    return channels


def _parsed(value):
    name, _, rest = value.partition(":") if isinstance(value, str) else ("", "", "")
    match = _VALUE.fullmatch(rest)
    most = _LARGEST_WIDTH if match and match[1] else _LARGEST_SIZE
    if not (match and _NAME.fullmatch(name) and 1 <= int(match[2]) <= most):
        raise DataError(f"channel {value!r}: expected {_FORM}")
    if name in _RESERVED:
        raise DataError(f"channel {value!r}: input_{name} is another input of the model; take another name")
    number = {"width" if match[1] else "size": int(match[2])}
    return Channel(name, **number, is_masked=bool(match[3]))


def line_fault(line: str, channels: Sequence[Channel]) -> str:
    """Says what is wrong with the values in a line of symbols; "" if nothing is.

    Args:
        line: symbols with values and ASCII white space between them.
        channels: the channels of the text.
    """
    for symbol in line.encode().split():
        name, *values = symbol.decode().split(SEPARATOR)
        if values and len(values) != len(channels):
            return (
                f"{symbol.decode()[:60]!r} has {counted(len(values), 'value')}; expected {len(channels)}, for "
                f"{', '.join(channel.name for channel in channels)}, each after a {SEPARATOR}, or none"
            )
        if not name:
            return f"{symbol.decode()[:60]!r} has no symbol before its values; expected SYMBOL{SEPARATOR}VALUE"
        for value, channel in zip(values, channels, strict=False):
            if fault := value_fault(value, channel):
                return f"{symbol.decode()[:60]!r}: {fault}"
    return ""


def value_fault(value: str, channel: Channel) -> str:
    """Says what is wrong with a value; "" if nothing is. An empty value means that the token has none.

    Args:
        value: the text of the value.
        channel: its channel.
    """
    if not value:
        return ""
    if channel.size:
        if value.isascii() and value.isdecimal() and len(value) < 10 and int(value) < channel.size:
            return ""
        return f"{channel.name} is {value[:40]!r}; expected a whole number from 0 to {channel.size - 1}, or nothing"
    numbers = value.split(NUMBERS_SEPARATOR)
    if len(numbers) == channel.width and all(map(_is_number, numbers)):
        return ""
    expected = f"{counted(channel.width, 'number')} with {NUMBERS_SEPARATOR} between them, or nothing"
    return f"{channel.name} is {value[:40]!r}; expected {expected}"


def _is_number(text):
    return re.fullmatch(NUMBER, text) is not None and abs(float(text)) < _LARGEST_NUMBER


def joined_lines(lines: Sequence[str], values: dict[str, Any], channels: Sequence[Channel]) -> list[str]:
    """Writes the values of JSON lists behind the symbols of a document.

    Args:
        lines: the document's lines of symbols.
        values: name of a channel -> list with an entry for each line. An entry is one value for all symbols of the
            line, or a list with a value for each symbol. A value is a number, a list of numbers (a vector) or None.
            A channel that is missing has no values.
        channels: the channels of the text.

    Returns:
        list of str.

    Raises:
        DataError: a list has another length than the lines or the symbols, or a value is not one of the channel's. The
            message begins with the channel's name.
    """
    if all(values.get(channel.name) is None for channel in channels):
        return list(lines)
    symbols = [line.encode().split() for line in lines]
    nothing = [[""] * len(line) for line in symbols]
    columns = [
        nothing if values.get(channel.name) is None else _column(symbols, values[channel.name], channel)
        for channel in channels
    ]
    return [
        " ".join(
            SEPARATOR.join([symbol.decode(), *(column[row][place] for column in columns)])
            for place, symbol in enumerate(line)
        )
        for row, line in enumerate(symbols)
    ]


def _column(symbols, entries, channel):
    """The texts of a channel's values, for each symbol of each line."""
    if not isinstance(entries, list) or len(entries) != len(symbols):
        count = counted(len(entries), "value") if isinstance(entries, list) else repr(entries)[:40]
        lines = counted(len(symbols), "line")
        raise DataError(f"{channel.name} has {count} for {lines}; expected a list with one entry for each line")
    return [_of_line(line, entry, channel) for line, entry in zip(symbols, entries, strict=True)]


def _of_line(line, entry, channel):
    is_list = isinstance(entry, list)
    # A longer vector is a list of numbers, so a list of lists (or of None) has one vector for each symbol.
    if is_list and (channel.num_columns == 1 or not all(isinstance(number, (int, float)) for number in entry)):
        if len(entry) != len(line):
            raise DataError(
                f"{channel.name} has {counted(len(entry), 'value')} for a line of {counted(len(line), 'symbol')}"
            )
        return [_text_of(value, channel) for value in entry]
    return [_text_of(entry, channel)] * len(line)


def _number_text(value):
    if not isinstance(value, float):
        return str(value)
    return "0" if abs(value) < _LEAST_NUMBER else f"{value:.9g}"  # 9 digits hold a float32


def _text_of(value, channel):
    if value is None:
        return ""
    text = NUMBERS_SEPARATOR.join(map(_number_text, value)) if isinstance(value, list) else _number_text(value)
    if fault := value_fault(text, channel):
        raise DataError(fault)
    return text

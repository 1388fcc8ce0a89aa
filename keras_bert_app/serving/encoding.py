"""Conversion of numpy arrays to the JSON of a predict answer, in TensorFlow Serving's formats."""

import base64
import dataclasses
import json
import math
from collections.abc import Iterator

import numpy as np

from keras_bert_app.serving.request_errors import RequestError

# Arrays of up to this many numbers get the fewest digits that restore each float32. Larger arrays get nine digits.
# Nine digits also restore each float32 and take half the time (measured: 0.35 against 0.65 microseconds a number).
_SHORT_UP_TO = 2048
# A piece has about a megabyte of text. Other requests wait about 30 ms while Python encodes it.
_VALUES_OF_A_PIECE = 1 << 16
_LETTERS_OF_A_PIECE = 1 << 18
_to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def pieces(signature, arrays: list[np.ndarray], is_rows: bool) -> Iterator[bytes]:
    """Encodes the body of an answer piece by piece, so that memory never holds the whole body.

    Outputs whose name ends in _bytes become {"b64": ...}. Other strings become UTF-8, with U+FFFD for invalid bytes.

    Args:
        signature: Signature. The signature that ran.
        arrays: list of np.ndarray in the order of signature.outputs.
        is_rows: bool. Whether the request had rows, not columns.

    Returns:
        iterator of bytes, each of about 65,536 values at most. Together they are {"predictions": [...]} for rows, and
        {"outputs": ...} for columns. A single output has no name; several outputs are objects with their names as keys.

    Raises:
        RequestError: the request had rows, but the outputs have no common batch axis.
    """
    sizes = {array.shape[0] if array.ndim else None for array in arrays}
    if is_rows and (len(sizes) > 1 or None in sizes):
        raise RequestError(
            400,
            f'the outputs of signature {signature.name!r} have no batch axis in common; ask in column form ("inputs")',
        )
    columns = [
        _Column(_to_json(spec.name), array, spec.name.endswith("_bytes"), array.size <= _SHORT_UP_TO)
        for spec, array in zip(signature.outputs, arrays, strict=True)
    ]
    return _encoded(_rows_of(columns) if is_rows else _columns_of(columns))


def _encoded(texts):
    waiting, size = [], 0
    for text in texts:
        waiting.append(text)
        size += len(text)
        if size >= _LETTERS_OF_A_PIECE:
            yield "".join(waiting).encode()
            waiting, size = [], 0
    yield "".join(waiting).encode()


def _columns_of(columns):
    yield '{"outputs":'
    yield from _row(columns)
    yield "}"


def _rows_of(columns):
    rows = len(columns[0].array)
    step = max(1, rows * _VALUES_OF_A_PIECE // max(1, sum(column.array.size for column in columns)))
    yield '{"predictions":['
    for start in range(0, rows, step):
        parts = [column.part(slice(start, start + step)) for column in columns]
        yield "," if start else ""
        if step == 1:
            yield from _row([part.part(0) for part in parts])
        else:
            texts = [part.rows() for part in parts]
            names = [column.name for column in columns]
            yield ",".join(texts[0] if len(texts) == 1 else [_object(names, row) for row in zip(*texts, strict=True)])
    yield "]}"


def _row(columns):
    """Yields the value of a single column, or an object with the values of several columns."""
    if len(columns) == 1:
        yield from columns[0].pieces()
        return
    for number, column in enumerate(columns):
        yield ("," if number else "{") + column.name + ":"
        yield from column.pieces()
    yield "}"


@dataclasses.dataclass(frozen=True)
class _Column:
    """An output, or a part of it.

    Args:
        name: str. The name as JSON.
        array: np.ndarray. The values.
        as_bytes: bool. Whether strings become {"b64": ...}.
        is_short: bool. Whether numbers get the fewest digits.
    """

    name: str
    array: np.ndarray
    as_bytes: bool
    is_short: bool

    def part(self, index):
        return dataclasses.replace(self, array=np.asarray(self.array[index], self.array.dtype))

    def rows(self):
        return _rows(self.array, self.as_bytes, self.is_short)

    def pieces(self):
        array = self.array
        if not array.ndim:
            yield _rows(array[None], self.as_bytes, self.is_short)[0]
            return
        step = max(1, len(array) * _VALUES_OF_A_PIECE // max(1, array.size))
        yield "["
        for start in range(0, len(array), step):
            yield "," if start else ""
            if step == 1 and array.ndim > 1:
                yield from self.part(start).pieces()
            else:
                yield ",".join(self.part(slice(start, start + step)).rows())
        yield "]"


def _object(names, values):
    return "{" + ",".join(f"{name}:{value}" for name, value in zip(names, values, strict=True)) + "}"


def _rows(array, as_bytes, is_short):
    """Encodes each row of an array of at least one axis as JSON text."""
    if array.dtype.kind == "f":
        return _float_rows(array, is_short)
    if array.dtype != object:
        return [_to_json(row) for row in array.tolist()]
    decode = _base64 if as_bytes else _text
    flat = [decode(value) for value in array.ravel().tolist()]
    decoded = np.empty(len(flat), object)
    decoded[:] = flat
    return [_to_json(row) for row in decoded.reshape(array.shape).tolist()]


def _text(value):
    return value.decode("utf-8", errors="replace")


def _base64(value):
    return {"b64": base64.b64encode(value).decode()}


def _float_rows(array, is_short):
    flat = array.ravel()
    if flat.dtype.itemsize < 4:
        flat = flat.astype(np.float32)
    # numpy's str of a number has the fewest digits that restore it.
    if is_short or flat.dtype != np.float32:
        numbers = [str(number) for number in flat]
        numbers = [_NOT_FINITE.get(number, number) for number in numbers]
    else:
        numbers = ("\n".join(["%.9g"] * flat.size) % tuple(flat.tolist())).split("\n")
        for index in np.flatnonzero(~np.isfinite(flat)):
            numbers[index] = _NOT_FINITE[numbers[index]]
        # A whole number must still look like a float, so that all values of a list have one type.
        for index in np.flatnonzero(flat == np.rint(flat)):
            if numbers[index].lstrip("-").isdigit():
                numbers[index] += ".0"
    # Join from the innermost axis outwards.
    for axis in range(array.ndim - 1, 0, -1):
        size = array.shape[axis]
        numbers = [
            f"[{','.join(numbers[index * size : (index + 1) * size])}]"
            for index in range(math.prod(array.shape[:axis]))
        ]
    return numbers

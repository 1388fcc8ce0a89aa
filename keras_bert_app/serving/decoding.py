"""Conversion of the JSON body of a predict request to numpy arrays that fit a signature."""

import base64
import binascii
import itertools
import json

import numpy as np

from keras_bert_app.serving.request_errors import RequestError, short

_JSON_NAMES = {
    dict: "an object",
    list: "a list",
    str: "a string",
    int: "an integer",
    float: "a float",
    bool: "a boolean",
    type(None): "null",
}


# The parser holds Python's lock and delays all other answers: 2.3 million objects in 16 MB took seconds. The default
# options allow 1,024 rows of three lists of 512 numbers: 4,096 lists and objects and 1.6 million values.
_MOST_OPENINGS = 200_000
_MOST_COMMAS = 4_000_000


def parse(body: bytes) -> dict:
    """Parses the JSON object in the body of a request.

    NaN and Infinity are numbers here, as in TensorFlow Serving.

    Args:
        body: bytes. UTF-8 text, with or without a byte order mark.

    Returns:
        dict: the JSON object.

    Raises:
        RequestError: the body is not UTF-8, not JSON, not an object, or has too many parts.
    """
    # Brackets and commas within texts count too, because only a parser can tell them apart.
    for name, number, most in (
        ("lists and objects", body.count(b"{") + body.count(b"["), _MOST_OPENINGS),
        ("values", body.count(b","), _MOST_COMMAS),
    ):
        if number > most:
            raise RequestError(
                400, f"the body has up to {number:,} {name}; expected {most:,} at most; send several requests"
            )
    try:
        request = json.loads(body.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise RequestError(400, f'the body is not UTF-8 (byte {error.start}); send bytes as {{"b64": ...}}') from None
    except RecursionError:
        raise RequestError(400, "the body is not JSON that can be read: it is nested too deeply") from None
    except ValueError as error:
        raise RequestError(400, f"the body is not JSON: {error}") from None
    if not isinstance(request, dict):
        raise RequestError(
            400, f'the body is {_JSON_NAMES[type(request)]}; expected an object with "instances" or "inputs"'
        )
    return request


def signature_name(request: dict) -> str:
    """Reads the name of the signature that a request asks for.

    Args:
        request: dict. The JSON object of the request.

    Returns:
        str: the name, or "serving_default" if the request names none.

    Raises:
        RequestError: the name is not a string.
    """
    name = request.get("signature_name", "")
    if not isinstance(name, str):
        raise RequestError(400, f'"signature_name" is {short(name)}; expected a string')
    return name or "serving_default"


def decode(request: dict, signature) -> tuple[list[np.ndarray], bool]:
    """Converts the inputs of a request to arrays.

    Args:
        request: dict. The JSON object, with "instances" (a list of rows) or "inputs" (a column for each input).
        signature: Signature. The signature that the request asks for.

    Returns:
        (arrays in the order of signature.inputs, whether the request has rows).

    Raises:
        RequestError: the inputs do not fit the signature.
    """
    if ("instances" in request) == ("inputs" in request):
        raise RequestError(
            400,
            'expected one of "instances" (rows) and "inputs" (columns) in the body, found '
            f"{'both' if 'inputs' in request else 'neither'}",
        )
    is_rows = "instances" in request
    columns = _columns_of_rows(request["instances"], signature) if is_rows else _columns(request["inputs"], signature)
    arrays = [_to_array(columns[spec.name], spec) for spec in signature.inputs]
    if signature.can_be_merged and len({len(array) for array in arrays}) > 1:
        sizes = ", ".join(f"{spec.name} {len(array)}" for spec, array in zip(signature.inputs, arrays, strict=True))
        raise RequestError(400, f"the inputs have different batch sizes ({sizes}); expected the same for all")
    return arrays, is_rows


def _columns(inputs, signature):
    names = [spec.name for spec in signature.inputs]
    if isinstance(inputs, dict) and not _is_base64(inputs):
        _check_names(inputs, names, '"inputs"')
        return inputs
    if len(names) > 1:
        raise RequestError(400, f'"inputs" is {_JSON_NAMES[type(inputs)]}; expected an object with {", ".join(names)}')
    return {names[0]: inputs}


def _columns_of_rows(rows, signature):
    names = [spec.name for spec in signature.inputs]
    if not isinstance(rows, list) or not rows:
        raise RequestError(
            400,
            '"instances" is '
            + (_JSON_NAMES[type(rows)] if rows != [] else "empty")
            + "; expected a list of at least one row",
        )
    are_objects = [isinstance(row, dict) and not _is_base64(row) for row in rows]
    if not any(are_objects) and len(names) == 1:
        return {names[0]: rows}
    if not all(are_objects):
        raise RequestError(
            400,
            f'row {are_objects.index(False)} of "instances" is not an object; expected objects with {", ".join(names)}',
        )
    for number, row in enumerate(rows):
        _check_names(row, names, f'row {number} of "instances"')
    return {name: [row[name] for row in rows] for name in names}


def _check_names(given, names, place):
    if set(given) != set(names):
        missing, unknown = [name for name in names if name not in given], [name for name in given if name not in names]
        raise RequestError(
            400,
            f"{place} "
            + " and ".join(
                [f"lacks {', '.join(missing)}"] * bool(missing)
                + [f"has unknown {', '.join(map(short, unknown[:5]))}"] * bool(unknown)
            )
            + f"; expected {', '.join(names)}",
        )


def _to_array(value, spec):
    """Converts nested lists to an array. The function checks every level, so no kernel gets a wrong rank."""
    shape, values = [], [value]
    while values:
        kinds = set(map(type, values))
        if not (list in kinds if spec.shape is None else len(shape) < len(spec.shape)):
            break
        if kinds != {list}:
            raise RequestError(
                400,
                f"{_expected(spec)}, but {_first_other(values, list)} is where a list should "
                f"be at depth {len(shape) + 1}",
            )
        sizes = set(map(len, values))
        if len(sizes) > 1:
            raise RequestError(
                400,
                f"{_expected(spec)}, but its lists at depth {len(shape) + 1} are ragged: lengths "
                f"{min(sizes)} and {max(sizes)}",
            )
        shape.append(sizes.pop())
        values = list(itertools.chain.from_iterable(values))
    if spec.shape is not None:
        # The sizes below an empty list are unknown. The signature supplies them, else they are 0.
        shape += [known or 0 for known in spec.shape[len(shape) :]]
        if any(known not in (None, size) for known, size in zip(spec.shape, shape, strict=True)):
            raise RequestError(400, f"{_expected(spec)}, but its shape is {shape}")
    return _leaves(values, spec).reshape(shape)


def _leaves(values, spec):
    kinds = set(map(type, values))
    if spec.dtype == object:
        leaves = np.empty(len(values), object)
        leaves[:] = [_string(value, spec) for value in values] if kinds != {str} else _encode_all(values, spec)
        return leaves
    allowed = {"f": {int, float}, "i": {int}, "u": {int}, "b": {bool}}.get(spec.dtype.kind)
    if allowed is None:
        raise RequestError(501, f"input {spec.name} has type {spec.dtype}, which JSON requests cannot carry")
    if not kinds <= allowed:
        raise RequestError(400, f"{_expected(spec)}, but there is {_first_other(values, *allowed)} in it")
    try:
        # A float that is too large for float32 becomes infinite, as in TensorFlow Serving.
        with np.errstate(over="ignore"):
            return np.array(values, spec.dtype)
    except OverflowError:
        raise RequestError(400, f"{_expected(spec)}, but a number in it is out of that type's range") from None


def _encode_all(values, spec):
    try:
        return [value.encode() for value in values]
    except UnicodeEncodeError:
        raise RequestError(400, f"{_expected(spec)}, but a string in it has a lone surrogate: no UTF-8") from None


def _string(value, spec):
    if isinstance(value, str):
        return _encode_all([value], spec)[0]
    if not _is_base64(value):
        raise RequestError(400, f"{_expected(spec)}, but there is {_JSON_NAMES[type(value)]} in it")
    try:
        return base64.b64decode(value["b64"], validate=True)
    except (binascii.Error, ValueError):
        raise RequestError(400, f"{_expected(spec)}, but {short(value['b64'])} is not base64") from None


def _is_base64(value):
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("b64"), str)


def _first_other(values, *kinds):
    other = next(value for value in values if type(value) not in kinds)
    shown = f" ({short(other)})" if isinstance(other, (str, int, float)) and not isinstance(other, bool) else ""
    return _JSON_NAMES[type(other)] + shown


def _expected(spec):
    kind = "string" if spec.dtype == object else spec.dtype.name
    shape = (
        "any shape"
        if spec.shape is None
        else f"shape [{', '.join('any' if size is None else str(size) for size in spec.shape)}]"
    )
    return f"input {spec.name} is {kind} of {shape}"

"""Estimates of a request's work before it runs: tokens that the model reads, values of the answer."""

import dataclasses
import math

import numpy as np

from keras_bert_app.serving.request_errors import RequestError

# English text has about five bytes per token, Chinese text has three.
_BYTES_OF_A_TOKEN = 3
# The model reads a text of n tokens n times, with another token masked each time (export.masked_lm_scoring).
_ONE_ROW_FOR_EACH_TOKEN = "pseudo_log_likelihood"
# The most tokens that serving_default of a model of kind "generation" writes (export.generation_signatures).
_NEW_TOKENS = 64
# Output whose second size is not the length of the rows -> the input that has this size.
_SIZES = {"mlm_logits": "masked_lm_positions"}


@dataclasses.dataclass(frozen=True)
class Work:
    """The work of one request.

    Args:
        tokens: int64 [rows]. The tokens that the model reads for each row; one row if a request cannot be split.
        values: int. The values of the answer, or 0 if they are not known before it is computed.
    """

    tokens: np.ndarray
    values: int = 0


def measure(signature, arrays: list[np.ndarray], description: dict, max_values: int) -> Work:
    """Estimates the work of a request.

    Args:
        signature: Signature. The signature that the request asks for.
        arrays: list of np.ndarray in the order of signature.inputs.
        description: dict. The content of export.json.
        max_values: int. The most values of an answer.

    Returns:
        Work.

    Raises:
        RequestError: the answer would have too many values.
    """
    values = _values(signature, arrays)
    check_values(values, max_values)
    if not signature.can_be_merged:
        return Work(np.ones(1, np.int64), values)
    tokens = _tokens_of_rows(arrays)
    if signature.name == _ONE_ROW_FOR_EACH_TOKEN:
        longest = description.get("max_seq_length")
        tokens = (np.minimum(tokens, longest) if type(longest) is int and longest > 0 else tokens) ** 2
    if description.get("kind") == "generation":
        tokens = tokens + _new_tokens(signature, arrays, description)
    return Work(tokens, values)


def _new_tokens(signature, arrays, description):
    """Estimates the tokens that a model writes for each row of a request, int64 [rows] or a number."""
    numbers = dict(zip((spec.name for spec in signature.inputs), arrays, strict=True)).get("max_new_tokens")
    if numbers is not None:
        return np.clip(numbers.astype(np.int64), 0, description.get("max_seq_length") or 0)
    return _NEW_TOKENS if signature.name == "serving_default" else 0


def _tokens_of_rows(arrays):
    """Estimates int64 [rows], the tokens of each row."""
    rows = len(arrays[0])
    numbers = [math.prod(array.shape[1:]) for array in arrays if array.dtype != object]
    tokens = np.full(rows, max([1, *numbers]), np.int64)
    texts = [array for array in arrays if array.dtype == object]
    # The model reads the whole context again with each choice.
    most_texts = max([1, *(math.prod(array.shape[1:]) for array in texts)])
    for array in texts if rows else ():
        lengths = np.array([len(text) // _BYTES_OF_A_TOKEN + 1 for text in array.ravel()], np.int64)
        tokens += lengths.reshape(rows, -1).sum(axis=1) * (most_texts if array.ndim == 1 else 1)
    return tokens


def _values(signature, arrays):
    """Estimates the values of an answer to rows of numbers; 0 for texts.

    A size of an output that may vary is at most the longest size of the inputs. The answer to a text has about as many
    values as the text has bytes. The batcher counts these values when the answer exists.
    """
    if any(array.dtype == object for array in arrays):
        return 0
    inputs = {spec.name: array for spec, array in zip(signature.inputs, arrays, strict=True)}
    rows = max([1, *(array.shape[0] for array in arrays if array.ndim)])
    longest = max([1, *(size for array in arrays for size in array.shape[1:])])
    values = 0
    for spec in signature.outputs:
        first, *others = spec.shape or (None,)
        named = inputs.get(_SIZES.get(spec.name))
        varying = longest if named is None else named.shape[1]
        sizes = [varying if size is None else size for size in others]
        values += math.prod([rows if first is None else first, *sizes])
    return values


def check_values(values: int, most: int) -> None:
    """Refuses an answer with too many values.

    Args:
        values: int. The values of the answer.
        most: int. The most values of an answer.

    Raises:
        RequestError: there are more values.
    """
    if values > most:
        raise RequestError(
            400,
            f"the answer would have {values:,} values; expected at most {most:,} (--max_answer_values): ask for fewer "
            "rows, tokens or positions at once",
        )

"""Answers raw texts with an export. The answers are values for programs, or lines for people."""

import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping

import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.export import saved_models
from keras_bert_app.runs import threads
from keras_bert_app.terminal import text_columns
from pipelines import processors

BATCH_SIZE = 32
_LABELS_SHOWN = 5
_CHOICES = "choices"


def load(saved_model: str) -> tuple[Callable, tuple[str, ...]]:
    """Loads an export that answers raw texts.

    Args:
        saved_model: str. See saved_models.find.

    Returns:
        (function of keyword arguments, one tensor for each input; names of the inputs).

    Raises:
        UserError: the export does not exist, or it does not answer raw texts.
    """
    signatures = saved_models.load(saved_model).signatures
    serve = signatures["serving_default"] if "serving_default" in signatures else None
    outputs = serve.structured_outputs if serve else {}
    taken = set(serve.structured_input_signature[1]) if serve else set()
    if "embedding" in outputs:
        raise UserError(f"{saved_model}: makes vectors of texts, not answers; give it to `embed` or `search`")
    if "truncated" not in outputs or not _READERS.keys() & outputs.keys():
        mend = "give the export without _ids" if "input_word_ids" in taken else "export a run"
        raise UserError(f"{saved_model}: gives no answers to raw texts; {mend}")
    # A SavedModel sorts the names of its inputs. This list has the names in the usual order.
    for names in (
        ("text",),
        ("text_a", "text_b"),
        ("query", "document"),
        ("question", "context"),
        ("context", _CHOICES),
        ("context", "question", _CHOICES),
    ):
        if taken == set(names):
            return serve, names
    raise UserError(f"{saved_model}: takes {', '.join(sorted(taken))}, not raw texts; give an export of a run")


def answers(serve: Callable, rows: Iterable[Mapping], batch_size: int = BATCH_SIZE) -> Iterator[tuple[Mapping, dict]]:
    """Answers examples in batches. If a CPU writes texts, several batches run at the same time.

    Args:
        serve: function. The result of load, or the serving_default of a module in this process.
        rows: iterable of dict. Each maps the name of an input to a str, or choices to a list of str.
        batch_size: int. The number of examples that are answered together.

    Yields:
        (the example, its answer as a dict that JSON can hold).
    """
    num_calls = processors.num_cores() if _writes_texts(serve) and not tf.config.list_physical_devices("GPU") else 1
    size = threads.rows_of_call(batch_size, batch_size, num_calls)
    for batch, found in threads.in_order(
        lambda batch: (batch, list(_answer_batch(serve, batch))), _batches(rows, size), num_calls
    ):
        yield from zip(batch, found, strict=True)


def _writes_texts(serve):
    concrete = serve if hasattr(serve, "structured_outputs") else serve.get_concrete_function()
    return "texts" in concrete.structured_outputs


def _batches(rows, size):
    rows = iter(rows)
    while batch := list(itertools.islice(rows, size)):
        yield batch


def _answer_batch(serve, batch):
    inputs = {}
    for name in batch[0]:
        values = [_as_bytes(row[name]) for row in batch]
        if name == _CHOICES:
            most = max(map(len, values))
            values = [[*row, *[b""] * (most - len(row))] for row in values]
        inputs[name] = tf.constant(values, tf.string)
    outputs = {name: value.numpy() for name, value in serve(**inputs).items()}
    read = next(read for name, read in _READERS.items() if name in outputs)
    for index, row in enumerate(batch):
        own = {name: value[index] for name, value in outputs.items()}
        yield {**read(own, row), **({"truncated": True} if own["truncated"] else {})}


def _as_bytes(value):
    # Python passes arguments that are not UTF-8 as surrogates. fsencode restores the bytes.
    return [os.fsencode(each) for each in value] if isinstance(value, (list, tuple)) else os.fsencode(value)


def _label_set(outputs, row):
    labels = _texts(outputs["labels"])
    chosen = [label for label, is_chosen in zip(labels, outputs["is_chosen"], strict=True) if is_chosen]
    return {"labels": chosen, "probabilities": dict(zip(labels, _numbers(outputs["probabilities"]), strict=True))}


def _label(outputs, row):
    shares = dict(zip(_texts(outputs["labels"]), _numbers(outputs["probabilities"]), strict=True))
    return {"label": outputs["label"].decode(), "probability": _number(outputs["probability"]), "probabilities": shares}


def _value(outputs, row):
    return {"value": _number(outputs["score"])}


def _document(outputs, row):
    return {"value": _number(outputs["scores"])}


def _tags(outputs, row):
    size = int((outputs["word_starts"] >= 0).sum())
    answer = {
        "words": _texts(outputs["words"][:size]),
        "tags": _texts(outputs["tags"][:size]),
        "probabilities": _numbers(outputs["word_probabilities"][:size]),
    }
    if "entities" in outputs:
        size = int((outputs["entity_starts"] >= 0).sum())
        columns = [outputs[name][:size] for name in ("entities", "entity_labels", "entity_starts", "entity_ends")]
        answer["entities"] = [
            {
                "text": text.decode("utf-8", "replace"),
                "label": label.decode(),
                "start": int(start),
                "end": int(end),
                "probability": _number(share),
            }
            for text, label, start, end, share in zip(*columns, outputs["entity_probabilities"][:size], strict=True)
        ]
    return answer


def _answer(outputs, row):
    return {
        "answer": outputs["answer"].decode("utf-8", "replace"),
        "probability": _number(outputs["probability"]),
        "start": int(outputs["start"]),
        "end": int(outputs["end"]),
    }


def _choice(outputs, row):
    index = int(outputs["choice"])
    shares = _numbers(outputs["probabilities"][: len(row[_CHOICES])])
    return {"choice": index, "text": _printable(row[_CHOICES][index]), "probabilities": shares}


def _best_texts(outputs, row):
    texts = _texts(outputs["texts"])
    return {"text": texts[0], "texts": texts, "scores": _numbers(outputs["scores"])}


def _continuation(outputs, row):
    return {"continuation": outputs["continuation"].decode("utf-8", "replace")}


def _masks(outputs, row):
    masks = zip(outputs["tokens"], outputs["probabilities"], strict=True)
    return {
        "masks": [dict(zip(_texts(tokens), _numbers(shares), strict=True)) for tokens, shares in masks if shares.any()]
    }


# Output that identifies the kind of answers -> function that reads an answer of this kind.
_READERS = {
    "texts": _best_texts,
    "continuation": _continuation,
    "tokens": _masks,
    "is_chosen": _label_set,
    "label": _label,
    "answer": _answer,
    "tags": _tags,
    "choice": _choice,
    "score": _value,
    "scores": _document,
}


def _texts(values):
    return [value.decode("utf-8", "replace") for value in values]


def _number(value):
    return round(float(value), 6)


def _numbers(values):
    return [_number(value) for value in values]


def json_line(row: Mapping, answer: Mapping) -> str:
    """Writes one JSON object: the inputs of an example under "inputs", then its answer.

    Args:
        row: dict from the name of an input to a str or a list of str.
        answer: dict. See `answers`.

    Returns:
        str. One line that ends with a line break.
    """
    inputs = {
        name: list(map(_printable, value)) if isinstance(value, (list, tuple)) else _printable(value)
        for name, value in row.items()
    }
    return json.dumps({"inputs": inputs, **answer}, ensure_ascii=False) + "\n"


def text_lines(row: Mapping, answer: Mapping) -> Iterator[str]:
    """Yields an example and its answer as lines for people.

    Args:
        row: dict from the name of an input to a str or a list of str.
        answer: dict. See `answers`.
    """
    yield text_columns.printable(" | ".join(_printable(value) for value in row.values() if isinstance(value, str)))
    if answer.get("truncated"):
        yield "  (the input is longer than the model can read; a part of it was left out)"
    for line in _answer_lines(row, answer):
        yield f"  {text_columns.printable(line)}"


def _answer_lines(row: Mapping, answer: Mapping) -> Iterator[str]:
    if "value" in answer:
        yield f"{answer['value']:.4f}"
    elif "choice" in answer:
        for index, (text, share) in enumerate(zip(row[_CHOICES], answer["probabilities"], strict=True)):
            yield f"{'>' if index == answer['choice'] else ' '} {share:.3f} {_printable(text)}"
    elif "continuation" in answer:
        yield _printable(row["text"]) + answer["continuation"]
    elif "texts" in answer:
        yield answer["text"] or "(an empty text)"
    elif "answer" in answer:
        yield f"{answer['answer'] or '(the text has no answer)'} {answer['probability']:.3f}"
    elif "tags" in answer:
        yield from _tag_lines(answer)
    elif "masks" in answer:
        for mask in answer["masks"]:
            yield "  ".join(f"{piece} {share:.3f}" for piece, share in mask.items())
        if not answer["masks"]:
            yield "(no [MASK] to fill in)"
    else:
        if "labels" in answer:
            yield f"labels: {', '.join(answer['labels']) or 'none'}"
        shares = sorted(answer["probabilities"].items(), key=lambda item: -item[1])
        yield "  ".join(f"{label} {share:.3f}" for label, share in shares[:_LABELS_SHOWN])


def _tag_lines(answer: Mapping) -> Iterator[str]:
    yield " ".join(f"{word}/{tag}" for word, tag in zip(answer["words"], answer["tags"], strict=True)) or "no words"
    for entity in answer.get("entities", ()):
        yield f"{entity['label'] or 'entity'}: {entity['text']} {entity['probability']:.3f}"


def _printable(text: str) -> str:
    return os.fsencode(text).decode("utf-8", "replace")

"""Asks an exported model to fill masks. This needs only the SavedModel, not the code of the model."""

import os
from collections.abc import Iterator

import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.export import saved_models


def fill_mask(saved_model: str, texts: list[str]) -> tuple[list, list[bool]]:
    """Finds the likeliest pieces for every [MASK] of every text.

    Args:
        saved_model: str. See saved_models.load.
        texts: list of str. A shell may pass on bytes that are not UTF-8. The model drops these bytes.

    Returns:
        (answers, truncated). For each text, answers has a list of masks, and a mask is a list of (piece, probability),
        likeliest first. truncated says for each text whether it was too long and was cut.

    Raises:
        UserError: the export does not fill masks.
    """
    signatures = saved_models.load(saved_model).signatures
    arguments = signatures["serving_default"].structured_input_signature[1]
    if list(arguments) != ["text"]:
        mend = (
            "give the export without _ids" if "input_word_ids" in arguments else "give an export of a pre-training run"
        )
        raise UserError(f"{saved_model}: takes {', '.join(arguments)}, not text; {mend}")
    outputs = signatures["serving_default"](text=tf.constant([os.fsencode(text) for text in texts], tf.string))
    if "tokens" not in outputs:
        raise UserError(f"{saved_model}: does not fill masks; give an export of a pre-training run")
    answers = []
    for tokens, probabilities in zip(outputs["tokens"].numpy(), outputs["probabilities"].numpy(), strict=True):
        answers.append(
            [
                [(piece.decode("utf-8"), float(probability)) for piece, probability in zip(*mask, strict=True)]
                for mask in zip(tokens, probabilities, strict=True)
                if mask[1].any()
            ]
        )
    return answers, outputs["truncated"].numpy().tolist()


def fill_mask_lines(saved_model: str, texts: list[str]) -> Iterator[str]:
    """Yields the answers of fill_mask as lines to print: each text, then a line for each of its masks.

    Args:
        saved_model: str. See saved_models.load.
        texts: list of str. See fill_mask.
    """
    answers, truncated = fill_mask(saved_model, texts)
    for text, masks, was_cut in zip(texts, answers, truncated, strict=True):
        yield os.fsencode(text).decode("utf-8", errors="replace")
        if was_cut:
            yield "  (this text is longer than the model's positions; the model read only its beginning)"
        for mask in masks:
            yield "  " + "  ".join(f"{piece} {probability:.3f}" for piece, probability in mask)

"""A pre-training example as readable text: its pieces, its segments, its masks and its labels.

Dimensions: B rows, S positions, P predictions per row, M predictions in the batch.
"""

import typing
from collections.abc import Mapping

import numpy as np

from keras_bert_app.config.bert_config import INPUTS, POSITIONS_INPUT
from keras_bert_app.terminal.text_columns import isolated, painted, printable, wrapped

HIDDEN, KEPT, RANDOM = 0, 1, 2
KINDS = ("hidden", "kept", "random")
_SPECIAL = "2"
_SEGMENTS = {"A": "36", "B": "33"}
_STYLES = {HIDDEN: "1;37;41", KEPT: "1;30;42", RANDOM: "1;37;45"}
_LABELS = {
    "nsp": ("B follows A", "B is random text"),
    "sop": ("A and B in order", "A and B swapped"),
    "none": ("one segment",),
}


class Look(typing.NamedTuple):
    """The style of the lines.

    Attributes:
        color: bool. Whether to use colours.
        width: int. Columns of the terminal.
        is_unicode: bool. Whether the output can show Unicode.
    """

    color: bool
    width: int
    is_unicode: bool = True

    @property
    def arrow(self) -> str:
        return "→" if self.is_unicode else "->"

    def piece(self, text: str) -> str:
        """Returns the text of a piece, with escapes for characters that the output cannot show.

        Args:
            text: str. A piece.
        """
        text = printable(text)
        return isolated(text) if self.is_unicode else text


class Predictions(typing.NamedTuple):
    """The predicted tokens of a batch in the order of rows and positions.

    Attributes:
        rows: int [M].
        positions: int [M].
        labels: int [M]. The original pieces.
        shown: int [M]. The pieces that the model sees.
        kinds: int [M]. HIDDEN, KEPT or RANDOM.
    """

    rows: np.ndarray
    positions: np.ndarray
    labels: np.ndarray
    shown: np.ndarray
    kinds: np.ndarray


def predictions(batch: Mapping[str, np.ndarray], mask_id: int) -> Predictions:
    """Finds the predicted tokens of a batch.

    A random piece that equals the label counts as kept. A [MASK] that was drawn at random counts as hidden.

    Args:
        batch: dict of arrays. A batch of pipelines.examples.dataset.
        mask_id: int. The id of [MASK].

    Returns:
        Predictions.
    """
    rows, slots = np.nonzero(batch["masked_lm_weights"] > 0)
    positions, labels = (batch[name][rows, slots] for name in ("masked_lm_positions", "masked_lm_ids"))
    shown = batch["input_word_ids"][rows, positions]
    kinds = np.where(shown == mask_id, HIDDEN, np.where(shown == labels, KEPT, RANDOM))
    return Predictions(rows, positions, labels, shown, kinds)


def segment_lengths(batch: Mapping[str, np.ndarray], has_pairs: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts the tokens in each row and in its segments.

    Args:
        batch: dict of arrays. A batch of pipelines.examples.dataset.
        has_pairs: bool. Whether rows have two segments.

    Returns:
        Three int [B]: tokens of the row with [CLS] and [SEP], tokens of A, tokens of B.
    """
    lengths = batch["input_mask"].sum(axis=1)
    if not has_pairs:
        return lengths, lengths - 2, np.zeros_like(lengths)
    b_lengths = batch["input_type_ids"].sum(axis=1) - 1
    return lengths, lengths - b_lengths - 3, b_lengths


def legend(look: Look) -> str:
    """Returns one line that explains the marks.

    Args:
        look: Look. The style of the line.
    """
    marks = (
        (f"[MASK{look.arrow}label]", HIDDEN, "hidden"),
        ("[=label]", KEPT, "shown unchanged"),
        (f"[piece{look.arrow}label]", RANDOM, "another piece shown"),
    )
    return "to predict: " + ", ".join(
        f"{painted(mark, _STYLES[kind], look.color)} {meaning}" for mark, kind, meaning in marks
    )


def example_lines(
    batch: Mapping[str, np.ndarray], row: int, tokenizer: typing.Any, objective: str, title: str, look: Look
) -> list[str]:
    """Formats one row of a batch.

    Args:
        batch: dict of arrays. A batch of pipelines.examples.dataset.
        row: int. The number of the row, from 0.
        tokenizer: BertTokenizer, or another object with vocabulary, cls_id, sep_id and mask_id.
        objective: str. One of pipelines.choices.OBJECTIVES.
        title: str. The beginning of the first line.
        look: Look. The style of the lines.

    Returns:
        list of str: lines.
    """
    example = {name: values[row : row + 1] for name, values in batch.items()}
    has_pairs = objective != "none"
    (length,), (a_length,), (b_length,) = segment_lengths(example, has_pairs)
    predicted = predictions(example, tokenizer.mask_id)
    first_sep = a_length + 2
    words = [
        _word(i, "A" if position < first_sep or not has_pairs else "B", tokenizer, look)
        for position, i in enumerate(example["input_word_ids"][0, :length].tolist())
    ]
    for position, label, shown, kind in zip(*(values.tolist() for values in predicted[1:]), strict=True):
        words[position] = _predicted_word(label, shown, kind, tokenizer.vocabulary, look), _STYLES[kind]
    counts = np.bincount(predicted.kinds, minlength=len(KINDS))
    lengths = f"[CLS] {a_length} [SEP] {b_length} [SEP]" if has_pairs else f"[CLS] {a_length} [SEP]"
    kind_counts = ", ".join(f"{count} {kind}" for kind, count in zip(KINDS, counts, strict=True))
    facts = (
        _LABELS[objective][int(example["next_sentence_labels"][0])],
        f"{length} tokens: {lengths}",
        f"{counts.sum()} predictions: {kind_counts}",
    )
    head = [(part, "") for part in "; ".join((title, *facts)).split(" ")]
    lines = [painted(line, "1", look.color) for line in wrapped(head, "", look.width, look.color)]
    for name, segment in (("A", words[:first_sep]), ("B", words[first_sep:]))[: 1 + has_pairs]:
        lines += wrapped(segment, f"  {name}  ", look.width, look.color)
    for name in sorted(name for name in example if name.startswith("input_") and name not in INPUTS):
        values = [(text, "") for text in map(_column_text(name), example[name][0, :length].tolist())]
        lines += wrapped(values, f"  {name.removeprefix('input_')}  ", look.width, look.color)
    return lines


def _column_text(name):
    """The function from a value of an input beside the ids to its text, "-" for none."""

    def text(value):
        if isinstance(value, list):
            return ",".join(f"{number:.3g}" for number in value)
        return str(value) if name == POSITIONS_INPUT else str(value - 1) if value else "-"

    return text


def _word(piece_id, segment, tokenizer, look):
    style = _SPECIAL if piece_id in (tokenizer.cls_id, tokenizer.sep_id) else _SEGMENTS[segment]
    return look.piece(tokenizer.vocabulary[piece_id]), style


def _predicted_word(label, shown, kind, vocabulary, look):
    if kind == KEPT:
        return f"[={look.piece(vocabulary[label])}]"
    return f"[{'MASK' if kind == HIDDEN else look.piece(vocabulary[shown])}{look.arrow}{look.piece(vocabulary[label])}]"

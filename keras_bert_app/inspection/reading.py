"""An example as people read it: pieces, segments, what is hidden and what is to be found there.

Dimensions: B rows, S positions, P predictions a row.
"""

import typing

import numpy as np

from keras_bert_app.terminal import screen

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
    """How lines are written: in colour or not, how many columns wide, and whether the output takes Unicode."""

    color: bool
    width: int
    is_unicode: bool = True

    @property
    def arrow(self):
        return "→" if self.is_unicode else "->"

    def piece(self, text):
        """A piece as it can be shown."""
        text = screen.printable(text)
        return screen.isolated(text) if self.is_unicode else text


class Predictions(typing.NamedTuple):
    """The M tokens of some rows that are predicted, row by row, positions ascending; all int [M]."""

    rows: np.ndarray
    positions: np.ndarray
    labels: np.ndarray
    shown: np.ndarray
    kinds: np.ndarray


def predictions(batch, mask_id):
    """Predictions of a batch of numpy arrays as pipelines.examples.dataset makes it.

    A random piece that happens to be the label counts as kept, [MASK] drawn at random as hidden.
    """
    rows, slots = np.nonzero(batch["masked_lm_weights"] > 0)
    positions, labels = (batch[name][rows, slots] for name in ("masked_lm_positions", "masked_lm_ids"))
    shown = batch["input_word_ids"][rows, positions]
    kinds = np.where(shown == mask_id, HIDDEN, np.where(shown == labels, KEPT, RANDOM))
    return Predictions(rows, positions, labels, shown, kinds)


def segment_lengths(batch, has_pairs):
    """(tokens of each row with [CLS] and [SEP], of A, of B without them), int [B] each."""
    lengths = batch["input_mask"].sum(axis=1)
    if not has_pairs:
        return lengths, lengths - 2, np.zeros_like(lengths)
    b_lengths = batch["input_type_ids"].sum(axis=1) - 1
    return lengths, lengths - b_lengths - 3, b_lengths


def legend(look):
    """What the marks mean, as one line."""
    marks = (
        (f"[MASK{look.arrow}label]", HIDDEN, "hidden"),
        ("[=label]", KEPT, "shown as it is"),
        (f"[piece{look.arrow}label]", RANDOM, "another piece shown"),
    )
    return "to predict: " + ", ".join(
        f"{screen.painted(mark, _STYLES[kind], look.color)} {meaning}" for mark, kind, meaning in marks
    )


def example_lines(batch, row, tokenizer, objective, title, look):
    """Lines that show one row of a batch.

    Args:
        batch: numpy arrays. tokenizer: with vocabulary, cls_id, sep_id, mask_id. objective: one of
            pipelines.choices.OBJECTIVES. title: what the first line begins with.
    """
    one = {name: values[row : row + 1] for name, values in batch.items()}
    has_pairs = objective != "none"
    (length,), (a_length,), (b_length,) = segment_lengths(one, has_pairs)
    predicted = predictions(one, tokenizer.mask_id)
    first_sep = a_length + 2
    words = [
        _word(i, "A" if position < first_sep or not has_pairs else "B", tokenizer, look)
        for position, i in enumerate(one["input_word_ids"][0, :length].tolist())
    ]
    for position, label, shown, kind in zip(*(values.tolist() for values in predicted[1:])):
        words[position] = _predicted_word(label, shown, kind, tokenizer.vocabulary, look), _STYLES[kind]
    counts = np.bincount(predicted.kinds, minlength=len(KINDS))
    lengths = f"[CLS] {a_length} [SEP] {b_length} [SEP]" if has_pairs else f"[CLS] {a_length} [SEP]"
    facts = (
        _LABELS[objective][int(one["next_sentence_labels"][0])],
        f"{length} tokens: {lengths}",
        f"{counts.sum()} predictions: " + ", ".join(f"{count} {kind}" for kind, count in zip(KINDS, counts)),
    )
    head = [(part, "") for part in "; ".join((title, *facts)).split(" ")]
    lines = [screen.painted(line, "1", look.color) for line in screen.wrapped(head, "", look.width, look.color)]
    for name, segment in (("A", words[:first_sep]), ("B", words[first_sep:]))[: 1 + has_pairs]:
        lines += screen.wrapped(segment, f"  {name}  ", look.width, look.color)
    return lines


def _word(piece_id, segment, tokenizer, look):
    style = _SPECIAL if piece_id in (tokenizer.cls_id, tokenizer.sep_id) else _SEGMENTS[segment]
    return look.piece(tokenizer.vocabulary[piece_id]), style


def _predicted_word(label, shown, kind, vocabulary, look):
    if kind == KEPT:
        return f"[={look.piece(vocabulary[label])}]"
    return f"[{'MASK' if kind == HIDDEN else look.piece(vocabulary[shown])}{look.arrow}{look.piece(vocabulary[label])}]"

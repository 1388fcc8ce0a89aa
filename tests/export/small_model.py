"""Random models of three layers and of one with a vocabulary of word parts, for exports of pre-trained models."""

import dataclasses

from pipelines.wordpiece.tokenizer import BertTokenizer
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES
from tests.interop.conftest import CONFIGS, make_weights

PIECES = (*SPECIAL_PIECES, "a", "b", "c", "##a", "##b", "d", "e", "f", ".", "g", "h", "##h", "[", "]")
_VOCABULARY = "".join(f"{piece}\n" for piece in PIECES).encode()
WEIGHTS = dataclasses.replace(make_weights(CONFIGS["three_layers"]), vocabulary=_VOCABULARY)
# Tests that compare no layers, or two of them, use these models. TensorFlow traces one layer in half the time of three.
ONE_LAYER, TWO_LAYERS = (
    dataclasses.replace(make_weights(CONFIGS["three_layers"].replace(num_hidden_layers=number)), vocabulary=_VOCABULARY)
    for number in (1, 2)
)
TOKENIZER = BertTokenizer(WEIGHTS.vocabulary, True)
# Texts with no piece, one piece, several pieces, unknown words, and more pieces than the 23 positions.
TEXTS = ("", "a", "ab c dh. [mask]", "zzz ab zzz", "a b c d e f g h " * 4)


def rows_of(texts, max_seq_length=23):
    """Makes lists of ids, [CLS] text [SEP]. The function cuts the ends of longer texts."""
    pieces = TOKENIZER.tokenize(list(texts)).to_list()
    return [[TOKENIZER.cls_id, *row[: max_seq_length - 2], TOKENIZER.sep_id] for row in pieces]

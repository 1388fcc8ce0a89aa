"""LstmConfig: the hyper-parameters of a language model of LSTMs. The module does not load TensorFlow."""

import dataclasses
from typing import Any

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.errors import UserError, nearest

# Keys of BertConfig without a meaning for an LSTM. They keep their values here.
FIXED = {
    "num_attention_heads": 1,
    "attention_probs_dropout_prob": 0.0,
    "hidden_act": "tanh",
    "num_heads_by_layer": (),
}

# The bytes, and marks for the begin and the end of a piece, for padding, and for special pieces.
NUM_CHARACTERS = 260
_ELMO = {"is_bidirectional": True, "hidden_dropout_prob": 0.1, "input_dropout_prob": 0.1, "output_dropout_prob": 0.1}
# Filters of Peters et al. 2018 and the model elmo_2x4096_512_2048cnn_2xhighway of allennlp: (width, number).
_ELMO_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
_AWD = {"has_projection": False, "has_locked_dropout": True, "state_clip": 0.0}
# hidden_size is the width of a state. With two directions each has half of it.
LSTM_SIZES = {
    # Peters et al. 2018, section 3.4.
    "elmo": {
        **_ELMO,
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_hidden_layers": 2,
        "character_filters": _ELMO_FILTERS,
        "num_highway_layers": 2,
    },
    # The model elmo_2x1024_128_2048cnn_1xhighway of allennlp.
    "elmo_small": {
        **_ELMO,
        "hidden_size": 256,
        "intermediate_size": 1024,
        "num_hidden_layers": 2,
        "character_filters": _ELMO_FILTERS,
        "num_highway_layers": 1,
    },
    "elmo_tiny": {
        **_ELMO,
        "hidden_size": 256,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "character_filters": ((1, 32), (2, 32), (3, 64), (4, 128)),
        "num_highway_layers": 1,
    },
    # Merity et al. 2017, section 5, for WikiText-2; Howard and Ruder 2018 use the same sizes.
    "awd_lstm": {
        **_AWD,
        "hidden_size": 400,
        "intermediate_size": 1150,
        "num_hidden_layers": 3,
        "embedding_dropout_prob": 0.1,
        "input_dropout_prob": 0.65,
        "hidden_dropout_prob": 0.2,
        "output_dropout_prob": 0.4,
        "recurrent_dropout_prob": 0.5,
        "activation_penalty": 2.0,
        "temporal_penalty": 1.0,
    },
    # A short training hardly sees a piece twice, so these rates are about a fifth of those of awd_lstm.
    "awd_lstm_tiny": {
        **_AWD,
        "hidden_size": 128,
        "intermediate_size": 384,
        "num_hidden_layers": 2,
        "embedding_dropout_prob": 0.02,
        "input_dropout_prob": 0.1,
        "hidden_dropout_prob": 0.05,
        "output_dropout_prob": 0.1,
        "recurrent_dropout_prob": 0.1,
        "activation_penalty": 2.0,
        "temporal_penalty": 1.0,
    },
}


@dataclasses.dataclass(frozen=True)
class LstmConfig(BertConfig):
    """The hyper-parameters of a stack of LSTM layers, with one direction or two, and its output layer.

    Keys of BertConfig with another meaning here: hidden_size is the width of a layer's state (with two directions each
    has half of it), intermediate_size is C, the units of a cell, hidden_dropout_prob is the dropout between layers, and
    max_position_embeddings is only the length of the longest row that tasks and exports read, and initializer_range
    concerns only heads of tasks. type_vocab_size and the keys in FIXED have no meaning; an LSTM does not read segments.

    Args:
        is_bidirectional: whether a second LSTM reads from right to left (Peters et al. 2018, ELMo).
        has_projection: whether a cell's output is projected to the width of the state, and each layer from the second
            on adds its input to its output (ELMo). Without it, the outputs of all layers but the last are C wide
            (Merity et al. 2017, AWD-LSTM).
        state_clip: largest absolute value of a cell and of its projected output; 0 for no limit. ELMo has 3.
        character_filters: (width, number of filters) of each convolution over the characters of a piece; () for a table
            of pieces.
        character_size: width of a character's vector.
        max_characters: bytes of a piece that the convolutions read, with the two marks of its ends.
        num_highway_layers: highway layers after the convolutions (Srivastava et al. 2015).
        has_locked_dropout: whether a row's dropout mask is the same at all places (Gal and Ghahramani 2016).
        embedding_dropout_prob: share of pieces whose whole vector is dropped in a step.
        input_dropout_prob: dropout of the first layer's input.
        recurrent_dropout_prob: dropout of the recurrent weights, once a step (Merity et al. 2017, DropConnect).
        output_dropout_prob: dropout of the last layer's output before the output layer.
        activation_penalty: factor of the mean square of the last layer's dropped output (Merity et al. 2017, AR).
        temporal_penalty: factor of the mean square of its change from place to place (the same, TAR).

    Raises:
        UserError: a value is out of its range. The message names the key, the value and the range.
    """

    architecture: str = "lstm_lm"
    num_attention_heads: int = 1
    attention_probs_dropout_prob: float = 0.0
    hidden_act: str = "tanh"
    is_bidirectional: bool = False
    has_projection: bool = True
    state_clip: float = 3.0
    character_filters: tuple = ()
    character_size: int = 16
    max_characters: int = 20
    num_highway_layers: int = 1
    has_locked_dropout: bool = False
    embedding_dropout_prob: float = 0.0
    input_dropout_prob: float = 0.0
    recurrent_dropout_prob: float = 0.0
    output_dropout_prob: float = 0.0
    activation_penalty: float = 0.0
    temporal_penalty: float = 0.0

    OWN_ARCHITECTURES = ("lstm_lm",)

    def __post_init__(self):
        if self.num_heads_by_layer == []:  # JSON has no tuples
            object.__setattr__(self, "num_heads_by_layer", ())
        for name, value in FIXED.items():
            if getattr(self, name) != value:
                raise UserError(f"config key {name!r} is {getattr(self, name)!r}; an LSTM has none, so leave it out")
        object.__setattr__(self, "is_causal", not self.is_bidirectional)
        object.__setattr__(self, "character_filters", _filters(self.character_filters))
        super().__post_init__()
        for name in ("embedding", "input", "recurrent", "output"):
            if not 0.0 <= (rate := getattr(self, f"{name}_dropout_prob")) < 1.0:
                raise UserError(f"config key '{name}_dropout_prob' is {rate}; expected 0 <= p < 1")
        for name in ("state_clip", "activation_penalty", "temporal_penalty"):
            if not 0.0 <= getattr(self, name) < 1e6:
                raise UserError(f"config key {name!r} is {getattr(self, name)}; expected 0 or more")
        if not self.num_hidden_layers:
            raise UserError("config key 'num_hidden_layers' is 0; expected 1 or more layers of an LSTM")
        if self.hidden_size % self.num_directions:
            raise UserError(f"config hidden_size {self.hidden_size} is odd; two directions need an even number")
        widths = [width for width, _ in self.character_filters]
        if len(set(widths)) < len(widths):
            raise UserError(f"config key 'character_filters' has the widths {widths}; expected each width once")
        if self.max_characters < max([3, *widths]):
            raise UserError(
                f"config key 'max_characters' is {self.max_characters}; expected 3 or more, and as many as the widest "
                "of character_filters"
            )

    @property
    def num_directions(self) -> int:
        """1 or 2."""
        return 1 + self.is_bidirectional

    @property
    def direction_size(self) -> int:
        return self.hidden_size // self.num_directions

    @property
    def has_dropout(self) -> bool:
        names = ("embedding", "input", "hidden", "recurrent", "output")
        return any(getattr(self, f"{name}_dropout_prob") for name in names)

    @property
    def has_tied_table(self) -> bool:
        # Vectors made of characters have no table.
        return self.tie_word_embeddings and not self.character_filters

    def output_size(self, layer: int) -> int:
        """The width of a layer's output in one direction.

        Args:
            layer: int. The number of the layer, from 0.
        """
        is_last = layer == self.num_hidden_layers - 1
        return self.direction_size if self.has_projection or is_last else self.intermediate_size

    def units(self, layer: int) -> int:
        """The units of a layer's cell in one direction.

        Args:
            layer: int. The number of the layer, from 0.
        """
        return self.intermediate_size if self.has_projection else self.output_size(layer)

    @property
    def has_equal_layers(self) -> bool:
        return self.has_projection or self.num_hidden_layers == 1 or self.intermediate_size == self.direction_size

    @property
    def widest_state(self) -> int:
        sizes = [self.output_size(layer) for layer in range(self.num_hidden_layers)]
        return self.num_directions * max(self.direction_size, *sizes)

    @classmethod
    def of_size(cls, size: str, **overrides: Any) -> "LstmConfig":
        """The configuration of a size of LSTM_SIZES.

        Args:
            size: a key of LSTM_SIZES.
            overrides: keys and values that replace the values of the size.

        Raises:
            UserError: the size is unknown.
        """
        if size not in LSTM_SIZES:
            raise UserError(f"config {size!r} is not a size of an LSTM: {nearest(size, LSTM_SIZES)}")
        return cls(**{**LSTM_SIZES[size], **overrides})


def _filters(values):
    """Checks pairs (width, number of filters)."""
    pairs = values if isinstance(values, (list, tuple)) else None
    is_good = pairs is not None and all(
        isinstance(pair, (list, tuple)) and len(pair) == 2 and all(type(n) is int and 0 < n < 1e5 for n in pair)
        for pair in pairs
    )
    if not is_good:
        raise UserError(
            f"config key 'character_filters' is {repr(values)[:80]}; expected pairs of a width and a number of "
            "filters, such as [[1, 32], [2, 32], [3, 64]]"
        )
    return tuple(tuple(pair) for pair in pairs)

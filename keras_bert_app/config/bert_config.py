"""BertConfig: the hyper-parameters of a BERT.

The files that hold them are bert_config.json (Google) and config.json (Hugging Face and this package).
The module does not load TensorFlow, so that a command can check a configuration before the slow import.
"""

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any

from keras_bert_app.config.published_keys import (
    ACTIVATIONS,
    GOOGLE,
    GOOGLE_FILE,
    IGNORED_KEYS,
    REQUIRED_VALUES,
    WRITTEN_ACTIVATIONS,
    activation,
    gelu_remark,
    layout_by_keys,
)
from keras_bert_app.errors import UserError, nearest
from keras_bert_app.files import read_json
from pipelines.channels import parse_channels
from pipelines.choices import FUSIONS, POSITIONS, TOKEN_VECTORS, TOKENIZERS
from pipelines.data_error import DataError

# Keys of this package alone, with their defaults.
_OWN_KEYS = {
    "num_heads_by_layer": (),
    "is_causal": False,
    "architecture": "bert",
    "tokenizer": "wordpiece",
    "channels": (),
    "positions": "tokens",
    "token_vectors": "",
    "token_vectors_shape": (),
    "token_fusion": "replace",
    "train_token_vectors": False,
}

# Limits far above any published BERT. They protect against a damaged or hostile file that asks for a billion layers.
# An encoder of 0 layers returns its embeddings, for instance to a BiLSTM.
_LIMITS = {"num_hidden_layers": (0, 1_000), "num_highway_layers": (0, 1_000)}
_LARGEST_SIZE = 100_000_000

# The parts of models for pre-training. Every published checkpoint has the encoder; the other parts may be missing.
PARTS = ("encoder", "pooler", "masked_lm", "next_sentence", "language_model")
# Architecture -> the parts that its models can have.
_PARTS_OF = {
    "bert": PARTS[:4],
    "gpt": ("encoder", "language_model"),
    "lstm_lm": ("encoder", "language_model"),
}
ARCHITECTURES = tuple(_PARTS_OF)

INPUTS = ("input_word_ids", "input_mask", "input_type_ids")  # that every encoder reads
POSITIONS_INPUT = "input_positions"  # of a model whose positions count lines

# Published sizes (google-research/bert README): layers, hidden size, heads; intermediate size is 4 x hidden.
SIZES = {
    "tiny": (2, 128, 2),
    "mini": (4, 256, 4),
    "small": (4, 512, 8),
    "medium": (8, 512, 8),
    "base": (12, 768, 12),
    "large": (24, 1024, 16),
}
# Sizes for text to text, with relu: "base" of Vaswani et al. 2017 (table 3), and transformer_small of tensor2tensor.
TRANSFORMER_SIZES = {"transformer_base": (6, 512, 8), "transformer_small": (2, 256, 4)}


@dataclasses.dataclass(frozen=True)
class BertConfig:
    """The hyper-parameters of a BERT encoder and its two pre-training heads.

    Args:
        vocab_size: V, the entries of the WordPiece vocabulary.
        hidden_size: H, the width of every layer; a multiple of num_attention_heads.
        num_hidden_layers: L, the number of layers.
        num_attention_heads: N, the number of attention heads of a layer.
        intermediate_size: I, the width of the feed-forward network.
        hidden_act: one of ACTIVATIONS. The two forms of gelu differ by up to 4.7e-4.
        hidden_dropout_prob: dropout of the embeddings and of each sub-layer's output before the residual sum.
        attention_probs_dropout_prob: dropout of the attention probabilities.
        max_position_embeddings: the length of the longest sequence.
        type_vocab_size: the number of segments.
        initializer_range: standard deviation of the truncated normal distribution that initializes kernels.
        layer_norm_eps: epsilon inside the square root of layer normalization.
        do_lower_case: whether the vocabulary is uncased. It is false for symbols.
        tie_word_embeddings: whether the masked-LM head multiplies with the word embeddings, as in BERT. Otherwise
            the head has its own table.
        num_heads_by_layer: the number of heads, 1 to N, in each layer of a pruned model; () for N in every layer. The
            head size stays hidden_size // num_attention_heads.
        is_causal: whether a token attends only to itself and to earlier tokens. BERT is not causal. The value
            True gives the baseline "LTR" of Devlin et al. 2018, section 5.1.
        architecture: one of ARCHITECTURES. "gpt" is the Transformer that reads from left to right, with LayerNorm
            before each sub-layer (Radford et al. 2019, section 2.3). It is causal and has no segments. "lstm_lm" is an
            LSTM; see lstm_config.LstmConfig.
        tokenizer: one of TOKENIZERS: WordPiece, or symbols with spaces between them, which are never split.
        channels: further inputs of each symbol, such as "age:120"; see pipelines.channels. The vectors of their values
            are added to the symbol's vector.
        positions: "tokens", or "lines" if all symbols of a line have one position, because they have no order.
        token_vectors: what the vectors of pieces are made of beside the learned table: "" for nothing, "groups" or
            "given"; see modeling.token_vectors.
        token_vectors_shape: (G groups, the most groups of a piece) or (the size of given vectors,).
        token_fusion: how the learned vector and the one from outside become one: "replace", "add" or "gate".
        train_token_vectors: whether training changes given vectors.

    Raises:
        UserError: a value is out of its range. The message names the key, the value and the range.
    """

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu_tanh"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    do_lower_case: bool = True
    tie_word_embeddings: bool = True
    num_heads_by_layer: tuple = ()
    is_causal: bool = False
    architecture: str = "bert"
    tokenizer: str = "wordpiece"
    channels: tuple = ()
    positions: str = "tokens"
    token_vectors: str = ""
    token_vectors_shape: tuple = ()
    token_fusion: str = "replace"
    train_token_vectors: bool = False

    OWN_ARCHITECTURES = ("bert", "gpt")  # LstmConfig has the keys of the other one

    def __post_init__(self):
        if self.architecture not in ARCHITECTURES:
            raise UserError(
                f"config architecture {repr(self.architecture)[:80]} is not known: "
                f"{nearest(str(self.architecture), ARCHITECTURES)}"
            )
        if self.architecture not in self.OWN_ARCHITECTURES:
            raise UserError(
                f"config architecture {self.architecture!r}: an LSTM has other sizes than a Transformer; leave out "
                "--architecture, and name the sizes by --config, such as elmo_tiny or awd_lstm_tiny for an LSTM"
            )
        if self.architecture == "gpt":
            object.__setattr__(self, "is_causal", True)
        if self.tokenizer == "symbols":
            object.__setattr__(self, "do_lower_case", False)
        object.__setattr__(self, "num_heads_by_layer", _counts("num_heads_by_layer", self.num_heads_by_layer))
        object.__setattr__(self, "channels", _channels(self.channels))
        object.__setattr__(self, "token_vectors_shape", _counts("token_vectors_shape", self.token_vectors_shape))
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type is float and type(value) is int and abs(value) < _LARGEST_SIZE:
                object.__setattr__(self, field.name, float(value))
            elif type(value) is not field.type:
                raise UserError(f"config key {field.name!r} is {repr(value)[:80]}; expected {field.type.__name__}")
            low, high = _LIMITS.get(field.name, (1, _LARGEST_SIZE))
            if field.type is int and not low <= value <= high:
                raise UserError(f"config key {field.name!r} is {repr(value)[:80]}; expected {low} to {high:,}")
        if self.hidden_size % self.num_attention_heads:
            raise UserError(
                f"config hidden_size {self.hidden_size} is not a multiple of num_attention_heads "
                f"{self.num_attention_heads}; change one of them"
            )
        self._check_heads()
        if self.hidden_act not in ACTIVATIONS:
            hint = (
                "give gelu_tanh (Google's) or gelu_exact (Hugging Face's)"
                if self.hidden_act == "gelu"
                else nearest(self.hidden_act, ACTIVATIONS)
            )
            raise UserError(f"config hidden_act {self.hidden_act!r} is not known: {hint}")
        for name, choices in (
            ("tokenizer", TOKENIZERS),
            ("positions", POSITIONS),
            ("token_vectors", TOKEN_VECTORS),
            ("token_fusion", FUSIONS),
        ):
            if getattr(self, name) not in choices:
                value = getattr(self, name)
                raise UserError(f"config {name} {value!r} is not known: {nearest(value, choices)}")
        self._check_columns()
        self._check_token_vectors()
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise UserError(f"config key {name!r} is {getattr(self, name)}; expected 0 <= p < 1")
        for name in ("initializer_range", "layer_norm_eps"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise UserError(f"config key {name!r} is {getattr(self, name)}; expected more than 0 and less than 1")

    def _check_columns(self):
        for name, default in (("channels", ()), ("positions", "tokens")):
            if getattr(self, name) == default:
                continue
            if self.tokenizer != "symbols":
                raise UserError(f"config key {name!r}: only texts of symbols have it; give --tokenizer=symbols")
            if self.architecture != "bert":
                raise UserError(
                    f"config key {name!r}: a {self.architecture} does not read it; leave it out, or take a BERT"
                )

    def _check_token_vectors(self):
        count = {"": 0, "groups": 2, "given": 1}[self.token_vectors]
        if len(self.token_vectors_shape) != count or not all(self.token_vectors_shape):
            raise UserError(
                f"config key 'token_vectors_shape' is {list(self.token_vectors_shape)}; expected {count} numbers above "
                f"0 for token_vectors {self.token_vectors!r}"
            )
        if self.token_vectors and self.architecture != "bert":
            raise UserError(
                f"config key 'token_vectors': a {self.architecture} does not read it; leave it out, or take a BERT"
            )
        if self.train_token_vectors and self.token_vectors == "groups":
            raise UserError("config key 'train_token_vectors': groups always train; leave it out")

    def _check_heads(self):
        counts, layers, heads = self.num_heads_by_layer, self.num_hidden_layers, self.num_attention_heads
        if counts and (len(counts) != layers or not all(1 <= count <= heads for count in counts)):
            raise UserError(
                f"config key 'num_heads_by_layer' is {list(counts)}; expected a number from 1 to {heads} for each "
                f"of {layers} layers"
            )
        if set(counts) == {heads}:
            object.__setattr__(self, "num_heads_by_layer", ())  # two configurations of one model must be equal

    @property
    def has_columns(self) -> bool:
        """Whether tokens have inputs beside their ids: channels, or positions that count lines."""
        return bool(self.channels) or self.positions == "lines"

    @property
    def input_names(self) -> tuple[str, ...]:
        """The inputs of the encoder."""
        positions = (POSITIONS_INPUT,) * (self.positions == "lines")
        return (*INPUTS, *positions, *(channel.input_name for channel in self.channels))

    @property
    def head_counts(self) -> tuple[int, ...]:
        """The number of heads in each of the L layers."""
        return self.num_heads_by_layer or (self.num_attention_heads,) * self.num_hidden_layers

    @property
    def language_model(self) -> str:
        """What a model of this architecture learns, one of pipelines.choices.LANGUAGE_MODELS."""
        if self.architecture == "bert":
            return "masked"
        return "causal" if self.is_causal else "bidirectional"

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that a model of this architecture can have, some of PARTS."""
        return _PARTS_OF[self.architecture]

    @property
    def direction_size(self) -> int:
        """The width of a state that reads in one direction: hidden_size, but half of it for two LSTMs."""
        return self.hidden_size

    @property
    def has_equal_layers(self) -> bool:
        """Whether the states of all layers have the width hidden_size, so that they can be mixed or left out."""
        return True

    @property
    def widest_state(self) -> int:
        """The largest width of the states of a layer: hidden_size, but more for some layers of LSTMs."""
        return self.hidden_size

    @property
    def has_tied_table(self) -> bool:
        """Whether the output layer of a language model multiplies with the table of pieces."""
        return self.tie_word_embeddings

    @property
    def head_size(self) -> int:
        return self.hidden_size // self.num_attention_heads

    @property
    def has_dropout(self) -> bool:
        """Whether the encoder applies dropout in training."""
        return max(self.hidden_dropout_prob, self.attention_probs_dropout_prob) > 0

    @classmethod
    def of_size(cls, size: str, **overrides: Any) -> "BertConfig":
        """The configuration of a published size.

        Args:
            size: a key of SIZES or TRANSFORMER_SIZES.
            overrides: keys and values that replace the values of the size.

        Raises:
            UserError: the size is unknown.
        """
        sizes = SIZES | TRANSFORMER_SIZES
        if size.startswith(("elmo", "awd")):
            from keras_bert_app.config.lstm_config import LstmConfig  # a subclass of this class

            return LstmConfig.of_size(size, **overrides)
        if size not in sizes:
            raise UserError(f"config {size!r} is not a published size: {nearest(size, sizes)}")
        layers, hidden, heads = sizes[size]
        return cls(
            **{
                **({"hidden_act": "relu"} if size in TRANSFORMER_SIZES else {}),
                "num_hidden_layers": layers,
                "hidden_size": hidden,
                "num_attention_heads": heads,
                "intermediate_size": 4 * hidden,
                **overrides,
            }
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], layout: str = "") -> "BertConfig":
        """Makes a configuration from Google's or Hugging Face's keys.

        The layout decides which form of gelu the value "gelu" means.

        Args:
            values: the content of bert_config.json or config.json.
            layout: GOOGLE, HUGGINGFACE or MODEL_GARDEN; "" if only the keys can tell which library wrote the file.

        Raises:
            UserError: a key is unknown (the message names the nearest one), or a value means another architecture.
        """
        if values.get("architecture") == "lstm_lm" and cls is BertConfig:
            from keras_bert_app.config.lstm_config import LstmConfig  # a subclass of this class

            return LstmConfig.from_dict({"hidden_act": "tanh", **values})
        for key, required in {**REQUIRED_VALUES, "model_type": values.get("architecture", "bert")}.items():
            if values.get(key, required) != required:
                raise UserError(f"config key {key!r} is {values[key]!r}; expected {required!r}")
        if values.get("pruned_heads"):
            raise UserError("config key 'pruned_heads' is not empty; give the model with all its heads")
        names = [field.name for field in dataclasses.fields(cls)]
        ours = {}
        for key, value in values.items():
            if key in names:
                ours[key] = value
            elif key not in IGNORED_KEYS and key not in REQUIRED_VALUES:
                raise UserError(f"config key {key!r} is not known: {nearest(key, names)}")
        # Both libraries have the default "gelu", but they mean different functions.
        act = ours.get("hidden_act", "gelu")
        if not isinstance(act, str):
            raise UserError(f"config key 'hidden_act' is {act!r}; expected a name such as 'gelu'")
        ours["hidden_act"] = activation(act, layout or layout_by_keys(values))
        return cls(**ours)

    @classmethod
    def from_json_file(cls, path: str, log: Callable[[str], None] = lambda line: None) -> "BertConfig":
        """Reads a configuration from bert_config.json or config.json.

        A file named bert_config.json has Google's layout, whatever its keys are. The keys decide the layout of any
        other file; see from_dict.

        Args:
            path: the file.
            log: function that takes a line of text. If the file does not name a form of gelu, the line says which form
                the function takes, and why.

        Raises:
            UserError: as for from_dict. The message names the file.
        """
        values = read_json(path)
        layout = GOOGLE if os.path.basename(path) == GOOGLE_FILE else ""
        try:
            config = cls.from_dict(values, layout)
        except UserError as error:
            raise UserError(f"{path}: {error}") from None
        if remark := gelu_remark(values, layout):
            log(f"{path}: {remark}")
        return config

    def to_dict(self) -> dict[str, Any]:
        """Returns the keys that Google's and Hugging Face's readers share.

        The key model_type marks the dict as Hugging Face's, so that "gelu" is the exact form. Only this package
        has the keys of _OWN_KEYS. The dict contains them only if they differ from their defaults.
        """
        values = {**dataclasses.asdict(self), "channels": tuple(map(str, self.channels))}
        for name, default in _OWN_KEYS.items():
            if values[name] == default:
                del values[name]
        values["hidden_act"] = WRITTEN_ACTIVATIONS.get(self.hidden_act, self.hidden_act)
        return {"model_type": self.architecture, **values}

    def replace(self, **changes: Any) -> "BertConfig":
        """Returns a copy with some keys changed."""
        return dataclasses.replace(self, **changes)


def _channels(values):
    """Reads channels from a list of str or of Channel."""
    if not isinstance(values, (list, tuple)):
        raise UserError(f"config key 'channels' is {repr(values)[:80]}; expected a list such as ['age:120']")
    try:
        return parse_channels(values)
    except DataError as error:
        raise UserError(f"config {error}") from None


def _counts(name, values):
    """Reads numbers from a list of int or of str. Flags give str."""
    are_numbers = isinstance(values, (list, tuple)) and all(
        type(value) is int or isinstance(value, str) and value.isdecimal() for value in values
    )
    if not are_numbers:
        raise UserError(f"config key {name!r} is {values!r}; expected a list of numbers")
    return tuple(map(int, values))

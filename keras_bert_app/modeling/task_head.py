"""Head: the description of the layers that a task puts on an encoder."""

import dataclasses

from keras_bert_app.errors import UserError
from keras_bert_app.modeling.keras_contract import Described, registered

# The output layer reads one vector for each text, for each of an example's choices, or for each token.
TEXT, CHOICES, TOKENS = "text", "choices", "tokens"


@registered
@dataclasses.dataclass(frozen=True)
class Head(Described):
    """The layers that a task puts on an encoder.

    Attributes:
        stands_on: str. TEXT, CHOICES or TOKENS.
        num_outputs: int. n, the outputs for each text or token.
        layers: str. The states that the head reads: "last", "last_four" (side by side) or "scalar_mix" (Peters et al.
            2018, ELMo, equation 1).
        pooling: str. The way from a text's tokens to one vector: "cls" (through BERT's pooler if the head has_pooler),
            "mean", "max", or "concat" of [CLS], maximum and mean. "last" and "concat_last" read the last token instead
            of [CLS], for encoders that read from left to right (Radford et al. 2018, GPT; Howard and Ruder 2018,
            ULMFiT).
        windows: str. The way to join several rows of one text: "" (one row), "logits" (mean of their logits) or "lstm".
        bilstm_units: int. Units of a bidirectional LSTM under the output layer (Peters et al. 2017, TagLM), or 0.
        context_units: int. Units in each direction of an LSTM over the last states. The head reads the outputs of this
            LSTM, called context vectors, beside the states (McCann et al. 2017, CoVe, equation 5). 0: no such LSTM.
        token_vector_size: int. Width of the head's own vectors of pieces. Together with convolutions over the
            characters of the pieces, they go through a first BiLSTM of bilstm_units. The BiLSTM under the output layer
            reads the outputs of the first one beside the states (Peters et al. 2017, TagLM, section 2.3). 0: no such
            vectors.
        states_at: str. Where the states enter the BiLSTM under the output layer: "input", "output" (beside its outputs)
            or "both" (Peters et al. 2018, ELMo, section 3.3). With "scalar_mix" each place has its own mix.
        has_layer_norm: bool. Whether "scalar_mix" normalizes every layer first (Peters et al. 2018, section 3.2).
        has_crf: bool. Whether a conditional random field scores the tags of a row together, on TOKENS.
        dropout: float. The dropout rate under the output layer.
        scale: float. For regression, answer = scale * output + offset.
        offset: float. See scale.

    Raises:
        UserError: the fields contradict each other.
    """

    stands_on: str
    num_outputs: int
    layers: str = "last"
    pooling: str = "cls"
    windows: str = ""
    bilstm_units: int = 0
    dropout: float = 0.1
    scale: float = 1.0
    offset: float = 0.0
    context_units: int = 0
    token_vector_size: int = 0
    states_at: str = "input"
    has_layer_norm: bool = False
    has_crf: bool = False

    def __post_init__(self):
        faults = {
            "token_vector_size and states_at need bilstm_units": not self.bilstm_units
            and (self.token_vector_size or self.states_at != "input"),
            "states_at='output' needs token_vector_size": self.states_at == "output" and not self.token_vector_size,
            "has_crf needs stands_on='tokens'": self.has_crf and self.stands_on != TOKENS,
        }
        for fault, is_found in faults.items():
            if is_found:
                raise UserError(f"the head of the model: {fault}")

    @property
    def has_pooler(self) -> bool:
        """Whether the head reads BERT's own pooler."""
        return (
            self.stands_on != TOKENS
            and self.pooling == "cls"
            and self.layers == "last"
            and not self.bilstm_units
            and not self.context_units
        )

    @property
    def reads_one_place(self) -> bool:
        """Whether the head reads the last layer at one place of a text only."""
        return self.has_pooler or (
            self.stands_on != TOKENS
            and self.pooling == "last"
            and self.layers == "last"
            and not self.bilstm_units
            and not self.context_units
        )

    @property
    def num_pooled(self) -> int:
        """How many vectors of a text the pooling puts side by side."""
        return 3 if self.pooling in ("concat", "concat_last") and self.stands_on != TOKENS else 1

    @property
    def is_plain(self) -> bool:
        """Whether this is the head of BERT's own fine-tuning. Other libraries have only this head."""
        return (
            self.layers == "last"
            and not self.bilstm_units
            and not self.context_units
            and not self.windows
            and not self.has_crf
            and (self.stands_on == TOKENS or self.has_pooler)
        )


def without_cls(head: Head, reads_both_sides: bool = False) -> Head:
    """Makes a head read other states than that of [CLS], which in a GPT or an LSTM does not depend on the whole text.

    Args:
        head: Head.
        reads_both_sides: bool. Whether the encoder has LSTMs of both directions. Neither [CLS] nor the last token then
            knows the whole text in both directions, so the head reads the maximum of all.

    Returns:
        Head. The same head if it stands on tokens.
    """
    poolings = {"cls": "max" if reads_both_sides else "last", "concat": "concat_last"}
    if head.stands_on == TOKENS:
        poolings = {}
    return dataclasses.replace(head, pooling=poolings.get(head.pooling, head.pooling))

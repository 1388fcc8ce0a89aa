"""BertTaskModel: an encoder with the output layer of a task."""

import dataclasses

import keras

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.modeling import backend
from keras_bert_app.modeling.architectures import make_encoder
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.modeling.keras_contract import Configured, Described, dropout_counter, registered, seed_of_call
from keras_bert_app.modeling.layers import Dense, Dropout, initializer, rows_at
from keras_bert_app.modeling.lstm import BiLstm

# The output layer reads one vector for each text, for each of an example's choices, or for each token.
TEXT, CHOICES, TOKENS = "text", "choices", "tokens"
INPUTS = ("input_word_ids", "input_mask", "input_type_ids")  # The model reads these keys of a batch.
CONTEXT_LSTM = "context_lstm"  # The name of the part that makes context vectors.
_DROPOUT_PLACE = 1_000_000  # Larger than every place number in the encoder.


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
        dropout: float. The dropout rate under the output layer.
        scale: float. For regression, answer = scale * output + offset.
        offset: float. See scale.
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
            and (self.stands_on == TOKENS or self.has_pooler)
        )


@registered
class ScalarMix(Configured, keras.layers.Layer):
    """Computes gamma * sum of softmax(w)_i h_i over the embeddings and all layers.

    Args:
        num_layers: int. The number of the h_i.

    Call arguments:
        layers: list of [B, S, H]. The h_i.

    Returns:
        [B, S, H].
    """

    CONFIGURED = ("num_layers",)

    def __init__(self, num_layers: int, **kwargs):
        super().__init__(**kwargs)
        self.num_layers = num_layers

    def build(self, input_shape=None):
        self.scores = self.add_weight(shape=(self.num_layers,), initializer="zeros", name="scores", autocast=False)
        self.gamma = self.add_weight(shape=(1,), initializer="ones", name="gamma", autocast=False)

    def shares(self):
        """Returns the share of each layer, [num_layers]."""
        return keras.ops.softmax(self.scores)

    def call(self, layers):
        shares = self.shares() * self.gamma
        return sum(keras.ops.cast(shares[i], layer.dtype) * layer for i, layer in enumerate(layers))


@registered
class BertTaskModel(Configured, keras.Model):
    """An encoder with the layers that a Head describes.

    Args:
        config: BertConfig. The configuration of the encoder.
        head: Head. The layers on the encoder.
        seed: int. The seed of the initial weights.
        dtype: str. Keras type policy, "float32" or "mixed_bfloat16". The output layer always computes in float32.
        encoder_has_dropout: bool. False for an encoder that is not trained. The head then trains on the same vectors
            that inference gives.
        passes: int. How many times a training batch passes through the model, 1 or 2. Dropout differs each time.
        name: str. The name of the Keras model.

    Call arguments:
        inputs: dict with input_word_ids, input_mask, input_type_ids, int32 [B, S]; [B, G, S] for a head on CHOICES or
            with windows. A window with a mask of zeros is absent.
        dropout_seed: int [2] for training with dropout, or None for inference.
        execution: Execution. How ops are executed.
        training: bool or None. If True and dropout_seed is None, the model draws a dropout seed from its own counter.
            Keras passes True in fit, and False in evaluate and predict.

    Returns:
        dict: logits, float32: [B, n] on TEXT, [B, G] on CHOICES, [B, S, n] on TOKENS. With two passes in training also
        logits_again, the logits of the second pass.
    """

    CONFIGURED = ("config", "head", "seed", "encoder_has_dropout", "passes")

    def __init__(
        self,
        config: BertConfig,
        head: Head,
        seed: int = 0,
        dtype: str = "float32",
        encoder_has_dropout: bool = True,
        passes: int = 1,
        name: str = "task_model",
    ):
        super().__init__(name=name, dtype=dtype)
        self.config, self.head, self.encoder_has_dropout, self.passes = config, head, encoder_has_dropout, passes
        self.seed = seed
        self.has_dropout = config.has_dropout and encoder_has_dropout or head.dropout > 0
        self.encoder = make_encoder(config, seed=seed, dtype=dtype, has_pooler=head.has_pooler)
        self.dropout_counter = dropout_counter(seed) if self.has_dropout else None
        if not encoder_has_dropout:
            self.encoder.dropout_counter = None
        width = config.hidden_size * (4 if head.layers == "last_four" else 1) + 2 * head.context_units
        # Pooling follows a BiLSTM over tokens. An LSTM over windows reads pooled vectors.
        if not head.bilstm_units:
            width *= head.num_pooled
        self.scalar_mix = self.context_lstm = self.bilstm = self.window_lstm = None
        if head.layers == "scalar_mix":
            self.scalar_mix = ScalarMix(config.num_hidden_layers + 1, dtype=dtype, name="scalar_mix")
            self.scalar_mix.build()
        if head.context_units:
            self.context_lstm = bilstm(head.context_units, config.hidden_size, config, seed, dtype, CONTEXT_LSTM)
        if head.bilstm_units:
            self.bilstm = bilstm(head.bilstm_units, width, config, seed, dtype)
            width = 2 * head.bilstm_units * head.num_pooled
        if head.windows == "lstm":
            self.window_lstm = bilstm(config.hidden_size // 2, width, config, seed, dtype, "window_lstm")
            width = 2 * (config.hidden_size // 2)
        self.dropout, self.bilstm_dropout = (Dropout(head.dropout, _DROPOUT_PLACE + number) for number in range(2))
        num_outputs = 1 if head.stands_on == CHOICES else head.num_outputs
        # bfloat16 scores would have steps of 1/64 or more, so different scores could become equal.
        self.classifier = Dense(
            width, num_outputs, initializer(config, seed, "classifier"), dtype="float32", name="classifier"
        )
        self.classifier.build()
        self.built = True

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the model's parts. See interop.weights.part_of."""
        optional = {
            "pooler": self.head.has_pooler,
            "scalar_mix": self.scalar_mix,
            CONTEXT_LSTM: self.context_lstm,
            "bilstm": self.bilstm,
            "window_lstm": self.window_lstm,
        }
        return ("encoder", *(name for name, part in optional.items() if part), "classifier")

    def call(self, inputs, dropout_seed=None, execution: Execution = PLAIN, training: bool | None = None):
        dropout_seed = seed_of_call(dropout_seed, training, self.dropout_counter)
        if dropout_seed is None or self.passes == 1:
            return {"logits": self._logits(inputs, dropout_seed, execution)}
        # Both passes are rows of one batch. Dropout differs between rows, so the passes differ.
        twice = {name: keras.ops.concatenate([inputs[name]] * 2) for name in INPUTS}
        logits = keras.ops.split(self._logits(twice, dropout_seed, execution), 2)
        return dict(zip(("logits", "logits_again"), logits, strict=True))

    def _logits(self, inputs, dropout_seed, execution):
        ops, head, dropout_stem = keras.ops, self.head, backend.stem(dropout_seed)
        has_groups = head.stands_on == CHOICES or bool(head.windows)
        group_size = None
        if has_groups:
            # [B, G, S] -> [B x G, S]
            group_size = ops.shape(inputs["input_mask"])[1]
            inputs = {name: ops.reshape(inputs[name], (-1, ops.shape(inputs[name])[2])) for name in INPUTS}
        place = None
        if head.reads_one_place:
            place = (
                ops.zeros_like(inputs["input_mask"][:, :1]) if head.has_pooler else last_places(inputs["input_mask"])
            )
        outputs = self.encoder(
            inputs,
            dropout_seed=dropout_seed if self.encoder_has_dropout else None,
            output_positions=place,
            execution=execution,
        )
        if head.has_pooler:
            x = outputs["pooled_output"]
        elif head.reads_one_place:
            x = outputs["sequence_output"][:, 0]
        else:
            x = self._states(outputs, inputs["input_mask"], execution)
            if self.bilstm is not None:
                x = self.bilstm_dropout(x, dropout_stem, execution)
                x = self.bilstm(x, inputs["input_mask"], execution=execution)
            if head.stands_on != TOKENS:
                x = pooled(x, inputs["input_mask"], head.pooling)
        if head.windows:
            has_window = ops.reshape(inputs["input_mask"][:, 0], (-1, group_size))
            if self.window_lstm is not None:
                x = ops.reshape(x, (-1, group_size, self.window_lstm.input_width))
                x = self.window_lstm(x, has_window, execution=execution)
                x = pooled(x, has_window, "max")
        x = ops.cast(self.dropout(x, dropout_stem, execution), "float32")
        logits = self.classifier(x, execution=execution)
        if head.windows == "logits":
            logits = pooled(ops.reshape(logits, (-1, group_size, head.num_outputs)), has_window, "mean")
        if head.stands_on == CHOICES:
            logits = ops.reshape(logits, (-1, group_size))
        return logits if (head.scale, head.offset) == (1.0, 0.0) else logits * head.scale + head.offset

    def _states(self, outputs, mask, execution):
        states = [outputs["sequence_output"]]
        if self.scalar_mix is not None:
            states = [self.scalar_mix([outputs["embedding_output"], *outputs["encoder_outputs"]])]
        elif self.head.layers == "last_four":
            states = outputs["encoder_outputs"][-4:]
        if self.context_lstm is not None:
            states = [*states, self.context_lstm(outputs["sequence_output"], mask, execution=execution)]
        return keras.ops.concatenate(states, axis=-1) if states[1:] else states[0]


def pooled(x, mask, pooling: str):
    """Pools each row to one vector. The mean and the maximum ignore places with mask 0.

    Args:
        x: [B, S, F].
        mask: [B, S], 1 or 0.
        pooling: str. "cls" (place 0), "last" (the last place with mask 1), "mean", "max", "concat" (of "cls", "max" and
            "mean") or "concat_last" (of "last", "max" and "mean").

    Returns:
        [B, F], or [B, 3F] for "concat" and "concat_last".
    """
    ops = keras.ops
    if pooling == "cls":
        return x[:, 0]
    if pooling == "last":
        return rows_at(x, last_places(mask))[:, 0]
    if pooling in ("concat", "concat_last"):
        first = "cls" if pooling == "concat" else "last"
        return ops.concatenate([pooled(x, mask, each) for each in (first, "max", "mean")], axis=-1)
    mask = ops.expand_dims(ops.cast(mask, x.dtype), -1)
    if pooling == "mean":
        return ops.sum(x * mask, axis=1) / ops.maximum(ops.sum(mask, axis=1), 1.0)
    # -1e4 is below any value of LayerNorm, tanh or an LSTM, and finite in bfloat16.
    return ops.max(x * mask + (mask - 1.0) * 1e4, axis=1)


def last_places(mask):
    """Finds the last place with mask 1 of each row, or 0 if there is none.

    Args:
        mask: int [B, S], 1 or 0.

    Returns:
        int32 [B, 1].
    """
    places = keras.ops.arange(keras.ops.shape(mask)[1], dtype="int32")
    return keras.ops.max(keras.ops.where(mask > 0, places, 0), axis=1, keepdims=True)


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


def bilstm(units: int, input_width: int, config: BertConfig, seed: int, dtype: str, name: str = "bilstm") -> BiLstm:
    """Makes and builds a bidirectional LSTM.

    Args:
        units: int. The units of each direction.
        input_width: int. The width of its input.
        config: BertConfig. Its initializer_range is the deviation of the initial weights.
        seed: int. The seed and the name decide the initial weights.
        dtype: str. Keras type policy.
        name: str. The name of the layer.
    """
    layer = BiLstm(
        units,
        input_width,
        initializer(config, seed, f"{name}/kernel"),
        initializer(config, seed, f"{name}/recurrent_kernel"),
        dtype=dtype,
        name=name,
    )
    layer.build()
    return layer

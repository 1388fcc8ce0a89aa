"""BertTaskModel: an encoder with the output layer of a task."""

import dataclasses

import keras

from keras_bert_app.modeling import backend
from keras_bert_app.modeling.encoder import BertEncoder
from keras_bert_app.modeling.layers import Dense, Dropout, initializer
from keras_bert_app.modeling.lstm import BiLstm

# What the output layer stands on: a vector for each text, for each of several texts of an example, or for each token.
TEXT, CHOICES, TOKENS = "text", "choices", "tokens"
INPUTS = ("input_word_ids", "input_mask", "input_type_ids")  # what of a batch the model reads
_DROPOUT_PLACE = 1_000_000  # beyond all of the encoder's


@dataclasses.dataclass(frozen=True)
class Head:
    """What stands on an encoder.

    Attributes:
        stands_on: TEXT, CHOICES or TOKENS. num_outputs: n.
        layers: "last", "last_four" (side by side) or "scalar_mix" (Peters et al. 2018, ELMo, equation 1).
        pooling: of a text's tokens: "cls" (through BERT's pooler where layers is "last"), "mean", "max", or "concat" of
            [CLS], maximum and mean (Howard and Ruder 2018, ULMFiT).
        windows: how several rows of one text are joined: "" (one row), "logits" (mean of theirs), "lstm".
        bilstm_units: of a bidirectional LSTM under the output layer (Peters et al. 2017, TagLM); 0 for none.
        dropout: under the output layer.
        scale, offset: of a number: what the output layer gives, so many times, and so much more is the answer.
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

    @property
    def has_pooler(self):
        """Whether BERT's own pooler is part of it."""
        return self.stands_on != TOKENS and self.pooling == "cls" and self.layers == "last" and not self.bilstm_units

    @property
    def is_plain(self):
        """Whether it is the head that BERT's own fine-tuning has, which other libraries know."""
        return (
            self.layers == "last"
            and not self.bilstm_units
            and not self.windows
            and (self.stands_on == TOKENS or self.has_pooler)
        )


class ScalarMix(keras.layers.Layer):
    """gamma * sum of softmax(w)_i h_i over the embeddings and all layers.

    Call arguments:
        layers: list of [B, S, H].
    """

    def __init__(self, num_layers, **kwargs):
        super().__init__(**kwargs)
        self.num_layers = num_layers

    def build(self, input_shape=None):
        self.scores = self.add_weight(shape=(self.num_layers,), initializer="zeros", name="scores", autocast=False)
        self.gamma = self.add_weight(shape=(1,), initializer="ones", name="gamma", autocast=False)

    def shares(self):
        """The share of each layer, [number of layers]."""
        return keras.ops.softmax(self.scores)

    def call(self, layers):
        shares = self.shares() * self.gamma
        return sum(keras.ops.cast(shares[i], layer.dtype) * layer for i, layer in enumerate(layers))


class BertTaskModel(keras.Model):
    """An encoder and a Head.

    Args:
        config: BertConfig. head: Head. seed: of the initial weights. dtype: "float32" or "mixed_bfloat16"; the output layer
            computes in float32 in any case. encoder_has_dropout: False where the encoder is not trained, so that what
            stands on it learns from the vectors that it will answer with.
        passes: how often it takes a batch for training, 1 or 2, each time with other dropout.

    Call arguments:
        inputs: dict with input_word_ids, input_mask, input_type_ids, int32 [B, S]; [B, G, S] for a head on CHOICES or
            with windows. A window whose mask is all 0 is not there.
        dropout_seed: int [2] for training with dropout, or None for inference.

    Returns:
        dict: logits float32: [B, n] on TEXT, [B, G] on CHOICES, [B, S, n] on TOKENS. For training in two passes
            logits_again, too, of the second one.
    """

    def __init__(self, config, head, seed=0, dtype="float32", encoder_has_dropout=True, passes=1, name="task_model"):
        super().__init__(name=name, dtype=dtype)
        self.config, self.head, self.encoder_has_dropout, self.passes = config, head, encoder_has_dropout, passes
        self.has_dropout = config.has_dropout and encoder_has_dropout or head.dropout > 0
        self.encoder = BertEncoder(config, seed=seed, dtype=dtype, has_pooler=head.has_pooler)
        width = config.hidden_size * (4 if head.layers == "last_four" else 1)
        # A BiLSTM over tokens, pooled then; over windows it takes vectors that were pooled before.
        if head.pooling == "concat" and head.stands_on != TOKENS and not head.bilstm_units:
            width *= 3
        self.scalar_mix = self.bilstm = self.window_lstm = None
        if head.layers == "scalar_mix":
            self.scalar_mix = ScalarMix(config.num_hidden_layers + 1, dtype=dtype, name="scalar_mix")
            self.scalar_mix.build()
        if head.bilstm_units:
            self.bilstm = _bilstm(head.bilstm_units, width, config, seed, dtype, "bilstm")
            width = 2 * head.bilstm_units * (3 if head.pooling == "concat" and head.stands_on != TOKENS else 1)
        if head.windows == "lstm":
            self.window_lstm = _bilstm(config.hidden_size // 2, width, config, seed, dtype, "window_lstm")
            width = 2 * (config.hidden_size // 2)
        self.dropout, self.bilstm_dropout = (Dropout(head.dropout, _DROPOUT_PLACE + number) for number in range(2))
        num_outputs = 1 if head.stands_on == CHOICES else head.num_outputs
        # In bfloat16 scores would come in steps of 1/64 and coarser, and tie.
        self.classifier = Dense(
            width, num_outputs, initializer(config, seed, "classifier"), dtype="float32", name="classifier"
        )
        self.classifier.build()
        self.built = True

    @property
    def parts(self):
        """Names of its parts, as interop.weights.part_of gives them."""
        held = {
            "pooler": self.head.has_pooler,
            "scalar_mix": self.scalar_mix,
            "bilstm": self.bilstm,
            "window_lstm": self.window_lstm,
        }
        return ("encoder", *(name for name, part in held.items() if part), "classifier")

    def call(self, inputs, dropout_seed=None):
        if dropout_seed is None or self.passes == 1:
            return {"logits": self._logits(inputs, dropout_seed)}
        # As rows of one batch, whose dropout differs by place.
        twice = {name: keras.ops.concatenate([inputs[name]] * 2) for name in INPUTS}
        return dict(zip(("logits", "logits_again"), keras.ops.split(self._logits(twice, dropout_seed), 2)))

    def _logits(self, inputs, dropout_seed):
        ops, head, dropout_stem = keras.ops, self.head, backend.stem(dropout_seed)
        has_groups = head.stands_on == CHOICES or bool(head.windows)
        group_size = None
        if has_groups:
            # [B, G, S] -> [B x G, S]
            group_size = ops.shape(inputs["input_mask"])[1]
            inputs = {name: ops.reshape(inputs[name], (-1, ops.shape(inputs[name])[2])) for name in INPUTS}
        # Of the last layer the pooler reads [CLS] alone.
        cls_only = ops.zeros_like(inputs["input_mask"][:, :1]) if head.has_pooler else None
        outputs = self.encoder(
            inputs, dropout_seed=dropout_seed if self.encoder_has_dropout else None, output_positions=cls_only
        )
        if head.has_pooler:
            x = outputs["pooled_output"]
        else:
            x = self._states(outputs)
            if self.bilstm is not None:
                x = self.bilstm(self.bilstm_dropout(x, dropout_stem), inputs["input_mask"])
            if head.stands_on != TOKENS:
                x = pooled(x, inputs["input_mask"], head.pooling)
        if head.windows:
            is_there = ops.reshape(inputs["input_mask"][:, 0], (-1, group_size))
            if self.window_lstm is not None:
                x = ops.reshape(x, (-1, group_size, self.window_lstm.input_width))
                x = self.window_lstm(x, is_there)
                x = pooled(x, is_there, "max")
        logits = self.classifier(ops.cast(self.dropout(x, dropout_stem), "float32"))
        if head.windows == "logits":
            logits = pooled(ops.reshape(logits, (-1, group_size, head.num_outputs)), is_there, "mean")
        if head.stands_on == CHOICES:
            logits = ops.reshape(logits, (-1, group_size))
        return logits if (head.scale, head.offset) == (1.0, 0.0) else logits * head.scale + head.offset

    def _states(self, outputs):
        if self.scalar_mix is not None:
            return self.scalar_mix([outputs["embedding_output"], *outputs["encoder_outputs"]])
        if self.head.layers == "last_four":
            return keras.ops.concatenate(outputs["encoder_outputs"][-4:], axis=-1)
        return outputs["sequence_output"]


def pooled(x, mask, pooling):
    """One vector [B, F] of the places [B, S, F] where the mask [B, S] is 1."""
    ops = keras.ops
    if pooling == "cls":
        return x[:, 0]
    if pooling == "concat":
        return ops.concatenate([x[:, 0], pooled(x, mask, "max"), pooled(x, mask, "mean")], axis=-1)
    mask = ops.expand_dims(ops.cast(mask, x.dtype), -1)
    if pooling == "mean":
        return ops.sum(x * mask, axis=1) / ops.maximum(ops.sum(mask, axis=1), 1.0)
    # Less than any value that LayerNorm, tanh or an LSTM gives, and finite in bfloat16.
    return ops.max(x * mask + (mask - 1.0) * 1e4, axis=1)


def _bilstm(units, input_width, config, seed, dtype, name):
    """A bidirectional LSTM, built; its initial weights follow from the seed."""
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

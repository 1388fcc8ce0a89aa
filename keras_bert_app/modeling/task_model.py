"""BertTaskModel: an encoder with the output layer of a task."""

import keras

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.modeling import backend
from keras_bert_app.modeling.architectures import make_encoder
from keras_bert_app.modeling.crf import Crf
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.modeling.keras_contract import Configured, dropout_counter, registered, seed_of_call
from keras_bert_app.modeling.language_model import LanguageModelHead
from keras_bert_app.modeling.layers import Dense, Dropout, initializer, rows_at
from keras_bert_app.modeling.lstm import BiLstm
from keras_bert_app.modeling.task_head import CHOICES, TOKENS, Head
from keras_bert_app.modeling.token_features import TokenFeatures

CONTEXT_LSTM = "context_lstm"  # The name of the part that makes context vectors.
_DROPOUT_PLACE = 1_000_000  # Larger than every place number in the encoder.
_EPSILON = 1e-12  # BERT's epsilon of LayerNorm


@registered
class ScalarMix(Configured, keras.layers.Layer):
    """Computes gamma * sum of softmax(w)_i h_i over the embeddings and all layers.

    Args:
        num_layers: int. The number of the h_i.
        has_layer_norm: bool. Whether every vector of an h_i first gets the mean 0 and the variance 1 (Peters et al.
            2018, section 3.2).

    Call arguments:
        layers: list of [B, S, H]. The h_i.

    Returns:
        [B, S, H].
    """

    CONFIGURED = ("num_layers", "has_layer_norm")

    def __init__(self, num_layers: int, has_layer_norm: bool = False, **kwargs):
        super().__init__(**kwargs)
        self.num_layers, self.has_layer_norm = num_layers, has_layer_norm

    def build(self, input_shape=None):
        self.scores = self.add_weight(shape=(self.num_layers,), initializer="zeros", name="scores", autocast=False)
        self.gamma = self.add_weight(shape=(1,), initializer="ones", name="gamma", autocast=False)

    def shares(self):
        """Returns the share of each layer, [num_layers]."""
        return keras.ops.softmax(self.scores)

    def call(self, layers):
        shares = self.shares() * self.gamma
        if self.has_layer_norm:
            layers = [_normalized(layer) for layer in layers]
        return sum(keras.ops.cast(shares[i], layer.dtype) * layer for i, layer in enumerate(layers))


def _normalized(x):
    """Gives the vectors [..., H] the mean 0 and the variance 1, in float32."""
    ops = keras.ops
    wide = ops.cast(x, "float32")
    wide = wide - ops.mean(wide, axis=-1, keepdims=True)
    return ops.cast(wide * ops.rsqrt(ops.mean(ops.square(wide), axis=-1, keepdims=True) + _EPSILON), x.dtype)


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
        has_language_model: bool. Whether the model also predicts the next piece at each place, with the word embeddings
            of its encoder, which must be a GPT (Radford et al. 2018, section 3.2).
        name: str. The name of the Keras model.

    Call arguments:
        inputs: dict with the encoder's inputs, such as input_word_ids, input_mask, input_type_ids, int32 [B, S];
            [B, G, S] for a head on CHOICES or with windows. A window with a mask of zeros is absent.
        dropout_seed: int [2] for training with dropout, or None for inference.
        execution: Execution. How ops are executed.
        training: bool or None. If True and dropout_seed is None, the model draws a dropout seed from its own counter.
            Keras passes True in fit, and False in evaluate and predict.

    Returns:
        dict: logits, float32: [B, n] on TEXT, [B, G] on CHOICES, [B, S, n] on TOKENS. With two passes in training also
        logits_again, the logits of the second pass. With a conditional random field the outputs of Crf. With
        has_language_model also lm_logits, float32 [rows, S - 1, V].
    """

    CONFIGURED = ("config", "head", "seed", "encoder_has_dropout", "passes", "has_language_model")

    def __init__(
        self,
        config: BertConfig,
        head: Head,
        seed: int = 0,
        dtype: str = "float32",
        encoder_has_dropout: bool = True,
        passes: int = 1,
        has_language_model: bool = False,
        name: str = "task_model",
    ):
        super().__init__(name=name, dtype=dtype)
        self.config, self.head, self.encoder_has_dropout, self.passes = config, head, encoder_has_dropout, passes
        self.seed, self.has_language_model = seed, has_language_model
        self.has_dropout = config.has_dropout and encoder_has_dropout or head.dropout > 0
        self.encoder = make_encoder(config, seed=seed, dtype=dtype, has_pooler=head.has_pooler)
        self.dropout_counter = dropout_counter(seed) if self.has_dropout else None
        if not encoder_has_dropout:
            self.encoder.dropout_counter = None
        self._make_parts(config, head, seed, dtype)
        self.dropout, self.bilstm_dropout, self.output_dropout = (
            Dropout(head.dropout, _DROPOUT_PLACE + number) for number in (0, 1, 3)
        )
        num_outputs = 1 if head.stands_on == CHOICES else head.num_outputs
        # bfloat16 scores would have steps of 1/64 or more, so different scores could become equal.
        self.classifier = Dense(
            self.output_width, num_outputs, initializer(config, seed, "classifier"), dtype="float32", name="classifier"
        )
        self.classifier.build()
        self.language_model = None
        if has_language_model:
            self.language_model = LanguageModelHead(config, seed, dtype=dtype, name="language_model")
            self.language_model.build()
        self.built = True

    def _make_parts(self, config, head, seed, dtype):
        """Makes the layers between the encoder and the output layer. Sets output_width, the width of their outputs."""
        width = config.hidden_size * (4 if head.layers == "last_four" else 1) + 2 * head.context_units
        self.scalar_mix = self.output_mix = self.context_lstm = self.token_features = None
        self.bilstm = self.window_lstm = self.crf = None
        if head.layers == "scalar_mix":
            places = ("scalar_mix", "output_mix")[: 2 if head.states_at == "both" else 1]
            for name in places:
                mix = ScalarMix(config.num_hidden_layers + 1, head.has_layer_norm, dtype=dtype, name=name)
                mix.build()
                setattr(self, name, mix)
        if head.context_units:
            self.context_lstm = bilstm(head.context_units, config.hidden_size, config, seed, dtype, CONTEXT_LSTM)
        states_width = width
        if head.token_vector_size:
            self.token_features = TokenFeatures(
                config,
                head.token_vector_size,
                head.bilstm_units,
                head.dropout,
                _DROPOUT_PLACE + 2,
                seed,
                dtype=dtype,
                name="token_features",
            )
            self.token_features.build()
            width = 2 * head.bilstm_units + (0 if head.states_at == "output" else states_width)
        # Pooling follows a BiLSTM over tokens. An LSTM over windows reads pooled vectors.
        if head.bilstm_units:
            self.bilstm = bilstm(head.bilstm_units, width, config, seed, dtype)
            width = 2 * head.bilstm_units + (0 if head.states_at == "input" else states_width)
        width *= head.num_pooled
        if head.windows == "lstm":
            self.window_lstm = bilstm(config.hidden_size // 2, width, config, seed, dtype, "window_lstm")
            width = 2 * (config.hidden_size // 2)
        if head.has_crf:
            self.crf = Crf(head.num_outputs, name="crf")
            self.crf.build()
        self.output_width = width

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the model's parts. See interop.weights.part_of."""
        optional = {
            "pooler": self.head.has_pooler,
            "scalar_mix": self.scalar_mix,
            "output_mix": self.output_mix,
            CONTEXT_LSTM: self.context_lstm,
            "token_features": self.token_features,
            "bilstm": self.bilstm,
            "window_lstm": self.window_lstm,
        }
        last = ("classifier", "crf") if self.crf else ("classifier",)
        return ("encoder", *(name for name, part in optional.items() if part), *last)

    def call(self, inputs, dropout_seed=None, execution: Execution = PLAIN, training: bool | None = None):
        dropout_seed = seed_of_call(dropout_seed, training, self.dropout_counter)
        if dropout_seed is None or self.passes == 1:
            outputs = self._outputs(inputs, dropout_seed, execution)
            return {**outputs, **self.crf(outputs["logits"], inputs["input_mask"])} if self.crf else outputs
        # Both passes are rows of one batch. Dropout differs between rows, so the passes differ.
        twice = {name: keras.ops.concatenate([inputs[name]] * 2) for name in self.config.input_names}
        logits = keras.ops.split(self._outputs(twice, dropout_seed, execution)["logits"], 2)
        return dict(zip(("logits", "logits_again"), logits, strict=True))

    def _outputs(self, inputs, dropout_seed, execution):
        ops, head, dropout_stem = keras.ops, self.head, backend.stem(dropout_seed)
        has_groups = head.stands_on == CHOICES or bool(head.windows)
        group_size = None
        if has_groups:
            # [B, G, S] -> [B x G, S]
            group_size = ops.shape(inputs["input_mask"])[1]
            inputs = {name: _flat_rows(inputs[name]) for name in self.config.input_names}
        place = None
        if head.reads_one_place:
            place = (
                ops.zeros_like(inputs["input_mask"][:, :1]) if head.has_pooler else last_places(inputs["input_mask"])
            )
        outputs = self.encoder(
            inputs,
            dropout_seed=dropout_seed if self.encoder_has_dropout else None,
            output_positions=None if self.language_model else place,
            execution=execution,
        )
        if head.has_pooler:
            x = outputs["pooled_output"]
        elif head.reads_one_place:
            states = outputs["sequence_output"]
            x = (rows_at(states, place, execution) if self.language_model else states)[:, 0]
        else:
            x = self._states(outputs, self.scalar_mix, inputs["input_mask"], execution)
            if self.bilstm is not None:
                x = self._under_bilstm(x, outputs, inputs, dropout_stem, execution)
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
        if (head.scale, head.offset) != (1.0, 0.0):
            logits = logits * head.scale + head.offset
        if self.language_model is None:
            return {"logits": logits}
        states, table = outputs["sequence_output"][:, :-1], self.encoder.embeddings.word_table
        return {"logits": logits, "lm_logits": self.language_model(states, table, execution=execution)}

    def _under_bilstm(self, states, outputs, inputs, dropout_stem, execution):
        """The outputs of the BiLSTM, with the head's own vectors beside its input and the states where they enter."""
        mask, others, x = inputs["input_mask"], [], []
        if self.token_features is not None:
            x = [self.token_features(inputs["input_word_ids"], mask, dropout_stem, execution=execution)]
        if self.head.states_at != "output":
            x = [*x, states]
        if self.head.states_at != "input":
            mixed = states if self.output_mix is None else self._states(outputs, self.output_mix, mask, execution)
            others = [self.output_dropout(mixed, dropout_stem, execution)]
        x = self.bilstm_dropout(_side_by_side(x), dropout_stem, execution)
        return _side_by_side([self.bilstm(x, mask, execution=execution), *others])

    def _states(self, outputs, mix, mask, execution):
        states = [outputs["sequence_output"]]
        if mix is not None:
            states = [mix([outputs["embedding_output"], *outputs["encoder_outputs"]])]
        elif self.head.layers == "last_four":
            states = outputs["encoder_outputs"][-4:]
        if self.context_lstm is not None:
            states = [*states, self.context_lstm(outputs["sequence_output"], mask, execution=execution)]
        return _side_by_side(states)


def _flat_rows(values):
    """Reshapes [B, G, S, ...] to [B x G, S, ...]."""
    return keras.ops.reshape(values, (-1, *keras.ops.shape(values)[2:]))


def _side_by_side(vectors):
    """Puts vectors [B, S, ...] side by side."""
    return keras.ops.concatenate(vectors, axis=-1) if vectors[1:] else vectors[0]


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


def bilstm(
    units: int, input_width: int, config: BertConfig, seed: int, dtype: str, name: str = "bilstm", kind=BiLstm
) -> BiLstm:
    """Makes and builds a bidirectional LSTM, or another recurrent layer.

    Args:
        units: int. The units of each direction.
        input_width: int. The width of its input.
        config: BertConfig. Its initializer_range is the deviation of the initial weights.
        seed: int. The seed and the name decide the initial weights.
        dtype: str. Keras type policy.
        name: str. The name of the layer.
        kind: class of the layer, with the arguments of BiLstm.
    """
    layer = kind(
        units,
        input_width,
        initializer(config, seed, f"{name}/kernel"),
        initializer(config, seed, f"{name}/recurrent_kernel"),
        dtype=dtype,
        name=name,
    )
    layer.build()
    return layer

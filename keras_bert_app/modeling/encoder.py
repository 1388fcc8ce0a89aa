"""BertEncoder: embeddings, a stack of post-LayerNorm Transformer layers, and the pooler."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import keras

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.modeling import backend
from keras_bert_app.modeling.attention import SelfAttention
from keras_bert_app.modeling.embeddings import BertEmbeddings, column_inputs
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.modeling.keras_contract import Configured, dropout_counter, registered, seed_of_call
from keras_bert_app.modeling.layers import Dense, Dropout, LayerNorm, activation, initializer, rows_at
from keras_bert_app.modeling.mask_scores import mask_scores

_DROPOUTS_PER_LAYER = 3


@registered
class TransformerLayer(Configured, keras.layers.Layer):
    """Self-attention and a feed-forward part, each followed by dropout, residual sum and LayerNorm.

    Args:
        config: BertConfig. The configuration of the model.
        seed: int. The seed of the initial weights.
        first_dropout_place: int. The number of the layer's first dropout. The layer also uses the next two numbers.
        num_heads: int. N of this layer.

    Call arguments:
        x: [B, S, H].
        mask_scores: [B, 1, 1 or S, S].
        dropout_stem: backend.stem of the step's seed, or None for inference.
        positions: int32 [B, P]. The places whose output is needed. mask_scores then belongs to these places. None for
            all places.
        execution: Execution. How ops are executed.

    Returns:
        (output [B, S or P, H], attention probabilities [B, N, S or P, S]).
    """

    CONFIGURED = ("config", "seed", "first_dropout_place", "num_heads")

    def __init__(self, config: BertConfig, seed: int | str, first_dropout_place: int, num_heads: int, **kwargs):
        super().__init__(**kwargs)
        self.config, self.seed = config, seed
        self.first_dropout_place, self.num_heads = first_dropout_place, num_heads

        def dense(name, input_size, output_size, function=None):
            return Dense(
                input_size,
                output_size,
                initializer(config, seed, f"{self.name}/{name}"),
                function,
                dtype=self.dtype_policy,
                name=name,
            )

        def layer_norm(name):
            return LayerNorm(config.hidden_size, config.layer_norm_eps, dtype=self.dtype_policy, name=name)

        self.attention = SelfAttention(
            config, f"{seed}/{self.name}", first_dropout_place, num_heads, dtype=self.dtype_policy, name="attention"
        )
        self.attention_dropout = Dropout(config.hidden_dropout_prob, first_dropout_place + 1)
        self.attention_layer_norm = layer_norm("attention_layer_norm")
        self.intermediate = dense(
            "intermediate", config.hidden_size, config.intermediate_size, activation(config.hidden_act)
        )
        self.output_projection = dense("output", config.intermediate_size, config.hidden_size)
        self.output_dropout = Dropout(config.hidden_dropout_prob, first_dropout_place + 2)
        self.output_layer_norm = layer_norm("output_layer_norm")

    def build(self, input_shape=None):
        for part in (
            self.attention,
            self.attention_layer_norm,
            self.intermediate,
            self.output_projection,
            self.output_layer_norm,
        ):
            part.build()

    def call(self, x, mask_scores, dropout_stem=None, positions=None, execution: Execution = PLAIN):
        attending = None if positions is None else rows_at(x, positions, execution)
        context, probabilities = self.attention(x, mask_scores, dropout_stem, attending, execution=execution)
        x = self.after_attention(x if attending is None else attending, context, dropout_stem, execution)
        return self.feed_forward(x, dropout_stem, execution), probabilities

    def after_attention(self, x, context, dropout_stem=None, execution: Execution = PLAIN):
        """Computes LayerNorm(x + dropout(projection of the attention's context)).

        Args:
            x: [B, S, H]. The input of the layer.
            context: [B, S, N x D]. The result of the attention.
            dropout_stem: backend.stem of the step's seed, or None for inference.
            execution: Execution. How ops are executed.

        Returns:
            [B, S, H].
        """
        projection = self.attention.output_projection
        return _added(
            self.attention_layer_norm, x, projection, context, self.attention_dropout, dropout_stem, execution
        )

    def feed_forward(self, x, dropout_stem=None, execution: Execution = PLAIN):
        """Computes the second half of the layer: LayerNorm(x + dropout(feed-forward part of x)).

        Args:
            x: [B, S, H]. The output of the first half.
            dropout_stem: backend.stem of the step's seed, or None for inference.
            execution: Execution. How ops are executed.

        Returns:
            [B, S, H].
        """
        values = self.intermediate(x, execution=execution)
        return _added(
            self.output_layer_norm, x, self.output_projection, values, self.output_dropout, dropout_stem, execution
        )


def _added(layer_norm, x, projection, values, dropout, dropout_stem, execution):
    product = projection.product(values, execution)
    return layer_norm.normalized_residual(x, product, projection.bias, dropout, dropout_stem, execution)


@registered
class BertEncoder(Configured, keras.Model):
    """The BERT encoder (Devlin et al. 2018).

    The constructor creates the weights from config and seed.

    Args:
        config: BertConfig. The configuration of the model.
        seed: int. The seed of the initial weights.
        dtype: str. Keras type policy, "float32" or "mixed_bfloat16".
        has_pooler: bool. Whether the encoder has a pooler and returns pooled_output. Some published encoders have none.
        name: str. The name of the Keras model.

    Call arguments:
        inputs: dict with input_word_ids, input_mask, input_type_ids, int32 [B, S], and the inputs of the
            configuration's channels and positions (pipelines.wordpiece.token_columns). The encoder ignores other keys.
        dropout_seed: int [2] for training with dropout, or None for inference.
        return_attention_scores: bool. Whether to return the attention probabilities too.
        output_positions: int32 [B, P]. The places for which the last layer computes its output. For other places the
            last layer computes key and value only. The first place must be 0, the place of [CLS], because
            pooled_output reads it. None for all places.
        execution: Execution. How ops are executed.
        training: bool or None. If True and dropout_seed is None, the model draws a dropout seed from its own counter.
            Keras passes True in fit, and False in evaluate and predict.

    Returns:
        dict: sequence_output [B, S, H] (the last layer); pooled_output [B, H] (tanh of a dense layer on [CLS]);
        encoder_outputs, every layer's output; embedding_output [B, S, H]; with return_attention_scores also
        attention_scores, every layer's probabilities [B, N, S, S]. With output_positions, sequence_output and the other
        outputs of the last layer have P instead of their first S.

    Example:
        encoder = BertEncoder(BertConfig.of_size("tiny"))
        ids = np.array([[101, 7592, 102]])
        encoder({"input_word_ids": ids, "input_mask": ids * 0 + 1, "input_type_ids": ids * 0})["pooled_output"]
    """

    CONFIGURED = ("config", "seed", "has_pooler")

    def __init__(
        self,
        config: BertConfig,
        seed: int = 0,
        dtype: str = "float32",
        has_pooler: bool = True,
        name: str = "encoder",
    ):
        super().__init__(name=name, dtype=dtype)
        self.config, self.seed, self.has_pooler = config, seed, has_pooler
        self.dropout_counter = dropout_counter(seed) if config.has_dropout else None
        self.embeddings = BertEmbeddings(config, seed, dropout_place=0, dtype=dtype, name="embeddings")
        self.transformer_layers = [
            TransformerLayer(config, seed, 1 + _DROPOUTS_PER_LAYER * i, num_heads, dtype=dtype, name=f"layer_{i}")
            for i, num_heads in enumerate(config.head_counts)
        ]
        self.pooler = (
            Dense(
                config.hidden_size, config.hidden_size, initializer(config, seed, "pooler"), dtype=dtype, name="pooler"
            )
            if has_pooler
            else None
        )
        self.build()

    def build(self, input_shape=None):
        if not self.built:
            for part in (self.embeddings, *self.transformer_layers, *([self.pooler] if self.pooler else [])):
                part.build()
            self.built = True

    def call(
        self,
        inputs,
        dropout_seed=None,
        return_attention_scores: bool = False,
        output_positions=None,
        execution: Execution = PLAIN,
        training: bool | None = None,
    ):
        dropout_seed = seed_of_call(dropout_seed, training, self.dropout_counter)
        mask, is_causal, dropout_stem = inputs["input_mask"], self.config.is_causal, backend.stem(dropout_seed)
        scores = mask_scores(mask, is_causal)
        embedding_output = self.embeddings(
            inputs["input_word_ids"],
            inputs["input_type_ids"],
            dropout_stem,
            **column_inputs(inputs, self.config),
            execution=execution,
        )
        x, encoder_outputs, attention_scores = embedding_output, [], []
        for layer in self.transformer_layers:
            positions = output_positions if layer is self.transformer_layers[-1] else None
            if positions is not None:
                scores = mask_scores(mask, is_causal, positions)
            x, probabilities = layer(x, scores, dropout_stem, positions, execution=execution)
            encoder_outputs.append(x)
            attention_scores.append(probabilities)
        if output_positions is not None and not self.transformer_layers:
            x = rows_at(x, output_positions, execution)
        outputs = {"sequence_output": x, "encoder_outputs": encoder_outputs, "embedding_output": embedding_output}
        if self.pooler:
            outputs["pooled_output"] = keras.ops.tanh(self.pooler(x[:, 0], execution=execution))
        if return_attention_scores:
            outputs["attention_scores"] = attention_scores
        return outputs


@contextlib.contextmanager
def gated_heads(encoder: BertEncoder, gates: Iterable[Any]) -> Iterator[None]:
    """Multiplies the outputs of an encoder's heads by gates within the block.

    The encoder may be part of any model. A tf.function that is traced in the block keeps the gates. A tf.function that
    was traced before has no gates.

    Args:
        encoder: BertEncoder. The encoder whose heads get gates.
        gates: iterable of tensors or variables, one for each layer: [N], or [B, N] for other gates in each row.
    """
    for layer, layer_gates in zip(encoder.transformer_layers, gates, strict=True):
        layer.attention.head_gates = layer_gates
    try:
        yield
    finally:
        for layer in encoder.transformer_layers:
            layer.attention.head_gates = None

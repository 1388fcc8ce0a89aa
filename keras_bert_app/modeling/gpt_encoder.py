"""GptEncoder: a stack of Transformer layers that read from left to right, with LayerNorm before each sub-layer."""

from typing import Any

import keras

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.modeling import backend
from keras_bert_app.modeling.embeddings import check_length
from keras_bert_app.modeling.encoder import TransformerLayer
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.modeling.keras_contract import Configured, dropout_counter, registered, seed_of_call
from keras_bert_app.modeling.layers import Dropout, LayerNorm, dropped, initializer, rows_at, with_bias
from keras_bert_app.modeling.mask_scores import mask_scores

_DROPOUTS_PER_LAYER = 3


@registered
class GptEmbeddings(Configured, keras.layers.Layer):
    """Adds rows of two learned tables, for pieces and for positions, and applies dropout.

    Args:
        config: BertConfig. The configuration of the model.
        seed: int. The seed of the initial weights.
        dropout_place: int. The number of this layer's dropout.

    Call arguments:
        input_word_ids: int32 [B, S]. S is at most max_position_embeddings.
        dropout_stem: backend.stem of the step's seed, or None for inference.
        positions: int32 [S]. The positions of the pieces; None for 0 to S - 1.
        execution: Execution. How ops are executed.

    Returns:
        [B, S, H].
    """

    CONFIGURED = ("config", "seed", "dropout_place")

    def __init__(self, config: BertConfig, seed: int, dropout_place: int, **kwargs):
        super().__init__(**kwargs)
        self.config, self.seed, self.dropout_place = config, seed, dropout_place
        self.dropout = Dropout(config.hidden_dropout_prob, dropout_place)

    def build(self, input_shape=None):
        self.word_table, self.position_table = (
            # Without autocast only the rows that a step reads are cast, not the whole table.
            self.add_weight(
                shape=(size, self.config.hidden_size),
                name=name,
                autocast=False,
                initializer=initializer(self.config, self.seed, name),
            )
            for name, size in (
                ("word_embeddings", self.config.vocab_size),
                ("position_embeddings", self.config.max_position_embeddings),
            )
        )

    def call(self, input_word_ids, dropout_stem=None, positions=None, execution: Execution = PLAIN):
        check_length(input_word_ids, self.config)
        gather = backend.rows_in_order if execution.is_deterministic else backend.rows
        words = gather(self.word_table, input_word_ids)
        if positions is None:
            positions = self.position_table[: keras.ops.shape(input_word_ids)[1]]
        else:
            positions = backend.rows(self.position_table, positions)
        return execution.fused(
            _dropped_sum,
            words,
            positions,
            self.dropout.seed(dropout_stem),
            rate=self.dropout.rate,
            dtype=self.compute_dtype,
        )


def _dropped_sum(words, positions, seed, *, rate, dtype, execution):
    return dropped(keras.ops.cast(words + positions, dtype), seed, rate, execution)


@registered
class PreNormLayer(TransformerLayer):
    """A Transformer layer with LayerNorm before self-attention and before the feed-forward part.

    The source is Radford et al. 2019 (GPT-2), section 2.3. Arguments, variables and results are those of
    TransformerLayer.
    """

    def call(self, x, mask_scores, dropout_stem=None, positions=None, execution: Execution = PLAIN):
        normalized = self.attention_layer_norm(x, execution=execution)
        attending = None if positions is None else rows_at(normalized, positions, execution)
        context, probabilities = self.attention(normalized, mask_scores, dropout_stem, attending, execution=execution)
        if positions is not None:
            x = rows_at(x, positions, execution)
        return self._ended(x, context, dropout_stem, execution), probabilities

    def step(self, x, keys, values, place, execution: Execution = PLAIN):
        """Computes one place. The keys and values of the earlier places are known.

        Args:
            x: [R, 1, H]. The vectors of the place.
            keys: see SelfAttention.step.
            values: see SelfAttention.step.
            place: int32 scalar. The number of the place.
            execution: Execution. How ops are executed.

        Returns:
            (output [R, 1, H], keys, values).
        """
        normalized = self.attention_layer_norm(x, execution=execution)
        context, keys, values = self.attention.step(normalized, keys, values, place, execution)
        return self._ended(x, context, None, execution), keys, values

    def _ended(self, x, context, dropout_stem, execution):
        """Adds the attention's result and the feed-forward part to x."""
        x = _plus(x, self.attention.output_projection, context, self.attention_dropout, dropout_stem, execution)
        values = self.intermediate(self.output_layer_norm(x, execution=execution), execution=execution)
        return _plus(x, self.output_projection, values, self.output_dropout, dropout_stem, execution)


def _plus(x, projection, values, dropout, dropout_stem, execution):
    """Computes x + dropout(projection of values)."""
    shape, product = keras.ops.shape(x), projection.product(values, execution)
    x = keras.ops.reshape(x, keras.ops.shape(product))
    x = execution.fused(_residual_sum, x, product, projection.bias, dropout.seed(dropout_stem), rate=dropout.rate)
    return keras.ops.reshape(x, shape)


def _residual_sum(x, product, bias, seed, *, rate, execution):
    values = with_bias(execution.widened(product), bias, execution)
    return keras.ops.cast(execution.widened(x) + dropped(values, seed, rate, execution), x.dtype)


@registered
class GptEncoder(Configured, keras.Model):
    """The Transformer of GPT-2 (Radford et al. 2019) without its output layer.

    A place sees itself and earlier places only. There are no segments: the model does not read input_type_ids. All
    kernels start with the deviation initializer_range. The paper makes those before a residual sum smaller.

    Args:
        config: BertConfig. The configuration of the model. Its architecture is "gpt".
        seed: int. The seed of the initial weights.
        dtype: str. Keras type policy, "float32" or "mixed_bfloat16".
        has_pooler: bool. Must be False. No GPT has BERT's pooler.
        name: str. The name of the Keras model.

    Call arguments:
        As those of BertEncoder. With output_positions any position may be the first.

    Returns:
        dict: sequence_output [B, S, H], the last layer's output after the final LayerNorm; encoder_outputs, every
        layer's output, the last one after the final LayerNorm; embedding_output [B, S, H]; with
        return_attention_scores also attention_scores, every layer's probabilities [B, N, S, S]. With output_positions,
        sequence_output and the other outputs of the last layer have P instead of their first S.

    Raises:
        ValueError: has_pooler is True.
    """

    CONFIGURED = ("config", "seed", "has_pooler")

    def __init__(
        self,
        config: BertConfig,
        seed: int = 0,
        dtype: str = "float32",
        has_pooler: bool = False,
        name: str = "encoder",
    ):
        if has_pooler:
            raise ValueError("has_pooler is True; a GPT has no pooler, so give False")
        super().__init__(name=name, dtype=dtype)
        self.config, self.seed, self.has_pooler = config, seed, has_pooler
        self.pooler = None
        self.dropout_counter = dropout_counter(seed) if config.has_dropout else None
        self.embeddings = GptEmbeddings(config, seed, dropout_place=0, dtype=dtype, name="embeddings")
        self.transformer_layers = [
            PreNormLayer(config, seed, 1 + _DROPOUTS_PER_LAYER * i, num_heads, dtype=dtype, name=f"layer_{i}")
            for i, num_heads in enumerate(config.head_counts)
        ]
        self.final_layer_norm = LayerNorm(
            config.hidden_size, config.layer_norm_eps, dtype=dtype, name="final_layer_norm"
        )
        self.build()

    def build(self, input_shape=None):
        if not self.built:
            for part in (self.embeddings, *self.transformer_layers, self.final_layer_norm):
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
        mask, dropout_stem = inputs["input_mask"], backend.stem(dropout_seed)
        scores = mask_scores(mask, is_causal=True)
        embedding_output = self.embeddings(inputs["input_word_ids"], dropout_stem, execution=execution)
        x, encoder_outputs, attention_scores = embedding_output, [], []
        for layer in self.transformer_layers:
            positions = output_positions if layer is self.transformer_layers[-1] else None
            if positions is not None:
                scores = mask_scores(mask, is_causal=True, positions=positions)
            x, probabilities = layer(x, scores, dropout_stem, positions, execution=execution)
            encoder_outputs.append(x)
            attention_scores.append(probabilities)
        if output_positions is not None and not self.transformer_layers:
            x = rows_at(x, output_positions, execution)
        x = self.final_layer_norm(x, execution=execution)
        outputs = {
            "sequence_output": x,
            "encoder_outputs": [*encoder_outputs[:-1], x] if encoder_outputs else [],
            "embedding_output": embedding_output,
        }
        if return_attention_scores:
            outputs["attention_scores"] = attention_scores
        return outputs

    def start(self, input_word_ids, length: int, first_place=0, execution: Execution = PLAIN) -> list:
        """Reads the first places in one pass, and makes the cache for decoding the others place by place.

        Args:
            input_word_ids: int32 [R, S]. The pieces of the first S places. `step` overwrites a place that it reads
                again, and no place reads later ones. So the last pieces of a row may be padding.
            length: int. T, the number of places.
            first_place: int32 scalar. The first place that `step` reads. A GPT does not need it.
            execution: Execution. How ops are executed.

        Returns:
            list with the (keys, values) of each layer. See SelfAttention.filled_cache.
        """
        del first_place
        x, cache = self.embeddings(input_word_ids, execution=execution), []
        scores = mask_scores(keras.ops.ones_like(input_word_ids), is_causal=True)
        for layer in self.transformer_layers:
            normalized = layer.attention_layer_norm(x, execution=execution)
            cache.append(layer.attention.filled_cache(normalized, length, execution))
            x, _ = layer(x, scores, execution=execution)
        return cache

    def step(self, ids, place, cache: list, execution: Execution = PLAIN) -> tuple[Any, list]:
        """Computes one place.

        Args:
            ids: int32 [R]. The piece at the place.
            place: int32 scalar. The number of the place.
            cache: the result of start, or of the step before.
            execution: Execution. How ops are executed.

        Returns:
            (sequence_output of the place [R, 1, H], cache).
        """
        ops = keras.ops
        x = self.embeddings(ops.expand_dims(ids, 1), positions=ops.reshape(place, (1,)), execution=execution)
        new_cache = []
        for layer, (keys, values) in zip(self.transformer_layers, cache, strict=True):
            x, keys, values = layer.step(x, keys, values, place, execution)
            new_cache.append((keys, values))
        return self.final_layer_norm(x, execution=execution), new_cache

"""TransformerDecoder: a stack of layers that attend to earlier places and to an encoder's states."""

from collections.abc import Sequence

import keras

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.modeling import backend
from keras_bert_app.modeling.cross_attention import CrossAttention
from keras_bert_app.modeling.embeddings import BertEmbeddings
from keras_bert_app.modeling.encoder import TransformerLayer
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.modeling.keras_contract import Configured, registered
from keras_bert_app.modeling.layers import Dropout, LayerNorm
from keras_bert_app.modeling.mask_scores import mask_scores

_FIRST_DROPOUT_PLACE = 1_000  # above the numbers of the encoder, whose layers a decoder can share
_DROPOUTS_PER_LAYER = 5  # three of the Transformer layer, two of the attention to the encoder
# The parts of a Transformer layer that a decoder layer can share with an encoder layer.
_SHARED_PARTS = ("attention", "attention_layer_norm", "intermediate", "output_projection", "output_layer_norm")


@registered
class DecoderLayer(TransformerLayer):
    """A Transformer layer with attention to an encoder between its two halves (Vaswani et al. 2017, section 3.1).

    Every part is followed by dropout, residual sum and LayerNorm, as in BERT. So a decoder layer can start from the
    weights of a BERT layer. Only its attention to the encoder is then new (Rothe et al. 2020, section 2).

    Args:
        config: BertConfig. The configuration of the decoder.
        seed: int or str. The seed of the initial weights.
        first_dropout_place: int. The number of the layer's first dropout. The layer also uses the next four numbers.
        shared: TransformerLayer or None. The encoder layer whose weights this layer uses too; None for own weights.

    Call arguments:
        x: [B, T, H].
        mask_scores: [B, 1, T, T]. See SelfAttention.
        keys_and_values: the result of cross_attention.project.
        state_mask_scores: [B, 1, 1, S]. See CrossAttention.
        dropout_stem: backend.stem of the step's seed, or None for inference.
        execution: Execution. How ops are executed.

    Returns:
        (output [B, T, H], probabilities of the attention to the encoder [B, N, T, S]).
    """

    CONFIGURED = ("config", "seed", "first_dropout_place")

    def __init__(
        self,
        config: BertConfig,
        seed: int | str,
        first_dropout_place: int,
        shared: TransformerLayer | None = None,
        **kwargs,
    ):
        super().__init__(config, seed, first_dropout_place, config.num_attention_heads, **kwargs)
        for name in _SHARED_PARTS if shared is not None else ():
            delattr(self, name)  # setattr alone would leave the old layer in Keras's list of layers
            setattr(self, name, getattr(shared, name))
        self.cross_attention = CrossAttention(
            config, f"{seed}/{self.name}", first_dropout_place + 3, dtype=self.dtype_policy, name="cross_attention"
        )
        self.cross_attention_dropout = Dropout(config.hidden_dropout_prob, first_dropout_place + 4)
        self.cross_attention_layer_norm = LayerNorm(
            config.hidden_size, config.layer_norm_eps, dtype=self.dtype_policy, name="cross_attention_layer_norm"
        )

    def build(self, input_shape=None):
        if not self.attention.query_key_value.built:
            super().build()
        self.cross_attention.build()
        self.cross_attention_layer_norm.build()

    def call(
        self,
        x,
        mask_scores,
        keys_and_values,
        state_mask_scores,
        dropout_stem=None,
        execution: Execution = PLAIN,
    ):
        context, _ = self.attention(x, mask_scores, dropout_stem, execution=execution)
        x = self.after_attention(x, context, dropout_stem, execution)
        context, probabilities = self.cross_attention(
            x, keys_and_values, state_mask_scores, dropout_stem, execution=execution
        )
        return self._after_cross_attention(x, context, dropout_stem, execution), probabilities

    def step(self, x, keys, values, place, keys_and_values, is_hidden, execution: Execution = PLAIN):
        """Computes one place. The keys and values of the earlier places are known.

        Args:
            x: [B x K, 1, H]. The vectors of the place, for the K beams of each text.
            keys: see SelfAttention.step.
            values: see SelfAttention.step.
            place: int32 scalar. The number of the place.
            keys_and_values: the result of cross_attention.project.
            is_hidden: bool [B, 1, 1, S]. Whether a state is masked.
            execution: Execution. How ops are executed.

        Returns:
            (output [B x K, 1, H], keys, values, probabilities of the attention to the encoder [B x K, N, 1, S]).
        """
        context, keys, values = self.attention.step(x, keys, values, place, execution)
        x = self.after_attention(x, context, None, execution)
        context, probabilities = self.cross_attention.step(x, keys_and_values, is_hidden, execution)
        return self._after_cross_attention(x, context, None, execution), keys, values, probabilities

    def _after_cross_attention(self, x, context, dropout_stem, execution):
        projection = self.cross_attention.output_projection
        x = self.cross_attention_layer_norm.normalized_residual(
            x,
            projection.product(context, execution),
            projection.bias,
            self.cross_attention_dropout,
            dropout_stem,
            execution,
        )
        return self.feed_forward(x, dropout_stem, execution)


@registered
class TransformerDecoder(Configured, keras.Model):
    """The decoder of the Transformer (Vaswani et al. 2017), with BERT's embeddings and layers.

    Args:
        config: BertConfig. The configuration of the decoder. Its hidden_size is that of the encoder.
        seed: int or str. The seed of the initial weights.
        dtype: str. Keras type policy.
        embeddings: BertEmbeddings or None. The embeddings of the encoder, which the decoder uses too; None for its own.
        shared_layers: sequence of TransformerLayer. The encoder layers whose weights the decoder uses too, one for
            each layer of the decoder; () for own weights.
        name: str. The name of the Keras model.

    Call arguments:
        target_ids: int32 [B, T]. The pieces before each place: [CLS] and the target without its last piece.
        target_mask: int32 [B, T]. 1 for a piece, 0 for padding.
        states: [B, S, H]. The states of the encoder.
        input_mask: int32 [B, S]. 1 for a piece of the source, 0 for padding.
        dropout_stem: backend.stem of a seed, or None for inference.
        execution: Execution. How ops are executed.

    Returns:
        (states of the decoder [B, T, H], list of every layer's attention to the encoder [B, N, T, S]).
    """

    CONFIGURED = ("config", "seed")

    def __init__(
        self,
        config: BertConfig,
        seed: int | str = 0,
        dtype: str = "float32",
        embeddings: BertEmbeddings | None = None,
        shared_layers: Sequence[TransformerLayer] = (),
        name: str = "decoder",
    ):
        super().__init__(name=name, dtype=dtype)
        self.config, self.seed = config, seed
        self.embeddings = embeddings or BertEmbeddings(config, seed, dropout_place=0, dtype=dtype, name="embeddings")
        shared_layers = list(shared_layers) or [None] * config.num_hidden_layers
        self.decoder_layers = [
            DecoderLayer(
                config,
                seed,
                _FIRST_DROPOUT_PLACE + _DROPOUTS_PER_LAYER * index,
                shared,
                dtype=dtype,
                name=f"layer_{index}",
            )
            for index, shared in enumerate(shared_layers)
        ]
        self.build()

    def build(self, input_shape=None):
        if not self.built:
            if not self.embeddings.layer_norm.built:
                self.embeddings.build()
            for layer in self.decoder_layers:
                layer.build()
            self.built = True

    @property
    def word_table(self):
        """The embeddings of the pieces, [V, H]."""
        return self.embeddings.word_table

    def call(self, target_ids, target_mask, states, input_mask, dropout_stem=None, execution: Execution = PLAIN):
        ops = keras.ops
        x = self.embeddings(target_ids, ops.zeros_like(target_ids), dropout_stem, execution=execution)
        scores, source_scores, attention_scores = mask_scores(target_mask, is_causal=True), mask_scores(input_mask), []
        for layer in self.decoder_layers:
            keys_and_values = layer.cross_attention.project(states, execution)
            x, probabilities = layer(x, scores, keys_and_values, source_scores, dropout_stem, execution=execution)
            attention_scores.append(probabilities)
        return x, attention_scores

    def start(self, states, input_mask, length: int, execution: Execution = PLAIN, num_beams: int = 1):
        """Prepares decoding place by place.

        Args:
            states: [B, S, H]. The states of the encoder.
            input_mask: int32 [B, S].
            length: int. T, the number of places.
            execution: Execution. How ops are executed.
            num_beams: int. K, the beams of each text.

        Returns:
            (cache, read_by_all). The cache is a list with (keys, values), [B x K, N, T, D] each, for each layer. All
            places and all beams of a text read read_by_all: (keys and values of the encoder's states for each layer,
            mask).
        """
        num_rows = keras.ops.shape(states)[0] * num_beams
        cache = [layer.attention.empty_cache(num_rows, length, execution) for layer in self.decoder_layers]
        projected = [layer.cross_attention.project(states, execution) for layer in self.decoder_layers]
        is_hidden = keras.ops.expand_dims(input_mask, (1, 2)) == 0
        return cache, (projected, is_hidden)

    def step(self, ids, place, cache, read_by_all, execution: Execution = PLAIN):
        """Computes one place.

        Args:
            ids: int32 [B x K]. The piece before the place.
            place: int32 scalar. The number of the place.
            cache: list of (keys, values). See start.
            read_by_all: see start.
            execution: Execution. How ops are executed.

        Returns:
            (states of the decoder [B x K, 1, H], cache, attention of the last layer to the encoder [B x K, N, S]).
        """
        ops = keras.ops
        projected, is_hidden = read_by_all
        ids = ops.expand_dims(ids, 1)
        x = self.embeddings(ids, ops.zeros_like(ids), positions=ops.reshape(place, (1,)), execution=execution)
        new_cache = []
        for layer, (keys, values), keys_and_values in zip(self.decoder_layers, cache, projected, strict=True):
            x, keys, values, probabilities = layer.step(x, keys, values, place, keys_and_values, is_hidden, execution)
            new_cache.append((keys, values))
        return x, new_cache, probabilities[:, :, 0]


def decoder_stem(dropout_seed):
    """Computes the stem of a decoder's dropout, so that its masks differ from the masks of the encoder.

    Args:
        dropout_seed: int [2]. The seed of the step, or None for inference.

    Returns:
        int32 scalar, or None.
    """
    return None if dropout_seed is None else backend.stem(backend.fold_in(dropout_seed, 1))

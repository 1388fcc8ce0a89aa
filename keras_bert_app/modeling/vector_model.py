"""VectorModel: an encoder whose pooled states are the vectors of texts."""

import dataclasses

import keras

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.modeling import backend
from keras_bert_app.modeling.architectures import make_encoder
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.modeling.heads import MaskedLMHead
from keras_bert_app.modeling.keras_contract import Configured, Described, dropout_counter, registered, seed_of_call
from keras_bert_app.modeling.task_model import pooled
from keras_bert_app.modeling.transformer_decoder import TransformerDecoder, decoder_stem

VECTORS = "vectors"
_OTHERS = 2  # gives the dropout of all texts but the first a seed of its own; 1 is the decoder's


@registered
@dataclasses.dataclass(frozen=True)
class VectorHead(Described):
    """The description of the way from a text's states to its vector.

    Attributes:
        vector_pooling: str. "mean" or "max" of all places, with [CLS] and [SEP], or "cls" for the state of [CLS].
    """

    vector_pooling: str = "mean"

    # Constants that every head of a task has; see modeling.task_head.Head.
    stands_on = VECTORS
    has_pooler = False
    is_plain = False


@registered
class VectorModel(Configured, keras.Model):
    """An encoder that gives texts vectors of length 1.

    Args:
        config: BertConfig. The configuration of the encoder.
        head: VectorHead. The pooling.
        seed: int. The seed of the initial weights.
        dtype: str. Keras type policy. The vectors are always float32.
        encoder_has_dropout: bool. False for an encoder that is not trained.
        has_decoder: bool. Whether a decoder with the weights of the encoder's layers also rebuilds a text from its
            vector, for training (Wang et al. 2021, TSDAE). Its attention to the vector has weights of its own.
        name: str. The name of the Keras model.

    Call arguments:
        inputs: dict with the encoder's inputs, such as input_word_ids, input_mask, input_type_ids, int32 [B, G, S] for
            G texts of each example. A text with a mask of zeros is absent. With a decoder and G = 1 it may have
            target_word_ids, int32 [B, T + 1]: [CLS], the pieces that the decoder learns to write, [SEP], then zeros.
            If the first texts are short, such as queries, input_first_places of any type and the shape [B, 1, F] says
            that they have at most F tokens. They then go through the encoder in rows of F places.
        dropout_seed: int [2] for training with dropout, or None for inference.
        execution: Execution. How ops are executed.
        training: bool or None. If True and dropout_seed is None, the model draws a dropout seed from its own counter.

    Returns:
        dict: vectors, float32 [B, G, H] of length 1. The vector of an absent text has no meaning. With target_word_ids
        also logits, float32 [B, T, V], which predict the pieces target_word_ids[:, 1:].
    """

    CONFIGURED = ("config", "head", "seed", "encoder_has_dropout", "has_decoder")

    def __init__(
        self,
        config: BertConfig,
        head: VectorHead,
        seed: int = 0,
        dtype: str = "float32",
        encoder_has_dropout: bool = True,
        has_decoder: bool = False,
        name: str = "vector_model",
    ):
        super().__init__(name=name, dtype=dtype)
        self.config, self.head, self.seed, self.encoder_has_dropout = config, head, seed, encoder_has_dropout
        self.has_decoder = has_decoder
        # Words are deleted with the seed of dropout, so a model with a decoder always needs one.
        self.has_dropout = config.has_dropout and encoder_has_dropout or has_decoder
        self.encoder = make_encoder(config, seed=seed, dtype=dtype, has_pooler=False)
        self.decoder = self.output_head = None
        if has_decoder:
            self.decoder = TransformerDecoder(
                config,
                f"{seed}/decoder",
                dtype=dtype,
                embeddings=self.encoder.embeddings,
                shared_layers=self.encoder.transformer_layers,
            )
            self.output_head = MaskedLMHead(config, seed, dtype=dtype, name="masked_lm")
            self.output_head.build()
        self.dropout_counter = dropout_counter(seed) if self.has_dropout else None
        if not encoder_has_dropout:
            self.encoder.dropout_counter = None
        self.built = True

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the model's parts. See interop.weights.part_of."""
        return ("encoder", *(("decoder", "masked_lm") if self.has_decoder else ()))

    def call(self, inputs, dropout_seed=None, execution: Execution = PLAIN, training: bool | None = None):
        ops = keras.ops
        dropout_seed = seed_of_call(dropout_seed, training, self.dropout_counter)
        texts = {name: inputs[name] for name in self.config.input_names}
        if "input_first_places" in inputs:
            most = ops.shape(inputs["input_first_places"])[2]
            first = {name: values[:, :1, :most] for name, values in texts.items()}
            others = {name: values[:, 1:] for name, values in texts.items()}
            other_seed = None if dropout_seed is None else backend.fold_in(dropout_seed, _OTHERS)
            parts = self._vectors(first, dropout_seed, execution), self._vectors(others, other_seed, execution)
            return {"vectors": ops.concatenate(parts, axis=1)}
        outputs = {"vectors": self._vectors(texts, dropout_seed, execution)}
        if self.has_decoder and "target_word_ids" in inputs:
            target_ids = inputs["target_word_ids"][:, :-1]
            outputs["logits"] = self._logits(outputs["vectors"][:, 0], target_ids, dropout_seed, execution)
        return outputs

    def _vectors(self, texts, dropout_seed, execution):
        """The vectors of texts [B, G, S], float32 [B, G, H]."""
        ops = keras.ops
        group_size = ops.shape(texts["input_mask"])[1]
        # [B, G, S] -> [B x G, S]
        rows = {name: ops.reshape(values, (-1, *ops.shape(values)[2:])) for name, values in texts.items()}
        mask, pooling = rows["input_mask"], self.head.vector_pooling
        places = ops.zeros_like(mask[:, :1]) if pooling == "cls" else None
        outputs = self.encoder(
            rows,
            dropout_seed=dropout_seed if self.encoder_has_dropout else None,
            output_positions=places,
            execution=execution,
        )
        states = ops.cast(outputs["sequence_output"], "float32")
        vectors = pooled(states, mask, pooling)
        lengths = ops.sqrt(ops.maximum(ops.sum(ops.square(vectors), axis=-1, keepdims=True), 1e-24))
        return ops.reshape(vectors / lengths, (-1, group_size, self.config.hidden_size))

    def _logits(self, vectors, target_ids, dropout_seed, execution):
        """The logits of the pieces after target_ids [B, T], from vectors [B, H] of length 1."""
        ops = keras.ops
        # The decoder reads the vector as a state, whose numbers have the size of those of other states. The state
        # stands twice, because Keras warns of attention to a single state. This does not change what the decoder reads.
        state = ops.cast(ops.expand_dims(vectors, 1) * self.config.hidden_size**0.5, self.compute_dtype)
        x, _ = self.decoder(
            target_ids,
            ops.cast(target_ids > 0, "int32"),
            ops.repeat(state, 2, axis=1),
            ops.ones_like(vectors[:, :2], dtype="int32"),
            decoder_stem(dropout_seed),
            execution=execution,
        )
        return self.output_head(x, backend.tensor(self.decoder.word_table), execution=execution)

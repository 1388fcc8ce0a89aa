"""VectorModel: an encoder whose pooled states are the vectors of texts."""

import dataclasses

import keras

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.modeling.architectures import make_encoder
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.modeling.keras_contract import Configured, Described, dropout_counter, registered, seed_of_call
from keras_bert_app.modeling.task_model import pooled

VECTORS = "vectors"


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
        name: str. The name of the Keras model.

    Call arguments:
        inputs: dict with the encoder's inputs, such as input_word_ids, input_mask, input_type_ids, int32 [B, G, S] for
            G texts of each example. A text with a mask of zeros is absent.
        dropout_seed: int [2] for training with dropout, or None for inference.
        execution: Execution. How ops are executed.
        training: bool or None. If True and dropout_seed is None, the model draws a dropout seed from its own counter.

    Returns:
        dict: vectors, float32 [B, G, H] of length 1. The vector of an absent text has no meaning.
    """

    CONFIGURED = ("config", "head", "seed", "encoder_has_dropout")

    def __init__(
        self,
        config: BertConfig,
        head: VectorHead,
        seed: int = 0,
        dtype: str = "float32",
        encoder_has_dropout: bool = True,
        name: str = "vector_model",
    ):
        super().__init__(name=name, dtype=dtype)
        self.config, self.head, self.seed, self.encoder_has_dropout = config, head, seed, encoder_has_dropout
        self.has_dropout = config.has_dropout and encoder_has_dropout
        self.encoder = make_encoder(config, seed=seed, dtype=dtype, has_pooler=False)
        self.dropout_counter = dropout_counter(seed) if self.has_dropout else None
        if not encoder_has_dropout:
            self.encoder.dropout_counter = None
        self.built = True

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the model's parts. See interop.weights.part_of."""
        return ("encoder",)

    def call(self, inputs, dropout_seed=None, execution: Execution = PLAIN, training: bool | None = None):
        ops = keras.ops
        dropout_seed = seed_of_call(dropout_seed, training, self.dropout_counter)
        group_size = ops.shape(inputs["input_mask"])[1]
        # [B, G, S] -> [B x G, S]
        rows = {name: ops.reshape(inputs[name], (-1, *ops.shape(inputs[name])[2:])) for name in self.config.input_names}
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
        return {"vectors": ops.reshape(vectors / lengths, (-1, group_size, self.config.hidden_size))}

"""TextToTextModel: an encoder, and a decoder that writes a text from the encoder's states."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.errors import UserError
from keras_bert_app.modeling import backend
from keras_bert_app.modeling.encoder import BertEncoder
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.modeling.gru import BiGru
from keras_bert_app.modeling.heads import MaskedLMHead
from keras_bert_app.modeling.keras_contract import Configured, Described, dropout_counter, registered, seed_of_call
from keras_bert_app.modeling.lstm import BiLstm
from keras_bert_app.modeling.rnn_decoder import RnnDecoder
from keras_bert_app.modeling.task_head import TEXT
from keras_bert_app.modeling.task_model import bilstm
from keras_bert_app.modeling.text_decoding import IMPOSSIBLE, Decoded, DecodingOptions, decode
from keras_bert_app.modeling.transformer_decoder import TransformerDecoder, decoder_stem

TRANSFORMER = "transformer"


# Weights with a row for each piece.
_TABLES_OF_PIECES = ("word_embeddings", "token_vectors/groups_of_pieces", "token_vectors/given")


@registered
@dataclasses.dataclass(frozen=True)
class Decoder(Described):
    """The description of the decoder that a task adds to an encoder.

    Attributes:
        decoder: str. The kind of decoder: "transformer", or one of rnn_decoder.RNN_DECODERS.
        num_layers: int. Layers of the decoder; 0 for as many as the encoder has.
        shares: str. The weights that the decoder shares with the encoder: "nothing", "embeddings" or "all" (Rothe et
            al. 2020, BERTShare).
        begin_id: int. The piece before the first place, [CLS].
        end_id: int. The piece that ends a text, [SEP].
        never_ids: tuple of int. Pieces that the model never writes, such as [PAD] and [MASK].
        num_pieces: int. The pieces of the vocabulary. A table of embeddings may have more rows, which the model never
            writes. 0 for all rows.
        vocab_size: int. The size of the decoder's own vocabulary, or 0 if it has the vocabulary of the encoder.
        vocab_sha256: str. The sha256 of its own vocabulary. Weights of another vocabulary do not fit.
        attention: str. The attention of a recurrent decoder: "none", "additive" or "dot".
        context: str. The context of a recurrent decoder; see RnnDecoder.
        bilstm_units: int. U, the units of each direction of a recurrent layer over the encoder's states, or 0. Only for
            recurrent decoders.
        recurrent_encoder: str. The kind of this layer: "lstm" or "gru".
    """

    decoder: str
    num_layers: int
    shares: str
    begin_id: int
    end_id: int
    never_ids: tuple[int, ...] = ()
    num_pieces: int = 0
    vocab_size: int = 0
    vocab_sha256: str = ""
    attention: str = "none"
    context: str = "last"
    bilstm_units: int = 0
    recurrent_encoder: str = "lstm"

    # Constants that every head of a task has; see modeling.task_head.Head.
    stands_on = TEXT
    has_pooler = False
    is_plain = False

    def __post_init__(self):
        object.__setattr__(self, "never_ids", tuple(self.never_ids))


@registered
class TextToTextModel(Configured, keras.Model):
    """An encoder and a decoder. With BERT's weights this is BERT2BERT of Rothe et al. (2020).

    The output layer is BERT's masked-LM head. It uses the table of the decoder's word embeddings. So all weights except
    the decoder's attention to the encoder can come from a pre-trained BERT.

    Args:
        config: BertConfig. The configuration of the encoder.
        head: Decoder. The description of the decoder.
        seed: int. The seed of the initial weights.
        dtype: str. Keras type policy.
        encoder_has_dropout: bool. False for an encoder that is not trained.
        name: str. The name of the Keras model.

    Call arguments:
        inputs: dict with input_word_ids, input_mask, input_type_ids, int32 [B, S], and target_word_ids, int32
            [B, T + 1]: [CLS], the pieces of the target, [SEP], then zeros. reads_target, int32 [B, T], is for
            scheduled sampling with a recurrent decoder; see RnnDecoder.call.
        dropout_seed: int [2] for training with dropout, or None for inference.
        return_attention_scores: bool. Whether to return the decoder's attention to the encoder too.
        execution: Execution. How ops are executed.
        training: bool or None. If True and dropout_seed is None, the model draws a dropout seed from its own counter.

    Returns:
        dict: logits, float32 [B, T, V], which predict the pieces target_word_ids[:, 1:]. With return_attention_scores
        also attention_scores, a list with [B, N, T, S] for each layer of the decoder.
    """

    CONFIGURED = ("config", "head", "seed", "encoder_has_dropout")

    def __init__(
        self,
        config: BertConfig,
        head: Decoder,
        seed: int = 0,
        dtype: str = "float32",
        encoder_has_dropout: bool = True,
        name: str = "text_to_text_model",
    ):
        super().__init__(name=name, dtype=dtype)
        self.config, self.head, self.seed, self.encoder_has_dropout = config, head, seed, encoder_has_dropout
        self.has_dropout = config.has_dropout
        self.dropout_counter = dropout_counter(seed) if self.has_dropout else None
        self.encoder = BertEncoder(config, seed=seed, dtype=dtype, has_pooler=False)
        if not encoder_has_dropout:
            self.encoder.dropout_counter = None
        self.recurrent = None
        if head.bilstm_units:
            name, kind = ("bigru", BiGru) if head.recurrent_encoder == "gru" else ("bilstm", BiLstm)
            self.recurrent = bilstm(head.bilstm_units, config.hidden_size, config, seed, dtype, name, kind)
        self.decoder = self._decoder(dtype)
        self.output_head = MaskedLMHead(self.decoder.config, seed, dtype=dtype, name="masked_lm")
        self.output_head.build()
        self.built = True

    def _decoder(self, dtype):
        head, seed = self.head, f"{self.seed}/decoder"
        config = self.config.replace(vocab_size=head.vocab_size or self.config.vocab_size)
        embeddings = None if head.shares == "nothing" else self.encoder.embeddings
        if head.decoder != TRANSFORMER:
            width = 2 * head.bilstm_units or config.hidden_size
            return RnnDecoder(
                config,
                width,
                head.decoder,
                head.attention,
                head.context,
                bool(head.bilstm_units),
                seed,
                dtype,
                embeddings,
            )
        num_layers = head.num_layers or config.num_hidden_layers
        if not num_layers:
            raise UserError(
                "--decoder_layers is missing: the encoder has no layers, and by default the decoder has as many; give "
                "--decoder_layers=2, or a recurrent --decoder"
            )
        return TransformerDecoder(
            config.replace(num_hidden_layers=num_layers, num_heads_by_layer=()),
            seed,
            dtype=dtype,
            embeddings=embeddings,
            shared_layers=self.encoder.transformer_layers[:num_layers] if head.shares == "all" else (),
        )

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the model's parts. See interop.weights.part_of."""
        return ("encoder", *((self.recurrent.name,) if self.recurrent else ()), "decoder", "masked_lm")

    @property
    def has_attention(self) -> bool:
        """Whether the decoder attends to the encoder's states."""
        return self.head.decoder == TRANSFORMER or self.head.attention != "none"

    def call(
        self,
        inputs,
        dropout_seed=None,
        return_attention_scores: bool = False,
        execution: Execution = PLAIN,
        training: bool | None = None,
    ):
        dropout_seed = seed_of_call(dropout_seed, training, self.dropout_counter)
        states = self._states(inputs, dropout_seed, execution)
        target_ids = inputs["target_word_ids"][:, :-1]
        target_mask = keras.ops.cast(target_ids > 0, "int32")
        own_pieces = {}
        if "reads_target" in inputs:
            own_pieces = {"reads_target": inputs["reads_target"], "best_pieces": self._best_pieces(execution)}
        x, attention_scores = self.decoder(
            target_ids,
            target_mask,
            states,
            inputs["input_mask"],
            decoder_stem(dropout_seed),
            execution=execution,
            **own_pieces,
        )
        outputs = {"logits": self._logits(x, execution)}
        return {**outputs, "attention_scores": attention_scores} if return_attention_scores else outputs

    def decoded(self, inputs, options: DecodingOptions, execution: Execution = PLAIN) -> Decoded:
        """Writes texts from the source texts of a batch.

        Args:
            inputs: dict with input_word_ids, input_mask, input_type_ids, int32 [B, S].
            options: DecodingOptions.
            execution: Execution. How ops are executed.

        Returns:
            Decoded, of the B texts. A text without a piece gets empty answers.
        """
        batch_size = keras.ops.shape(inputs["input_mask"])[0]
        states = self._states(inputs, None, execution)
        cache, read_by_all = self.decoder.start(
            states, inputs["input_mask"], options.max_length, execution, options.num_beams
        )
        columns = self.output_head.columns(backend.tensor(self.decoder.word_table))
        never = self._never()

        def step(ids, place, cache):
            x, cache, _ = self.decoder.step(ids, place, cache, read_by_all, execution)
            return self._logits(x, execution, columns)[:, 0] + never, cache

        seeds = backend.seeds_of_texts(inputs["input_word_ids"], inputs["input_mask"], options.seed)
        decoded = decode(step, cache, batch_size, self.head.begin_id, self.head.end_id, options, seeds)
        num_pieces = keras.ops.sum(inputs["input_mask"], axis=1) - 2  # without [CLS] and [SEP]
        return decoded._replace(ids=keras.ops.where(keras.ops.reshape(num_pieces > 0, (-1, 1, 1)), decoded.ids, 0))

    def alignments(self, inputs, target_ids, execution: Execution = PLAIN):
        """Computes what the decoder looks at when it writes each piece of a text.

        Args:
            inputs: dict with input_word_ids, input_mask, input_type_ids, int32 [B, S].
            target_ids: int32 [B, T]. The pieces of a text, then zeros. See Decoded.
            execution: Execution. How ops are executed.

        Returns:
            float32 [B, T, S]: the attention of the decoder's last layer to the encoder, mean over its heads. A row sums
            to 1. Zeros for a decoder without attention, and at the padding of both texts.
        """
        ops = keras.ops
        is_piece = target_ids > 0
        begin = ops.full_like(target_ids[:, :1], self.head.begin_id)
        inputs = {**inputs, "target_word_ids": ops.concatenate([begin, target_ids], axis=1)}
        last = self(inputs, return_attention_scores=True, execution=execution)["attention_scores"][-1]
        shares = ops.mean(ops.cast(last, "float32"), axis=1)
        return ops.where(ops.expand_dims(is_piece, -1), shares, 0.0)

    def decoder_tensors(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """The decoder's first weights, taken from those of an encoder (Rothe et al. 2020, section 2).

        Layer i of the decoder gets the weights of layer i of the encoder. Variables without such weights, such as those
        of the attention to the encoder, keep their random values.

        Args:
            tensors: dict path -> array. The weights of an encoder.

        Returns:
            dict path -> array, for every variable of the decoder.
        """
        first = {}
        for variable in self.weights:
            if variable.path.startswith("decoder/"):
                tensor = tensors.get(variable.path.replace("decoder/", "encoder/", 1))
                # A layer whose heads were pruned has other shapes. Another vocabulary has other pieces.
                fits = tensor is not None and tuple(tensor.shape) == tuple(variable.shape)
                fits = fits and not (self.head.vocab_size and variable.path.endswith(_TABLES_OF_PIECES))
                first[variable.path] = tensor if fits else variable.numpy()
        return first

    def _never(self):
        """float32 [V]: IMPOSSIBLE for the pieces that the model never writes, else 0."""
        vocab_size = self.decoder.config.vocab_size
        never = np.zeros(vocab_size, np.float32)
        never[[*self.head.never_ids]] = IMPOSSIBLE
        never[self.head.num_pieces or vocab_size :] = IMPOSSIBLE
        return never

    def _best_pieces(self, execution):
        """A function from outputs [B, T, H] of the decoder to the most probable pieces, int32 [B, T]."""
        never = self._never()
        return lambda x: backend.argmax(self._logits(x, execution) + never)

    def _states(self, inputs, dropout_seed, execution):
        dropout_seed = dropout_seed if self.encoder_has_dropout else None
        states = self.encoder(inputs, dropout_seed=dropout_seed, execution=execution)["sequence_output"]
        return states if self.recurrent is None else self.recurrent(states, inputs["input_mask"], execution=execution)

    def _logits(self, x, execution, columns=None):
        return self.output_head(x, backend.tensor(self.decoder.word_table), execution=execution, columns=columns)

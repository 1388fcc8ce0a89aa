"""RnnDecoder: recurrent decoders, with and without attention to the encoder's states.

All decoders have a gated recurrent unit (see gru): s_t = GRU(s_{t-1}, u_t). They differ in the input u_t. c is the
context, a vector that is made from the states of the encoder, and s_0 = tanh(W c).

    rnn_state     no input: only the first state depends on the context (Sutskever et al. 2014, but without y_{t-1})
    rnn_context   u_t = c_t: the context enters at each step
    rnn_feedback  u_t = [e(y_{t-1}); c_t]: context and previous piece enter at each step (Cho et al. 2014)

Without attention c_t = c. With attention c_t = sum of a_ti h_i over the states h_i, with a_t = softmax of the scores

    additive      v tanh(W s_{t-1} + U h_i) (Bahdanau et al. 2015, section A.1.2)
    dot           s_{t-1} W h_i (Luong et al. 2015, "general", but with s_{t-1} instead of s_t)
"""

from collections.abc import Callable

import keras

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.modeling import backend
from keras_bert_app.modeling.embeddings import BertEmbeddings
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.modeling.gru import GATES, next_state
from keras_bert_app.modeling.keras_contract import Configured, registered
from keras_bert_app.modeling.layers import Dense, Dropout, initializer
from keras_bert_app.modeling.mask_scores import MASKED_SCORE

STATE, CONTEXT, FEEDBACK = RNN_DECODERS = ("rnn_state", "rnn_context", "rnn_feedback")


@registered
class RnnDecoder(Configured, keras.Model):
    """A recurrent decoder with the methods of TransformerDecoder. The docstring of the module has the equations.

    Args:
        config: BertConfig. Its hidden_size is the size H of the decoder's state.
        state_width: int. W, the width of the encoder's states.
        decoder: str. One of RNN_DECODERS.
        attention: str. "none", "additive" or "dot".
        context: str. The context c: "last" (the last state of each direction, or the state of [CLS]), "projection"
            (tanh of a dense layer on the last state) or "mean" (of all states).
        has_directions: bool. Whether the states are those of a bidirectional LSTM, forward and backward side by side.
        seed: int or str. The seed of the initial weights.
        dtype: str. Keras type policy.
        embeddings: BertEmbeddings or None. The embeddings of the encoder, whose table of pieces the decoder uses too;
            None for its own.
        name: str. The name of the Keras model.
    """

    CONFIGURED = ("config", "state_width", "decoder", "attention", "context", "has_directions", "seed")

    def __init__(
        self,
        config: BertConfig,
        state_width: int,
        decoder: str,
        attention: str = "none",
        context: str = "last",
        has_directions: bool = False,
        seed: int | str = 0,
        dtype: str = "float32",
        embeddings: BertEmbeddings | None = None,
        name: str = "decoder",
    ):
        super().__init__(name=name, dtype=dtype)
        self.config, self.state_width, self.decoder, self.seed = config, state_width, decoder, seed
        self.attention, self.context, self.has_directions = attention, context, has_directions
        self.embeddings = embeddings
        size = config.hidden_size

        def dense(name, input_size, output_size, function=None):
            weights = initializer(config, f"{seed}/{self.name}", name)
            return Dense(input_size, output_size, weights, function, dtype=dtype, name=name)

        self.projection = (
            dense("projection", state_width, state_width, keras.ops.tanh) if context == "projection" else None
        )
        self.first_state = dense("first_state", state_width, size, keras.ops.tanh)
        self.recurrent = dense("recurrent", size, GATES * size)
        self.from_context = self.from_pieces = self.output_layer = None
        if decoder != STATE:
            self.from_context = dense("from_context", state_width, GATES * size)
            self.output_layer = dense("output", size + state_width, size)
        if decoder == FEEDBACK:
            self.from_pieces = dense("from_pieces", size, GATES * size)
        self.keys = self.query = self.score = None
        if attention != "none":
            self.keys = dense("keys", state_width, size)
        if attention == "additive":
            self.query, self.score = dense("query", size, size), dense("score", size, 1)
        self.dropouts = [Dropout(config.hidden_dropout_prob, place) for place in range(2)]
        self.build()

    def build(self, input_shape=None):
        if self.built:
            return
        for name in (
            *("projection", "first_state", "recurrent", "from_context", "output_layer", "from_pieces"),
            *("keys", "query", "score"),
        ):
            if (part := getattr(self, name)) is not None:
                part.build()
        if self.embeddings is None:
            self.own_table = self.add_weight(
                shape=(self.config.vocab_size, self.config.hidden_size),
                name="word_embeddings",
                autocast=False,
                initializer=initializer(self.config, self.seed, "word_embeddings"),
            )
        self.built = True

    @property
    def word_table(self):
        """The embeddings of the pieces, [V, H]."""
        return self.own_table if self.embeddings is None else self.embeddings.word_table

    def call(
        self,
        target_ids,
        target_mask,
        states,
        input_mask,
        dropout_stem=None,
        execution: Execution = PLAIN,
        reads_target=None,
        best_pieces: Callable | None = None,
    ):
        """The outputs of all places, with the arguments of TransformerDecoder.

        Args:
            target_ids: int32 [B, T].
            target_mask: not used; a recurrent decoder does not read later places.
            states: [B, S, W].
            input_mask: int32 [B, S].
            dropout_stem: backend.stem of a seed, or None for inference.
            execution: Execution. How ops are executed.
            reads_target: int32 [B, T]. 0: the place reads the piece that the model finds most probable at the place
                before, instead of the piece of target_ids. None: all places read target_ids.
            best_pieces: function from outputs [B, 1, H] to the most probable pieces, int32 [B, 1]. Only for
                reads_target.

        Returns:
            (outputs [B, T, H], list with the attention to the encoder [B, 1, T, S]).
        """
        del target_mask
        ops, length = keras.ops, keras.ops.shape(target_ids)[1]
        (first, *_), read_by_all = self.start(states, input_mask, 0, execution)
        # [T, B, 3H] The part of the gates that depends on no earlier state.
        inputs = ops.transpose(self._from_pieces(target_ids, dropout_stem, execution), (1, 0, 2))

        def step(state, place):
            inputs_of_place = inputs[place]
            if reads_target is not None:
                outputs = self._output(*(ops.expand_dims(part, 1) for part in state[:2]), execution)
                stem_of_place = None if dropout_stem is None else dropout_stem + 1 + place
                own = self._from_pieces(best_pieces(outputs), stem_of_place, execution)[:, 0]
                reads = ops.expand_dims(reads_target[:, place] > 0, 1)
                inputs_of_place = ops.where(reads, inputs_of_place, own)
            return self._step(state[0], inputs_of_place, read_by_all, execution)

        context_and_shares = self._step(first, inputs[0], read_by_all, execution)[1:]
        outputs, contexts, shares = backend.scan(step, (first, *map(ops.zeros_like, context_and_shares)), length)
        x = self._output(ops.transpose(outputs, (1, 0, 2)), ops.transpose(contexts, (1, 0, 2)), execution)
        # [T, B, S] -> [B, 1, T, S]
        return self.dropouts[1](x, dropout_stem, execution), [ops.expand_dims(ops.transpose(shares, (1, 0, 2)), 1)]

    def start(self, states, input_mask, length: int, execution: Execution = PLAIN, num_beams: int = 1):
        """Prepares decoding place by place.

        Args:
            states: [B, S, W]. The states of the encoder.
            input_mask: int32 [B, S].
            length: int. Not used; all decoders have this argument.
            execution: Execution. How ops are executed.
            num_beams: int. K, the beams of each text.

        Returns:
            (cache, read_by_all). The cache is a list with the state [B x K, H]. read_by_all, which all places read, is
            (states, their keys, mask, context), also with a row for each beam.
        """
        ops = keras.ops
        context = self._context(states, input_mask, execution)
        keys = None if self.keys is None else self.keys(states, execution=execution)
        first = [self.first_state(context, execution=execution)], (states, keys, ops.cast(input_mask, "bool"), context)
        if num_beams == 1:
            return first
        return keras.tree.map_structure(
            lambda values: None if values is None else ops.repeat(values, num_beams, axis=0), first
        )

    def step(self, ids, place, cache, read_by_all, execution: Execution = PLAIN):
        """Computes one place.

        Args:
            ids: int32 [B]. The piece before the place.
            place: int32 scalar. Not used; all decoders have this argument.
            cache: list with the state [B, H].
            read_by_all: see start.
            execution: Execution. How ops are executed.

        Returns:
            (output of the decoder [B, 1, H], cache, attention to the encoder [B, 1, S]).
        """
        ops = keras.ops
        inputs = self._from_pieces(ops.expand_dims(ids, 1), None, execution)[:, 0]
        state, context, shares = self._step(cache[0], inputs, read_by_all, execution)
        x = self._output(ops.expand_dims(state, 1), ops.expand_dims(context, 1), execution)
        return x, [state], ops.expand_dims(shares, 1)

    def _context(self, states, mask, execution):
        """The context c, [B, W]."""
        ops = keras.ops
        weights = ops.cast(mask, states.dtype)
        if self.context == "mean":
            count = ops.maximum(
                ops.sum(weights, axis=1, keepdims=True), 1.0
            )  # a row that fills up a batch has no piece
            return ops.sum(states * ops.expand_dims(weights, -1), axis=1) / count
        last = states[:, 0]
        if self.has_directions:
            # The forward direction ends at the last piece, the backward direction at the first one.
            ends = ops.cast(ops.sum(ops.cast(mask, "int32"), axis=1, keepdims=True), "int32") - 1
            forward = backend.rows_of_groups(states, ops.maximum(ends, 0))[:, 0, : self.state_width // 2]
            last = ops.concatenate([forward, last[:, self.state_width // 2 :]], axis=-1)
        return last if self.projection is None else self.projection(last, execution=execution)

    def _from_pieces(self, ids, dropout_stem, execution):
        """The part of the gates that depends on the pieces, [B, T, 3H]. Zeros if the decoder does not read pieces."""
        ops = keras.ops
        if self.from_pieces is None:
            return ops.zeros((*ops.shape(ids), GATES * self.config.hidden_size), self.compute_dtype)
        embedded = ops.cast(backend.rows(self.word_table, ids), self.compute_dtype)
        return self.from_pieces(self.dropouts[0](embedded, dropout_stem, execution), execution=execution)

    def _step(self, state, inputs, read_by_all, execution):
        """(next state [B, H], context [B, W], attention [B, S]) of a place."""
        ops = keras.ops
        states, keys, mask, context = read_by_all
        shares = ops.cast(mask, state.dtype) * 0.0
        if keys is not None:
            scores = ops.where(mask, self._scores(state, keys, execution), MASKED_SCORE)
            shares = ops.cast(ops.softmax(scores), state.dtype)
            context = ops.sum(ops.expand_dims(shares, -1) * states, axis=1)
        if self.from_context is not None:
            inputs = inputs + self.from_context(context, execution=execution)
        return next_state(state, inputs, self.recurrent(state, execution=execution)), context, shares

    def _scores(self, state, keys, execution):
        """The scores of all states, float32 [B, S], for a decoder's state [B, H]."""
        ops = keras.ops
        if self.attention == "dot":
            return ops.cast(ops.sum(ops.expand_dims(state, 1) * keys, axis=-1), "float32")
        hidden = ops.tanh(ops.expand_dims(self.query(state, execution=execution), 1) + keys)
        return ops.cast(self.score(hidden, execution=execution)[..., 0], "float32")

    def _output(self, states, contexts, execution):
        """The output of places, [B, T, H], from states [B, T, H] and contexts [B, T, W]."""
        if self.output_layer is None:
            return states
        return self.output_layer(keras.ops.concatenate([states, contexts], axis=-1), execution=execution)

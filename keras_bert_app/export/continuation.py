"""Continues raw texts with a pre-trained model, in graph. `generate` and exports share this module."""

import numpy as np
import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.export import masked_lm_scoring
from keras_bert_app.modeling import text_generation
from keras_bert_app.modeling.text_generation import Generation, Sampling
from pipelines.wordpiece.detokenizing import pieces_of_ids

# A continuation that begins with such a piece follows the prompt without a space.
_JOINED = r"##.*|[.,!?;:%)\]}'’”»。，、！？；：…》」』）】]|[\p{Han}\p{Hiragana}\p{Katakana}].*"


class Continuation:
    """Continues texts with a causal or a masked language model.

    Args:
        model: LanguageModel, or BertPretrainer with a masked-LM head.
        tokenizer: BertTokenizer. The tokenizer of the model.
        length: int. T, the largest number of places of a row, at most max_position_embeddings.

    Attributes:
        tokenize: tf.function of masked_lm_scoring.tokenize_function.
    """

    def __init__(self, model, tokenizer, length: int):
        self._model, self._tokenizer, self._length = model, tokenizer, length
        self.tokenize = masked_lm_scoring.tokenize_function(tokenizer)
        if model.config.language_model == "bidirectional":
            raise UserError(
                "LSTMs of both directions cannot continue a text, because one of them reads it from its end; give a "
                "model of one direction, such as that of pretrain --config=awd_lstm --language_model=causal"
            )
        self._is_causal = model.config.language_model == "causal"
        self._vocabulary = tf.constant(tokenizer.vocabulary)
        is_never = np.ones(model.config.vocab_size, bool)
        is_never[: tokenizer.vocab_size] = False
        # Masked LM never predicts [SEP], so it cannot end a text.
        is_never[[*tokenizer.never_written, *([] if self._is_causal else [tokenizer.sep_id])]] = True
        self._is_never = tf.constant(is_never)

    def prompts(self, text, most_new_pieces: int) -> tuple:
        """Tokenizes prompts. A prompt that is too long loses its beginning, but keeps at least half of the row.

        Args:
            text: string [B].
            most_new_pieces: int32 [B]. Pieces for which each row keeps room.

        Returns:
            (ids int32 [B, P] with [CLS] first, number of pieces of each row int32 [B], truncated bool [B]).
        """
        pieces = self.tokenize(text)
        lengths = tf.cast(pieces.row_lengths(), tf.int32)
        room = tf.maximum(self._length - 1 - most_new_pieces, self._length // 2)
        num_dropped = tf.maximum(lengths - room, 0)
        kept = tf.ragged.boolean_mask(pieces, tf.ragged.range(lengths) >= num_dropped[:, None])
        cls = tf.fill([tf.shape(text)[0], 1], self._tokenizer.cls_id)
        rows = tf.concat([cls, tf.cast(kept, tf.int32)], axis=1)
        return rows.to_tensor(), tf.cast(rows.row_lengths(), tf.int32), num_dropped > 0

    def begin(self, ids, lengths) -> Generation:
        """Makes the state before the first step.

        Args:
            ids: int32 [B, P]. See prompts.
            lengths: int32 [B]. See prompts.

        Returns:
            text_generation.Generation.
        """
        first_place = tf.reduce_min(tf.concat([lengths, [self._length]], axis=0)) - 1
        cache = self._model.encoder.start(ids, self._length, first_place) if self._is_causal else ()
        return text_generation.begin(ids, self._length, cache, first_place)

    def advance(self, state: Generation, lengths, limits, last_place, sampling: Sampling) -> Generation:
        """Reads prompts and writes pieces, up to a place. See text_generation.advance.

        Args:
            state: Generation.
            lengths: int32 [B]. See prompts.
            limits: int32 [B]. The largest number of pieces of each row, prompt included.
            last_place: int32 scalar. The loop ends before it reads this place.
            sampling: Sampling.
        """
        model, tokenizer = self._model, self._tokenizer
        if self._is_causal:
            columns = model.columns()

            def step(ids, place, cache):
                return model.step(ids[:, place], place, cache, columns)
        else:
            step = text_generation.masked_step(model, tokenizer.mask_id, tokenizer.sep_id, tokenizer.pad_id)
        most = self._length - (1 if self._is_causal else 2)
        return text_generation.advance(
            step,
            state,
            lengths,
            tf.minimum(limits, most + 1),
            tf.minimum(last_place, most),
            sampling,
            tokenizer.sep_id,
            self._is_never,
        )

    def texts(self, ids, lengths):
        """Joins the pieces that follow each prompt to a text.

        Args:
            ids: int32 [B, T]. The pieces of rows.
            lengths: int32 [B]. See prompts.

        Returns:
            string [B]. With a space in front, unless the text continues a word or begins with a punctuation mark.
        """
        pieces = pieces_of_ids(ids, self._vocabulary, self._tokenizer.sep_id, lengths[:, None])
        first = tf.concat([pieces, tf.fill([tf.shape(ids)[0], 1], ".")], axis=1)[:, :1].flat_values
        is_joined = tf.strings.regex_full_match(first, _JOINED)
        if self._tokenizer.kind == "symbols":
            is_joined = pieces.row_lengths() == 0  # every symbol is a word
        return tf.strings.join([tf.where(is_joined, "", " "), self._tokenizer.readable(pieces)])

"""The objective of TSDAE: a decoder rebuilds a text from the vector of the text without most of its words.

Wang et al. 2021, "TSDAE: Using Transformer-based Sequential Denoising Auto-Encoder for Unsupervised Sentence Embedding
Learning".
"""

import tensorflow as tf

from keras_bert_app.modeling import backend
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.tasks.objectives import TextToText

# A batch has the number of each piece's word; 0 for [CLS], the prompt and [SEP]; -1 for padding.
WORDS = "input_word_numbers"
_PURPOSE = 2  # of the draws; the decoder's dropout has 1


class Denoising(TextToText):
    """Cross-entropy over the pieces of a text, which the decoder of a VectorModel reads from one vector.

    Args:
        deletion_ratio: float. The probability that a word is deleted before the encoder reads the text.
    """

    def __init__(self, deletion_ratio: float):
        super().__init__()
        self.deletion_ratio = deletion_ratio

    @property
    def description(self) -> str:
        """A line for the log: what the loss says."""
        return (
            "loss tsdae: a decoder rebuilds each text from the vector of the text without "
            f"{self.deletion_ratio:.0%} of its words"
        )

    def counts(self, batch):
        return super().counts(_with_targets(batch))

    def outputs(self, model, batch, dropout_seed=None, execution: Execution = PLAIN):
        """The outputs of a VectorModel with a decoder for loss_sums. Without a seed no word is deleted."""
        inputs = _with_targets(batch)
        if dropout_seed is not None:
            inputs |= without_words(batch, backend.fold_in(dropout_seed, _PURPOSE), self.deletion_ratio)
        return model(inputs, dropout_seed=dropout_seed, execution=execution)

    def loss_sums(self, outputs, batch, execution: Execution = PLAIN):
        return super().loss_sums(outputs, _with_targets(batch), execution)


def _with_targets(batch):
    """The batch with target_word_ids, int32 [B, S]: the pieces of each text."""
    return {**batch, "target_word_ids": batch["input_word_ids"][:, 0] * batch["input_mask"][:, 0]}


def without_words(batch, seed, deletion_ratio: float):
    """Deletes random words. At least one word of each text stays; [CLS], the prompt and [SEP] stay.

    Args:
        batch: dict with input_word_ids, input_mask and WORDS, int32 [B, 1, S].
        seed: int [2].
        deletion_ratio: float. The probability that a word is deleted.

    Returns:
        dict with input_word_ids and input_mask, int32 [B, 1, S]. The pieces that stay come first.
    """
    ids, mask, words = (batch[name][:, 0] for name in ("input_word_ids", "input_mask", WORDS))
    draws = tf.random.stateless_uniform(tf.shape(ids), seed, alg="philox")
    # A word's number is less than the number of its first place, so that each word has a draw of its own.
    draws = tf.where(words > 0, tf.gather(draws, tf.maximum(words, 0), batch_dims=1), -1.0)
    is_last_one = draws == tf.reduce_max(draws, axis=1, keepdims=True)
    stays = (mask > 0) & ((words <= 0) | (draws >= deletion_ratio) | is_last_one)
    order = tf.argsort(tf.cast(~stays, tf.int32), axis=1, stable=True)
    kept = tf.sort(tf.cast(stays, mask.dtype), axis=1, direction="DESCENDING")
    ids = tf.gather(ids, order, batch_dims=1) * kept
    return {"input_word_ids": ids[:, None], "input_mask": kept[:, None]}

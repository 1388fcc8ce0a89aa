"""Makes the inputs of an encoder from text, with TF-Hub's interface for preprocessors.

https://www.tensorflow.org/hub/common_saved_model_apis/text
"""

import tensorflow as tf

from keras_bert_app.export import masked_lm_scoring
from keras_bert_app.export.specs import About, text_spec
from pipelines.examples import packing

SEQ_LENGTH = 128
_EXAMPLE = "A cat sat on the mat."


class PreprocessorModule(tf.Module):
    """A function from raw text to input_word_ids, input_mask and input_type_ids.

    The loaded object is a function of strings [B]. It returns a dict of int32 [B, seq_length]. For pairs of texts call
    its attributes `tokenize` and `bert_pack_inputs` instead. `tokenize` makes a segment from strings [B]: a
    RaggedTensor int32 [B, (words), (pieces)]. `bert_pack_inputs` makes the dict from a list of one or two segments and
    seq_length. A segment may also be [B, (pieces)]. tokenize.get_special_tokens_dict() gives the ids of the special
    pieces. With a tokenizer that has columns, the object has only its function of strings.

    Args:
        tokenizer: BertTokenizer. The tokenizer of the model.
        seq_length: int. The default length of a row.
    """

    def __init__(self, tokenizer, seq_length: int = SEQ_LENGTH):
        super().__init__(name="preprocessor")
        self.about = About("preprocessor", {"serving_default": {"text": [_EXAMPLE]}}, max_seq_length=seq_length)
        tokenize = masked_lm_scoring.tokenize_function(tokenizer)
        if tokenizer.columns is None:
            self.tokenize = _callable(_words_function(tokenizer, tokenize))
            self.tokenize.get_special_tokens_dict = _callable(_special_tokens_function(tokenizer))
            self.bert_pack_inputs = _callable(_pack_function(tokenizer, seq_length))

        @tf.function(autograph=False, input_signature=[text_spec()])
        def serve(text):
            return _pack(tokenizer, [tokenize(text)], seq_length)

        self.__call__ = serve
        self.exported = {"serving_default": serve}


def _callable(function):
    """Makes an object that can be called after loading and can have attributes."""
    module = tf.Module()
    module.__call__ = function
    return module


def _words_function(tokenizer, tokenize):
    is_continuation = tf.constant([piece.startswith("##") for piece in tokenizer.vocabulary])

    @tf.function(autograph=False, input_signature=[text_spec()])
    def tokenize_words(text):
        pieces = tokenize(text)
        # A word begins at each piece that does not continue a word.
        begins = tf.where(~tf.gather(is_continuation, pieces.flat_values))[:, 0]
        num_before = tf.searchsorted(begins, pieces.row_splits, out_type=tf.int64)
        return tf.RaggedTensor.from_nested_row_splits(
            pieces.flat_values, [num_before, tf.concat([begins, pieces.row_splits[-1:]], axis=0)], validate=False
        )

    return tokenize_words


def _pieces(words):
    """Flattens [B, (words), (pieces)] to [B, (pieces)]."""
    word_splits, piece_splits = words.nested_row_splits
    return tf.RaggedTensor.from_row_splits(words.flat_values, tf.gather(piece_splits, word_splits), validate=False)


def _special_tokens_function(tokenizer):
    @tf.function(autograph=False, input_signature=[])
    def get_special_tokens_dict():
        values = {
            "padding_id": tokenizer.pad_id,
            "start_of_sequence_id": tokenizer.cls_id,
            "mask_id": tokenizer.mask_id,
            "end_of_segment_id": tokenizer.sep_id,
            "vocab_size": tokenizer.vocab_size,
        }
        return {name: tf.constant(value) for name, value in values.items()}

    return get_special_tokens_dict


def _pack_function(tokenizer, default_seq_length):
    @tf.function(autograph=False)
    def bert_pack_inputs(inputs, seq_length=default_seq_length):
        segments = [segment if segment.shape.rank == 2 else _pieces(segment) for segment in inputs]
        return _pack(tokenizer, segments, seq_length)

    # TensorFlow saves only traced forms. These are one or two segments, of pieces or of words.
    for shape in ([None, None], [None, None, None]):
        for count in (1, 2):
            bert_pack_inputs.get_concrete_function(
                [tf.RaggedTensorSpec(shape, tf.int32)] * count, seq_length=tf.TensorSpec([], tf.int32)
            )
    return bert_pack_inputs


def _pack(tokenizer, segments, seq_length):
    """Packs segments into rows. If a row is too long, the longer segment loses its end.

    Args:
        tokenizer: BertTokenizer. The tokenizer of the model.
        segments: one or two RaggedTensors int32 [B, (pieces)].
        seq_length: int32 scalar. The length of a row.

    Returns:
        dict of int32 [B, seq_length].
    """
    ids = tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id
    return packing.pack_segments(segments, seq_length, *ids, tokenizer.columns)

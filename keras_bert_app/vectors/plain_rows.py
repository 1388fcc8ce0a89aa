"""Rows of token ids of plain English text, made outside TensorFlow: what precedes an encoder that LiteRT runs.

TensorFlow's tokenizer is made for thousands of texts a call. Of one short text it takes a fifth of the time of a small
encoder, and its threads, still awake, take the cores from LiteRT's. Text of printable ASCII has none of what tokenizers
differ in, so that Hugging Face's `tokenizers` gives the same pieces.
"""

import re

import numpy as np

from pipelines.wordpiece.vocabulary import checked_pieces

# Words below every tokenizer's limit, between characters that end one.
_PLAIN = re.compile(rb"(?:[0-9A-Za-z]{0,99}[ -/:-@\[-`{-~])*[0-9A-Za-z]{0,99}")
_MOST_TEXTS = 32  # a call; of more TensorFlow's threads make as much


class PlainRows:
    """A function from texts to what the signature `tokenize` of an export of embeddings gives, or None.

    Args:
        vocabulary: bytes of vocab.txt. do_lower_case: see BertTokenizer. max_seq_length: longer rows lose their end.
    """

    def __init__(self, vocabulary, do_lower_case, max_seq_length):
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

        ids = {piece: number for number, piece in enumerate(checked_pieces(vocabulary, "vocab.txt"))}
        self._tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
        self._tokenizer.normalizer = normalizers.BertNormalizer(lowercase=do_lower_case)
        self._tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        self._ends, self._room = (ids["[CLS]"], ids["[SEP]"]), max_seq_length - 2

    def __call__(self, texts):
        """Of a list of bytes: dict input_word_ids, input_mask, input_type_ids int32 [B, S], truncated bool [B].

        None if a text is not plain ASCII, or if there are so many that the signature is as fast.
        """
        if len(texts) > _MOST_TEXTS or not all(_PLAIN.fullmatch(text) for text in texts):
            return None
        found = self._tokenizer.encode_batch([text.decode("ascii") for text in texts], add_special_tokens=False)
        pieces = [encoding.ids for encoding in found]
        longest = min(max(1, *map(len, pieces)), self._room) + 2
        input_word_ids, input_mask = np.zeros([2, len(pieces), longest], np.int32)
        for row, of_text in enumerate(pieces):
            of_text = [self._ends[0], *of_text[: self._room], self._ends[1]]
            input_word_ids[row, : len(of_text)], input_mask[row, : len(of_text)] = of_text, 1
        return {
            "input_word_ids": input_word_ids,
            "input_mask": input_mask,
            "input_type_ids": np.zeros_like(input_mask),
            "truncated": np.array([len(of_text) > self._room for of_text in pieces]),
        }

"""Rows of token ids for plain English text, made outside TensorFlow, for an encoder that LiteRT runs.

TensorFlow's tokenizer is made for thousands of texts in a call. For one short text it takes a fifth of the time of a
small encoder, and its waiting threads take processor time from LiteRT. All tokenizers split printable ASCII in the
same way, so Hugging Face's `tokenizers` gives the same pieces.
"""

import re

import numpy as np

from pipelines.wordpiece.vocabulary import checked_pieces

# ASCII words shorter than the limit of every tokenizer, between characters that end a word.
_PLAIN = re.compile(rb"(?:[0-9A-Za-z]{0,99}[ -/:-@\[-`{-~])*[0-9A-Za-z]{0,99}")
_MOST_TEXTS = 32  # in a call; for more texts TensorFlow's threads are as fast


class PlainRows:
    """A function that gives the same rows as the signature `tokenize` of an export of embeddings.

    It returns None for texts that it does not take.

    Args:
        vocabulary: bytes. The content of vocab.txt.
        do_lower_case: bool. See BertTokenizer.
        max_seq_length: int. Longer rows lose their end.
    """

    def __init__(self, vocabulary: bytes, do_lower_case: bool, max_seq_length: int):
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

        ids = {piece: number for number, piece in enumerate(checked_pieces(vocabulary, "vocab.txt"))}
        self._tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
        self._tokenizer.normalizer = normalizers.BertNormalizer(lowercase=do_lower_case)
        self._tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        self._ends, self._room = (ids["[CLS]"], ids["[SEP]"]), max_seq_length - 2

    def __call__(self, texts: list[bytes]) -> dict[str, np.ndarray] | None:
        """Makes the rows of texts.

        Args:
            texts: list of bytes.

        Returns:
            dict of input_word_ids, input_mask and input_type_ids, int32 [B, S], and truncated, bool [B]. None if a text
            is not plain ASCII, or if there are so many texts that the signature is as fast.
        """
        if len(texts) > _MOST_TEXTS or not all(_PLAIN.fullmatch(text) for text in texts):
            return None
        encodings = self._tokenizer.encode_batch([text.decode("ascii") for text in texts], add_special_tokens=False)
        pieces = [encoding.ids for encoding in encodings]
        longest = min(max(1, *map(len, pieces)), self._room) + 2
        input_word_ids, input_mask = np.zeros([2, len(pieces), longest], np.int32)
        for row, ids in enumerate(pieces):
            ids = [self._ends[0], *ids[: self._room], self._ends[1]]
            input_word_ids[row, : len(ids)], input_mask[row, : len(ids)] = ids, 1
        return {
            "input_word_ids": input_word_ids,
            "input_mask": input_mask,
            "input_type_ids": np.zeros_like(input_mask),
            "truncated": np.array([len(ids) > self._room for ids in pieces]),
        }

"""The tokenizer that all runs of a process share."""

import functools

from pipelines.wordpiece import casing
from pipelines.wordpiece.tokenizer import BertTokenizer
from pipelines.wordpiece.vocabulary import parse_vocabulary


class TwoVocabularies(BertTokenizer):
    """The tokenizer of texts, together with the tokenizer of target texts, which have a vocabulary of their own.

    Args:
        vocabulary_bytes: content of the vocabulary file of the texts.
        do_lower_case: whether that vocabulary is uncased.
        target_bytes: content of the vocabulary file of the target texts. Its pieces decide whether it is uncased.

    Attributes:
        target: BertTokenizer of the target texts.
    """

    def __init__(self, vocabulary_bytes: bytes, do_lower_case: bool, target_bytes: bytes):
        super().__init__(vocabulary_bytes, do_lower_case, verify_casing=False)
        is_uncased = casing.fits(parse_vocabulary(target_bytes)[0], True)
        self.target = BertTokenizer(target_bytes, is_uncased, verify_casing=False)


@functools.lru_cache(maxsize=4)
def run_tokenizer(
    vocabulary_bytes: bytes, do_lower_case: bool, target_bytes: bytes | None = None
) -> BertTokenizer | TwoVocabularies:
    """The tokenizer of a run.

    Runs of one process share the tokenizer, together with the graphs that were traced with it.

    Args:
        vocabulary_bytes: content of vocab.txt, whose casing was checked when the run started.
        do_lower_case: as in the BertConfig.
        target_bytes: content of target_vocab.txt, if the target texts have a vocabulary of their own.
    """
    if target_bytes is not None:
        return TwoVocabularies(vocabulary_bytes, do_lower_case, target_bytes)
    return BertTokenizer(vocabulary_bytes, do_lower_case, verify_casing=False)

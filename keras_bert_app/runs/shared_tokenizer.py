"""The tokenizer of a run."""

import functools

from pipelines.wordpiece.tokenizer import BertTokenizer


@functools.lru_cache(maxsize=4)
def run_tokenizer(vocabulary_bytes, do_lower_case):
    """The BertTokenizer of runs with this vocabulary: seeds and stages of one process share it, and what is traced with it.

    Args:
        vocabulary_bytes: content of vocab.txt, whose casing was verified where the run was begun. do_lower_case: of its BertConfig.
    """
    return BertTokenizer(vocabulary_bytes, do_lower_case, verify_casing=False)

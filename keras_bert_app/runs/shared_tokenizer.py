"""The tokenizer that all runs of a process share."""

import functools

from pipelines.wordpiece.tokenizer import BertTokenizer


@functools.lru_cache(maxsize=4)
def run_tokenizer(vocabulary_bytes: bytes, do_lower_case: bool) -> BertTokenizer:
    """The BertTokenizer of a run.

    Runs of one process share the tokenizer, together with the graphs that were traced with it.

    Args:
        vocabulary_bytes: content of vocab.txt, whose casing was checked when the run started.
        do_lower_case: as in the BertConfig.
    """
    return BertTokenizer(vocabulary_bytes, do_lower_case, verify_casing=False)

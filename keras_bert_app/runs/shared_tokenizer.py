"""The tokenizer of a model, and the tokenizer that all runs of a process share."""

import functools

from keras_bert_app.config.bert_config import BertConfig
from pipelines.wordpiece import casing
from pipelines.wordpiece.tokenizer import BertTokenizer
from pipelines.wordpiece.tokenizers import make_tokenizer
from pipelines.wordpiece.vocabulary import parse_vocabulary


def tokenizer_of(vocab_file: str | bytes, config: BertConfig) -> BertTokenizer:
    """Makes the tokenizer of a model.

    Args:
        vocab_file: path of the vocabulary, or its content.
        config: the model's configuration.

    Raises:
        DataError: the vocabulary is not usable, or does not fit the configuration.
    """
    return make_tokenizer(
        vocab_file, config.tokenizer, config.do_lower_case, channels=config.channels, positions=config.positions
    )


def run_tokenizer(vocabulary_bytes: bytes, config: BertConfig, target_bytes: bytes | None = None) -> BertTokenizer:
    """The tokenizer of a run.

    Runs of one process share the tokenizer, together with the graphs that were traced with it.

    Args:
        vocabulary_bytes: content of vocab.txt, whose casing was checked when the run started.
        config: the model's configuration.
        target_bytes: content of target_vocab.txt, if the target texts have a vocabulary of their own. The attribute
            `target` is then their tokenizer. The pieces of this vocabulary decide whether it is uncased.
    """
    columns = config.channels, config.positions
    return _shared(vocabulary_bytes, config.tokenizer, config.do_lower_case, target_bytes, *columns)


@functools.lru_cache(maxsize=4)
def _shared(vocabulary_bytes, kind, do_lower_case, target_bytes, channels, positions):
    tokenizer = make_tokenizer(
        vocabulary_bytes, kind, do_lower_case, verify_casing=False, channels=channels, positions=positions
    )
    if target_bytes is not None:
        is_uncased = casing.fits(parse_vocabulary(target_bytes)[0], True)
        tokenizer.target = make_tokenizer(target_bytes, kind, is_uncased, verify_casing=False)
    return tokenizer

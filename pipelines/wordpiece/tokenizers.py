"""Makes the tokenizer of a model: WordPiece or symbols."""

from collections.abc import Sequence

from pipelines.channels import Channel
from pipelines.wordpiece.symbols import SymbolTokenizer
from pipelines.wordpiece.tokenizer import BertTokenizer


def make_tokenizer(
    vocab_file: str | bytes,
    tokenizer: str,
    do_lower_case: bool,
    special_tokens_in_text: bool = False,
    verify_casing: bool = True,
    channels: Sequence[Channel] = (),
    positions: str = "tokens",
) -> BertTokenizer:
    """Makes a tokenizer.

    Args:
        vocab_file: one piece a line, [PAD] first; a path, or the bytes of such a file.
        tokenizer: one of choices.TOKENIZERS.
        do_lower_case: whether a WordPiece vocabulary is uncased. Symbols are never lower-cased.
        special_tokens_in_text: see BertTokenizer.
        verify_casing: see BertTokenizer.
        channels: see SymbolTokenizer. WordPiece has none.
        positions: see SymbolTokenizer.

    Raises:
        DataError: the vocabulary is not usable.
    """
    if tokenizer == "symbols":
        return SymbolTokenizer(vocab_file, special_tokens_in_text, channels, positions)
    return BertTokenizer(vocab_file, do_lower_case, special_tokens_in_text, verify_casing=verify_casing)

"""Learns the vocabulary of symbols from text: the symbols that occur often enough."""

import dataclasses
from collections.abc import Iterable, Iterator

from pipelines.channels import SEPARATOR
from pipelines.data_error import DataError
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES
from pipelines.wordpiece.vocabulary_checks import symbol_fault
from pipelines.wordpiece.words import WordCounts, bounded_counts

_SEPARATOR = SEPARATOR.encode()


@dataclasses.dataclass(frozen=True)
class SymbolVocabulary:
    """A vocabulary of symbols, and how much of the text it covers.

    Attributes:
        pieces: the special pieces, then the symbols, the most frequent first.
        num_left_out: different symbols that are too rare or have no room.
        unknown: share of the text's symbols that are [UNK], from 0 to 1.
    """

    pieces: list[str]
    num_left_out: int
    unknown: float


def count_symbols(text_batches: Iterable, has_values: bool = False) -> WordCounts:
    """Counts the symbols of a text in bounded memory; see words.bounded_counts.

    Args:
        text_batches: iterable of string tensors [n] or lists of strings.
        has_values: whether the values of channels stand behind the symbols. They are not counted.
    """
    return bounded_counts(_symbols(text_batches, has_values))


def _symbols(text_batches, has_values) -> Iterator[list[bytes]]:
    for batch in text_batches:
        texts = batch if isinstance(batch, (list, tuple)) else batch.numpy().tolist()
        symbols = [symbol for text in texts for symbol in (text.encode() if isinstance(text, str) else text).split()]
        yield [symbol.partition(_SEPARATOR)[0] for symbol in symbols] if has_values else symbols


def learn_from_symbols(counted: WordCounts, vocab_size: int, min_count: int) -> SymbolVocabulary:
    """Makes a vocabulary of the most frequent symbols.

    Args:
        counted: the result of count_symbols.
        vocab_size: the largest number of entries, special pieces included.
        min_count: the fewest occurrences of an entry.

    Returns:
        SymbolVocabulary.

    Raises:
        DataError: there are no symbols, none is frequent enough, or a symbol cannot be an entry.
    """
    counts = counted.counts
    if not counts:
        raise DataError("learn_vocab: the text holds no symbol; give files with symbols and spaces between them")
    wanted = sorted(
        (symbol for symbol, count in counts.items() if count >= min_count and symbol not in SPECIAL_PIECES),
        key=lambda symbol: (-counts[symbol], symbol),
    )[: vocab_size - len(SPECIAL_PIECES)]
    if not wanted:
        raise DataError(
            f"learn_vocab: none of the {len(counts):,} symbols occurs {min_count:,} times, the most frequent one "
            f"{max(counts.values()):,} times; give a lower --min_count"
        )
    for symbol in wanted:
        if fault := symbol_fault(symbol):
            raise DataError(f"learn_vocab: the symbol {symbol[:60]!r} {fault}")
    covered = sum(counts[symbol] for symbol in wanted)
    return SymbolVocabulary([*SPECIAL_PIECES, *wanted], len(counts) - len(wanted), 1.0 - covered / counted.num_words)

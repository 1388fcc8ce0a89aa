"""The fit of a vocabulary to a text: pieces per word, unknown words, splits and scripts."""

import collections
import dataclasses
from collections.abc import Iterable, Iterator

import tensorflow as tf

from pipelines.text import scripts
from pipelines.wordpiece import words

_FLUSH_WORDS = 500_000  # distinct words in memory before they are added to the totals and removed
_WORDS_A_CALL = 1 << 16
_SPLITS_KEPT = 1000


def cut_words(tokenizer, distinct_words: list[str]) -> Iterator[tuple[str, list[int]]]:
    """Cuts words as a tokenizer does.

    Args:
        tokenizer: BertTokenizer.
        distinct_words: list of str, as pipelines.wordpiece.words gives them.

    Yields:
        (word, list of ids).
    """
    for start in range(0, len(distinct_words), _WORDS_A_CALL):
        batch = distinct_words[start : start + _WORDS_A_CALL]
        ids = tokenizer.tokenize(tf.constant(batch))
        flat, splits = ids.flat_values.numpy().tolist(), ids.row_splits.numpy().tolist()
        yield from ((word, flat[first:end]) for word, first, end in zip(batch, splits, splits[1:], strict=False))


@dataclasses.dataclass
class _Script:
    words: int = 0
    whole_words: int = 0
    unknown_words: int = 0
    pieces: int = 0
    characters: int = 0
    distinct_characters: int = 0
    distinct_characters_in_vocabulary: int = 0


def vocabulary_report(tokenizer, text_batches: Iterable, num_longest_splits: int = 20) -> dict:
    """Cuts a text into pieces and counts them, in bounded memory.

    The counts are exact for a text of any length, except those of the longest splits. These may be too low if a text
    has more than half a million distinct words.

    Args:
        tokenizer: BertTokenizer.
        text_batches: iterable of string tensors [n] or lists of strings.
        num_longest_splits: the most words to list as longest splits.

    Returns:
        dict of JSON values: words, pieces, pieces_per_word, unknown_words, unknown_word_share, unknown_piece_share,
        entries, entries_used, entries_used_share, words_by_pieces {pieces of a word: words, "[UNK]": words},
        longest_splits [{word, pieces, count}], scripts {script: counts of _Script}, most words first.
    """
    totals = _Totals(tokenizer)
    counts = collections.Counter()
    for batch in words.word_batches(text_batches, tokenizer.do_lower_case):
        counts.update(batch)
        if len(counts) > _FLUSH_WORDS:
            totals.add(counts)
            counts.clear()
    totals.add(counts)
    return totals.report(num_longest_splits)


class _Totals:
    """Sums over words, which arrive in several Counters."""

    def __init__(self, tokenizer):
        self._tokenizer = tokenizer
        self._vocabulary = set(tokenizer.vocabulary)
        self._used = set()
        self._by_pieces = collections.Counter()
        self._unknown = 0
        self._scripts = collections.defaultdict(_Script)
        self._characters = collections.Counter()
        self._splits = {}  # word -> [ids, count]

    def add(self, counts):
        counts = {word.decode(): count for word, count in counts.items()}
        for word, ids in cut_words(self._tokenizer, list(counts)):
            count, is_unknown = counts[word], ids == [self._tokenizer.unk_id]
            self._used.update(ids)
            script = self._scripts[scripts.script_of_word(word)]
            script.words += count
            script.pieces += count * len(ids)
            script.unknown_words += count * is_unknown
            script.whole_words += count * (len(ids) == 1 and not is_unknown)
            self._unknown += count * is_unknown
            self._by_pieces[len(ids)] += count * (not is_unknown)
            for character in word:
                self._characters[character] += count
            if len(ids) > 2:
                self._splits.setdefault(word, [ids, 0])[1] += count
        self._splits = dict(self._longest(_SPLITS_KEPT))

    def _longest(self, number):
        return sorted(self._splits.items(), key=lambda item: (-len(item[1][0]), -item[1][1], item[0]))[:number]

    def report(self, num_longest_splits):
        for character, count in self._characters.items():
            script = self._scripts[scripts.script_of_character(character)]
            script.characters += count
            script.distinct_characters += 1
            script.distinct_characters_in_vocabulary += (
                character in self._vocabulary or "##" + character in self._vocabulary
            )
        num_words = sum(script.words for script in self._scripts.values())
        num_pieces = sum(script.pieces for script in self._scripts.values())
        by_pieces = {str(pieces): count for pieces, count in sorted(self._by_pieces.items()) if count}
        return {
            "words": num_words,
            "pieces": num_pieces,
            "pieces_per_word": _ratio(num_pieces, num_words),
            "unknown_words": self._unknown,
            "unknown_word_share": _ratio(self._unknown, num_words),
            "unknown_piece_share": _ratio(self._unknown, num_pieces),
            "entries": self._tokenizer.vocab_size,
            "entries_used": len(self._used),
            "entries_used_share": _ratio(len(self._used), self._tokenizer.vocab_size),
            "words_by_pieces": {**by_pieces, "[UNK]": self._unknown},
            "longest_splits": [
                {"word": word, "pieces": [self._tokenizer.vocabulary[i] for i in ids], "count": count}
                for word, (ids, count) in self._longest(num_longest_splits)
            ],
            "scripts": {
                name: dataclasses.asdict(script)
                for name, script in sorted(self._scripts.items(), key=lambda item: (-item[1].words, item[0]))
            },
        }


def _ratio(part, whole):
    return part / whole if whole else 0.0


def report_lines(report: dict) -> list[str]:
    """Formats the report as lines of text.

    Args:
        report: dict, as vocabulary_report returns it.

    Returns:
        list of str.
    """
    lines = [
        f"words               {report['words']:>14,}",
        f"pieces              {report['pieces']:>14,}  {report['pieces_per_word']:.4f} a word",
        f"[UNK]               {report['unknown_words']:>14,}  {report['unknown_word_share']:.4%} of words, "
        f"{report['unknown_piece_share']:.4%} of pieces",
        f"entries used        {report['entries_used']:>14,}  {report['entries_used_share']:.1%} of "
        f"{report['entries']:,}",
        "",
        "words by number of pieces",
    ]
    lines += [
        f"{pieces:>7}  {count:>14,}  {_ratio(count, report['words']):8.3%}"
        for pieces, count in report["words_by_pieces"].items()
    ]
    lines += [
        "",
        "by script                        words      [UNK]  pieces a word     characters  distinct, in vocabulary",
    ]
    for name, script in report["scripts"].items():
        pieces = f"{_ratio(script['pieces'], script['words']):.3f}" if script["words"] else "-"
        unknown = f"{_ratio(script['unknown_words'], script['words']):.3%}" if script["words"] else "-"
        lines.append(
            f"  {name:<24}{script['words']:>12,}  {unknown:>9}  {pieces:>13}  {script['characters']:>13,}  "
            f"{script['distinct_characters']:,}, {script['distinct_characters_in_vocabulary']:,}"
        )
    lines += ["", "longest splits: occurrences, pieces"]
    lines += [
        f"{split['count']:>9,}  {len(split['pieces']):>3}  {' '.join(split['pieces'])}"
        for split in report["longest_splits"]
    ] or ["  no word is cut into three pieces or more"]
    return lines

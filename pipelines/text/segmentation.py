"""Chinese text cut into words by a segmenter, with a space between two words.

Only runs of Chinese characters are cut. BERT's tokenizer treats each of these characters as a separate word, so the
spaces do not change the pieces. With masking="segmented" the spaces mark the borders of words.
"""

import functools
import logging
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from pipelines.choices import SEGMENTERS
from pipelines.data_error import DataError

# As in pipelines.wordpiece.word_counting: google-research/bert's _is_chinese_char.
_CHINESE = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002ceaf\U0002f800-\U0002fa1f"
_CHINESE_RUN = re.compile(f"[{_CHINESE}]+")
_SPACES = re.compile(r" {2,}")
_SPACES_AT_LINE_ENDS = re.compile(r" *\n *")


class ChineseText(NamedTuple):
    """Statistics of the Chinese characters of a text.

    Attributes:
        characters: number of Chinese characters.
        run_length: mean length of a run of Chinese characters.
    """

    characters: int
    run_length: float


def chinese_text(texts: Iterable[str]) -> ChineseText:
    """Counts Chinese characters and their runs.

    Args:
        texts: iterable of str.

    Returns:
        ChineseText.
    """
    lengths = [len(run) for text in texts for run in _CHINESE_RUN.findall(text)]
    return ChineseText(sum(lengths), sum(lengths) / max(1, len(lengths)))


def check_segmenter(name: str) -> None:
    """Checks the name of a segmenter, and that its package is installed.

    Args:
        name: str. One of choices.SEGMENTERS.

    Raises:
        DataError: the segmenter is unknown, or its package is missing.
    """
    if name not in SEGMENTERS:
        raise DataError(f"segmenter is {name!r}; expected one of {', '.join(SEGMENTERS)}")
    if name == "jieba":
        _jieba()


def segment(records: list[bytes], segmenter: str) -> list[bytes]:
    """Cuts the Chinese text of records into words.

    Args:
        records: list of bytes, UTF-8. Sentences joined by newlines.
        segmenter: one of choices.SEGMENTERS; "none" changes nothing.

    Returns:
        list of bytes. The same text, with one space between two Chinese words. In records with Chinese text, several
        spaces become one.
    """
    if segmenter == "none":
        return records
    jieba = _jieba()

    def words(match):
        return f" {' '.join(jieba.cut(match[0]))} "

    def cut(text):
        if not _CHINESE_RUN.search(text):
            return text
        text = _SPACES.sub(" ", _CHINESE_RUN.sub(words, text))
        return _SPACES_AT_LINE_ENDS.sub("\n", text).strip(" ")

    return [cut(record.decode()).encode() for record in records]


@functools.cache
def _jieba() -> Callable:
    try:
        import jieba
    except ImportError:
        raise DataError(
            "segmenter is 'jieba', whose package is not installed; install it with pip install jieba, or cut the text "
            "with another segmenter and leave the spaces between its words"
        ) from None
    jieba.setLogLevel(logging.WARNING)  # otherwise jieba prints where it keeps its dictionary
    jieba.initialize()
    return jieba

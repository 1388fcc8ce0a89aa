"""Advice on the kind of masking, from a sample of the text: Chinese text has no spaces between words."""

from collections.abc import Sequence

import tensorflow as tf

from pipelines.text.segmentation import chinese_text
from pipelines.wordpiece.word_counting import count_words

_SAMPLE_BYTES = 1_000_000
_LEAST_CHINESE_SHARE = 0.2  # share of Chinese characters among the words
_LONGEST_MEAN_WORD = 4.0  # Chinese words have fewer than two characters on average; clauses have about ten


def masking_advice(corpora: Sequence[Sequence[str]], masking: str) -> list[str]:
    """Finds corpora whose Chinese text does not suit the masking.

    Args:
        corpora: for each corpus the paths of its shards, TFRecord files.
        masking: one of choices.MASKINGS.

    Returns:
        list of str. Lines of advice; empty if the masking suits all corpora.
    """
    if masking not in ("whole_word", "segmented"):
        return []
    return [line for shards in corpora if shards and (line := _advice(shards, masking))]


def _advice(shards, masking):
    records = _sample(shards)
    chinese = chinese_text(record.decode("utf-8", "replace") for record in records)
    share = chinese.characters / max(1, sum(map(count_words, records)))
    directory = shards[0].rpartition("/")[0]
    is_cut = chinese.run_length <= _LONGEST_MEAN_WORD
    if share < _LEAST_CHINESE_SHARE or (is_cut and masking == "segmented"):
        return None
    if masking == "segmented":
        return (
            f"--masking=segmented hides the text between two spaces, but the Chinese text of {directory} is not cut "
            f"into words ({chinese.run_length:.1f} characters between two spaces or marks); prepare it with "
            "prepare_corpus --segmenter=jieba, or cut the text with another segmenter first"
        )
    way = (
        "the text is cut into words: take --masking=segmented"
        if is_cut
        else "to hide words of several characters, prepare it with prepare_corpus --segmenter=jieba and take "
        "--masking=segmented"
    )
    return (
        f"--masking=whole_word hides Chinese characters one by one; these characters are {share:.0%} of the words of "
        f"{directory}; " + way
    )


def _sample(shards):
    """Returns the first records of the shards; they are a fair sample, because prepare_corpus shuffles records."""
    records, size = [], 0
    for record in tf.data.TFRecordDataset(list(shards)).as_numpy_iterator():
        records.append(record)
        size += len(record)
        if size > _SAMPLE_BYTES:
            break
    return records

"""Checks that a vocabulary fits a text, by the share of [UNK] among the word pieces.

The check runs before a training begins.
"""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from keras_bert_app.errors import UserError
from pipelines.choices import SYMBOL_FORMATS
from pipelines.corpus.manifest import shard_paths
from pipelines.wordpiece.tokenizer import BertTokenizer

MOST_UNKNOWN = 0.2  # above this share, the program refuses to train
REMARKABLE = 0.05  # above this share, the program warns the user
_SAMPLE_BYTES = 1 << 19
_MEND = "take a model or vocabulary for the text's language and case, or learn one from the text with learn_vocab"


def check_corpora(manifests: Mapping[str, dict], tokenizer: BertTokenizer) -> list[str]:
    """Checks that the vocabulary fits each corpus, from a sample of its training documents.

    The training documents are shuffled, so the first ones are a fair sample.

    Args:
        manifests: the manifest of each corpus, by directory.
        tokenizer: BertTokenizer.

    Returns:
        Lines of warning.

    Raises:
        UserError: more than MOST_UNKNOWN of the pieces of a corpus are [UNK].
    """
    lines = []
    for directory, manifest in manifests.items():
        if tokenizer.kind == "symbols" and (input_format := manifest.get("input_format")) not in SYMBOL_FORMATS:
            lines.append(
                f"{directory}: was prepared with --input_format={input_format}, so equal documents were dropped, and "
                "lines may have been split; prepare symbols with --input_format=symbols"
            )
        sentences, size = [], 0
        for record in tf.data.TFRecordDataset(shard_paths(directory, manifest, "train")).as_numpy_iterator():
            sentences += record[: _SAMPLE_BYTES - size].decode("utf-8", "ignore").split("\n")
            size += len(record)
            if size >= _SAMPLE_BYTES:
                break
        if sentences:
            lines += check(tokenizer.tokenize(tf.constant(sentences)).flat_values.numpy(), tokenizer, directory)
    return lines


def check(token_ids: np.ndarray, tokenizer: BertTokenizer, source: str, mend: str = _MEND) -> list[str]:
    """Checks the share of [UNK] among the word pieces of a text.

    Args:
        token_ids: int [T]. [CLS] and [SEP] do not count.
        tokenizer: BertTokenizer, or another object with unk_id, cls_id and sep_id.
        source: name of the text, for the message.
        mend: what to do, for the message.

    Returns:
        [], or a line of warning if more than REMARKABLE of the pieces are [UNK].

    Raises:
        UserError: more than MOST_UNKNOWN of the pieces are [UNK].
    """
    unknown = int((token_ids == tokenizer.unk_id).sum())
    total = int((~np.isin(token_ids, [tokenizer.cls_id, tokenizer.sep_id])).sum())
    if unknown <= REMARKABLE * total:
        return []
    line = f"{source}: {unknown / total:.1%} of {total:,} word pieces are [UNK]"
    if unknown > MOST_UNKNOWN * total:
        raise UserError(f"{line}, so text and vocabulary do not fit; expected {MOST_UNKNOWN:.0%} at most; {mend}")
    return [f"{line}; {mend}"]

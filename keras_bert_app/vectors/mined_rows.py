"""Rows of pairs with the hard negatives that a model finds for them."""

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import TextIO

import numpy as np

from keras_bert_app.config.prompts import DOCUMENT, QUERY
from keras_bert_app.tasks import hard_negatives
from keras_bert_app.tasks.families.text_vectors import Example
from keras_bert_app.tasks.hard_negatives import Mined, MiningOptions, PairTexts
from keras_bert_app.terminal.progress import Progress
from keras_bert_app.vectors import vector_files
from keras_bert_app.vectors.embedding import BATCH_SIZE, Embedder, for_role
from keras_bert_app.vectors.text_sources import work_of
from pipelines import storage


def mined(
    embed: Embedder, pairs: PairTexts, options: MiningOptions, stream: TextIO, batch_size: int = BATCH_SIZE
) -> tuple[Mined, int]:
    """Embeds anchors as queries and candidates as documents, and mines negatives.

    The vectors are in temporary files, not in memory.

    Args:
        embed: Embedder. The model.
        pairs: PairTexts.
        options: MiningOptions.
        stream: TextIO. The output for progress.
        batch_size: int. The most texts of a batch.

    Returns:
        (Mined, number of texts that lost their end).
    """
    groups, vectors, truncated = {QUERY: pairs.anchor_texts, DOCUMENT: pairs.candidates}, [], 0
    groups = {role: [text.encode("utf-8", "replace") for text in texts] for role, texts in groups.items()}
    everything = [text for texts in groups.values() for text in texts]
    with tempfile.TemporaryDirectory() as directory:
        progress = Progress("texts", len(everything), sum(map(work_of, everything)), stream)
        for role, texts in groups.items():
            path = os.path.join(directory, f"{role}.npy")
            of_role = for_role(embed, role)
            written = vector_files.write_vectors(of_role, iter(texts), len(texts), path, batch_size, progress.done)
            vectors.append(vector_files.load_vectors(path))
            truncated += written.truncated
        progress.end()
        progress = Progress("anchors", len(pairs.anchor_texts), len(pairs.anchor_texts), stream)
        found = hard_negatives.mine(pairs, *vectors, options, progress.done)
        progress.end()
    return found, truncated


def write_rows(path: str, examples: Sequence[Example], pairs: PairTexts, found: Mined) -> None:
    """Writes JSON lines with anchor, positive and the list negative: the row's own negatives, then the new ones.

    Args:
        path: str. X.jsonl, written whole or not at all.
        examples: sequence of Example. The pairs.
        pairs: PairTexts of these pairs.
        found: Mined of these pairs.
    """
    with storage.whole_file(path) as file:
        for example, numbers in zip(examples, found.numbers.tolist(), strict=True):
            anchor, positive, *negatives = example.texts
            negatives += [pairs.candidates[number] for number in numbers if number != hard_negatives.NONE]
            row = {"anchor": anchor, "positive": positive, "negative": negatives}
            file.write((json.dumps(row, ensure_ascii=False) + "\n").encode("utf-8", "replace"))


def report(found: Mined) -> Iterator[str]:
    """Yields lines about the number and the cosines of the new negatives.

    Args:
        found: Mined.
    """
    is_found = found.numbers != hard_negatives.NONE
    counts, most = is_found.sum(axis=1), is_found.shape[1]
    yield (
        f"{len(counts):,} pairs: {np.sum(counts == most):,} have {most} new negatives, "
        f"{np.sum((counts > 0) & (counts < most)):,} have fewer, {np.sum(counts == 0):,} have none"
    )
    if is_found.any():
        yield (
            f"mean cosine with the anchor: positive {found.positive_cosines.mean():.3f}, new negatives "
            f"{found.cosines[is_found].mean():.3f}"
        )
    else:
        yield (
            "warning: no text is a negative; give a smaller --range_min (few different texts) or a smaller --margin "
            "(the model does not yet tell the texts apart)"
        )

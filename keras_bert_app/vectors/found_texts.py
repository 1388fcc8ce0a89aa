"""The texts that a search has found, as a table for people and as JSON lines for programs."""

import json
from collections.abc import Callable, Iterable
from typing import NamedTuple

from keras_bert_app.terminal import screen, text_columns


class FoundText(NamedTuple):
    """A text that a search has found.

    Attributes:
        row: int. Its number in the corpus, from 0.
        cosine: float. The cosine with the query, or the cosine of the signs of both.
        text: bytes.
        score: float or None. The score of a reranker.
    """

    row: int
    cosine: float
    text: bytes
    score: float | None = None


def reranked(reranker: Callable, query: bytes, found: list[FoundText], count: int) -> list[FoundText]:
    """The texts with a reranker's highest scores, the best first. If scores are equal, the nearer text comes first.

    Args:
        reranker: rerankers.Reranker.
        query: bytes.
        found: FoundTexts, the nearest first.
        count: int. How many texts to keep.
    """
    from keras_bert_app.vectors.rerankers import best_first

    scores = reranker(query, [each.text for each in found])
    return [found[number]._replace(score=float(scores[number])) for number in best_first(scores)[:count]]


def table(query: bytes, found: Iterable[FoundText], measure: str) -> str:
    """Formats the query, and a line for each text: its score, its cosine, its number from 1, and its beginning.

    Args:
        query: bytes.
        found: FoundTexts, the best first.
        measure: str. "cosine" or "cosine_of_signs".
    """
    kind, width = "" if measure == "cosine" else " of signs", screen.columns()
    lines = [_shown(query, max(width - 20, 40))]
    for row, cosine, text, score in found:
        numbers = ("" if score is None else f"{score:7.3f}  ") + f"{cosine:6.3f}{kind}  {row + 1:>9,}"
        lines.append(f"  {numbers}  {_shown(text, max(width - len(numbers) - 3, 40))}")
    return "\n".join(lines) + "\n"


def _shown(text, room):
    shown = text_columns.printable(text[: 4 * room].decode("utf-8", "replace"))
    return shown if len(shown) <= room else shown[: room - 3] + "..."


def json_line(query: bytes, found: Iterable[FoundText], measure: str) -> str:
    """Formats one JSON object: the query, and the texts with their numbers from 1, scores and cosines.

    Args:
        query: bytes.
        found: FoundTexts, the best first.
        measure: str. "cosine" or "cosine_of_signs".
    """
    listed = [
        {
            "text_number": row + 1,
            **({} if score is None else {"score": round(score, 6)}),
            measure: round(cosine, 6),
            "text": text.decode("utf-8", "replace"),
        }
        for row, cosine, text, score in found
    ]
    return json.dumps({"query": query.decode("utf-8", "replace"), "nearest": listed}, ensure_ascii=False) + "\n"

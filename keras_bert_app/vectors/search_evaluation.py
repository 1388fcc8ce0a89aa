"""Rankings of a model or a reranker for a collection, and scores of several rankings with their intervals."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TextIO

import numpy as np

from keras_bert_app.tasks import intervals
from keras_bert_app.terminal.progress import Progress
from keras_bert_app.vectors import rescoring, vector_files, word_search
from keras_bert_app.vectors.compact_vectors import FLOAT32, RESCORED, kinds_of
from keras_bert_app.vectors.embedding import Embedder, embed_texts, for_role
from keras_bert_app.vectors.nearest import nearest
from keras_bert_app.vectors.rerankers import best_first
from keras_bert_app.vectors.search_collections import Collection
from keras_bert_app.vectors.text_sources import work_of

_QUERIES_AT_A_TIME = 256


def rankings_of_words(collection: Collection, count: int) -> dict[str, list[str]]:
    """The texts with the highest BM25 for each query: dict name of a query -> at most `count` ids, the best first."""
    rankings = word_search.rankings(collection.ids, collection.texts, collection.queries, count + 1)
    return {name: _others(name, found, count) for name, found in rankings.items()}


def rankings_of_model(
    embed: Embedder, collection: Collection, directory: str, count: int, stream: TextIO, dtypes: Sequence[str] = ()
) -> dict[str, dict[str, list[str]]]:
    """The nearest texts of a collection for each query, by the cosine of their vectors.

    A text whose id is that of the query does not count, as in BEIR.

    Args:
        embed: Embedder. The model. If it has prompts, queries and texts get those of their roles.
        collection: Collection.
        directory: str. A local folder for files of the vectors.
        count: how many texts to find.
        stream: file for progress lines.
        dtypes: sequence of str. Smaller types of compact_vectors.DTYPES, whose rankings are wanted too.

    Returns:
        dict kind of kinds_of(dtypes) -> dict name of a query -> ids, the nearest first.
    """
    vectors_file = os.path.join(directory, f"{FLOAT32}.npy")
    texts = [text.encode() for text in collection.texts]
    progress = Progress("texts", len(texts), sum(map(work_of, texts)), stream)
    counts = vector_files.write_vectors(
        for_role(embed, "document"), texts, len(texts), vectors_file, done=progress.done
    )
    progress.end()
    cut = {"texts": counts.truncated, "queries": 0}
    vectors, names = vector_files.load_vectors(vectors_file), list(collection.queries)
    stored = {dtype: _in_type(vectors, directory, dtype) for dtype in dtypes} | {FLOAT32: vectors}
    found = {kind: {} for kind in kinds_of(dtypes)}
    for start in range(0, len(names), _QUERIES_AT_A_TIME):
        some = names[start : start + _QUERIES_AT_A_TIME]
        queries, truncated = embed_texts(for_role(embed, "query"), [collection.queries[name].encode() for name in some])
        cut["queries"] += int(truncated.sum())
        rows = {kind: nearest(queries, of_kind, count + 1)[1] for kind, of_kind in stored.items()}
        if RESCORED in found:
            candidates = nearest(queries, stored["binary"], rescoring.default_count(count + 1))[1]
            rows[RESCORED] = rescoring.rescored(queries, candidates, vectors.__getitem__, count + 1)[1]
        for kind, rankings in found.items():
            for name, row in zip(some, rows[kind].tolist(), strict=True):
                rankings[name] = _others(name, [collection.ids[place] for place in row], count)
    for what, number in cut.items():
        if number:
            print(
                f"{number:,} {what} had more tokens than the model reads; their ends were left out",
                file=stream,
                flush=True,
            )
    return found


def _in_type(vectors, directory, dtype):
    path = os.path.join(directory, f"{dtype}.npy")
    vector_files.write_in_type(vectors, path, dtype)
    return vector_files.load_vectors(path, vector_files.ANY)


def reranked(
    reranker: Callable, collection: Collection, rankings: Mapping[str, list[str]], count: int, stream: TextIO
) -> dict[str, list[str]]:
    """The rankings with their first texts in the order of a reranker.

    Args:
        reranker: function (query, texts) -> scores, such as rerankers.Reranker.
        collection: Collection.
        rankings: dict name of a query -> ids, the result of a search.
        count: how many texts of each query to score. The others follow in their order.
        stream: file for progress lines.
    """
    texts, found = dict(zip(collection.ids, collection.texts, strict=True)), {}
    # A ranking from a file may name texts that the collection lacks.
    rankings = {query: [name for name in names if name in texts] for query, names in rankings.items()}
    work = {query: sum(work_of(texts[name].encode()) for name in names[:count]) for query, names in rankings.items()}
    progress = Progress("queries", len(work), sum(work.values()), stream)
    for query, names in rankings.items():
        scores = reranker(collection.queries[query].encode(), [texts[name].encode() for name in names[:count]])
        found[query] = [*(names[number] for number in best_first(scores)), *names[count:]]
        progress.done(1, work[query])
    progress.end()
    return found


def _others(query, names, count):
    return [name for name in names if name != query][:count]


def compared(scores: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, Any]:
    """The mean of each score, its 95 % interval over queries, and those of the differences to the last ranking.

    Args:
        scores: dict name of a ranking -> dict score -> float [Q]. The last ranking is compared with the others.
    """
    *others, last = scores
    results = {}
    for name, of_queries in scores.items():
        results[name] = {
            score: {"mean": float(values.mean()), "interval": list(intervals.interval(values, range(len(values))))}
            for score, values in of_queries.items()
        }
    for name in others:
        for score, values in scores[last].items():
            other = scores[name][score]
            comparison = intervals.compared(values, other, range(len(values)))
            results[name][score]["gain_of_last"] = float((values - other).mean())
            results[name][score]["gain_interval"] = list(comparison.difference_interval)
    return results


def table(results: Mapping[str, Any]) -> Iterator[str]:
    """Yields the lines of a table of the results of `compared`."""
    names = list(next(iter(results.values())))
    width = max(24, *(len(name) for name in results))
    yield f"{'':{width}}" + "".join(f"  {name:>10}" for name in names)
    for name, figures in results.items():
        yield f"{name:{width}}" + "".join(f"  {figures[score]['mean']:10.4f}" for score in names)
    *others, last = results
    for name in others:
        low, high = results[name][names[0]]["gain_interval"]
        gain = results[name][names[0]]["gain_of_last"]
        yield f"{names[0]} of {last} minus that of {name}: {gain:+.4f} (95 % interval {low:+.4f} to {high:+.4f})"

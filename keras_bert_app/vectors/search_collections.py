"""Collections for the evaluation of search in BEIR's layout: corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv."""

import dataclasses
import json
import os
from collections.abc import Iterator

from keras_bert_app.errors import UserError
from keras_bert_app.tasks.readers.tables import lines_of, without_surrogates

_LARGEST_GRADE = 1_000_000  # nDCG adds up grades as floats


@dataclasses.dataclass(frozen=True)
class Collection:
    """Texts, queries, and which texts answer which query.

    Attributes:
        ids: ids of the texts, in the order of the file.
        texts: the texts: title and text, with a space between.
        queries: dict id -> query. Only queries with a relevant text.
        judged: dict id of a query -> dict id of a text -> grade.
    """

    ids: list[str]
    texts: list[str]
    queries: dict[str, str]
    judged: dict[str, dict[str, int]]


def read(directory: str, split: str = "test") -> Collection:
    """Reads a collection.

    Args:
        directory: str. A folder with corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv, plain or .gz.
        split: str. The name of the file of grades.

    Raises:
        UserError: a file is missing or faulty; the message has file and line.
    """
    texts = {name: " ".join(filter(None, (title, text))) for name, title, text in _records(directory, "corpus.jsonl")}
    queries = {name: text for name, _, text in _records(directory, "queries.jsonl")}
    judged = {}
    for place, query, text, grade in _grades(directory, split):
        for name, known, file in ((query, queries, "queries.jsonl"), (text, texts, "corpus.jsonl")):
            if name not in known:
                raise UserError(f"{place}: {name[:80]!r} is not in {file}; expected the _id of a line of that file")
        judged.setdefault(query, {})[text] = grade
    judged = {query: grades for query, grades in judged.items() if max(grades.values()) > 0}
    if not judged:
        raise UserError(
            f"{directory}: no query of qrels/{split}.tsv has a relevant text; expected a grade of 1 or more"
        )
    return Collection(list(texts), list(texts.values()), {query: queries[query] for query in judged}, judged)


def _records(directory, name) -> Iterator[tuple[str, str, str]]:
    """Yields (_id, title, text) of the lines of a file."""
    path, seen = _existing(directory, name), set()
    for number, line in lines_of(path):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        record = without_surrogates(record)
        values = [record.get(key, "") for key in ("_id", "title", "text")] if isinstance(record, dict) else [""]
        if not all(isinstance(value, str) for value in values) or not values[0]:
            raise UserError(
                f'{path}:{number}: {line[:60]!r}; expected an object such as {{"_id": "d1", "text": "..."}}'
            )
        if values[0] in seen:
            raise UserError(
                f"{path}:{number}: _id {values[0][:80]!r} occurs twice; expected another name for each text"
            )
        seen.add(values[0])
        yield tuple(values)


def _grades(directory, split):
    """Yields (place, query, text, grade) of the lines below the header."""
    path = _existing(directory, os.path.join("qrels", f"{split}.tsv"))
    for number, line in lines_of(path):
        fields = line.split("\t")
        if number == 1 and fields[:1] == ["query-id"] or not line.strip():
            continue
        try:
            query, text, grade = fields
            is_grade = abs(int(grade)) <= _LARGEST_GRADE
        except ValueError:
            is_grade = False
        if not is_grade:
            raise UserError(
                f"{path}:{number}: {line[:60]!r}; expected query-id, corpus-id and a whole number up to "
                f"{_LARGEST_GRADE:,}, with tabs between"
            )
        yield f"{path}:{number}", query, text, int(grade)


def _existing(directory, name):
    path = os.path.join(directory, name)
    for candidate in (path, f"{path}.gz"):
        if os.path.exists(candidate):
            return candidate
    raise UserError(
        f"{path}: there is no such file; expected a folder with corpus.jsonl, queries.jsonl and qrels/*.tsv"
    )

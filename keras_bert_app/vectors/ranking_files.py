"""Rankings in files, in the format of TREC's runs: query, Q0, text, rank, score and the name of the ranking."""

import hashlib
import math
import os
from collections.abc import Iterable, Mapping, Sequence

from keras_bert_app.errors import UserError
from keras_bert_app.tasks.readers.tables import lines_of
from pipelines import storage

_ENDING = ".trec"
_MOST_CHARACTERS = 100  # of a file's name; file systems take 255 bytes


def write(path: str, rankings: Mapping[str, Sequence[str]], name: str) -> None:
    """Writes rankings. The score of a text counts down to 1 for the last one, because trec_eval sorts by the score.

    Args:
        path: str. The new file.
        rankings: dict query -> ids of texts, the best first.
        name: str. The name of the ranking, the last field of each line.

    Raises:
        UserError: see check_ids.
    """
    check_ids([*rankings, *(text for texts in rankings.values() for text in texts)])
    tag, lines = "_".join(name.split()), []
    for query, texts in rankings.items():
        for rank, text in enumerate(texts, 1):
            lines.append(f"{query} Q0 {text} {rank} {len(texts) - rank + 1} {tag}\n")
    storage.write_whole(path, "".join(lines))


def check_ids(ids: Iterable[str]) -> None:
    """Checks that the format can hold the ids of queries and texts.

    Args:
        ids: iterable of str.

    Raises:
        UserError: an id has a blank; fields of the format have none.
    """
    for name in ids:
        if name.split() != [name]:
            raise UserError(
                f"--save_rankings: the id {name[:80]!r} has a blank, which the format cannot hold; leave the flag out"
            )


def read(path: str, queries: Sequence[str]) -> dict[str, list[str]]:
    """Reads the rankings of some queries. A text whose id is that of the query does not count, as in BEIR.

    Args:
        path: str. A file in TREC's format, plain or .gz.
        queries: ids of the queries.

    Returns:
        dict query -> ids of texts by descending score; of equal scores, the first line comes first.

    Raises:
        UserError: a line has other fields, a text occurs twice for a query, or no line is about one of the queries.
    """
    wanted, found = set(queries), {}
    for number, line in lines_of(path):
        fields = line.split()
        if not fields:
            continue
        score = _score(fields)
        if score is None:
            raise UserError(
                f"{path}:{number}: {line[:60]!r}; expected six fields: query Q0 text rank score name-of-the-ranking"
            )
        if fields[0] in wanted and fields[2] != fields[0]:
            scores = found.setdefault(fields[0], {})
            if fields[2] in scores:
                raise UserError(f"{path}:{number}: the text {fields[2][:80]!r} occurs twice for query {fields[0][:80]}")
            scores[fields[2]] = score
    if not found:
        raise UserError(f"{path}: has none of the {len(wanted):,} queries; expected rankings of this collection")
    return {query: sorted(scores, key=lambda text: -scores[text]) for query, scores in found.items()}


def _score(fields):
    if len(fields) != 6:
        return None
    try:
        score = float(fields[4])
    except ValueError:
        return None
    return None if math.isnan(score) else score


def named(paths: Sequence[str]) -> dict[str, str]:
    """The files by the names of their rankings: the names of the files without their endings.

    Args:
        paths: files in TREC's format.

    Raises:
        UserError: a file is missing, or two files have the same name.
    """
    found = {}
    for path in paths:
        name = os.path.basename(path).removesuffix(".gz").removesuffix(_ENDING)
        if not os.path.isfile(path):
            raise UserError(f"--rankings: there is no file {path}; expected files in TREC's format of runs")
        if name in found:
            raise UserError(f"--rankings: {found[name]} and {path} have the same name; rename one of them")
        found[name] = path
    return found


def file_name(name: str) -> str:
    """The name of the file for a ranking: letters, digits, dots and hyphens of its name, cut if it is long.

    Other characters become hyphens. Then, and if the name is cut, the file's name has a hash of the ranking's name.

    Args:
        name: str. The name of the ranking, such as a model's path.
    """
    kept = "".join(character if character.isalnum() or character in ".-_" else "-" for character in name)
    kept = kept.strip("-")[-_MOST_CHARACTERS:]
    if kept != name:
        kept = f"{kept or 'ranking'}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:6]}"
    return kept + _ENDING

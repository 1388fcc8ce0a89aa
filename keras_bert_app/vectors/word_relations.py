"""Nearest words and analogies of static word vectors."""

import dataclasses
import re
from collections.abc import Iterable, Sequence

import numpy as np

from keras_bert_app.errors import UserError
from keras_bert_app.training.evaluation import wilson_interval
from keras_bert_app.vectors.nearest import nearest
from keras_bert_app.vectors.static.unknown_words import vectors_of
from keras_bert_app.vectors.static.word_vector_files import WordVectors
from pipelines.text.text_files import open_text, readable
from pipelines.wordpiece.words import split_words

_ANALOGY = re.compile(r"([^:]+):([^:]+)::([^:]+)(?::\?)?")
_QUESTIONS_AT_A_TIME = 512
_MOST_QUESTION_BYTES = 1 << 16
ALL = "all"  # the name of the row for all sections together


@dataclasses.dataclass(frozen=True)
class Neighbour:
    """A word near a query.

    Attributes:
        word: str.
        rank: int. Its place in the file, from 1. Words of low rank are frequent.
        cosine: float.
    """

    word: str
    rank: int
    cosine: float


@dataclasses.dataclass(frozen=True)
class SectionScore:
    """The score of a section of analogies.

    Attributes:
        section: str.
        questions: int. Answered questions.
        skipped: int. Questions with an unknown word. They do not count in `accuracy`.
        correct: int.
        correct_alone: int. Questions that the nearest word of their third word answers, without the first two words.
    """

    section: str
    questions: int
    skipped: int
    correct: int
    correct_alone: int

    def figures(self) -> dict:
        """Returns the score as a dict for JSON. The interval is Wilson's at 95 %."""
        figures = {"section": self.section, "questions": self.questions, "skipped": self.skipped}
        if not self.questions:
            return {**figures, "accuracy": None, "interval": None, "accuracy_of_third_word_alone": None}
        share = self.correct / self.questions
        return {
            **figures,
            "accuracy": round(share, 6),
            "interval": [round(end, 6) for end in wilson_interval(share, self.questions)],
            "accuracy_of_third_word_alone": round(self.correct_alone / self.questions, 6),
        }


def parse_query(text: str) -> tuple[str, ...]:
    """Splits a query into its words.

    Args:
        text: str. A word, or an analogy as a:b::c:? or a:b::c.

    Returns:
        (word,) or (a, b, c).

    Raises:
        UserError: the text is empty or has two colons in a row, but is no analogy.
    """
    if match := _ANALOGY.fullmatch(text):
        return tuple(word.strip() for word in match.groups())
    if "::" in text and text != "::" or not text.strip():
        raise UserError(f"the query {text!r} is no word and no analogy; write an analogy as man:king::woman:?")
    return (text.strip(),)


def forms_in_file(words: Sequence[str], known: WordVectors) -> list[str]:
    """Finds each word in a file: as it is, or else in lower case without accents, as an uncased training has it.

    Args:
        words: sequence of str.
        known: WordVectors.

    Returns:
        list of str. A word that the file has in neither form stays as it is.
    """
    missing = list(dict.fromkeys(word for word in words if word not in known.rows))
    forms = split_words(missing, do_lower_case=True).to_list() if missing else []
    uncased = {word: form[0].decode() for word, form in zip(missing, forms, strict=True) if len(form) == 1}
    return [word if word in known.rows or uncased.get(word) not in known.rows else uncased[word] for word in words]


def with_first_words(known: WordVectors, count: int) -> WordVectors:
    """Keeps the first words of a file, which are the most frequent ones.

    Args:
        known: WordVectors.
        count: int. The number of words; 0 for all.

    Returns:
        WordVectors.
    """
    if not count or count >= len(known.words):
        return known
    return dataclasses.replace(known, words=known.words[:count], vectors=known.vectors[:count])


def neighbours(
    queries: Sequence[tuple[str, ...]], known: WordVectors, top_k: int, policy: str = "none"
) -> list[list[Neighbour]]:
    """Finds the nearest words of words and analogies.

    The answer of an analogy is near b - a + c, whose terms have length 1 (Mikolov et al. 2013, "Linguistic
    Regularities"). The words of a query are no answers to it.

    Args:
        queries: sequence of tuples, as parse_query returns them.
        known: WordVectors.
        top_k: int. The number of neighbours.
        policy: str. The policy for unknown words of queries; see unknown_words. "none" refuses them.

    Returns:
        list of lists of Neighbour, the nearest first.

    Raises:
        UserError: a word is unknown and the policy is "none".
    """
    queries = [tuple(forms_in_file(query, known)) for query in queries]
    words = list(dict.fromkeys(word for query in queries for word in query))
    unknown = [word for word in words if word not in known.rows]
    if unknown and policy == "none":
        raise UserError(
            f"the vectors have no word {unknown[0]!r}; give one of their {len(known.words):,} words, or "
            "--unknown_vectors=characters for a vector from its letters"
        )
    vectors = dict(zip(words, _unit(vectors_of(words, known, policy)), strict=True))
    points = np.array([_point([vectors[word] for word in query]) for query in queries])
    return [
        [Neighbour(known.words[row], row + 1, cosine) for row, cosine in zip(*found, strict=True)]
        for found in _nearest_others(points, queries, known, top_k)
    ]


def read_questions(path: str) -> dict[str, list[tuple[str, ...]]]:
    """Reads analogies in the format of word2vec's questions-words.txt.

    A line ": name" begins a section. Every other line has four words.

    Args:
        path: str. The file, plain or gzip.

    Returns:
        dict section -> list of (a, b, c, d).

    Raises:
        UserError: a line has the wrong form, or there is no question.
    """
    sections, name = {}, "without a section"
    with open_text(path) as stream, readable(path):
        number = 0
        while line := stream.readline(_MOST_QUESTION_BYTES):
            number += 1
            fields = line.decode("utf-8", "replace").split()
            if fields and fields[0].startswith(":"):
                name = " ".join(fields)[1:].strip() or "without a name"
                if name == ALL:
                    raise UserError(f"{path}:{number}: a section has the name {ALL!r}, which the total has; rename it")
            elif len(fields) == 4:
                sections.setdefault(name, []).append(tuple(fields))
            elif fields:
                raise UserError(
                    f"{path}:{number}: has {len(fields)} words; expected four words (a b c d, for a:b::c:d), or "
                    '": name" at the beginning of a section'
                )
    if not sections:
        raise UserError(f"{path}: has no question; expected lines of four words, as in questions-words.txt")
    return sections


def score_questions(sections: dict[str, list[tuple[str, ...]]], known: WordVectors) -> list[SectionScore]:
    """Answers analogies and scores each section, and all sections together.

    Args:
        sections: dict section -> list of (a, b, c, d), as read_questions returns them.
        known: WordVectors.

    Returns:
        list of SectionScore. The last one is for all sections.
    """
    unit, scores = _unit(known.vectors), []
    for name, questions in sections.items():
        flat = forms_in_file([word for question in questions for word in question], known)
        answerable = [
            tuple(known.rows[word] for word in question)
            for question in zip(*[iter(flat)] * 4, strict=True)
            if all(word in known.rows for word in question)
        ]
        correct = correct_alone = 0
        for start in range(0, len(answerable), _QUESTIONS_AT_A_TIME):
            rows = np.array(answerable[start : start + _QUESTIONS_AT_A_TIME])
            first, second, third = (unit[column] for column in rows[:, :3].T)
            correct += _num_correct(second - first + third, rows, known)
            correct_alone += _num_correct(third, rows, known)
        scores.append(SectionScore(name, len(answerable), len(questions) - len(answerable), correct, correct_alone))
    totals = np.sum([dataclasses.astuple(score)[1:] for score in scores], axis=0).tolist()
    return [*scores, SectionScore(ALL, *totals)]


def _num_correct(points, rows, known):
    """How many points have their fourth word as the nearest word, without the first three words."""
    words = [tuple(known.words[row] for row in question[:3]) for question in rows]
    answers = [found[0][0] if found[0] else -1 for found in _nearest_others(points, words, known, 1)]
    return int(np.sum(np.array(answers) == rows[:, 3]))


def _nearest_others(points, queries, known, top_k):
    """For each point (rows, cosines) of its nearest words, without the words of its query."""
    cosines, rows = nearest(points, known.vectors, top_k + max(map(len, queries)))
    for query, query_rows, query_cosines in zip(queries, rows.tolist(), cosines.tolist(), strict=True):
        kept = [pair for pair in zip(query_rows, query_cosines, strict=True) if known.words[pair[0]] not in query]
        yield tuple(zip(*kept[:top_k], strict=True)) if kept else ((), ())


def _point(vectors):
    """The point of a query: a word's vector, or b - a + c."""
    return vectors[0] if len(vectors) == 1 else vectors[1] - vectors[0] + vectors[2]


def _unit(vectors):
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(norms > 0, norms, 1)


def table(scores: Iterable[SectionScore]) -> list[str]:
    """Formats the scores of sections as lines of a table.

    Args:
        scores: iterable of SectionScore.

    Returns:
        list of str.
    """
    scores = list(scores)
    width = max(len("section"), *(len(score.section) for score in scores))
    lines = [f"{'section':{width}}  accuracy  95 % interval    questions  skipped  third word alone"]
    for score in scores:
        figures = score.figures()
        if not score.questions:
            lines.append(f"{score.section:{width}}  {'-':>8}  {'-':>16}  {0:>9,}  {score.skipped:>7,}  {'-':>16}")
            continue
        low, high = figures["interval"]
        lines.append(
            f"{score.section:{width}}  {figures['accuracy']:>8.4f}  {low:.4f} to {high:.4f}  {score.questions:>9,}  "
            f"{score.skipped:>7,}  {figures['accuracy_of_third_word_alone']:>16.4f}"
        )
    return lines

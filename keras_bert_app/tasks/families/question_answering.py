"""The family of question answering: the answer is a part of a text, or the text has no answer.

Windows, labels, n-best answers and null scores are those of run_squad.py in google-research/bert, with one exception.
Positions count characters of the original text, not words between white space. The family cuts an answer from the text
without changes, in every writing system. run_squad.py searches the words for the normalized answer, and returns whole
words if this search fails.
"""

import dataclasses
import functools
import json
import os
from collections.abc import Sequence

import numpy as np

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.modeling.task_head import TOKENS, Head
from keras_bert_app.tasks import intervals, metrics, objectives, predicting, sampling
from keras_bert_app.tasks.families import answer_report, answer_spans, squad_scores
from keras_bert_app.tasks.families.group_scores import with_groups
from keras_bert_app.tasks.families.squad_scores import may_have_no_answer
from keras_bert_app.tasks.features import Features, RowBuilder, notes_of_empty, piece_ids, pieces_with_spans
from keras_bert_app.tasks.task import HEAD_FIELDS, Task, distinct_names, head_options

QUESTION_ANSWERING = "question_answering"
READS = (*HEAD_FIELDS, "doc_stride", "max_query_length", "max_answer_length", "n_best_size")

# Another module has these functions of the family.
baseline = answer_report.baseline
answers = answer_report.answers
mistakes = answer_report.mistakes

# The answers of the model are logits, and the names of the metrics say all.
make_answers, signatures = predicting.answers_are_logits, metrics.no_signatures
pictures = metrics.no_pictures


@dataclasses.dataclass(frozen=True)
class Example:
    """A question about a text.

    Attributes:
        guid: The id of the question.
        question: str.
        context: The text.
        answers: tuple of str, all of them right; () if the question has no answer; None if the answers are unknown.
        span: (first character, character after the last) of the first answer in the context; None without an answer.
        place: File, line and id.
        group: Language of the example, if several languages are scored separately; else "".
    """

    guid: str
    question: str
    context: str
    answers: tuple | None
    span: tuple | None
    place: str
    group: str = ""


def label_names(task: Task, examples: Sequence[Example], run: FinetuningConfig) -> tuple:
    """(), because the two outputs are the first and the last token of an answer."""
    return ()


def classes(task: Task, example: Example) -> tuple[str, ...]:
    """("answer",) or ("no answer",); () if all questions of the task have an answer."""
    return ("answer" if example.answers else "no answer",) if may_have_no_answer(task) else ()


def sources(examples: Sequence[Example]) -> list[tuple]:
    """The context of each question."""
    return [sampling.content(example.context) for example in examples]


def input_names(examples: Sequence[Example]) -> list[str]:
    """The names of the inputs of an exported model."""
    return ["question", "context"]


def featurize(
    task: Task, examples: Sequence[Example], tokenizer, run: FinetuningConfig, labels: tuple, has_labels: bool = True
) -> Features:
    """The Features of examples: each window [CLS] question [SEP] part of the text [SEP] is a unit.

    The labels are the places of the first and last token of the answer in the row. A window without the answer has
    the place of [CLS] twice.

    Raises:
        UserError: the tokenizer leaves no token of an answer, or rows are too short for a question and a text.
    """
    if run.max_seq_length <= run.max_query_length + 3:
        raise UserError(
            f"--max_seq_length={run.max_seq_length} leaves no room for a text beside --max_query_length="
            f"{run.max_query_length} tokens of the question and 3 special tokens; raise --max_seq_length, or lower "
            "--max_query_length"
        )
    questions = piece_ids(tokenizer, [example.question for example in examples])
    contexts = list(dict.fromkeys(example.context for example in examples))
    contexts = dict(zip(contexts, pieces_with_spans(tokenizer, contexts), strict=True))
    windows, units, cut, in_windows, lost = _Windows(RowBuilder(tokenizer)), [], 0, 0, 0
    empty = [
        index
        for index, (example, question) in enumerate(zip(examples, questions, strict=True))
        if not len(question) or not len(contexts[example.context][0])
    ]
    for index, (example, question) in enumerate(zip(examples, questions, strict=True)):
        pieces, piece_spans = contexts[example.context]
        cut += len(question) > run.max_query_length
        question = question[: run.max_query_length]
        answer = _answer_tokens(example, piece_spans) if has_labels and example.span else None
        parts = answer_spans.windows(len(pieces), run.max_seq_length - len(question) - 3, run.doc_stride)
        has_answer = windows.add(question, pieces, piece_spans, parts, answer)
        units += [index] * len(parts)
        in_windows += len(parts) > 1
        lost += answer is not None and not has_answer
    counts = (
        (cut, f"questions are longer than {run.max_query_length} tokens and were cut"),
        (in_windows, f"texts take several windows, {len(units):,} windows in all"),
        (lost, "answers are in no window as a whole"),
    )
    return windows.builder.features(
        units,
        labels={"labels": np.array(windows.places, np.int32)} if has_labels else {},
        notes=[
            *notes_of_empty(examples, empty, "a question or text"),
            *(f"{count:,} of {len(examples):,} {what}" for count, what in counts if count),
        ],
        for_decode={"spans": np.concatenate(windows.spans), "is_max_context": np.concatenate(windows.is_best)},
    )


class _Windows:
    """Collects the rows of all windows, their labels, and the facts about their tokens for decode.

    Attributes:
        builder: RowBuilder.
        places: list of [first, last] token of the answer in each row, [0, 0] without the answer.
        spans: list of int32 [tokens, 2]. The characters of each token in the context; -1 outside of the context.
        is_best: list of bool [tokens]. Whether the window gives the token the most context.
    """

    def __init__(self, builder):
        self.builder, self.places, self.spans, self.is_best = builder, [], [], []

    def add(self, question, pieces, piece_spans, parts, answer):
        """Adds the windows of one example.

        Args:
            question: int32 [tokens of the question].
            pieces: int32 [tokens of the context].
            piece_spans: int32 [tokens of the context, 2].
            parts: The result of answer_spans.windows.
            answer: (first, last) token of the answer in the context, or None.

        Returns:
            bool. Whether a window contains the whole answer.
        """
        offset, is_found = len(question) + 2, False
        for (start, length), best in zip(parts, answer_spans.max_context(parts), strict=True):
            self.builder.add(question, pieces[start : start + length])
            has_answer = answer is not None and start <= answer[0] and answer[1] < start + length
            is_found |= bool(has_answer)
            self.places.append([place - start + offset for place in answer] if has_answer else [0, 0])
            before, after = np.full((offset, 2), -1, np.int32), np.full((1, 2), -1, np.int32)
            self.spans += [before, piece_spans[start : start + length], after]
            self.is_best += [np.zeros(offset, bool), best, np.zeros(1, bool)]
        return is_found


def _answer_tokens(example, spans):
    """(first, last) token that has a character of the answer."""
    start, end = example.span
    tokens = np.flatnonzero((spans[:, 1] > start) & (spans[:, 0] < end))
    if not len(tokens):
        raise UserError(f"{example.place}: the answer {example.answers[0]!r} has no word piece; remove the question")
    return tokens[0], tokens[-1]


def texts(examples: Sequence[Example]) -> list[str]:
    """All texts, for masked LM on them. A context with several questions occurs once."""
    return list(dict.fromkeys(text for example in examples for text in (example.context, example.question)))


def make_head(task: Task, run: FinetuningConfig, labels: tuple, tokenizer=None) -> Head:
    """The Head of a run: the logits of the first and the last token of an answer."""
    return Head(TOKENS, 2, **head_options(run))


def make_objective(task: Task, run: FinetuningConfig, head: Head) -> objectives.QuestionAnswering:
    """Cross-entropy of the first and last token of an answer."""
    return objectives.QuestionAnswering(consistency_weight=run.consistency_weight)


def decode(
    task: Task,
    examples: Sequence[Example],
    features: Features,
    logits: Sequence[np.ndarray],
    run: FinetuningConfig,
    labels: tuple,
) -> list[dict]:
    """The predictions from logits.

    Args:
        task: Task.
        examples: The examples.
        features: Features of the examples.
        logits: list of float32 [tokens of the row, 2], one for each window.
        run: FinetuningConfig.
        labels: ().

    Returns:
        list of dicts: text, the answer; probability of the answer among the n best; start, its first character in the
        context, or -1 for no answer; nbest, a list of dicts with text, probability, start_logit and end_logit. If
        questions may have no answer, not_null is the best text that is not "". null_odds is the score of no answer
        minus the score of not_null.
    """
    edges = np.searchsorted(features.examples, np.arange(len(examples) + 1))
    return [
        _prediction(task, example, features, range(first, last), logits, run)
        for example, first, last in zip(examples, edges[:-1], edges[1:], strict=True)
    ]


def _prediction(task, example, features, units, logits, run):
    may_be_null = may_have_no_answer(task)
    logits = [logits[unit].astype(np.float64) for unit in units]
    kept = answer_spans.n_best(example.context, features, units, logits, run, may_be_null)
    sums = np.array([entry.sum() for entry, _ in kept.values()])
    shares = np.exp(sums - sums.max())
    shares = dict(zip(kept, (shares / shares.sum()).tolist(), strict=True))
    best = next(filter(None, kept), "")
    null_fields = {}
    text = best
    if may_be_null:
        null_fields = {"not_null": best, "null_odds": float(kept[""][0].sum() - kept[best][0].sum())}
        text = "" if null_fields["null_odds"] > run.null_score_diff_threshold else best
    nbest = [
        {"text": answer, "probability": shares[answer], "start_logit": float(entry[0]), "end_logit": float(entry[1])}
        for answer, (entry, _) in kept.items()
    ]
    return {"text": text, "probability": shares[text], "start": kept[text][1], **null_fields, "nbest": nbest}


def score(task: Task, examples: Sequence[Example], predictions: Sequence[dict], labels: tuple) -> dict[str, float]:
    """dict metric -> score, as group_scores.with_groups returns it."""
    return with_groups(functools.partial(_figures, task), examples, predictions)


def _figures(task, examples, predictions):
    right = [example.answers for example in examples]
    given = [prediction["text"] for prediction in predictions]
    if not may_have_no_answer(task):
        return squad_scores.scores_1_1(right, given)
    scores = squad_scores.scores_2_0(right, given, *_null_odds(predictions))
    return {name: scores[name] for name in task.metrics if name in scores}


def measure(task: Task, examples: Sequence[Example], predictions: Sequence[dict], labels: tuple) -> intervals.Measure:
    """The F1 of each answer, for resamples."""
    best_of = squad_scores.best_of_or_none if may_have_no_answer(task) else squad_scores.best_of
    return np.array(
        [
            best_of(example.answers, prediction["text"])[1]
            for example, prediction in zip(examples, predictions, strict=True)
        ],
        np.float64,
    )


def tune(examples: Sequence[Example], predictions: Sequence[dict]) -> dict[str, float]:
    """dict of the fields of FinetuningConfig with which these examples score best."""
    right = [example.answers for example in examples]
    _, threshold = squad_scores.best_threshold(right, *_null_odds(predictions), metric_index=1)
    return {"null_score_diff_threshold": threshold}


def _null_odds(predictions):
    """(not_null of each prediction, null_odds of each prediction)."""
    return (
        [prediction["not_null"] for prediction in predictions],
        [prediction["null_odds"] for prediction in predictions],
    )


def write_predictions(task: Task, directory: str, examples: Sequence[Example], predictions: Sequence[dict]) -> None:
    """Writes predictions.json and nbest_predictions.json, and null_odds.json for squad2.

    The files map ids to results, as run_squad.py writes them and SQuAD's official scripts read them. An unanswered
    question has "" in predictions.json. With null_odds.json and a tuned threshold, the official script finds the same
    best_f1 as this program. Its best_exact is at most the best_exact of this program, because answers above the
    threshold are already empty. Several languages may use the same ids. The ids are then LANGUAGE:ID. Several files of
    one language may, too; see distinct_names.
    """
    ids = distinct_names(examples)
    files = {"predictions": "text", "nbest_predictions": "nbest"}
    if may_have_no_answer(task):
        files["null_odds"] = "null_odds"
    for file_name, key in files.items():
        by_id = {name: prediction[key] for name, prediction in zip(ids, predictions, strict=True)}
        with open(os.path.join(directory, f"{file_name}.json"), "w", encoding="utf-8") as file:
            json.dump(by_id, file, indent=4)

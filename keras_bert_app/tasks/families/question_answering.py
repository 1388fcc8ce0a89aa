"""Tasks over questions and texts: the answer is a part of the text, or that there is none.

Windows, labels, n-best answers and null scores are those of google-research/bert run_squad.py. But places are counted
in characters of the text itself, not in words between white space, so that an answer is cut from the text as it stands
there, in every script. run_squad.py looks for the normalized answer among the words and gives them whole where it
fails; of the same logits its answers score the same on English, and less on German and Chinese.
"""

import dataclasses
import json
import os

import numpy as np

from keras_bert_app.errors import UserError
from keras_bert_app.modeling.task_model import TOKENS, Head
from keras_bert_app.tasks import objectives
from keras_bert_app.tasks.families import answer_spans, squad_scores
from keras_bert_app.tasks.families.answer_report import (  # part of a kind of task, as what follows is
    answers,
    baseline,
    mistakes,
)
from keras_bert_app.tasks.families.squad_scores import may_have_no_answer
from keras_bert_app.tasks.features import RowBuilder, notes_of_empty, piece_ids, pieces_with_spans
from keras_bert_app.tasks.task import names_in_answers

QUESTION_ANSWERING = "question_answering"
READS = ("doc_stride", "max_query_length", "max_answer_length", "n_best_size")


@dataclasses.dataclass(frozen=True)
class Example:
    """A question on a text.

    Attributes:
        guid: its id. answers: texts, each of which is right; () where there is none, None where it is not known.
        span: (start, end) of the first answer, characters of the context; None where there is none. place: file and id.
        group: its language, where several are scored, each by itself too.
    """

    guid: str
    question: str
    context: str
    answers: tuple | None
    span: tuple | None
    place: str
    group: str = ""


def label_names(task, examples, run):
    """(): the two outputs are an answer's first and last token."""
    return ()


def input_names(examples):
    """Names of what an export takes of an example."""
    return ["question", "context"]


def featurize(task, examples, tokenizer, run, labels, has_labels=True):
    """Features of examples: each window [CLS] question [SEP] part of the text [SEP] is a unit.

    Labels are the places of the answer's first and last token in the row; [CLS], twice, in windows without the answer.

    Raises:
        UserError: an answer of which the tokenizer leaves nothing; rows too short for a question and a text.
    """
    if run.max_seq_length <= run.max_query_length + 3:
        raise UserError(
            f"--max_seq_length={run.max_seq_length} leaves no room for a text beside --max_query_length="
            f"{run.max_query_length} tokens of question and 3 special ones; raise it, or lower the other"
        )
    questions = piece_ids(tokenizer, [example.question for example in examples])
    contexts = list(dict.fromkeys(example.context for example in examples))
    contexts = dict(zip(contexts, pieces_with_spans(tokenizer, contexts)))
    builder, units, places, spans, is_best = RowBuilder(tokenizer), [], [], [], []
    cut = in_windows = lost = 0
    empty = [
        index
        for index, (example, question) in enumerate(zip(examples, questions))
        if not len(question) or not len(contexts[example.context][0])
    ]
    for index, (example, question) in enumerate(zip(examples, questions)):
        pieces, of_pieces = contexts[example.context]
        cut += len(question) > run.max_query_length
        question = question[: run.max_query_length]
        answer = _answer_tokens(example, of_pieces) if has_labels and example.span else None
        parts = answer_spans.windows(len(pieces), run.max_seq_length - len(question) - 3, run.doc_stride)
        offset, found = len(question) + 2, 0
        for (start, length), best in zip(parts, answer_spans.max_context(parts)):
            builder.add(question, pieces[start : start + length])
            has_answer = answer is not None and start <= answer[0] and answer[1] < start + length
            found += has_answer
            places.append([place - start + offset for place in answer] if has_answer else [0, 0])
            outside = np.full((offset, 2), -1, np.int32), np.full((1, 2), -1, np.int32)
            spans += [outside[0], of_pieces[start : start + length], outside[1]]
            is_best += [np.zeros(offset, bool), best, np.zeros(1, bool)]
        units += [index] * len(parts)
        in_windows += len(parts) > 1
        lost += answer is not None and not found
    counts = (
        (cut, f"questions are longer than {run.max_query_length} tokens and were cut"),
        (in_windows, f"texts take several windows, {len(units):,} windows in all"),
        (lost, "answers are in no window as a whole"),
    )
    return builder.features(
        units,
        labels={"labels": np.array(places, np.int32)} if has_labels else {},
        notes=[
            *notes_of_empty(examples, empty, "a question or text"),
            *(f"{count:,} of {len(examples):,} {what}" for count, what in counts if count),
        ],
        for_decode={"spans": np.concatenate(spans), "is_max_context": np.concatenate(is_best)},
    )


def _answer_tokens(example, spans):
    """(first, last) of the tokens that have a character of the answer."""
    start, end = example.span
    tokens = np.flatnonzero((spans[:, 1] > start) & (spans[:, 0] < end))
    if not len(tokens):
        raise UserError(
            f"{example.place}: nothing is left of answer {example.answers[0]!r} once it is cut into "
            "tokens; remove the question"
        )
    return tokens[0], tokens[-1]


def texts(examples):
    """All texts, for masked LM on them."""
    return list(dict.fromkeys(text for example in examples for text in (example.context, example.question)))


def make_head(task, run, labels):
    """The Head of a run: the logits of an answer's first and last token."""
    return Head(TOKENS, 2, run.layers, bilstm_units=run.bilstm_units, dropout=run.classifier_dropout)


def make_objective(task, run, head):
    """What is minimized."""
    return objectives.QuestionAnswering(consistency_weight=run.consistency_weight)


def decode(task, examples, features, logits, run, labels):
    """Predictions from logits.

    Args:
        logits: list of float32 [tokens of the row, 2], one for each window.

    Returns:
        list of dicts, one for each example: text, the answer; its probability among the n best; start, its first
        character in the context, -1 for no answer; nbest, list of dicts text, probability, start_logit, end_logit.
        Where there may be no answer also not_null, the best that is one, and null_odds, how much more no answer scored.
    """
    edges = np.searchsorted(features.examples, np.arange(len(examples) + 1))
    return [
        _prediction(task, example, features, range(first, last), logits, run)
        for example, first, last in zip(examples, edges, edges[1:])
    ]


def _prediction(task, example, features, units, logits, run):
    may_be_null = may_have_no_answer(task)
    logits = [logits[unit].astype(np.float64) for unit in units]
    kept = answer_spans.n_best(example.context, features, units, logits, run, may_be_null)
    sums = np.array([entry.sum() for entry, _ in kept.values()])
    shares = np.exp(sums - sums.max())
    shares = dict(zip(kept, (shares / shares.sum()).tolist()))
    best = next(filter(None, kept), "")
    found = {}
    text = best
    if may_be_null:
        found = {"not_null": best, "null_odds": float(kept[""][0].sum() - kept[best][0].sum())}
        text = "" if found["null_odds"] > run.null_score_diff_threshold else best
    nbest = [
        {"text": one, "probability": shares[one], "start_logit": float(entry[0]), "end_logit": float(entry[1])}
        for one, (entry, _) in kept.items()
    ]
    return {"text": text, "probability": shares[text], "start": kept[text][1], **found, "nbest": nbest}


def score(task, examples, predictions, labels):
    """dict metric -> figure; of examples of several groups also metric_group -> that of the group's examples."""
    figures = _figures(task, examples, predictions)
    groups = sorted({example.group for example in examples} - {""})
    for group in groups if len(groups) > 1 else ():
        members = [(example, one) for example, one in zip(examples, predictions) if example.group == group]
        figures |= {f"{name}_{group}": value for name, value in _figures(task, *zip(*members)).items()}
    return figures


def _figures(task, examples, predictions):
    answers = [example.answers for example in examples]
    given = [one["text"] for one in predictions]
    if not may_have_no_answer(task):
        return squad_scores.scores_1_1(answers, given)
    found = squad_scores.scores_2_0(answers, given, *_null_odds(predictions))
    return {name: found[name] for name in task.metrics if name in found}


def tune(examples, predictions):
    """dict of the fields of FinetuningConfig with which these examples score best."""
    answers = [example.answers for example in examples]
    _, threshold = squad_scores.best_threshold(answers, *_null_odds(predictions), which=1)
    return {"null_score_diff_threshold": threshold}


def _null_odds(predictions):
    return [one["not_null"] for one in predictions], [one["null_odds"] for one in predictions]


def write_predictions(task, directory, examples, predictions):
    """Writes predictions.json, nbest_predictions.json and, where there may be no answer, null_odds.json.

    From ids to what was found, as run_squad.py writes them and SQuAD's official scripts read them. A question that is
    left unanswered has "" in the first: with null_odds.json the script finds best_f1 as we do where the threshold is
    tuned, but no better best_exact than with these answers. Of several languages, whose ids are the same, the language stands before the id.
    """
    ids = names_in_answers(examples)
    files = {"predictions": "text", "nbest_predictions": "nbest"}
    if may_have_no_answer(task):
        files["null_odds"] = "null_odds"
    for file_name, key in files.items():
        with open(os.path.join(directory, f"{file_name}.json"), "w", encoding="utf-8") as file:
            json.dump({name: one[key] for name, one in zip(ids, predictions)}, file, indent=4)

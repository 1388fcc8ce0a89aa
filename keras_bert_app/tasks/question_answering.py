"""Tasks over questions and texts: the answer is a part of the text, or that there is none.

Windows, labels, n-best answers and null scores are those of google-research/bert run_squad.py. But places are counted
in characters of the text itself, not in words between white space, so that an answer is cut from the text as it stands
there, in every script. run_squad.py looks for the normalized answer among the words and gives them whole where it
fails; of the same logits its answers score the same on English, and less on German and Chinese.
"""

import dataclasses
import json
import os
import re

import numpy as np

from keras_bert_app.errors import UserError
from keras_bert_app.modeling.task_model import TOKENS, Head
from keras_bert_app.tasks import answer_spans, objectives, squad_scores
from keras_bert_app.tasks.features import RowBuilder, piece_ids, pieces_with_spans

QUESTION_ANSWERING = "question_answering"
_EXCERPT = 80  # characters of the text that are shown on each side of an answer
_LENGTHS = ((1, "1 word"), (2, "2 words"), (5, "3 to 5"), (10, "6 to 10"))  # of right answers, in the picture
_OUTCOMES, _NO_ANSWER = ("exact", "in part", "another"), "no answer"


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


def label_names(task, examples):
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
        raise UserError(f"--max_seq_length={run.max_seq_length} leaves no room for a text beside --max_query_length="
                        f"{run.max_query_length} tokens of question and 3 special ones; raise it, or lower the other")
    questions = piece_ids(tokenizer, [example.question for example in examples])
    contexts = list(dict.fromkeys(example.context for example in examples))
    contexts = dict(zip(contexts, pieces_with_spans(tokenizer, contexts)))
    builder, units, places, spans, is_best = RowBuilder(tokenizer), [], [], [], []
    cut = in_windows = lost = 0
    for index, (example, question) in enumerate(zip(examples, questions)):
        pieces, of_pieces = contexts[example.context]
        cut += len(question) > run.max_query_length
        question = question[:run.max_query_length]
        answer = _answer_tokens(example, of_pieces) if has_labels and example.span else None
        parts = answer_spans.windows(len(pieces), run.max_seq_length - len(question) - 3, run.doc_stride)
        offset, found = len(question) + 2, 0
        for (start, length), best in zip(parts, answer_spans.max_context(parts)):
            builder.add(question, pieces[start:start + length])
            has_answer = answer is not None and start <= answer[0] and answer[1] < start + length
            found += has_answer
            places.append([place - start + offset for place in answer] if has_answer else [0, 0])
            outside = np.full((offset, 2), -1, np.int32), np.full((1, 2), -1, np.int32)
            spans += [outside[0], of_pieces[start:start + length], outside[1]]
            is_best += [np.zeros(offset, bool), best, np.zeros(1, bool)]
        units += [index] * len(parts)
        in_windows += len(parts) > 1
        lost += answer is not None and not found
    counts = ((cut, f"questions are longer than {run.max_query_length} tokens and were cut"),
              (in_windows, f"texts take several windows, {len(units):,} windows in all"),
              (lost, "answers are in no window as a whole"))
    return builder.features(
        units, labels={"labels": np.array(places, np.int32)} if has_labels else {},
        notes=[f"{count:,} of {len(examples):,} {what}" for count, what in counts if count],
        for_decode={"spans": np.concatenate(spans), "is_max_context": np.concatenate(is_best)})


def _answer_tokens(example, spans):
    """(first, last) of the tokens that have a character of the answer."""
    start, end = example.span
    tokens = np.flatnonzero((spans[:, 1] > start) & (spans[:, 0] < end))
    if not len(tokens):
        raise UserError(f"{example.place}: nothing is left of answer {example.answers[0]!r} once it is cut into "
                        "tokens; remove the question")
    return tokens[0], tokens[-1]


def texts(examples):
    """All texts, for masked LM on them."""
    return list(dict.fromkeys(text for example in examples for text in (example.context, example.question)))


def make_head(task, run, labels):
    """The Head of a run: the logits of an answer's first and last token."""
    return Head(TOKENS, 2, run.layers, run.pooling, "", run.bilstm_units, run.classifier_dropout)


def make_objective(task, run):
    """What is minimized."""
    return objectives.QuestionAnswering()


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
    return [_prediction(task, example, features, range(first, last), logits, run)
            for example, first, last in zip(examples, edges, edges[1:])]


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
    nbest = [{"text": one, "probability": shares[one], "start_logit": float(entry[0]), "end_logit": float(entry[1])}
             for one, (entry, _) in kept.items()]
    return {"text": text, "probability": shares[text], "start": kept[text][1], **found, "nbest": nbest}


def may_have_no_answer(task):
    """Whether questions may have no answer."""
    return "best_f1" in task.metrics


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


def baseline(task, train_examples, examples, labels):
    """(what it does, predictions) of what needs no model."""
    if may_have_no_answer(task):
        return "never an answer", [{"text": "", "not_null": "", "null_odds": 0.0}] * len(examples)
    return ("the longest run of names and numbers in the sentence with most words of the question",
            [{"text": _names_in_likely_sentence(example)} for example in examples])


def _names_in_likely_sentence(example):
    def words(text):
        return set(re.findall(r"\w+", text.lower()))
    asked = words(example.question)
    sentences = re.split(r"(?<=[.!?])\s+|(?<=[。！？])", example.context)
    likely = max(sentences, key=lambda sentence: len(words(sentence) & asked))
    runs = [[]]
    for word in likely.split():
        if (word[0].isupper() or any(map(str.isdigit, word))) and not words(word) & asked:
            runs[-1].append(word)
        else:
            runs.append([])
    return " ".join(max(runs, key=len)) or likely


def answers(task, examples, predictions, labels):
    """(right ones, given ones, (names of the former, of the latter)) to draw: what became of answers, by length."""
    rows, columns = (*(name for _, name in _LENGTHS), "more"), _OUTCOMES
    if may_have_no_answer(task):
        rows, columns = (*rows, _NO_ANSWER), (*columns, _NO_ANSWER)
    gold = [_row_of(example.answers) for example in examples]
    given = [columns.index(_outcome(task, example, one["text"])) for example, one in zip(examples, predictions)]
    return gold, given, (rows, columns)


def _row_of(answers):
    if not answers:
        return len(_LENGTHS) + 1
    # A Chinese or Japanese character counts as a word.
    count = len(re.findall(r"[\u3040-\u9fff]|[^\s\u3040-\u9fff]+", answers[0]))
    return next((row for row, (most, _) in enumerate(_LENGTHS) if count <= most), len(_LENGTHS))


def _outcome(task, example, text):
    if not text and may_have_no_answer(task):
        return _NO_ANSWER
    is_exact, f1 = squad_scores.best_of_or_none(example.answers, text)
    exact, in_part, another = _OUTCOMES
    return another if not example.answers or not f1 else exact if is_exact else in_part


def write_predictions(task, directory, examples, predictions):
    """Writes predictions.json, nbest_predictions.json and, where there may be no answer, null_odds.json.

    From ids to what was found, as run_squad.py writes them and SQuAD's official scripts read them. Of several
    languages, whose ids are the same, the language stands before the id.
    """
    is_mixed = len({example.group for example in examples}) > 1
    ids = [f"{example.group}:{example.guid}" if is_mixed else example.guid for example in examples]
    files = {"predictions": "text", "nbest_predictions": "nbest"}
    if may_have_no_answer(task):
        files["null_odds"] = "null_odds"
    for file_name, key in files.items():
        with open(os.path.join(directory, f"{file_name}.json"), "w", encoding="utf-8") as file:
            json.dump({name: one[key] for name, one in zip(ids, predictions)}, file, indent=4)


def mistakes(task, examples, predictions, most):
    """The wrong answers of which the model is most sure, those with few right words first, as dicts for people."""
    found = []
    for example, one in zip(examples, predictions):
        is_exact, f1 = squad_scores.best_of_or_none(example.answers, one["text"])
        if not is_exact:
            found.append((one["probability"] * (1 - f1), example, one, f1))
    found.sort(key=lambda entry: -entry[0])
    return [{"place": example.place, "sure": round(one["probability"], 4), "predicted": one["text"] or _NO_ANSWER,
             "right": " | ".join(dict.fromkeys(example.answers)) or _NO_ANSWER, "f1": round(f1, 4),
             "text": f"{example.question} | {_excerpt(example, one)}"} for _, example, one, f1 in found[:most]]


def _excerpt(example, one):
    """The context around the right answer, or where there is none, around the one that was given."""
    start, end = example.span or (one["start"], one["start"] + len(one["text"]))
    start, end = max(0, start - _EXCERPT), end + _EXCERPT
    return f"{'…' if start else ''}{example.context[start:end]}{'…' if end < len(example.context) else ''}"

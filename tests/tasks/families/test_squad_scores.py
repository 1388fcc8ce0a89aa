"""Scores of answers equal those of SQuAD's official scripts."""

import json
import pathlib

import numpy as np
import pytest

from keras_bert_app.tasks.families import squad_scores

GOLDEN = json.loads((pathlib.Path(__file__).parents[2] / "golden" / "squad_scores.json").read_text(encoding="utf-8"))
QUESTIONS = GOLDEN["questions"]
ANSWERS, NOT_NULL, NULL_ODDS = ([one[key] for one in QUESTIONS] for key in ("answers", "not_null", "null_odds"))


def test_scores_of_version_1_1_are_those_of_the_official_script():
    answered = [one for one in QUESTIONS if one["answers"]]
    scores = squad_scores.scores_1_1([one["answers"] for one in answered], [one["not_null"] for one in answered])
    expected = GOLDEN["1.1"]
    assert 0.2 < expected["exact_match"] < expected["final_f1"] < 0.8
    assert scores == {
        "exact": pytest.approx(expected["exact_match"], abs=1e-12),
        "f1": pytest.approx(expected["final_f1"], abs=1e-12),
    }


def test_scores_of_version_2_0_are_those_of_the_official_script():
    scores = squad_scores.scores_2_0(ANSWERS, [one["given"] for one in QUESTIONS], NOT_NULL, NULL_ODDS)
    names = {
        "exact": "exact",
        "f1": "f1",
        "has_answer_exact": "HasAns_exact",
        "has_answer_f1": "HasAns_f1",
        "no_answer_exact": "NoAns_exact",
    }
    expected = {name: GOLDEN["2.0"][official] for name, official in names.items()}
    expected |= {f"best_{name}": GOLDEN["2.0 best"][f"final_{name}"] for name in ("exact", "f1")}
    assert scores == {name: pytest.approx(value / 100, abs=1e-12) for name, value in expected.items()}


def test_an_answer_without_words_after_normalization_scores_as_in_each_script():
    assert squad_scores.best_of(["the"], "a") == (1.0, 0.0)
    assert squad_scores.best_of_or_none(["the"], "a") == (1.0, 1.0)
    assert squad_scores.best_of_or_none(["--", "two"], "an") == (0.0, 0.0)
    assert squad_scores.best_of_or_none([], "two") == (0.0, 0.0)


@pytest.mark.parametrize("which", [0, 1])
def test_the_best_threshold_gives_the_answers_of_the_official_one_and_the_score_that_it_reports(which):
    name = ("exact", "f1")[which]
    _, threshold = squad_scores.best_threshold(ANSWERS, NOT_NULL, NULL_ODDS, which)
    official = GOLDEN["2.0 best"][f"final_{name}_thresh"]
    assert official > 0
    given = [text if odds <= threshold else "" for text, odds in zip(NOT_NULL, NULL_ODDS, strict=True)]
    assert given == [text if odds <= official else "" for text, odds in zip(NOT_NULL, NULL_ODDS, strict=True)]
    # If an answer has only punctuation and articles, "" is right although the question has an answer. The official
    # script then reports a share that is too low, so these questions are left out here.
    plain = [number for number, right in enumerate(ANSWERS) if not right or all(map(squad_scores.normalized, right))]
    answers, not_null, null_odds = ([values[number] for number in plain] for values in (ANSWERS, NOT_NULL, NULL_ODDS))
    share, threshold = squad_scores.best_threshold(answers, not_null, null_odds, which)
    given = [text if odds <= threshold else "" for text, odds in zip(not_null, null_odds, strict=True)]
    assert squad_scores.scores_2_0(answers, given, not_null, null_odds)[name] == pytest.approx(share, abs=1e-12)


def test_the_threshold_is_below_all_odds_if_it_is_best_to_answer_nothing():
    share, threshold = squad_scores.best_threshold([(), (), ("two",)], ["one", "one", "three"], [-2.0, 1.0, -7.0], 1)
    assert share == pytest.approx(2 / 3) and threshold < -7.0


def test_the_threshold_is_above_all_odds_if_it_is_best_to_answer_everything():
    share, threshold = squad_scores.best_threshold([("one",), ("two",)], ["one", "two"], [5.0, -3.0], 0)
    assert share == 1.0 and threshold > 5.0


def test_an_empty_prediction_for_a_question_without_an_answer_costs_no_score():
    assert squad_scores.best_threshold([(), ("one",)], ["", "one"], [-2.0, 1.0], 0)[0] == 1.0


def test_scores_of_a_kind_of_question_that_does_not_occur_are_left_out():
    scores = squad_scores.scores_2_0([("one",)], ["one"], ["one"], [-1.0])
    assert "no_answer_exact" not in scores and scores["has_answer_f1"] == scores["f1"] == 1.0
    assert "has_answer_f1" not in squad_scores.scores_2_0([()], [""], ["one"], np.array([3.0]))

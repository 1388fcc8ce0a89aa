"""Question answering: windows, labels and answers equal google-research/bert's, with answers cut from the text."""

import dataclasses
import io
import json
import pathlib

import numpy as np
import pytest

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.drawing.finetuning_pictures import draw_answers
from keras_bert_app.errors import UserError
from keras_bert_app.runs.shared_tokenizer import run_tokenizer
from keras_bert_app.tasks import registry
from keras_bert_app.tasks.families import answer_spans
from keras_bert_app.tasks.families import question_answering as qa
from keras_bert_app.tasks.families.question_answering import Example
from keras_bert_app.tasks.scoring import FinetunedRun
from keras_bert_app.tasks.task import distinct_names
from tests.cli.conftest import run as run_command  # noqa: F401  fixture
from tests.tasks.conftest import finetuned

GOLDEN_DIR = pathlib.Path(__file__).parents[2] / "golden"
TEXTS = str(GOLDEN_DIR / "squad_texts.json")
GOLDEN = json.loads((GOLDEN_DIR / "squad.json").read_text(encoding="utf-8"))
# More pieces at the end of the vocabulary leave the pieces of the golden texts unchanged.
MORE = ("mad", "##ame", "cure", "curie", "japan", "##ese", "cafe", "at", *"他们在北京大学")
VOCABULARY = (GOLDEN_DIR / "squad_vocab.txt").read_bytes() + "".join(f"{piece}\n" for piece in MORE).encode()
RUN = FinetuningConfig(**GOLDEN["metadata"]["settings"])
ONE, TWO = registry.find("squad1"), registry.find("squad2")
TASKS = {"1.1": ONE, "2.0": TWO}


@pytest.fixture(scope="module")
def tokenizer():
    return run_tokenizer(VOCABULARY, BertConfig())  # the runs of this module share this tokenizer and its trace


@pytest.fixture(scope="module")
def examples():
    return TWO.read_file(TEXTS, RUN)


@pytest.fixture(scope="module")
def features(examples, tokenizer):
    return qa.featurize(TWO, examples, tokenizer, RUN, ())


def example_of(context, answer=None, question="who was it ?", guid="q"):
    span = None if answer is None else (context.index(answer), context.index(answer) + len(answer))
    return Example(guid, question, context, () if answer is None else (answer,), span, f"texts.json: question {guid}")


def logits_for(features, first, last, unit=0, **places):
    """Logits of one window with tokens `first` to `last` as its best answer. at_N=x sets both logits of token N."""
    values = np.zeros((features.row_lengths()[unit], 2), np.float32)
    values[first, 0] = values[last, 1] = 5.0
    for place, value in places.items():
        values[int(place.removeprefix("at_"))] = value
    return values


def test_windows_labels_and_max_context_are_those_of_google(examples, features):
    assert features.num_units == len(GOLDEN["features"])
    for unit, golden in enumerate(GOLDEN["features"]):
        row = slice(*features.row_splits[unit : unit + 2])
        assert examples[features.examples[unit]].guid == golden["question"]
        assert features.token_ids[row].tolist() == golden["input_ids"]
        is_b = np.arange(len(golden["input_ids"])) >= features.b_starts[unit]
        assert is_b.astype(int).tolist() == golden["segment_ids"]
        assert features.for_decode["is_max_context"][row].astype(int).tolist() == golden["is_max_context"]
        assert features.labels["labels"][unit].tolist() == golden["labels"]
    assert sum(golden["labels"] != [0, 0] for golden in GOLDEN["features"]) > 20
    assert features.notes == [
        "10 of 19 questions are longer than 6 tokens and were cut",
        "17 of 19 texts take several windows, 72 windows in all",
    ]


@pytest.mark.parametrize("version", ["1.1", "2.0"])
def test_answers_n_best_and_null_odds_are_those_of_google(version, tokenizer, examples):
    golden, task = GOLDEN[version], TASKS[version]
    kept = [example for example in examples if example.guid in golden["predictions"]]
    logits = [
        np.array(eighths, np.float32).T / 8
        for eighths, window in zip(GOLDEN["logits"], GOLDEN["features"], strict=True)
        if window["question"] in golden["predictions"]
    ]
    answers = qa.decode(task, kept, qa.featurize(task, kept, tokenizer, RUN, (), has_labels=False), logits, RUN, ())
    for example, one in zip(kept, answers, strict=True):
        expected = golden["nbest"][example.guid]
        assert one["nbest"] == [
            {**entry, "probability": pytest.approx(entry["probability"], abs=1e-9)} for entry in expected
        ]
        assert one["text"] == golden["predictions"][example.guid]
        if one["text"]:
            assert example.context.startswith(one["text"], one["start"])
        if version == "2.0":
            assert one["null_odds"] == golden["null_odds"][example.guid]
    assert version == "1.1" or 0 < sum(not one["text"] for one in answers) < len(answers)


def test_an_answer_within_a_word_is_labelled_and_given_without_the_rest_of_the_word(tokenizer):
    example = example_of("The old, Japanese cafes.", "Japan")
    features = qa.featurize(ONE, [example], tokenizer, RUN, ())
    labels = features.labels["labels"][0]
    assert [tokenizer.vocabulary[piece] for piece in features.token_ids[labels[0] : labels[1] + 1]] == ["japan"]
    (one,) = qa.decode(ONE, [example], features, [logits_for(features, *labels)], RUN, ())
    assert (one["text"], one["start"]) == ("Japan", 9)


def test_the_second_of_two_equal_texts_is_labelled_at_its_own_place(tokenizer):
    example = dataclasses.replace(example_of("old-old cafe", "old"), span=(4, 7))
    features = qa.featurize(ONE, [example], tokenizer, RUN, ())
    assert (features.labels["labels"][0] - len("[CLS] who was it ? [SEP]".split())).tolist() == [2, 2]


@pytest.mark.parametrize(
    "context, answer",
    [
        ("It was Madame Curie.", "Madame Curie"),
        ("Old CAFÉ, it was", "CAFÉ"),
        ("old cafe\u0301s at", "cafe\u0301s"),
        ("at the cafe\u0301, old", "cafe\u0301"),
        ("他们在北京大学.", "北京"),
        ("was it  old\u00a0 cafes", "old\u00a0 cafes"),
        ("old 𝒜𝒷 cafe", "𝒜𝒷"),
    ],
)
def test_an_answer_is_cut_from_the_text_with_its_case_accents_and_spaces(tokenizer, context, answer):
    example = example_of(context, answer)
    features = qa.featurize(ONE, [example], tokenizer, RUN, ())
    labels = features.labels["labels"][0]
    assert labels[0] > 0
    (one,) = qa.decode(ONE, [example], features, [logits_for(features, *labels)], RUN, ())
    assert one["text"] == answer and one["nbest"][0]["text"] == answer


def test_an_answer_that_no_window_holds_as_a_whole_is_noted_and_labelled_as_no_answer(tokenizer):
    example = example_of("old cafe " * 20 + "at", ("old cafe " * 20).strip())
    features = qa.featurize(ONE, [example], tokenizer, RUN, ())
    assert features.notes[-1] == "1 of 1 answers are in no window as a whole"
    assert not features.labels["labels"].any()


def test_an_answer_without_tokens_is_refused(tokenizer):
    with pytest.raises(UserError, match="texts.json: question q: the answer '\\\\x07\\\\x08' has no word piece"):
        qa.featurize(ONE, [example_of("old \x07\x08 cafe", "\x07\x08")], tokenizer, RUN, ())


def test_rows_without_room_for_a_text_are_refused(tokenizer):
    run = dataclasses.replace(RUN, max_seq_length=64, max_query_length=61)
    with pytest.raises(UserError, match="--max_seq_length=64 leaves no room .* --max_query_length=61"):
        qa.featurize(ONE, [example_of("old cafe", "old")], tokenizer, run, ())


def test_windows_cover_every_token_and_each_token_has_its_max_context_in_one_window():
    for num_tokens in range(40):
        for room, stride in ((7, 3), (7, 7), (7, 11), (1, 1)):
            parts = answer_spans.windows(num_tokens, room, stride)
            covered = sorted({token for start, length in parts for token in range(start, start + length)})
            assert covered == list(range(num_tokens)) and all(length <= room for _, length in parts)
            best = np.zeros(num_tokens, int)
            for (start, length), is_best in zip(parts, answer_spans.max_context(parts), strict=True):
                best[start : start + length] += is_best
            assert np.all(best == 1)


def test_a_much_shorter_window_needs_more_context_to_be_the_best():
    parts = answer_spans.windows(208, 200, 128)
    assert parts == [(0, 200), (128, 80)]
    # Token 164 scores 35 + 0.01 * 200 in the first window and 36 + 0.01 * 80 in the second; token 165 scores 34 + 2 and
    # 37 + 0.8.
    first, second = answer_spans.max_context(parts)
    assert first[:165].all() and not first[165:].any()
    assert not second[: 165 - 128].any() and second[165 - 128 :].all()


def test_the_best_possible_answer_is_given_if_the_best_places_are_all_in_the_question(tokenizer):
    example = example_of("at old cafe", "old")
    features = qa.featurize(TWO, [example], tokenizer, RUN, ())
    first = len("[CLS] who was it ? [SEP]".split())
    logits = logits_for(features, first + 1, first + 2)
    logits[:first] = 9.0
    run = dataclasses.replace(RUN, n_best_size=3)
    (one,) = qa.decode(ONE, [example], features, [logits], run, ())
    assert one["text"] == "old cafe"
    (null,) = qa.decode(TWO, [example], features, [logits], run, ())
    assert (null["text"], null["not_null"], null["null_odds"]) == ("", "old cafe", 8.0)
    assert null["nbest"][0]["text"] == ""


def test_no_answer_is_compared_with_one_real_answer_even_if_n_best_is_one(tokenizer):
    example = example_of("at old cafe", "old")
    features = qa.featurize(TWO, [example], tokenizer, RUN, ())
    logits = logits_for(features, 7, 8, at_0=6.5)  # the score of no answer is 13, of the answer 10
    answers = [
        qa.decode(
            TWO,
            [example],
            features,
            [logits],
            dataclasses.replace(RUN, n_best_size=1, null_score_diff_threshold=threshold),
            (),
        )[0]
        for threshold in (0.0, 4.0)
    ]
    assert [(one["text"], one["not_null"], one["null_odds"]) for one in answers] == [
        ("", "old cafe", 3.0),
        ("old cafe", "old cafe", 3.0),
    ]
    assert [entry["text"] for entry in answers[0]["nbest"]] == ["", "old cafe"]


def test_a_text_without_tokens_has_no_answer(tokenizer):
    for task in (ONE, TWO):
        examples = [example_of("", guid="a"), example_of("old cafe", guid="b")]
        features = qa.featurize(task, examples, tokenizer, RUN, (), has_labels=False)
        logits = [logits_for(features, 0, 0, unit) for unit in range(features.num_units)]
        answers = qa.decode(task, examples, features, logits, RUN, ())
        assert answers[0]["text"] == "" and [entry["text"] for entry in answers[0]["nbest"]] == [""]
        assert answers[0]["start"] == -1
        assert task is ONE or answers[0]["null_odds"] == 0.0


def test_a_note_names_the_place_of_the_first_question_or_text_without_tokens(tokenizer):
    questions = [
        example_of("paris"),
        example_of("", guid="no text"),
        example_of("paris", question=" ", guid="no question"),
    ]
    places = [one.place for one in questions]
    assert qa.featurize(TWO, questions, tokenizer, RUN, ()).notes == [
        f"2 of 3 have a question or text without a word piece, the first {places[1]}"
    ]


def test_the_answer_is_empty_if_the_null_odds_are_above_the_threshold(tokenizer):
    example = example_of("at old cafe")
    features = qa.featurize(TWO, [example], tokenizer, RUN, ())
    logits = [logits_for(features, 7, 8, at_0=6.5)]  # the score of no answer is 13, of the answer 10
    for threshold, text in ((0.0, ""), (2.9, ""), (3.0, "old cafe"), (7.0, "old cafe")):
        run = dataclasses.replace(RUN, null_score_diff_threshold=threshold)
        (one,) = qa.decode(TWO, [example], features, logits, run, ())
        assert (one["text"], one["null_odds"]) == (text, 3.0)
        assert one["probability"] == next(entry["probability"] for entry in one["nbest"] if entry["text"] == text)


def test_answers_longer_than_max_answer_length_are_not_given(tokenizer):
    example = example_of("at old cafe , old cafe", "old cafe , old cafe")
    features = qa.featurize(ONE, [example], tokenizer, RUN, ())
    labels = features.labels["labels"][0]
    for max_length, text in ((5, "old cafe , old cafe"), (4, "old")):
        logits = logits_for(features, *labels)
        logits[labels[0], 1] = 1.0
        run = dataclasses.replace(RUN, max_answer_length=max_length)
        assert qa.decode(ONE, [example], features, [logits], run, ())[0]["text"] == text


def predictions_for(examples, texts):
    return [
        {
            "text": text,
            "probability": share,
            "start": example.context.find(text) if text else -1,
            "not_null": text or "fell",
            "null_odds": odds,
            "nbest": [{"text": text, "probability": share, "start_logit": 1.0, "end_logit": 2.0}],
        }
        for example, (text, share), odds in zip(examples, texts, (-4.0, -3.0, -1.0, 2.0), strict=False)
    ]


@pytest.fixture
def answered(examples):
    """Four questions and their answers: right, in part, an answer to an impossible question, and no answer."""
    kept = [example for example in examples if example.guid in ("q0-0", "q0-5", "q0-7", "q3-1")]
    given = [("Edda Stone,", 0.9), ("keeper's dog greets them", 0.95), ("dog", 0.8), ("", 0.7)]
    return kept, predictions_for(kept, given)


def test_mistakes_are_the_wrong_answers_and_begin_with_high_probability_and_low_f1(answered):
    mistakes = qa.mistakes(TWO, *answered, 50)
    assert [entry["place"].split()[-1] for entry in mistakes] == ["q0-7", "q3-1", "q0-5"]
    assert (mistakes[0]["right"], mistakes[0]["predicted"]) == ("no answer", "dog")
    assert (mistakes[1]["right"], mistakes[1]["predicted"], mistakes[1]["f1"]) == ("Ivo Lund", "no answer", 0.0)
    assert (
        mistakes[1]["text"].startswith("Who wrote the play? | ") and "its author, Ivo Lund, kept" in mistakes[1]["text"]
    )
    assert 0.5 < mistakes[2]["f1"] < 1.0
    assert len(qa.mistakes(TWO, *answered, 2)) == 2
    json.dumps(mistakes)


def test_the_picture_shows_the_outcome_of_answers_by_their_length(answered):
    gold, given, names = qa.answers(TWO, *answered, ())
    pairs = [(names[0][right], names[1][one]) for right, one in zip(gold, given, strict=True)]
    assert pairs == [("2 words", "exact"), ("3 to 5", "in part"), ("no answer", "another"), ("2 words", "no answer")]
    assert draw_answers(gold, given, names, "squad2").startswith(b"\x89PNG")
    # The scores treat "the" as no answer, but the picture does not.
    nothing = predictions_for(answered[0][2:], [("the", 0.9)])
    assert qa.answers(TWO, answered[0][2:3], nothing, ())[1] == [names[1].index("another")]
    chinese = example_of("他们在北京大学", "北京")
    assert qa.answers(ONE, [chinese], predictions_for([chinese], [("北京", 1.0)]), ())[:2] == ([1], [0])


def test_scores_and_the_tuned_threshold_follow_from_the_predictions(answered):
    scores = qa.score(TWO, *answered, ())
    assert list(scores) == list(TWO.metrics)
    assert scores["exact"] == 0.25 and scores["no_answer_exact"] == 0.0
    # The best choice is to answer only the first two questions, which have the lowest odds.
    assert qa.tune(*answered) == {"null_score_diff_threshold": -2.0}
    with_answer = [each[:2] for each in answered]
    assert qa.score(ONE, *with_answer, ()) == {"exact": 0.5, "f1": pytest.approx((1 + 2 / 3) / 2)}


def test_equal_ids_of_several_files_keep_all_their_answers(tmp_path, answered):
    examples, predictions = answered
    for file, ids in (("a", ["7"]), ("b", ["7", "7 (2)"]), ("c", ["7"])):
        examples = [*examples, *(dataclasses.replace(examples[0], guid=id, place=file) for id in ids)]
    predictions = [*predictions, *({**predictions[0], "text": f"{number}"} for number in range(4))]
    qa.write_predictions(ONE, str(tmp_path), examples, predictions)
    assert distinct_names(examples)[-4:] == ["7", "7 (3)", "7 (2)", "7 (4)"]  # also in probabilities.jsonl
    read = json.loads((tmp_path / "predictions.json").read_text())
    assert [read[name] for name in ("7", "7 (3)", "7 (2)", "7 (4)")] == ["0", "1", "2", "3"]


def test_the_baselines_need_no_model(examples):
    what, predictions = qa.baseline(TWO, [], examples, ())
    assert what == "no answer to any question"
    assert qa.score(TWO, examples, predictions, ())["f1"] == pytest.approx(3 / 19)
    with_answer = [example for example in examples if example.answers]
    what, predictions = qa.baseline(ONE, [], with_answer, ())
    assert [one["text"] for one in predictions[:2]] == ["Edda Stone,", "Harrow Point"]
    assert 0 < qa.score(ONE, with_answer, predictions, ())["f1"] < 0.5
    assert qa.baseline(ONE, [], [example_of("")], ())[1] == [{"text": ""}]


def test_predictions_are_written_in_the_layout_of_the_official_scripts(tmp_path, answered):
    qa.write_predictions(TWO, str(tmp_path), *answered)
    read = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in tmp_path.iterdir()}
    assert sorted(read) == ["nbest_predictions.json", "null_odds.json", "predictions.json"]
    assert read["predictions.json"] == {
        "q0-0": "Edda Stone,",
        "q0-5": "keeper's dog greets them",
        "q0-7": "dog",
        "q3-1": "",
    }
    assert read["null_odds.json"]["q3-1"] == 2.0
    assert read["nbest_predictions.json"]["q0-0"][0] == {
        "text": "Edda Stone,",
        "probability": 0.9,
        "start_logit": 1.0,
        "end_logit": 2.0,
    }
    (tmp_path / "one").mkdir()
    qa.write_predictions(ONE, str(tmp_path / "one"), *answered)
    assert not (tmp_path / "one" / "null_odds.json").exists()


def test_each_of_several_languages_has_scores_and_names_of_its_own(tmp_path, answered):
    examples, predictions = answered
    examples = [
        dataclasses.replace(example, guid=f"q{number % 2}", group=group)
        for number, (example, group) in enumerate(zip(examples, ("de", "de", "zh", "zh"), strict=True))
    ]
    scores = qa.score(TWO, examples, predictions, ())
    assert (scores["exact"], scores["exact_de"], scores["exact_zh"]) == (0.25, 0.5, 0.0)
    assert scores["f1_de"] == pytest.approx((1 + 2 / 3) / 2) and scores["no_answer_exact_zh"] == 0.0
    qa.write_predictions(TWO, str(tmp_path), examples, predictions)
    written = json.loads((tmp_path / "predictions.json").read_text(encoding="utf-8"))
    assert list(written) == ["de:q0", "de:q1", "zh:q0", "zh:q1"]


def test_each_text_is_given_once_for_masked_lm(examples):
    texts = qa.texts(examples)
    assert len(texts) == len(set(texts)) == 4 + 19


def test_a_run_keeps_the_threshold_that_was_tuned_and_answers_with_it(run_command, tmp_path, tokenizer):  # noqa: F811
    for name in ("train-v2.0.json", "dev-v2.0.json"):
        (tmp_path / name).write_text(pathlib.Path(TEXTS).read_text(encoding="utf-8"), encoding="utf-8")
    config = BertConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=22,
        num_attention_heads=2,
        num_hidden_layers=1,
        intermediate_size=37,
        max_position_embeddings=41,
    )
    run = dataclasses.replace(
        RUN,
        task="squad2",
        data_dir=str(tmp_path),
        num_train_steps=3,
        global_batch_size=8,
        learning_rate=1e-3,
        length_buckets=False,
        strategy="one_device",
        seed=3,
    )
    output, workdir = io.StringIO(), str(tmp_path / "run")
    figures = finetuned(workdir, config, run, VOCABULARY, stream=output)
    threshold = figures["tuned"]["null_score_diff_threshold"]
    assert f"chose the weights: null_score_diff_threshold {threshold:.4f}" in output.getvalue()
    # The run does not tune a threshold that the user gives.
    own = dataclasses.replace(run, null_score_diff_threshold=-3.5, num_train_steps=1)
    assert "tuned" not in finetuned(str(tmp_path / "own"), config, own, VOCABULARY, stream=io.StringIO())
    assert FinetunedRun(str(tmp_path / "own")).run.null_score_diff_threshold == -3.5
    finished = FinetunedRun(workdir)
    assert finished.run.null_score_diff_threshold == threshold != run.null_score_diff_threshold
    _, _, _, predictions = finished.evaluate(TEXTS)
    scores, *_ = finished.evaluate(TEXTS, has_chosen=True)
    assert scores == pytest.approx(figures["reported"]["metrics"], abs=1e-6)
    assert all((one["text"] == "") == (one["null_odds"] > threshold) for one in predictions)
    # A low enough threshold leaves every question without an answer.
    answers = tmp_path / "answers"
    result = run_command(
        "predict",
        f"--workdir={workdir}",
        f"--input_file={TEXTS}",
        f"--output_dir={answers}",
        "--null_score_diff_threshold=-1000",
        "--n_best_size=2",
    )
    assert result.returncode == 0, result.stderr
    assert set(json.loads((answers / "predictions.json").read_text()).values()) == {""}
    nbest = json.loads((answers / "nbest_predictions.json").read_text()).values()
    assert {len(one) for one in nbest} <= {1, 2, 3}

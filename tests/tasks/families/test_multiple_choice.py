"""Multiple choice: official files, rows, scores, predictions, and a step of training."""

import json

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.modeling.task_model import BertTaskModel
from keras_bert_app.tasks import batches, registry
from keras_bert_app.tasks.families import multiple_choice
from keras_bert_app.tasks.families.multiple_choice import Example
from tests.tasks.texts import pieces, read, rows_of, split, tokenizer, written

CLS, SEP = 2, 3
RUN = FinetuningConfig(max_seq_length=13)
SWAG = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3"
TASK = registry.find("swag")


def example(label=0, context="a b", question="", choices=("c", "d e", "f")):
    return Example("q0", context, question, choices, label, "dir/dev.csv:2")


def featurized(*examples, run=RUN):
    return multiple_choice.featurize(TASK, list(examples), tokenizer(), run, ())


def test_swag_sets_the_first_sentence_against_the_second_with_each_ending(tmp_path):
    path = written(tmp_path, "val.csv", f'{SWAG},label\n5,v,3,x,"A, b.",He,gold,c.,d.,e.,"f ""g""",2\n')
    (first,) = read("swag", path)
    assert first == Example("0", "A, b.", "", ("He c.", "He d.", "He e.", 'He f "g"'), 2, f"{path}:2")
    path = written(tmp_path, "test.csv", f"{SWAG}\n5,v,3,x,A.,He,gold,c,d,e,f\n")
    assert read("swag", path, has_labels=False)[0].label is None
    with pytest.raises(UserError, match="test.csv:2: has no column 'label' with the answers"):
        read("swag", path)


def test_hellaswag_joins_the_beginning_of_a_sentence_to_each_ending(tmp_path):
    row = {"ind": 4, "ctx_a": "A b.", "ctx_b": "the man", "endings": list("cdef"), "split": "val", "label": 3}
    rows = (row, {**row, "ctx_b": "", "label": "1"})
    path = written(tmp_path, "hellaswag_val.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    first, second = read("hellaswag", path)
    assert first == Example("val-0", "A b.", "", ("the man c", "the man d", "the man e", "the man f"), 3, f"{path}:1")
    assert second.choices == tuple("cdef") and second.label == 1 and second.guid == "val-1"


def dream(*dialogues):
    return json.dumps(list(dialogues), indent=1)


def query(question="What?", choice=("x", "y", "z"), answer="y"):
    return {"question": question, "choice": list(choice), "answer": answer}


def test_dream_asks_each_question_about_the_whole_dialogue(tmp_path):
    path = written(
        tmp_path,
        "dev.json",
        dream([["M: a", "W: b"], [query(), query("Who?", answer="x")], "4-1"], [["M: c"], [query(answer="z")], "4-2"]),
    )
    first, second, third = read("dream", path)
    assert first == Example("4-1-0", "M: a\nW: b", "What?", ("x", "y", "z"), 1, f"{path}:2")
    assert (second.guid, second.question, second.label) == ("4-1-1", "Who?", 0)
    lines = (tmp_path / "dev.json").read_text().split("\n")
    assert third.label == 2 and lines[int(third.place.rpartition(":")[2]) + 1 :][:1] == ['   "M: c"']


def codah(*rows):
    """Lines of (prompt, endings). Missing endings are filled with texts that occur only once."""
    return "".join(
        "\t".join(["o", prompt, *(*endings, *(f"{number} {at}" for at in "wxyz"))[:4], str(number % 4)]) + "\n"
        for number, (prompt, *endings) in enumerate(rows)
    )


def test_codah_is_divided_by_the_fold_into_parts_that_share_no_prompt_and_no_ending(tmp_path):
    shared = {1: ("p 1", "A dog."), 4: ("p 4", "so", "is a  dog"), 7: ("p 7", "a DOG"), 9: ('P, "7"',)}
    written(tmp_path, "full_data.tsv", codah(*(shared.get(number, (f"p {number}",)) for number in range(13))))

    def rows(which, fold):
        return [int(one.guid) for one in split("codah", tmp_path, which, fold=fold)]

    # Rows 1, 7 and 9 are one group, which comes first. Each other row goes to the smallest part.
    assert rows("test", 0) == [1, 7, 9] and rows("dev", 0) == [0, 5, 11] and rows("train", 0) == [2, 3, 4, 6, 8, 10, 12]
    assert rows("dev", 4) == [1, 7, 9]
    assert sorted(number for fold in range(5) for number in rows("test", fold)) == list(range(13))
    (first, *_) = split("codah", tmp_path, "train")
    assert (first.context, first.choices, first.label) == ("p 2", ("2 w", "2 x", "2 y", "2 z"), 2)


def test_a_file_of_codah_whose_questions_share_too_many_texts_is_refused(tmp_path):
    written(tmp_path, "full_data.tsv", codah(*[("He",)] * 9, ("p",), ("q",), ("r",)))
    with pytest.raises(UserError, match=r"full_data.tsv: its 12 questions form 4 groups with common prompts or endi"):
        split("codah", tmp_path, "train")
    written(tmp_path, "full_data.tsv", codah(*[("He",)] * 9, ("p",), ("q",), ("r",), ("",), ("",)))
    assert len(split("codah", tmp_path, "test")) == 9


def test_the_files_of_one_fold_of_codah_are_the_splits(tmp_path):
    for number, which in enumerate(("train", "dev", "test")):
        written(tmp_path, f"fold_0/{which}.tsv", f"o\tHe {which}\ta\tb\tc\td\t{number}\n" * 2)
    for number, which in enumerate(("train", "dev", "test")):
        examples = split("codah", tmp_path / "fold_0", which)
        assert [one.context for one in examples] == [f"He {which}"] * 2 and examples[0].label == number
    with pytest.raises(UserError, match="^--fold=1: .*fold_0 is a single fold"):
        split("codah", tmp_path / "fold_0", "dev", fold=1)
    # The file of all examples also contains the training examples of the fold.
    written(tmp_path, "fold_0/full_data.tsv", "o\tHe\ta\tb\tc\td\t1\n" * 5)
    for missing, message in (("dev", "train.tsv, test.tsv"), ("train", "test.tsv")):
        (tmp_path / "fold_0" / f"{missing}.tsv").unlink()
        with pytest.raises(
            UserError,
            match=f"fold_0/{missing}.tsv: is missing beside {message}; give the directory of one whole fold",
        ):
            split("codah", tmp_path / "fold_0", missing)
    written(tmp_path, "full_data.tsv", "")
    with pytest.raises(UserError, match="holds no example of task codah"):
        split("codah", tmp_path, "dev")


def test_a_codah_file_to_answer_needs_no_column_of_labels(tmp_path):
    for row in ("o\tA\tb\tc\td\te\n", "o\tA\tb\tc\td\te\t1\n"):
        (example,) = read("codah", written(tmp_path, "some.tsv", row), has_labels=False)
        assert (example.context, example.choices, example.label) == ("A", tuple("bcde"), None)
    with pytest.raises(UserError, match="some.tsv:1: has 6 fields; expected 7"):
        read("codah", written(tmp_path, "some.tsv", "o\tA\tb\tc\td\te\n"))


@pytest.mark.parametrize(
    "task, name, content, message",
    [
        ("swag", "val.csv", f"{SWAG},label\n5,v,3,x,A.,He,gold,c,d,e,f,4\n", ":2: label '4'; expected 0 to 3"),
        ("codah", "full_data.tsv", "o\tA\tb\tc\td\te\t1\no\tA\tb\tc\td\n", ":2: has 5 fields; expected 7"),
        ("codah", "full_data.tsv", "o\tA\tb\tc\td\te\t\n", ":1: label ''; expected 0 to 3"),
        (
            "hellaswag",
            "x.jsonl",
            '{"ctx_a": "a", "endings": ["b"], "label": 0}\n',
            r":1: endings \"\['b'\]\"; expected a list of 4 texts",
        ),
        (
            "dream",
            "x.json",
            dream([["a"], [query(answer="w")], "4-1"]),
            ":2: 4-1: the answer 'w' to 'What\\?' is none of 3 choices",
        ),
        (
            "dream",
            "x.json",
            dream([["a"], [query(choice=("x", "y"))], "4-1"]),
            ":2: 4-1: the answer 'y' to 'What\\?' is none of 2 choices",
        ),
        (
            "dream",
            "x.json",
            dream([["a"], [query()], "4-1"], [["a"], [{"question": "b"}], "4-2"]),
            r":\d+: expected \[\[turns\], \[\{question, choice, answer\}\], name\]",
        ),
        ("dream", "x.json", '{"data": []}', ":1: is not a JSON array"),
        ("dream", "x.json", dream([["a"], [query()], "4-1"])[:-3], r":\d+: is not JSON \("),
        (
            "dream",
            "x.json",
            dream([["a"], [query()], "4-1"])[:-1],
            r":\d+: the JSON array ends here without its closing \]",
        ),
        ("dream", "x.json", "[]", ": holds no example of task dream"),
    ],
)
def test_a_fault_is_named_by_file_line_and_reason(tmp_path, task, name, content, message):
    path = written(tmp_path, name, content)
    with pytest.raises(UserError, match="^" + path.replace(".", r"\.") + message):
        read(task, path)


def test_a_row_has_the_context_and_one_choice_and_a_question_stands_before_the_choice():
    features = featurized(example(label=1), example(question="g"))
    assert rows_of(features) == [
        [CLS, *pieces("a b"), SEP, *pieces("c"), SEP],
        [CLS, *pieces("a b"), SEP, *pieces("d e"), SEP],
        [CLS, *pieces("a b"), SEP, *pieces("f"), SEP],
        *([CLS, *pieces("a b"), SEP, *pieces("g"), SEP, *pieces(choice), SEP] for choice in ("c", "d e", "f")),
    ]
    assert features.unit_splits.tolist() == [0, 3, 6] and features.b_starts.tolist() == [4] * 6
    assert features.labels["labels"].tolist() == [1, 0] and features.notes == []


def test_the_context_loses_its_end_first_and_a_note_counts_what_was_cut():
    features = featurized(
        example(context="a b c d e f g h i j k", choices=("c", "d e f")),
        example(),
        example(context="a", question="b", choices=("c d e f g h i j k l m", "x")),
    )
    rows = rows_of(features)
    assert rows[0] == [CLS, *pieces("a b c d e f g h i"), SEP, *pieces("c"), SEP]
    assert rows[1] == [CLS, *pieces("a b c d e f g"), SEP, *pieces("d e f"), SEP]
    assert rows[5] == [CLS, *pieces("a"), SEP, *pieces("b"), SEP, *pieces("c d e f g h i"), SEP]
    assert features.notes == [
        "of 3 examples, 1 lost the end of the context and 1 the end of a question or choice, because rows have at "
        "most 13 tokens"
    ]


@pytest.mark.parametrize("given", [{"context": "\u200b"}, {"choices": ("c", "", "f")}, {"question": "\u200b"}])
def test_a_note_names_the_place_of_a_text_without_tokens(given):
    assert featurized(example(), example(**given)).notes == [
        "1 of 2 have a context, question or choice without a word piece, the first dir/dev.csv:2"
    ]


def test_logits_become_a_position_with_probabilities_that_are_scored_and_listed():
    examples = [example(2), example(0), example(1)]
    logits = np.log(np.array([[0.1, 0.2, 0.7], [0.6, 0.3, 0.1], [0.15, 0.05, 0.8]], np.float32)) - 300
    predictions = multiple_choice.decode(TASK, examples, None, logits, RUN, ())
    assert [one["label"] for one in predictions] == [2, 0, 2]
    assert predictions[0]["probabilities"] == pytest.approx([0.1, 0.2, 0.7], abs=1e-4)
    assert multiple_choice.score(TASK, examples, predictions, ()) == {"accuracy": pytest.approx(2 / 3)}
    (mistake,) = multiple_choice.mistakes(TASK, examples, predictions, 9)
    assert mistake == {"place": "dir/dev.csv:2", "sure": 0.8, "predicted": "f", "right": "d e", "text": "a b"}
    assert multiple_choice.answers(TASK, examples, predictions, ()) == (
        [2, 0, 1],
        [2, 0, 2],
        ("choice 1", "choice 2", "choice 3"),
    )
    json.dumps(predictions)


def test_the_baseline_is_the_position_that_is_most_often_right():
    what, predictions = multiple_choice.baseline(TASK, [example(1), example(2), example(2)], [example()] * 2, ())
    assert what == "always choice 3 of 3, the most frequent"
    assert predictions == [{"label": 2, "probabilities": [0.0, 0.0, 1.0]}] * 2


@pytest.mark.parametrize(
    "task, name, content",
    [
        ("dream", "predictions.tsv", "index\tprediction\tcontext\tchoice\nq0\t2\ta b\tf\n"),
        ("codah", "predictions.tsv", "index\tprediction\tcontext\tchoice\nq0\t2\ta b\tf\n"),
        ("swag", "predictions.csv", ",pred\nq0,2\n"),
        ("hellaswag", "predictions.csv", "annot_id,ending0,ending1,ending2\nq0,0.125,0.25,0.625\n"),
    ],
)
def test_predictions_are_written_in_the_layout_of_the_leaderboard(tmp_path, task, name, content):
    predictions = [{"label": 2, "probabilities": [0.125, 0.25, 0.625]}]
    multiple_choice.write_predictions(registry.find(task), str(tmp_path), [example()], predictions)
    assert {path.name: path.read_bytes().decode() for path in tmp_path.iterdir()} == {name: content}


def test_predictions_have_the_question_and_the_texts_on_one_line(tmp_path):
    predictions = [{"label": 0, "probabilities": [0.5, 0.25, 0.25]}]
    with_question = example(question='what "is"\tit', choices=("one\nline", "b", "c"))
    multiple_choice.write_predictions(registry.find("dream"), str(tmp_path), [with_question], predictions)
    assert (tmp_path / "predictions.tsv").read_text(encoding="utf-8").splitlines() == [
        "index\tprediction\tcontext\tquestion\tchoice",
        'q0\t0\ta b\twhat "is" it\tone line',
    ]


def test_each_text_of_the_examples_occurs_once():
    assert multiple_choice.texts([example(question="q"), example(question="q?", choices=("c", ""))]) == [
        "a b",
        "q",
        "c",
        "d e",
        "f",
        "q?",
    ]


def test_the_model_gives_each_choice_a_logit_and_learns_which_choice_is_right():
    config = BertConfig(
        vocab_size=31,
        hidden_size=22,
        num_attention_heads=2,
        num_hidden_layers=2,
        intermediate_size=37,
        max_position_embeddings=41,
        initializer_range=0.2,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    gold = (0, 1, 2, 1, 0)
    choices = [tuple("x" if at == label else "cde"[at] for at in range(3)) for label in gold]
    features = featurized(*map(lambda label, these: example(label, choices=these), gold, choices))
    head = multiple_choice.make_head(TASK, RUN, ())
    objective = multiple_choice.make_objective(TASK, RUN, head)
    assert head.is_plain
    model = BertTaskModel(config, head, seed=1)
    batch = {name: tf.constant(values) for name, values in batches.make_batch(features, np.arange(5), 7, 16).items()}
    variables = [variable.value for variable in model.trainable_variables]

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            outputs = model(batch)
            sums = objective.loss_sums(outputs, batch)
            loss = objective.mean_loss(sums, objective.counts(batch)[0])
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(0.2 * tf.convert_to_tensor(gradient))
        return loss, outputs["logits"]

    losses = [step() for _ in range(30)]
    assert losses[0][1].shape == (7, 3) and float(losses[-1][0]) < 0.1 < float(losses[0][0])
    predictions = multiple_choice.decode(TASK, None, features, losses[-1][1].numpy()[:5], RUN, ())
    assert tuple(one["label"] for one in predictions) == gold


def test_the_real_codah_and_dream_have_their_counts_and_no_ending_of_codah_is_in_two_splits(shared):
    for name, counts in (("codah", (1665, 555, 556)), ("dream", (6116, 2040, 2041))):
        directory = shared / "data" / "tasks" / name
        splits = [split(name, directory, which) for which in ("train", "dev", "test")]
        assert tuple(map(len, splits)) == counts
        if name == "codah":
            train, dev, test = (
                {text.casefold().strip() for one in examples for text in (one.context, *one.choices)}
                for examples in splits
            )
            assert not train & dev and not train & test and not dev & test

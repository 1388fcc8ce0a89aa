"""Exports of tasks give the same answers to raw text as the task's own code, which `predict` uses for files."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.export import rows
from keras_bert_app.export.choice_answers import ChoiceModule
from keras_bert_app.export.question_answers import QuestionAnsweringModule
from keras_bert_app.export.sequence_answers import SequenceModule
from keras_bert_app.export.tagging_answers import TaggingModule
from keras_bert_app.export.word_splitter import WordSplitter
from keras_bert_app.tasks import features
from keras_bert_app.tasks.families import entities, multiple_choice, question_answering, sequences
from tests.export.untrained import TOKENIZER, predictions, texts, untrained
from tests.tasks.texts import read, written

TEXTS, SECOND = texts(23, 30), texts(23, 20, seed=1)


def strings(tensor):
    """Decodes a tensor to nested lists of str."""
    return np.vectorize(bytes.decode, otypes=[object])(tensor.numpy()).tolist()


def examples_of(*texts_of_examples):
    return [
        sequences.Example(str(number), *pair, None, f"x:{number}")
        for number, pair in enumerate(zip(*texts_of_examples, strict=True))
    ]


@pytest.mark.parametrize(
    "settings", [{}, {"long_documents": "head_tail"}, {"long_documents": "hierarchical", "max_windows": 3}], ids=str
)
def test_classes_of_texts_are_those_of_predict_for_every_setting_of_long_documents(settings):
    finetuned = untrained("classification", ("x", "y", "z"), **settings)
    module = SequenceModule(finetuned, ["text"])
    answers = module.exported["serving_default"](tf.constant(TEXTS))
    expected = predictions(finetuned, examples_of(TEXTS, [None] * len(TEXTS)))
    np.testing.assert_allclose(
        answers["probabilities"], [list(prediction["probabilities"].values()) for prediction in expected], atol=2e-6
    )
    assert strings(answers["label"]) == [prediction["label"] for prediction in expected]
    np.testing.assert_allclose(
        answers["probability"], [max(prediction["probabilities"].values()) for prediction in expected], atol=2e-6
    )
    assert strings(answers["labels"]) == [["x", "y", "z"]] * len(TEXTS)
    # Each of the two further windows starts five tokens after the window before it.
    most_tokens = 17 - 2 + (2 * 5 if settings.get("max_windows") else 0)
    lengths = TOKENIZER.tokenize(TEXTS).row_lengths().numpy()
    assert answers["truncated"].numpy().tolist() == (lengths > most_tokens).tolist() and (lengths > most_tokens).any()
    assert module.exported["serving_default"](tf.constant([], tf.string))["labels"].shape == [0, 3]


def test_label_sets_numbers_and_pairs_are_those_of_predict():
    pairs = examples_of(TEXTS, SECOND)
    finetuned = untrained("rte", ("entailment", "not_entailment"))
    answers = SequenceModule(finetuned, ["text_a", "text_b"]).exported["serving_default"](
        tf.constant(TEXTS), tf.constant(SECOND)
    )
    np.testing.assert_allclose(
        answers["probabilities"],
        [list(prediction["probabilities"].values()) for prediction in predictions(finetuned, pairs)],
        atol=2e-6,
    )
    assert 0 < answers["truncated"].numpy().sum() < len(TEXTS)
    singles = examples_of(TEXTS, [None] * len(TEXTS))
    finetuned = untrained("regression")
    answers = SequenceModule(finetuned, ["text"]).exported["serving_default"](tf.constant(TEXTS))
    np.testing.assert_allclose(
        answers["score"], [prediction["value"] for prediction in predictions(finetuned, singles)], atol=1e-5
    )
    finetuned = untrained("multi_label", ("x", "y"))
    answers = SequenceModule(finetuned, ["text"]).exported["serving_default"](tf.constant(TEXTS))
    expected = predictions(finetuned, singles)
    np.testing.assert_allclose(
        answers["probabilities"], [list(prediction["probabilities"].values()) for prediction in expected], atol=2e-6
    )
    chosen = [tuple(np.array(["x", "y"])[row]) for row in answers["is_chosen"].numpy()]
    assert chosen == [tuple(prediction["labels"]) for prediction in expected] and len(set(chosen)) > 1


def test_choices_are_those_of_predict_and_an_empty_choice_does_not_count():
    finetuned = untrained("dream")
    words = [text or "a" for text in texts(69, 6, seed=3)]
    examples = [
        multiple_choice.Example(
            str(at), text, SECOND[at] if at % 3 else "", tuple(words[3 * at : 3 * at + 3]), None, ""
        )
        for at, text in enumerate(TEXTS)
    ]
    serve = ChoiceModule(finetuned, ["context", "question", "choices"]).exported["serving_default"]
    context, question = (
        tf.constant([getattr(example, name) for example in examples]) for name in ("context", "question")
    )
    choices = np.array([list(example.choices) for example in examples])
    answers = serve(context, question, tf.constant(choices))
    expected = predictions(finetuned, examples)
    np.testing.assert_allclose(
        answers["probabilities"], [prediction["probabilities"] for prediction in expected], atol=2e-6
    )
    assert answers["choice"].numpy().tolist() == [prediction["label"] for prediction in expected]
    assert 0 < answers["truncated"].numpy().sum() < len(TEXTS)
    fewer = choices.copy()
    fewer[:, 1] = ""
    probabilities = serve(context, question, tf.constant(fewer))["probabilities"].numpy()
    np.testing.assert_allclose(probabilities[:, [0, 2]].sum(axis=1), 1.0, atol=1e-6)
    assert not probabilities[:, 1].any()
    ratios = np.array([prediction["probabilities"] for prediction in expected])
    np.testing.assert_allclose(probabilities[:, 0] / probabilities[:, 2], ratios[:, 0] / ratios[:, 2], rtol=1e-4)


TAGS = ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")


@pytest.fixture(scope="module")
def tagger():
    finetuned = untrained("ner", TAGS)
    return finetuned, TaggingModule(finetuned, max_windows=64)


def test_tags_of_given_words_are_those_of_predict(tagger, tmp_path):
    finetuned, module = tagger
    sentences = [text.split() for text in texts(23, 12, seed=4) if text]
    path = written(
        tmp_path, "words.txt", "\n\n".join("\n".join(f"{word} O" for word in words) for words in sentences) + "\n"
    )
    expected = predictions(finetuned, read("ner", path))
    longest = max(map(len, sentences))
    # An empty string at any place is not a word.
    padded = [[words[0], "", *words[1:], *[""] * (longest - len(words))] for words in sentences]
    answers = module.exported["words"](tf.constant(padded))
    for words, tags, padded_probabilities, prediction in zip(
        sentences, strings(answers["tags"]), answers["word_probabilities"].numpy(), expected, strict=True
    ):
        assert tags[1] == "" and [tags[0], *tags[2 : len(words) + 1]] == prediction["tags"]
        tag_probabilities = [padded_probabilities[0], *padded_probabilities[2 : len(words) + 1]]
        np.testing.assert_allclose(
            tag_probabilities, [probability or 0.0 for probability in prediction["probabilities"]], atol=1e-5
        )


@pytest.mark.slow
def test_long_texts_are_tagged_in_windows_and_no_word_is_left_out(tagger):
    _, module = tagger
    answers = module.exported["serving_default"](tf.constant(["the river was cold " * 20, "the river"]))
    assert answers["num_windows"].numpy().tolist() == [14, 1] and not answers["truncated"].numpy().any()
    assert (answers["word_probabilities"].numpy()[0] > 0).all()
    assert strings(answers["words"])[1] == ["the", "river"] + [""] * 78
    # Two windows cover 20 words. The first 12 words have most context in these windows anyway, so the limit does not
    # change their answers.
    few = TaggingModule(tagger[0], max_windows=2).exported["serving_default"](tf.constant(["the river was cold " * 20]))
    assert few["truncated"].numpy().tolist() == [True] and few["num_windows"].numpy().tolist() == [2]
    tagged = few["word_probabilities"].numpy()[0] > 0
    assert tagged[:20].all() and not tagged[20:].any()
    np.testing.assert_allclose(few["word_probabilities"][0, :12], answers["word_probabilities"][0, :12], atol=1e-6)


def test_entities_are_those_of_the_tags_and_have_their_offsets_in_the_text(tagger):
    _, module = tagger
    inputs = ["Anna O'Neil saw the river in Paris, the cold (river)!", "", "北京 anna's it's", *texts(9, 12, seed=5)]
    answers = module.exported["serving_default"](tf.constant(inputs))
    words, tags, names = strings(answers["words"]), strings(answers["tags"]), strings(answers["entities"])
    labels = strings(answers["entity_labels"])
    count = 0
    for at, text in enumerate(inputs):
        word_tags = [tag for tag, word in zip(tags[at], words[at], strict=True) if word]
        spans = entities.spans(word_tags)
        count += len(spans)
        assert [label for label in labels[at] if label] == [kind for kind, _, _ in spans]
        for number, (_, first, last) in enumerate(spans):
            start, end = int(answers["word_starts"][at, first]), int(answers["word_ends"][at, last - 1])
            assert names[at][number] == text[start:end]
            assert (start, end) == (int(answers["entity_starts"][at, number]), int(answers["entity_ends"][at, number]))
            probability = float(np.mean(answers["word_probabilities"][at, first:last]))
            np.testing.assert_allclose(answers["entity_probabilities"][at, number], probability, rtol=1e-5)
        for word, start, end in zip(
            words[at], answers["word_starts"][at].numpy(), answers["word_ends"][at].numpy(), strict=True
        ):
            assert word == text[start:end] if word else start == end == -1
    assert count > 10


def test_words_of_a_text_end_at_spaces_and_at_the_punctuation_on_their_edges():
    inputs = ["U.S.-based Anna's (river), 北京!", "it's b-s ... 'the'", "", "a,b"]
    words = ["U.S . - based Anna 's ( river ) , 北 京 !".split(), "it 's b-s . . . ' the '".split(), [], ["a,b"]]
    _, _, starts, ends = WordSplitter(TOKENIZER).split(tf.constant(inputs))
    assert [
        [text[start:end] for start, end in zip(*row, strict=True)]
        for text, *row in zip(inputs, starts.to_list(), ends.to_list(), strict=True)
    ] == words


@pytest.mark.parametrize(
    "task, n_best_size",
    [
        ("squad2", 5),
        *(pytest.param(task, size, marks=pytest.mark.slow) for task, size in (("squad1", 5), ("squad2", 1))),
    ],
)
def test_answers_to_questions_are_those_of_predict_with_all_their_n_best(task, n_best_size):
    finetuned = untrained(task, max_seq_length=29, max_query_length=7, max_answer_length=6, n_best_size=n_best_size)
    questions, contexts = texts(23, 12, seed=8), texts(23, 90, seed=9)
    contexts[3] = "Anna\u0301 saw the rive\u0301r in Pari\u0301s\u0301 京 北 ."
    examples = [
        question_answering.Example(str(at), *pair, None, None, "x")
        for at, pair in enumerate(zip(questions, contexts, strict=True))
    ]
    serve = QuestionAnsweringModule(finetuned, max_windows=64).exported["serving_default"]
    answers = serve(tf.constant(questions), tf.constant(contexts))
    expected = predictions(finetuned, examples)
    assert strings(answers["answer"]) == [prediction["text"] for prediction in expected]
    assert answers["start"].numpy().tolist() == [prediction["start"] for prediction in expected]
    np.testing.assert_allclose(
        answers["probability"], [prediction["probability"] for prediction in expected], atol=1e-5
    )
    for prediction, context, start, end, nbest, nbest_probabilities in zip(
        expected,
        contexts,
        answers["start"].numpy(),
        answers["end"].numpy(),
        strings(answers["nbest_answers"]),
        answers["nbest_probabilities"].numpy(),
        strict=True,
    ):
        assert prediction["text"] == (context[start:end] if start >= 0 else "")
        assert nbest[: len(prediction["nbest"])] == [answer["text"] for answer in prediction["nbest"]]
        np.testing.assert_allclose(
            nbest_probabilities[: len(prediction["nbest"])],
            [answer["probability"] for answer in prediction["nbest"]],
            atol=1e-5,
        )
        assert not nbest_probabilities[len(prediction["nbest"]) :].any()
    if task == "squad2":
        np.testing.assert_allclose(
            answers["null_odds"], [prediction["null_odds"] for prediction in expected], atol=1e-4
        )
        assert "" in strings(answers["answer"]) and len(set(strings(answers["answer"]))) > 2
    assert max(answers["num_windows"].numpy()) > 3 and 0 < answers["truncated"].numpy().sum() < 23
    assert serve(tf.constant([], tf.string), tf.constant([], tf.string))["answer"].shape == [0]


def test_kept_lengths_equal_those_of_features_truncated():
    generator = np.random.default_rng(0)
    for count in (1, 2, 3):
        lengths, room = generator.integers(0, 23, [count, 200]), generator.integers(0, 30, 200)
        kept = rows.kept_lengths([tf.constant(row, tf.int32) for row in lengths], tf.constant(room, tf.int32))
        for at in range(200):
            expected = [
                len(part) for part in features.truncated([np.zeros(length) for length in lengths[:, at]], room[at])
            ]
            assert [int(length[at]) for length in kept] == expected

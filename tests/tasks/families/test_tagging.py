"""Tagging: the tagged pieces, windows, document context, decoding and scores."""

import dataclasses
import io
import itertools
import json
import os
import shutil

import numpy as np
import pytest

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.runs import checkpoints
from keras_bert_app.tasks import registry
from keras_bert_app.tasks.families import tagging
from keras_bert_app.tasks.readers.conll import Sentence
from keras_bert_app.tasks.scoring import Ensemble, FinetunedRun
from pipelines.wordpiece.tokenizer import BertTokenizer
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES
from tests.tasks import conftest

NUMBERS = tuple(f"n{number}" for number in range(97))
WORDS = ("anna", "ben", "smith", "young", "paris", "rome", "met", "in", "saw", "the", ".")
PIECES = (*SPECIAL_PIECES, "ba", "##na", "##s", *WORDS, *NUMBERS)
VOCABULARY = "".join(f"{piece}\n" for piece in PIECES).encode()
LABELS = ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
CLEANED_AWAY = "\u200b"  # a single format character, which the tokenizer removes
NER, POS = registry.find("ner"), registry.find("pos")


@pytest.fixture(scope="module")
def tokenizer():
    return BertTokenizer(VOCABULARY, do_lower_case=True)


def sentence(words, tags=None, scheme="IOB2", document=0, line=1):
    words = tuple(words.split()) if isinstance(words, str) else tuple(words)
    tags = tuple(tags.split()) if tags else ("O",) * len(words)
    return Sentence("0", "train.txt", range(line, line + len(words)), document, words, tags, -1, scheme)


def features_of(tokenizer, examples, labels=LABELS, task=NER, **settings):
    return tagging.featurize(task, examples, tokenizer, FinetuningConfig(task=task.name, **settings), labels)


def rows_of(features):
    """The rows of Features as lists of pieces."""
    return [
        [PIECES[piece] for piece in features.token_ids[start:end]]
        for start, end in itertools.pairwise(features.row_splits)
    ]


def logits_for(features, tags, labels=LABELS, sure=3.0):
    """Logits [tokens of the row, n] of each row that predict the tag of each word, from a flat list of tags."""
    flat = np.zeros((len(features.token_ids), len(labels)), np.float32)
    for token, word in enumerate(features.for_decode["words"]):
        # A model has logits for every token. Those of untagged tokens must have no effect.
        flat[token, labels.index(tags[word]) if word >= 0 else -1] = sure
    return np.split(flat, features.row_splits[1:-1])


def decode(features, examples, tags, task=NER, labels=LABELS, **settings):
    run = FinetuningConfig(task=task.name, **settings)
    return tagging.decode(task, examples, features, logits_for(features, tags, labels), run, labels)


def test_the_label_of_a_word_is_on_its_first_piece_and_all_other_pieces_have_minus_one(tokenizer):
    features = features_of(tokenizer, [sentence("Anna saw bananas", "B-PER O B-LOC"), sentence("Smith", "I-PER")])
    assert rows_of(features) == [
        ["[CLS]", "anna", "saw", "ba", "##na", "##na", "##s", "[SEP]"],
        ["[CLS]", "smith", "[SEP]"],
    ]
    # An I- at the beginning of a sentence starts an entity and is trained as B-.
    assert features.token_labels["token_labels"].tolist() == [-1, 3, 0, 1, -1, -1, -1, -1, -1, 3, -1]
    assert features.for_decode["words"].tolist() == [-1, 0, 1, 2, -1, -1, -1, -1, -1, 3, -1]
    assert features.examples.tolist() == [0, 1] and not features.notes


def test_with_a_crf_the_further_pieces_of_a_word_have_labels_too(tokenizer):
    examples = [sentence("Anna saw bananas", "B-PER O B-LOC"), sentence(["ba" + "na" * 40, "smith"], "O I-PER")]
    features = features_of(tokenizer, examples, max_seq_length=12, tag_layer="crf")
    labels = np.split(features.token_labels["token_labels"], features.row_splits[1:-1])
    assert labels[0].tolist() == [-1, 3, 0, 1, 2, 2, 2, -1]
    # A row has only the first ten pieces of the long word.
    assert labels[1].tolist() == [-1, *[0] * 10, -1] and labels[2].tolist()[:2] == [-1, 3]
    pos = features_of(tokenizer, [sentence("bananas met", "NN VB")], ("VB", "NN"), POS, tag_layer="crf")
    assert pos.token_labels["token_labels"].tolist() == [-1, 1, 1, 1, 1, 0, -1]


def test_a_word_without_a_piece_is_tagged_o_and_counted_and_keeps_its_place(tokenizer):
    examples = [sentence(["anna", CLEANED_AWAY, "met"], "B-PER I-PER O"), sentence([CLEANED_AWAY])]
    features = features_of(tokenizer, examples)
    assert features.notes == ["2 of 4 words have no word piece and get the tag O, the first train.txt:2"]
    assert rows_of(features) == [["[CLS]", "anna", "met", "[SEP]"], ["[CLS]", "[SEP]"]]
    assert features.token_labels["token_labels"].tolist() == [-1, 3, 0, -1, -1, -1]
    first, second = decode(features, examples, ["B-PER", "B-LOC", "I-PER", "B-LOC"])
    assert first["tags"] == ["B-PER", "O", "B-PER"] and second == {"tags": ["O"], "probabilities": [None]}
    assert first["probabilities"][1] is None and first["probabilities"][0] == pytest.approx(np.exp(3) / (np.exp(3) + 4))


@pytest.mark.parametrize("doc_stride, step", [(4, 4), (5, 5), (128, 7)])
def test_long_sentences_become_overlapping_windows(tokenizer, doc_stride, step):
    examples = [sentence("anna met ben"), sentence(NUMBERS[:61]), sentence("rome")]
    features = features_of(tokenizer, examples, max_seq_length=16, doc_stride=doc_stride)
    assert features.notes == [f"1 of 3 sentences are longer than 16 tokens and become windows {step} tokens apart"]
    windows = [row[1:-1] for row in rows_of(features)][1:-1]
    assert features.examples.tolist() == [0, *[1] * len(windows), 2]
    assert [window[0] for window in windows] == [NUMBERS[at] for at in range(0, 61 - 14 + step, step)]
    assert {len(window) for window in windows[:-1]} == {14} and windows[-1][-1] == "n60"


@pytest.mark.parametrize("doc_stride", [3, 4, 7])
@pytest.mark.parametrize("others", [("anna",), ("bananas",), ("bananas", "banananananas", "anna")])
def test_a_word_is_tagged_in_the_window_where_it_has_most_context(tokenizer, doc_stride, others):
    generator = np.random.default_rng(5)
    words = [number if generator.random() < 0.6 else str(generator.choice(others)) for number in NUMBERS]
    features = features_of(tokenizer, [sentence(words)], max_seq_length=17, doc_stride=doc_stride)
    rows = [row[1:-1] for row in rows_of(features)]
    row_of_token = np.repeat(np.arange(len(rows)), features.row_lengths())
    windows_by_word = {
        PIECES[features.token_ids[token]]: int(row_of_token[token])
        for token in np.flatnonzero(features.for_decode["words"] >= 0)
    }
    for word in set(words).difference(others):
        # The rule of _check_is_max_context in google-research/bert run_squad.py.
        context = [
            min(row.index(word), len(row) - 1 - row.index(word)) + 0.01 * len(row) if word in row else -1.0
            for row in rows
        ]
        assert windows_by_word[word] == context.index(max(context)), word


def test_each_word_is_tagged_once_whatever_the_lengths(tokenizer):
    generator = np.random.default_rng(3)
    choices = ("anna", "bananas", "banananananas", CLEANED_AWAY, "ba" + "na" * 40)
    for settings in ({}, {"document_context": True}):
        examples = [
            sentence(generator.choice(choices, generator.integers(1, 23)), document=number // 5) for number in range(40)
        ]
        features = features_of(tokenizer, examples, max_seq_length=19, doc_stride=4, **settings)
        words = features.for_decode["words"]
        flat = [word for example in examples for word in example.words]
        assert sorted(words[words >= 0]) == [at for at, word in enumerate(flat) if word != CLEANED_AWAY]
        assert features.row_lengths().max() == 19
        for token in np.flatnonzero(words >= 0):
            assert flat[words[token]].startswith(PIECES[features.token_ids[token]])
        assert not any(row[1].startswith("##") for row in rows_of(features))


def test_document_context_fills_both_sides_of_a_sentence_and_stops_at_its_document(tokenizer):
    examples = [sentence(NUMBERS[at : at + 4], document=at // 20) for at in range(0, 40, 4)]
    features = features_of(tokenizer, examples, max_seq_length=13, document_context=True)
    rows = [row[1:-1] for row in rows_of(features)]
    assert rows[1] == list(NUMBERS[1:12])  # 11 tokens: 3 to the left, 4 to the right
    assert rows[0] == list(NUMBERS[:11])  # no words to the left, so all context is to the right
    assert rows[4] == list(NUMBERS[9:20])  # the last sentence of its document
    assert rows[5] == list(NUMBERS[20:31])  # the first sentence of the next document
    # A row tags and labels only its own sentence.
    labelled = features.token_labels["token_labels"].reshape(10, 13) >= 0
    assert labelled.sum() == 40 and labelled[1].tolist() == [False] * 4 + [True] * 4 + [False] * 5


def test_two_files_are_two_documents(tokenizer):
    examples = [sentence("anna met"), dataclasses.replace(sentence("ben saw"), path="other.txt")]
    features = features_of(tokenizer, examples, max_seq_length=13, document_context=True)
    assert rows_of(features) == [["[CLS]", "anna", "met", "[SEP]"], ["[CLS]", "ben", "saw", "[SEP]"]]


def test_document_context_takes_whole_words_only(tokenizer):
    examples = [sentence("bananas anna bananas"), sentence("ben"), sentence("rome bananas")]
    features = features_of(tokenizer, examples, max_seq_length=11, document_context=True)
    assert rows_of(features)[1] == ["[CLS]", "ba", "##na", "##na", "##s", "ben", "rome", "[SEP]"]


@pytest.mark.parametrize(
    "scheme, written",
    [
        ("IOB2", "B-PER I-PER B-PER O B-LOC I-LOC I-LOC"),
        ("IOB1", "I-PER I-PER B-PER O I-LOC I-LOC I-LOC"),
        ("BIOES", "B-PER E-PER S-PER O B-LOC I-LOC E-LOC"),
        ("BILOU", "B-PER L-PER U-PER O B-LOC I-LOC L-LOC"),
    ],
)
def test_any_scheme_is_learned_as_the_same_tags_and_predicted_in_its_own_letters(tokenizer, scheme, written):
    examples = [sentence("anna smith ben in the paris rome", written, scheme)]
    features = features_of(tokenizer, examples)
    trained = "B-PER I-PER B-PER O B-LOC I-LOC I-LOC".split()
    assert [LABELS[label] for label in features.token_labels["token_labels"] if label >= 0] == trained
    (prediction,) = decode(features, examples, trained)
    assert prediction["tags"] == written.split()
    assert tagging.score(NER, examples, [prediction], LABELS) == {
        "entity_f1": 1,
        "precision": 1,
        "recall": 1,
        "accuracy": 1,
    }
    assert list(tagging.score(NER, examples, [prediction], LABELS))[0] == "entity_f1"


def test_entities_are_what_conlleval_reads_in_the_most_probable_tags(tokenizer):
    examples = [sentence("in anna smith paris the rome")]
    (prediction,) = decode(features_of(tokenizer, examples), examples, "O I-PER I-PER I-LOC O I-LOC".split())
    assert prediction["tags"] == "O B-PER I-PER B-LOC O B-LOC".split()


def test_figures_are_those_of_entities_and_of_words():
    examples = [sentence("anna smith met ben", "B-PER I-PER O B-PER"), sentence("in paris", "O B-LOC")]
    predictions = [{"tags": "B-PER O O B-PER".split()}, {"tags": "B-LOC B-LOC".split()}]
    assert tagging.score(NER, examples, predictions, LABELS) == {
        "entity_f1": pytest.approx(4 / 7),
        "precision": 2 / 4,
        "recall": pytest.approx(2 / 3),
        "accuracy": pytest.approx(4 / 6),
    }
    assert tagging.score(POS, examples, predictions, LABELS) == {"accuracy": pytest.approx(4 / 6)}


def test_labels_of_entities_are_o_and_both_tags_of_each_type_and_other_labels_are_sorted_by_frequency():
    examples = [sentence("anna met in paris", "S-PER O O S-LOC", "BIOES")]
    assert tagging.label_names(NER, examples, None) == LABELS
    assert tagging.label_names(NER, [sentence("anna met", "B O")], None) == ("O", "B", "I")
    assert tagging.label_names(POS, [sentence("a b c d", "NN VB NN DT")], None) == ("NN", "DT", "VB")


@pytest.mark.parametrize("task, tags, name", [(NER, "O I-LAW", "I-LAW"), (POS, "O NN", "NN")])
def test_a_tag_that_is_not_in_the_training_data_is_named_by_file_and_line(tokenizer, task, tags, name):
    with pytest.raises(UserError, match=f"train.txt:8: tag '{name}' is not in the training data; its tags are O"):
        features_of(tokenizer, [sentence("anna", line=3), sentence("met ben", tags, line=7)], task=task)


def test_the_baseline_gives_each_word_its_most_frequent_tag_and_unseen_words_the_first_label():
    train = [
        sentence("anna met young smith", "B-PER O I-PER I-PER"),
        sentence("young smith", "O B-PER"),
        sentence("young", "O"),
        sentence("smith", "B-PER"),
    ]
    what, (first, second) = tagging.baseline(NER, train, [sentence("anna smith young rome"), sentence("smith")], LABELS)
    assert what == "the most frequent tag of each word in the training data"
    assert first["tags"] == ["B-PER", "B-PER", "O", "O"]  # smith: I-PER once, B-PER twice
    assert first["probabilities"] == [1.0, pytest.approx(2 / 3), pytest.approx(2 / 3), None]
    assert second["tags"] == ["B-PER"]


def test_answers_compare_tags_in_the_trained_scheme():
    examples = [sentence("anna smith in", "B-PER E-PER O", "BIOES")]
    right, predicted, names = tagging.answers(NER, examples, [{"tags": ["S-PER", "O", "S-LOC"]}], LABELS)
    assert [names[index] for index in right] == ["B-PER", "I-PER", "O"]
    assert [names[index] for index in predicted] == ["B-PER", "O", "B-LOC"]


def test_each_mistake_is_a_sentence_with_its_surest_wrong_word():
    examples = [
        sentence("anna met ben", "B-PER O B-PER"),
        sentence("in rome", "O B-LOC", line=5),
        sentence("the", line=9),
    ]
    predictions = [
        {"tags": ["O", "O", "O"], "probabilities": [0.7, 1.0, 0.6]},
        {"tags": ["O", "B-PER"], "probabilities": [0.9, 0.8]},
        {"tags": ["O"], "probabilities": [1.0]},
    ]
    rome, anna = tagging.mistakes(NER, examples, predictions, 5)
    assert rome == {
        "place": "train.txt:6",
        "sure": 0.8,
        "word": "rome",
        "predicted": "B-PER",
        "right": "B-LOC",
        "text": "in [rome]",
    }
    assert anna == {
        "place": "train.txt:1",
        "sure": 0.7,
        "word": "anna",
        "predicted": "O",
        "right": "B-PER",
        "text": "[anna] met [ben]",
    }
    assert tagging.mistakes(NER, examples, predictions, 1) == [rome]


def write_split(directory, name, count, seed):
    """Writes sentences with names of one or two words, and places that differ from names only by the word before."""
    generator, lines = np.random.default_rng(seed), []
    for number in range(count):
        lines += [] if number % 4 else ["-DOCSTART- -X- O", ""]
        person = [(generator.choice(("anna", "ben")), "B-PER")]
        if generator.random() < 0.5:
            person.append((generator.choice(("smith", "young")), "I-PER"))
        # After "in", "anna" and "ben" are places.
        place = (generator.choice(("paris", "rome", "anna", "ben")), "B-LOC")
        lines += [f"{word} - {tag}" for word, tag in (*person, ("met", "O"), ("in", "O"), place, (".", "O"))] + [""]
    with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
        file.write("\n".join(lines))


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """(directory of a run, its results). valid.txt lies beside the run. No test may change it."""
    directory = tmp_path_factory.mktemp("names")
    write_split(directory, "train.txt", 96, 1)
    write_split(directory, "valid.txt", 24, 2)
    run = FinetuningConfig(
        **{**conftest.SETTINGS, "task": "ner", "data_dir": str(directory), "num_train_epochs": 3.0, "eval_steps": 36}
    )
    config = conftest.CONFIG.replace(vocab_size=len(PIECES))
    return directory / "run", conftest.finetuned(str(directory / "run"), config, run, VOCABULARY, stream=io.StringIO())


def test_a_run_learns_what_a_look_up_cannot_learn_and_writes_the_layout_of_conlleval(learned, tmp_path):
    (workdir, figures), valid = learned, learned[0].parent / "valid.txt"
    assert figures["metric"] == "entity_f1" and figures["reported"]["score"] > 0.95
    assert figures["baseline"]["what"] == "the most frequent tag of each word in the training data"
    assert figures["baseline"]["score"] < 0.9
    with open(os.path.join(workdir, "config.json"), encoding="utf-8") as file:
        values = json.load(file)
    assert values["task"] == "token_classification" and values["id2label"]["4"] == "I-PER"
    finetuned = FinetunedRun(str(workdir))
    scores, *_ = finetuned.evaluate(str(valid), has_chosen=True)
    assert scores == pytest.approx(figures["reported"]["metrics"], abs=1e-6)
    _, examples, _, predictions = finetuned.evaluate(str(valid))
    assert finetuned.write(str(tmp_path / "answers"), examples, predictions) == [
        "predictions.txt",
        "probabilities.jsonl",
    ]
    lines = valid.read_text(encoding="utf-8").splitlines()
    answers = (tmp_path / "answers" / "predictions.txt").read_text(encoding="utf-8").splitlines()
    assert [answer.rpartition(" ")[0] for answer in answers] == lines
    (tmp_path / "words.txt").write_text("anna\nmet\nin\nanna\n", encoding="utf-8")
    finetuned.predict(str(tmp_path / "words.txt"), str(tmp_path / "words"))
    answers = (tmp_path / "words" / "predictions.txt").read_text(encoding="utf-8").split()
    assert answers == "anna B-PER met O in O anna B-LOC".split()


def test_several_runs_tag_each_token_by_the_mean_of_their_logits(learned, tmp_path):
    directories = [str(tmp_path / f"seed-{seed}") for seed in (1, 2)]
    for directory in directories:
        shutil.copytree(learned[0], directory)
    # The second run gets other weights, as if it had another seed.
    changed, (best,) = FinetunedRun(directories[1]), checkpoints.best_checkpoints(directories[1])
    for variable in changed.model.weights:
        variable.assign(0.9 * variable)
    checkpoints.save_best(directories[1], changed.model, int(best[-8:]), {"eval_entity_f1": 0.5})
    examples = NER.read_file(str(learned[0].parent / "valid.txt"), changed.run)
    one, other = (FinetunedRun(directory).logits(examples) for directory in directories)
    together = Ensemble(directories).logits(examples)
    assert len(together) == len(one) and np.abs(one[0] - other[0]).max() > 1e-3
    for row, first, second in zip(together, one, other, strict=True):
        np.testing.assert_allclose(row, (first + second) / 2, atol=1e-6)

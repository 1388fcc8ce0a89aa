"""Held-out text of several corpora is kept apart from the training text of all of them."""

import json
import os

import pytest
import tensorflow as tf

from keras_bert_app.training import pretraining_heldout
from keras_bert_app.training.pretraining_corpora import PretrainingCorpora
from pipelines.corpus import heldout_text, preparation

WORDS = "red green blue old new small large warm cold fast slow bright dark long short deep".split()


def document(number, number_of_sentences=3):
    return [f"{WORDS[i]} sentence {i} of text {number}." for i in range(number_of_sentences)]


def records(paths):
    return [record.decode() for record in tf.data.TFRecordDataset(list(paths)).as_numpy_iterator()] if paths else []


@pytest.fixture
def prepare(tmp_path):
    """A function that prepares corpora of (documents, seed), and returns their manifests by directory."""

    def prepared(*texts):
        manifests = {}
        for number, (documents, seed) in enumerate(texts):
            directory = str(tmp_path / f"corpus{number}")
            manifests[directory] = preparation.prepare_corpus(
                directory, documents=documents, seed=seed, holdout_fraction=0.3
            )
        return manifests

    return prepared


def kept_apart(workdir, manifests):
    """(training records, held-out records, PretrainingCorpora) after keep_apart."""
    pretraining_heldout.keep_apart(str(workdir), manifests)
    corpora = pretraining_heldout.with_heldout_apart(str(workdir), PretrainingCorpora.from_manifests(manifests))
    train = records([path for paths in corpora.train_shards for path in paths])
    return train, records(corpora.heldout_shards), corpora


def test_training_text_of_one_corpus_is_held_out_by_no_other_corpus(prepare, tmp_path, capsys):
    shared = [document(number) for number in range(60)]
    own = [[[*document(100 * k + number)[:2], document(number)[2]] for number in range(60)] for k in (1, 2)]
    # The second corpus has the same documents with one more space in the sentences, so no sentence is equal.
    spaced = [[sentence.replace(" of", "  of") for sentence in text] for text in shared]
    manifests = prepare((shared + own[0], 1), (spaced + own[1], 2))
    before = records(path for path in PretrainingCorpora.from_manifests(manifests).heldout_shards)
    train, heldout, corpora = kept_apart(tmp_path / "run", manifests)
    printed = capsys.readouterr().out
    sentences = {sentence for record in train for sentence in record.split("\n")}
    assert not [record for record in heldout if sentences & set(record.split("\n"))]
    without_space = {"".join(record.split()) for record in train}
    assert [record for record in before if "".join(record.split()) in without_space]  # the corpora shared documents
    assert not [record for record in heldout if "".join(record.split()) in without_space]
    assert 10 < len(heldout) < len(before) and all("\n" in record for record in heldout)
    assert corpora.num_heldout_documents == len(heldout)
    assert f"{len(before) - len(heldout)} of {len(before)} documents and" in printed
    assert "corpora with the same --seed and --holdout_fraction" in printed


def test_corpora_of_one_seed_keep_their_held_out_shards(prepare, tmp_path, capsys):
    manifests = prepare(
        ([document(number) for number in range(40)], 5), ([document(number) for number in range(20, 60)], 5)
    )
    _, _, corpora = kept_apart(tmp_path / "run", manifests)
    assert corpora == PretrainingCorpora.from_manifests(manifests)
    assert "dropped" not in capsys.readouterr().out


def test_corpora_without_held_out_text_stay_as_they_are(prepare, tmp_path):
    manifests = prepare(([["One.", "Two."]], 1), ([["One.", "Two."]], 2))  # a lone document is for training
    _, heldout, corpora = kept_apart(tmp_path / "run", manifests)
    assert heldout == [] and corpora == PretrainingCorpora.from_manifests(manifests)


def test_a_single_corpus_is_not_compared(prepare, tmp_path):
    manifests = prepare(([document(number) for number in range(40)], 5))
    _, _, corpora = kept_apart(tmp_path / "run", manifests)
    assert corpora == PretrainingCorpora.from_manifests(manifests) and not os.path.exists(tmp_path / "run")


def test_nothing_is_held_out_if_all_held_out_text_is_training_text_of_another_corpus(prepare, tmp_path):
    texts = [document(number) for number in range(40)]
    manifests = prepare((texts, 1))
    (first,) = manifests
    copies = [record.split("\n") for record in records(preparation.shard_paths(first, manifests[first], "heldout"))]
    directory = str(tmp_path / "copies")
    manifests[directory] = preparation.prepare_corpus(directory, documents=copies, holdout_fraction=0.0)
    _, heldout, corpora = kept_apart(tmp_path / "run", manifests)
    assert copies and heldout == [] == list(corpora.heldout_shards) and corpora.num_heldout_documents == 0
    assert corpora.num_heldout_dropped == len(copies)


def test_corpora_are_compared_again_only_if_a_corpus_or_a_file_of_the_last_comparison_changed(
    prepare, tmp_path, monkeypatch
):
    texts = [document(number) for number in range(30)]
    manifests = prepare((texts, 1), (texts[:15], 2))
    compared = []
    write_apart = heldout_text.write_apart
    monkeypatch.setattr(
        heldout_text, "write_apart", lambda *arguments: (compared.append(1), write_apart(*arguments))[1]
    )
    _, first, corpora = kept_apart(tmp_path / "run", manifests)
    assert kept_apart(tmp_path / "run", manifests)[1] == first and len(compared) == 1
    (path,) = corpora.heldout_shards
    with open(path, "r+b") as file:
        file.truncate(50)
    assert kept_apart(tmp_path / "run", manifests)[1] == first and len(compared) == 2
    manifest_content = json.loads((tmp_path / "run/heldout_apart/manifest.json").read_text())
    (tmp_path / "run/heldout_apart/manifest.json").write_text(json.dumps({**manifest_content, "counts": 5}))
    assert kept_apart(tmp_path / "run", manifests)[1] == first and len(compared) == 3
    manifests.update(prepare_again(tmp_path))
    assert set(kept_apart(tmp_path / "run", manifests)[1]) - set(first) and len(compared) == 4


def prepare_again(tmp_path):
    directory = str(tmp_path / "third")
    documents = [document(number) for number in range(200, 230)]
    return {directory: preparation.prepare_corpus(directory, documents=documents, holdout_fraction=0.3)}

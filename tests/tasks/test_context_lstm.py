"""Context vectors: the LSTM of a translation run under the heads of other tasks (McCann et al. 2017, CoVe)."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.export.finetuned_export import export_finetuned
from keras_bert_app.interop.load import load_pretrained
from keras_bert_app.runs import checkpoints
from keras_bert_app.tasks.scoring import FinetunedRun
from tests.modeling.test_task_model import batch_of
from tests.tasks.conftest import (
    BAD,
    CONFIG,
    GOOD,
    SETTINGS,
    VOCABULARY,
    launched,
    newest,
    sentence,
    stopped_at_start,
    weights_of,
)

UNITS = 7
TRANSLATION = {
    **SETTINGS,
    "task": "translation",
    "source": "in",
    "target": "out",
    "num_train_steps": 3,
    "learning_rate": 2e-2,
    "num_warmup_steps": 1,
    "num_beams": 1,
    "max_eval_examples": 8,
    "seed": 21,
    "jit_compile": "none",
}
RECURRENT = {"decoder": "rnn_feedback", "attention": "additive", "bilstm_units": UNITS}
TAGGING = {
    "task": "ner",
    "num_train_steps": 2,
    "eval_steps": 1,
    "save_checkpoints_steps": 1,
    "keep_checkpoints": 9,
    "jit_compile": "none",
}
# Frozen vectors, as in the paper. Without a warm-up the first step already changes every weight of the head.
FEATURES = {"freeze_layers": -1, "bilstm_units": 3, "learning_rate": 1e-2, "num_warmup_steps": 0}
# Loads an export without this package, and without the packages that Keras would import if it found them.
_ASK = """
import json, sys
sys.modules.update(dict.fromkeys(("keras_bert_app", "pipelines", "sklearn", "pandas", "matplotlib")))
import tensorflow as tf
import tensorflow_text
answers = tf.saved_model.load(sys.argv[1]).signatures["serving_default"](text=tf.constant(json.loads(sys.argv[2])))
print(json.dumps(answers["word_probabilities"].numpy().tolist()))
"""


def started(workdir, wanted, takes_weights=True, config=None):
    """The model of a run before its first step."""
    start = (None, False, config, VOCABULARY) if config else (wanted["init_checkpoint"], takes_weights, None, None)
    with stopped_at_start() as models:
        launched(workdir, wanted, start=start)
    return models[0]


def untrained_translation(workdir, directory, config=CONFIG, **settings):
    """The work directory of a translation run that has saved random weights. A real run would take seconds to trace.

    Random numbers are added to the first weights, because the first biases are all equal.
    """
    model = started(workdir, {**TRANSLATION, "data_dir": directory, **settings}, config=config)
    generator = np.random.default_rng(7)
    for variable in model.weights:
        variable.assign_add(generator.normal(0.0, 0.05, variable.shape))
    variables = {variable.path: variable.value for variable in model.weights}
    for kind in ("step", "best"):
        checkpoints.save_variables(str(workdir), variables, 0, kind)
    return str(workdir)


@pytest.fixture(scope="module")
def parallel_dir(tmp_path_factory):
    """A directory with texts to copy."""
    directory, generator = tmp_path_factory.mktemp("parallel"), np.random.default_rng(4)
    for name, count in (("train", 40), ("val", 20)):
        text = "".join(f"{sentence(generator, '1')}\n" for _ in range(count))
        for ending in ("in", "out"):
            (directory / f"{name}.{ending}").write_text(text)
    return str(directory)


@pytest.fixture(scope="module")
def recurrent(tmp_path_factory, parallel_dir):
    """The work directory of a translation run whose encoder is an LSTM over embeddings. No test may change it."""
    directory = tmp_path_factory.mktemp("recurrent") / "run"
    return untrained_translation(directory, parallel_dir, CONFIG.replace(num_hidden_layers=0), **RECURRENT)


@pytest.fixture(scope="module")
def layered(tmp_path_factory, parallel_dir):
    """The work directory of a translation run whose encoder is a Transformer. No test may change it."""
    return untrained_translation(tmp_path_factory.mktemp("layered") / "run", parallel_dir)


@pytest.fixture(scope="module")
def tagged_dir(tmp_path_factory):
    """A directory with sentences whose good and bad words are entities."""
    directory, generator = tmp_path_factory.mktemp("tagged"), np.random.default_rng(6)
    tags = {**dict.fromkeys(GOOD, "B-GOOD"), **dict.fromkeys(BAD, "B-BAD")}
    for name, count in (("train", 40), ("valid", 20), ("test", 20)):
        sentences = [sentence(generator, "10"[number % 2])[:-1].split() for number in range(count)]
        lines = ["".join(f"{word} {tags.get(word, 'O')}\n" for word in words) for words in sentences]
        (directory / f"{name}.txt").write_text("\n".join(lines))
    return str(directory)


@pytest.fixture(scope="module")
def tagger(tmp_path_factory, recurrent, tagged_dir):
    """The work directory of a tagger on frozen vectors. Its translation run is gone. No test may change it."""
    directory = tmp_path_factory.mktemp("tagger")
    shutil.copytree(recurrent, directory / "translation")
    wanted = {**TAGGING, **FEATURES, "data_dir": tagged_dir, "init_checkpoint": str(directory / "translation")}
    _, output = launched(directory / "run", wanted)
    assert f"context vectors: from its LSTM with {UNITS} units in each direction" in output
    shutil.rmtree(directory / "translation")
    return str(directory / "run")


def values_of(model):
    return {variable.path: variable.numpy() for variable in model.weights}


def translation_vectors(workdir, batch):
    """(states of the encoder, outputs of the LSTM) of a recurrent translation run."""
    model = FinetunedRun(workdir).model
    states = model.encoder(batch)["sequence_output"]
    return states.numpy(), model.recurrent(states, batch["input_mask"]).numpy()


def read_by_head(model, batch, monkeypatch):
    """The input of a model's output layer."""
    inputs, call = [], model.classifier.call
    monkeypatch.setattr(model.classifier, "call", lambda x, **given: inputs.append(x.numpy()) or call(x, **given))
    model(batch)
    return inputs[0]


@pytest.mark.parametrize("checkpoint", ["", "best", "newest"])
def test_the_head_reads_each_embedding_beside_the_output_of_the_translation_run_s_lstm(
    recurrent, tagged_dir, tmp_path, monkeypatch, checkpoint
):
    """Equation 5 of McCann et al. (2017)."""
    paths = {"best": checkpoints.best_checkpoints(recurrent)[-1], "newest": newest(recurrent)}
    wanted = {**TAGGING, "data_dir": tagged_dir, "init_checkpoint": paths.get(checkpoint, recurrent)}
    model, batch = started(tmp_path / "run", wanted), batch_of()
    assert model.head.context_units == UNITS and model.parts == ("encoder", "context_lstm", "classifier")
    assert not model.head.is_plain and not model.head.has_pooler
    expected = np.concatenate(translation_vectors(recurrent, batch), axis=-1)
    assert (
        expected.shape[-1] == CONFIG.hidden_size + 2 * UNITS and np.abs(expected[..., CONFIG.hidden_size :]).max() > 0.1
    )
    np.testing.assert_allclose(read_by_head(model, batch, monkeypatch), expected, atol=1e-6)


def test_frozen_vectors_stay_those_of_the_translation_run_while_the_head_learns(recurrent, tagger):
    before, first, last = weights_of(newest(recurrent)), *map(weights_of, checkpoints.list_checkpoints(tagger)[-2:])
    names = {
        **{path: path for path in before if path.startswith("encoder/embeddings/")},
        **{path.replace("bilstm", "context_lstm"): path for path in before if path.startswith("bilstm/")},
    }
    assert len(names) == 8
    for ours, theirs in names.items():
        np.testing.assert_array_equal(last[ours], before[theirs], err_msg=ours)
    learned = sorted(last.keys() - names.keys())
    assert {path.split("/")[0] for path in learned} == {"bilstm", "classifier"}
    assert all(not np.array_equal(last[path], first[path]) for path in learned)


def test_without_freezing_the_lstm_learns_with_the_rest(recurrent, table_dir, tmp_path):
    wanted = {"data_dir": table_dir, "init_checkpoint": recurrent, "num_train_steps": 1, "num_warmup_steps": 0}
    launched(tmp_path / "run", wanted)  # --pooling=cls: the context vector of [CLS] depends on the text
    before, after = weights_of(newest(recurrent)), weights_of(newest(tmp_path / "run"))
    for name in ("kernel", "recurrent_kernel", "bias"):
        assert not np.array_equal(after[f"context_lstm/{name}"], before[f"bilstm/{name}"])
    assert not np.array_equal(*(each["encoder/embeddings/word_embeddings"] for each in (before, after)))


def test_the_controls_have_no_lstm_a_random_lstm_or_random_weights_everywhere(recurrent, tagged_dir, tmp_path):
    wanted = {**TAGGING, "data_dir": tagged_dir, "init_checkpoint": recurrent}
    vectors, none, random, other, everything = (
        values_of(started(tmp_path / str(number), {**wanted, **more}, takes_weights))
        for number, (more, takes_weights) in enumerate(
            [
                ({}, True),
                ({"context_vectors": "none"}, True),
                ({"context_vectors": "random"}, True),
                ({"context_vectors": "random", "seed": 8}, True),
                ({}, False),
            ]
        )
    )
    words, kernel = "encoder/embeddings/word_embeddings", "context_lstm/kernel"
    assert none.keys() == {path for path in vectors if not path.startswith("context_lstm/")}
    assert none["classifier/kernel"].shape[0] == CONFIG.hidden_size
    for values in (random, other, everything):
        assert {path: value.shape for path, value in values.items()} == {
            path: value.shape for path, value in vectors.items()
        }
    kernels = [values[kernel] for values in (vectors, random, other)]
    assert all(np.abs(one - two).max() > 0.1 for one, two in zip(kernels, [*kernels[1:], kernels[0]], strict=True))
    for values in (none, random, other):
        np.testing.assert_array_equal(values[words], vectors[words])
    assert not np.array_equal(everything[words], vectors[words])
    assert not np.array_equal(everything[kernel], vectors[kernel])


def test_a_run_resumes_bit_for_bit_without_its_translation_run(tagger, tagged_dir, tmp_path):
    shutil.copytree(tagger, tmp_path / "run")
    shutil.rmtree(newest(tmp_path / "run"))
    wanted = {**TAGGING, **FEATURES}
    _, output = launched(tmp_path / "run", wanted, start=(None, True, None, None))
    assert "resumed at step 1" in output
    right, again = weights_of(newest(tagger)), weights_of(newest(tmp_path / "run"))
    assert right.keys() == again.keys()
    for path, values in right.items():
        np.testing.assert_array_equal(again[path], values, err_msg=path)
    with pytest.raises(UserError, match="holds a run with context_vectors=auto, but --context_vectors=none was given"):
        launched(tmp_path / "run", {**wanted, "context_vectors": "none"}, start=(None, True, None, None))


@pytest.mark.slow
def test_a_seed_that_starts_later_has_the_lstm_of_the_seeds_before_it(recurrent, tagged_dir, tmp_path):
    wanted = {**TAGGING, "data_dir": tagged_dir, "init_checkpoint": recurrent, "num_train_steps": 1}
    launched(tmp_path / "runs", wanted, num_seeds=2, start=(recurrent, False, None, None))
    expected = weights_of(newest(tmp_path / "runs/seed-4"))
    assert "context_lstm/kernel" in expected
    shutil.rmtree(tmp_path / "runs/seed-4")
    launched(tmp_path / "runs", {"task": "ner"}, num_seeds=2, start=(None, True, None, None))
    again = weights_of(newest(tmp_path / "runs/seed-4"))
    assert expected.keys() == again.keys()
    assert all(np.array_equal(values, again[path]) for path, values in expected.items())


def test_a_finished_run_scores_and_answers_without_its_translation_run(tagger, tagged_dir, tmp_path):
    scores, *_ = FinetunedRun(tagger).evaluate(os.path.join(tagged_dir, "valid.txt"), has_chosen=True)
    with open(os.path.join(tagger, "results.json"), encoding="utf-8") as file:
        assert scores["accuracy"] == pytest.approx(json.load(file)["reported"]["metrics"]["accuracy"], abs=1e-6)
    count, names, _ = FinetunedRun(tagger).predict(os.path.join(tagged_dir, "test.txt"), str(tmp_path))
    assert count == 20 and "probabilities.jsonl" in names
    # Other commands read the encoder, here the embeddings alone.
    assert load_pretrained(tagger, allow_missing=("pooler", "masked_lm", "next_sentence")).config.num_hidden_layers == 0


@pytest.mark.slow
def test_an_export_answers_the_same_in_a_process_without_this_package(tagger, tmp_path):
    raw, _ = export_finetuned(tagger, str(tmp_path / "export"))
    texts, run = ["the day was warm and so grim", "a very dull day"], FinetunedRun(tagger)
    (tmp_path / "texts.txt").write_text("\n".join("".join(f"{word} O\n" for word in text.split()) for text in texts))
    predictions, _ = run.predictions(run.task.read_file(str(tmp_path / "texts.txt"), run.run))
    process = subprocess.run(
        [sys.executable, "-c", _ASK, raw, json.dumps(texts)], cwd=tmp_path, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    answers = json.loads(process.stdout.splitlines()[-1])
    for row, prediction in zip(answers, predictions, strict=True):
        assert len(prediction["probabilities"]) > 3
        np.testing.assert_allclose(row[: len(prediction["probabilities"])], prediction["probabilities"], atol=2e-6)


def test_another_task_takes_the_lstm_of_a_fine_tuned_run_and_the_same_task_its_head_too(
    tagger, tagged_dir, table_dir, tmp_path
):
    best = weights_of(checkpoints.best_checkpoints(tagger)[-1])
    same = {**TAGGING, **FEATURES, "data_dir": tagged_dir, "init_checkpoint": tagger}
    other = {"data_dir": table_dir, "init_checkpoint": tagger, "pooling": "mean"}
    for number, (wanted, parts) in enumerate(
        [
            (same, ("encoder", "context_lstm", "bilstm", "classifier")),
            (other, ("encoder", "context_lstm")),
            # A head that was trained above the LSTM does not fit a random one.
            ({**same, "context_vectors": "random"}, ("encoder",)),
            ({**same, "context_vectors": "none"}, ("encoder",)),
        ]
    ):
        values = values_of(started(tmp_path / str(number), wanted))
        kept = {path.split("/")[0] for path in values if path in best and np.array_equal(values[path], best[path])}
        # The bias of a new LSTM is the same in every run.
        assert kept - {"context_lstm", "bilstm"} == set(parts) - {"context_lstm", "bilstm"}
        for part in ("context_lstm", "bilstm"):
            if f"{part}/kernel" in values:
                is_kept = np.array_equal(values[f"{part}/kernel"], best[f"{part}/kernel"])
                assert is_kept == (part in parts), (number, part)


def test_a_transformer_gives_the_states_that_it_gives_in_the_translation_run(layered, tagged_dir, tmp_path):
    wanted = {**TAGGING, "data_dir": tagged_dir, "init_checkpoint": layered}
    model, batch = started(tmp_path / "run", wanted), batch_of()
    assert model.head.context_units == 0 and model.head.is_plain
    expected = FinetunedRun(layered).model.encoder(batch)["sequence_output"]
    np.testing.assert_allclose(model.encoder(batch)["sequence_output"], expected, atol=1e-6)


def test_an_lstm_over_layers_that_are_left_out_gives_no_context_vectors(parallel_dir, tagged_dir, tmp_path):
    workdir = untrained_translation(tmp_path / "translation", parallel_dir, **RECURRENT)
    wanted = {**TAGGING, "data_dir": tagged_dir, "init_checkpoint": workdir}
    assert started(tmp_path / "whole", wanted).head.context_units == UNITS
    assert started(tmp_path / "lowest", {**wanted, "encoder_layers": 0}).head.context_units == 0
    message = "--context_vectors=random: the LSTM of .* reads layer 1, which --encoder_layers=0 removes; leave one of"
    with pytest.raises(UserError, match=message):
        launched(tmp_path / "random", {**wanted, "encoder_layers": 0, "context_vectors": "random"})


@pytest.mark.parametrize(
    "source, wanted, message",
    [
        (
            "layered",
            {"context_vectors": "none"},
            "--context_vectors=none: .* has no LSTM over its encoder; leave it out",
        ),
        ("layered", {"context_vectors": "random"}, "--context_vectors=random: .* has no LSTM over its encoder"),
        (
            "recurrent",
            {"context_vectors": "none", "task": "translation", "source": "in", "target": "out", **RECURRENT},
            "--context_vectors=none: task translation does not read it; leave it out",
        ),
        (
            "recurrent",
            {"context_vectors": "none", "task": "classification"},
            "--pooling=cls: the encoder has no layers, so the vector of a special piece does not depend on the text",
        ),
    ],
)
def test_an_option_without_an_effect_is_refused(
    request, parallel_dir, table_dir, tagged_dir, tmp_path, source, wanted, message
):
    directories = {"translation": parallel_dir, "classification": table_dir, "ner": tagged_dir}
    wanted = {"task": "ner", "init_checkpoint": request.getfixturevalue(source), **wanted}
    with pytest.raises(UserError, match=message):
        launched(tmp_path / "run", {**wanted, "data_dir": directories[wanted["task"]]})
    assert not os.path.exists(tmp_path / "run" / "config.json")


def test_a_random_lstm_is_refused_where_everything_is_random(recurrent, tagged_dir, tmp_path):
    wanted = {**TAGGING, "data_dir": tagged_dir, "context_vectors": "random"}
    with pytest.raises(UserError, match="with --random_init all weights are random already; leave it out"):
        launched(tmp_path / "run", wanted, start=(recurrent, False, None, None))
    with pytest.raises(UserError, match="without --init_checkpoint there are no context vectors; leave it out"):
        launched(tmp_path / "run", wanted, start=(None, False, CONFIG, VOCABULARY))


def test_a_new_translation_keeps_the_lstm_as_a_part_of_its_own_head(recurrent, parallel_dir, tmp_path):
    wanted = {**TRANSLATION, **RECURRENT, "data_dir": parallel_dir, "init_checkpoint": recurrent}
    values, before = (
        values_of(started(tmp_path / "run", wanted)),
        weights_of(checkpoints.best_checkpoints(recurrent)[-1]),
    )
    assert values.keys() == before.keys()
    assert all(np.array_equal(value, before[path]) for path, value in values.items())


def test_padding_changes_no_context_vector(recurrent, tagged_dir, tmp_path):
    model = started(tmp_path / "run", {**TAGGING, "data_dir": tagged_dir, "init_checkpoint": recurrent})
    batch = batch_of(width=11)
    padded = {name: tf.pad(values, [[0, 0], [0, 8]]) for name, values in batch.items()}
    ours, theirs = (model(each)["logits"].numpy() for each in (batch, padded))
    for row, other, length in zip(ours, theirs, (11, 7, 3), strict=True):
        np.testing.assert_allclose(row[:length], other[:length], atol=1e-5)

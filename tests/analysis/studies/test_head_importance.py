"""Tests the importance of heads against finite differences of the loss, and the choice of heads to prune."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.analysis import head_tasks
from keras_bert_app.analysis.encoders import Subject
from keras_bert_app.analysis.options import Options
from keras_bert_app.analysis.studies import head_importance, head_pruning
from keras_bert_app.errors import UserError
from keras_bert_app.modeling.encoder import gated_heads
from keras_bert_app.modeling.pretrainer import BertPretrainer
from keras_bert_app.modeling.task_head import CHOICES, Head
from keras_bert_app.modeling.task_model import BertTaskModel
from tests.analysis.tiny_subject import tiny_subject


@pytest.fixture(scope="module")
def subject():
    tiny = tiny_subject()
    model = BertPretrainer(tiny.config, seed=5)
    return Subject("tiny", model.encoder, tiny.tokenizer, model)


@pytest.fixture
def options(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("The cat sat on the bank.\n\nA river was by the bank, the cat sat.\n\nMoney.\n" * 3)
    return Options(input_file=str(path), num_seeds=2, prune_percent=50)


def tasks(subject):
    """Yields a task with one row for each example, and a task with three rows for each example."""
    generator = np.random.default_rng(2)
    ids = generator.integers(5, 22, (4, 3, 7)).astype(np.int32)
    choices = {"input_word_ids": ids, "input_mask": np.ones_like(ids), "input_type_ids": np.zeros_like(ids)}
    rows = {name: values[:, 0] for name, values in choices.items()}
    chooser = BertTaskModel(subject.config, Head(CHOICES, 1), seed=7)
    for model, batch, outputs, loss in (
        (
            subject.model,
            rows,
            lambda model, batch: model.encoder(batch)["sequence_output"],
            lambda states, batch: tf.reduce_sum(states[:, 0, :3] ** 3),
        ),
        (
            chooser,
            choices,
            lambda model, batch: model(batch)["logits"],
            lambda logits, batch: tf.reduce_sum(tf.nn.log_softmax(logits)[:, 1]),
        ),
    ):
        yield SimpleNamespace(
            model=model,
            estimation=[{name: tf.constant(values) for name, values in batch.items()}],
            num_estimated=4,
            outputs=outputs,
            loss=loss,
        )


@pytest.mark.parametrize("task_number", [0, 1])
def test_importance_is_the_mean_slope_of_the_losses_of_examples_divided_by_the_norm_of_the_layer(subject, task_number):
    task, step = list(tasks(subject))[task_number], 0.005
    importance, (batch,), slopes = head_importance.importance(task, print), task.estimation, np.zeros(6)

    @tf.function  # one trace instead of 48 eager calls
    def loss(gates, example_batch):
        with gated_heads(task.model.encoder, tf.split(gates, 3)):
            return task.loss(task.outputs(task.model, example_batch), example_batch)

    for head in range(6):
        for example in range(4):
            example_batch = {name: values[example : example + 1] for name, values in batch.items()}
            losses = []
            for gate in (1 + step, 1 - step):
                gates = np.where(np.arange(6) == head, gate, 1.0).astype(np.float32)
                losses.append(float(loss(tf.constant(gates), example_batch)))
            slopes[head] += abs(losses[0] - losses[1]) / (2 * step) / 4
    expected = (slopes.reshape(3, 2) / np.linalg.norm(slopes.reshape(3, 2), axis=1, keepdims=True)).ravel()
    np.testing.assert_allclose(importance, expected, atol=0.005)


def test_each_layer_is_normalized_separately():
    np.testing.assert_allclose(
        head_importance.normalized(np.array([3.0, 4.0, 5.0, 0.0, 0.0]), (2, 1, 2)), [0.6, 0.8, 1, 0, 0]
    )
    assert [head_importance.place_of(head, (2, 1, 2)) for head in range(5)] == [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1)]


def test_the_last_head_of_a_layer_is_not_pruned():
    order = np.array([2, 0, 1, 4, 3])
    assert head_pruning.heads_to_prune(order, (2, 1, 2), 2) == {
        0: [0],
        2: [1],
    }  # head 2 is alone in its layer, and head 1 is alone when head 0 is pruned
    assert head_pruning.heads_to_prune(order, (2, 1, 2), 5) == {0: [0], 2: [1]}
    assert head_pruning.prune_heads_flag({0: [1, 3], 2: [5]}) == "0:1,3;2:5"


def test_rows_hold_whole_sentences_of_one_document():
    pieces = [np.arange(size, dtype=np.int32) for size in (3, 4, 2, 5, 1)]
    rows = head_tasks.filled_rows(pieces, [0, 0, 0, 1, 2], 7)
    assert [len(row) for row in rows] == [7, 2, 5, 1]
    np.testing.assert_array_equal(rows[0], [0, 1, 2, 0, 1, 2, 3])


def test_the_curves_of_all_orders_begin_with_the_whole_model_and_end_at_one_loss(subject, options):
    findings = head_importance.run(subject, options, print)
    curve = findings.values["curves"]["loss"]
    task = head_tasks.load(subject, options, print)
    assert curve["importance"][0] == pytest.approx(
        task.score(lambda batch: task.outputs(subject.model, batch))["loss"], rel=1e-5
    )
    for end in (0, -1):
        assert curve["random"][end] == [curve["importance"][end]] * 2
    assert len(set(curve["importance"])) > 3  # closed heads change the loss
    assert findings.values["closed"] == [0, 1, 1, 2, 2, 3, 4, 4, 5, 5, 6] and sorted(findings.values["order"]) == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
        (2, 0),
        (2, 1),
    ]
    assert findings.files["head_importance.png"].startswith(b"\x89PNG")


def test_a_pruned_model_has_the_scores_of_the_whole_model_with_these_heads_closed(subject, options):
    values = head_pruning.run(subject, options, print).values
    assert values["head_counts"] == [1, 1, 1] and values["difference"] < 1e-5
    assert values["scores"]["pruned"]["loss"] == pytest.approx(values["scores"]["closed"]["loss"], abs=1e-5)
    assert values["scores"]["pruned"]["loss"] != pytest.approx(values["scores"]["whole"]["loss"], abs=1e-4)
    assert values["bytes_of_export"][1] < values["bytes_of_export"][0] and np.shape(values["milliseconds"]) == (2, 2)


def test_the_command_that_writes_a_pruned_model_names_its_path_and_the_parts_that_are_missing(subject):
    model = BertPretrainer(subject.config, parts=("encoder", "masked_lm"))
    assert head_pruning.convert_command(Options(init_checkpoint="my runs/a/"), model, "0:1;2:0") == (
        "python -m keras_bert_app.cli.convert --input='my runs/a/' --to=workdir --output='my runs/a-pruned' "
        "--prune_heads='0:1;2:0' --allow_missing=pooler,next_sentence"
    )
    assert head_pruning.convert_command(Options(workdir="run", init_checkpoint="a"), None, "0:1").endswith(
        "--input=run --to=workdir --output=run-pruned --prune_heads=0:1"
    )


def test_a_remark_says_how_much_of_the_text_was_read_and_0_reads_all_of_it(subject, options, monkeypatch):
    monkeypatch.setattr(head_tasks, "_DEFAULT_SENTENCES", 4)
    path = options.input_file
    with open(path, "a") as file:
        file.write("\n" + "the cat " * 20 + "\n")
    for max_sentences, remark in (
        (
            -1,
            f"The first 4 sentences of {path} were read (the default of this analysis; --max_sentences=0 takes all).",
        ),
        (7, f"The first 7 sentences of {path} were read (--max_sentences)."),
        (0, f"All 10 sentences of {path} were read."),
    ):
        task = head_tasks.load(subject, dataclasses.replace(options, max_sentences=max_sentences), print)
        assert task.remarks[0] == remark
    assert task.remarks[1] == "Left out of 10 sentences: 0 without a word, 1 of more than 21 pieces."


def test_a_missing_file_or_head_and_a_wrong_percentage_are_refused(subject, options):
    with pytest.raises(UserError, match="--input_file is missing.*--workdir"):
        head_importance.run(subject, Options(), print)
    with pytest.raises(UserError, match="no masked-LM head"):
        head_importance.run(tiny_subject(), options, print)
    with pytest.raises(UserError, match="--prune_percent=100: expected 1 to 99"):
        head_pruning.run(subject, Options(prune_percent=100), print)

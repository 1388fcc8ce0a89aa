"""The exports of rerankers: their scores are those of the run, for raw texts and for rows of ids."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.export import finetuned_export, raw_answers
from keras_bert_app.modeling.execution import PLAIN
from keras_bert_app.modeling.task_model import BertTaskModel
from keras_bert_app.tasks import batches, predicting
from keras_bert_app.tasks.families.reranking import Example
from tests.export.untrained import CONFIG, TOKENIZER, texts, untrained

QUERIES = ["the river was cold", "", "men saw it in spring and it was cold and cold and cold"]


@pytest.mark.parametrize("loss", ["listwise", "graded"])
def test_scores_of_an_export_are_those_of_predict(loss):
    finetuned = untrained("rerank", ranking_loss=loss)
    if loss == "graded":
        head = dataclasses.replace(finetuned.model.head, scale=3.0, offset=1.0)
        finetuned.model = BertTaskModel(CONFIG, head, seed=7)
    documents, task, run = texts(15, 30), finetuned.task, finetuned.run
    examples = [
        Example(str(n), query, tuple(documents[5 * n : 5 * n + 5]), None, tuple("abcde"), ("x:2",) * 5)
        for n, query in enumerate(QUERIES)
    ]
    features = task.family.featurize(task, examples, TOKENIZER, run, (), has_labels=False)
    answers = task.family.make_answers(run)
    scores = predicting.unit_logits(
        lambda inputs: answers(finetuned.model, inputs, PLAIN).numpy(),
        finetuned.model,
        features,
        run,
        4,
    )
    expected = [
        score for each in task.family.decode(task, examples, features, scores, run, ()) for score in each["scores"]
    ]
    module = finetuned_export._module(finetuned, ["query", "document"], 64)
    queries = [query for query in QUERIES for _ in range(5)]
    outputs = module.exported["serving_default"](query=tf.constant(queries), document=tf.constant(documents))
    np.testing.assert_allclose(outputs["scores"], expected, atol=1e-5)
    assert outputs["truncated"].numpy().any() and not outputs["truncated"].numpy().all()
    assert outputs["scores"].dtype == tf.float32 and np.ptp(expected) > 0.01
    rows = batches.make_batch(features, np.arange(15), 15, 17)
    ids = module.exported["ids"](**{name: tf.constant(rows[name]) for name in CONFIG.input_names})
    np.testing.assert_allclose(ids["scores"], expected, atol=1e-5)
    row = {"query": queries[0], "document": documents[0]}
    ((_, answer),) = raw_answers.answers(module.exported["serving_default"], [row])
    assert answer["value"] == pytest.approx(expected[0], abs=1e-5)
    lines = list(raw_answers.text_lines(row, answer))
    assert lines[0] == f"{queries[0]} | {documents[0]}" and lines[-1] == f"  {answer['value']:.4f}"
    if loss == "graded":
        assert 1.0 < min(expected) < max(expected) < 4.0

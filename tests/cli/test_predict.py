"""`predict`: flags of raw texts, and messages about files from which it reads no example."""

import types

import pytest
import tensorflow as tf

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.export import finetuned_export
from keras_bert_app.tasks import registry, scoring
from tests.tasks.texts import written


def test_raw_texts_take_the_batch_size_and_no_strategy(run, monkeypatch):
    batches = []

    def serve(text):
        batches.append(len(text))
        return {"truncated": tf.zeros(len(text), tf.bool), "score": tf.ones(len(text))}

    serve.structured_outputs = {}
    monkeypatch.setattr(scoring, "set_threads", lambda workdir: None)
    monkeypatch.setattr(finetuned_export, "raw_text_function", lambda *_: (serve, ("text",)))
    texts = [f"--text={number}" for number in range(5)]
    assert run("predict", "--workdir=x", "--global_batch_size=2", *texts).returncode == 0
    assert batches == [2, 2, 1]
    result = run("predict", "--workdir=x", "--strategy=mirrored", *texts)
    assert result.returncode == 2 and "--strategy is for --input_file; one device answers raw texts" in result.stderr


@pytest.mark.parametrize(
    "name, content, said",
    [
        (
            "new.tsv",
            "a warm day\ta\na grim day\tb\n",
            ":2: has no column 'text': known: a warm day, a; line 1 was read as the header; if it is an example, put "
            "a header line with the columns of the training file above it (text); plain texts go into --text_file\n",
        ),
        ("new.tsv", "", ": holds no example of task classification; plain texts go into --text_file\n"),
    ],
)
def test_a_table_without_a_header_or_without_rows_is_refused_with_advice_for_predict(
    run, monkeypatch, tmp_path, name, content, said
):
    settings = FinetuningConfig(task="classification", data_dir="x", header="yes", text_columns=("text",))

    def predict(path, output_dir):
        return registry.find("classification").read_file(path, settings, has_labels=False)

    prepared = []
    monkeypatch.setattr(scoring, "set_threads", prepared.append)
    monkeypatch.setattr(scoring, "opened", lambda *_, **__: types.SimpleNamespace(run=settings, predict=predict))
    path = written(tmp_path, name, content)
    result = run("predict", "--workdir=x", f"--input_file={path}", f"--output_dir={tmp_path}/answers")
    assert result.returncode == 2 and result.stderr.endswith(f"{path}{said}") and result.stderr.count("\n") == 1
    assert prepared == ["x"]

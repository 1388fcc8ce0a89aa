"""The messages of `predict` about files from which it reads no example."""

import types

import pytest

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.tasks import registry, scoring
from tests.tasks.texts import written


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

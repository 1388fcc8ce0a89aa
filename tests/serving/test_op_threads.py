"""The threads of a server whose models write texts."""

import json

import pytest

from keras_bert_app.errors import UserError
from keras_bert_app.runs import threads
from keras_bert_app.serving import op_threads, server
from keras_bert_app.serving.batching_options import BatchingOptions
from keras_bert_app.serving.model_configs import ModelConfig

WRITER = {"export.json": {"kind": "text_to_text"}, "config.json": {"hidden_size": 256}}
CLASSIFIER = {"export.json": {"kind": "classification"}, "config.json": {"hidden_size": 128}}


def model(directory, *versions):
    """The ModelConfig of a folder with these versions, dict file -> JSON value each."""
    for number, files in enumerate(versions, 1):
        (directory / str(number)).mkdir(parents=True)
        for name, content in files.items():
            (directory / str(number) / name).write_text(json.dumps(content))
    return ModelConfig(directory.name, str(directory))


@pytest.mark.parametrize(
    "models, expected",
    [
        ([[WRITER]], [256]),
        ([[WRITER], [{**WRITER, "config.json": {"hidden_size": 768}}]], [768]),
        ([[CLASSIFIER, WRITER]], [256]),
        ([[WRITER, CLASSIFIER]], []),
        ([[WRITER], [CLASSIFIER]], []),
        ([[{"export.json": [], "config.json": {}}]], []),
        ([[{}]], []),
        ([[]], []),
        ([], []),
    ],
)
def test_each_op_has_one_thread_if_all_newest_versions_write_texts(tmp_path, monkeypatch, models, expected):
    widths = []
    monkeypatch.setattr(threads, "use_one_thread_per_op", widths.append)
    op_threads.prepare([model(tmp_path / f"model {number}", *versions) for number, versions in enumerate(models)])
    assert widths == expected


def test_the_server_sets_its_threads_before_it_loads_a_model(tmp_path, monkeypatch):
    prepared = []
    monkeypatch.setattr(op_threads, "prepare", prepared.append)
    configs = [model(tmp_path / "empty")]
    with pytest.raises(UserError, match="no version of model 'empty' there"):
        server.run(configs, BatchingOptions(), server.ServerOptions(port=0), lambda line: None)
    assert prepared == [configs]

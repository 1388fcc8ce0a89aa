"""Tests the files of token vectors, which have the format of extract_features.py with words and places added."""

import io
import json

import numpy as np
import pytest

from keras_bert_app.analysis import encoded_sentences, findings
from keras_bert_app.analysis.options import Options
from keras_bert_app.analysis.studies import feature_vectors
from keras_bert_app.cli.common.output_files import write_files
from keras_bert_app.errors import UserError
from tests.analysis.tiny_subject import tiny_subject

SUBJECT = tiny_subject()
LINES = ["The unflapp cat.", "", "A river ||| by the Bank", "the " * 40]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("features")
    (directory / "t.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    options = Options(input_file=str(directory / "t.txt"), layers=("-1", "0", "2"), num_seeds=1)
    findings_of_lines = feature_vectors.run(SUBJECT, options, lambda line: None)
    write_files(str(directory), findings.contents(findings_of_lines, options))
    assert "1 texts of more than 23 tokens lost their last words" in " ".join(findings_of_lines.remarks)
    return directory


def test_both_files_hold_the_encoders_vectors_in_the_order_of_the_lines(directory):
    arrays = np.load(directory / "features.npz")
    rows = [json.loads(line) for line in (directory / "features.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["linex_index"] for row in rows] == [0, 1, 2, 3] and arrays["layers"].tolist() == [-1, 0, 2]
    assert np.diff(arrays["row_splits"]).tolist() == [8, 2, 8, 23] == [len(row["features"]) for row in rows]
    (expected,) = encoded_sentences.encode(SUBJECT, [("the", "unflapp", "cat", ".")])
    np.testing.assert_allclose(arrays["vectors"][:8], expected.states[[3, 0, 2]].transpose(1, 0, 2), atol=1e-5)
    first = rows[0]["features"][4]
    assert first["token"] == "##app" and [layer["index"] for layer in first["layers"]] == [-1, 0, 2]
    np.testing.assert_allclose([layer["values"] for layer in first["layers"]], arrays["vectors"][4], atol=1e-6)


def test_words_and_tokens_have_their_character_places_in_the_line(directory):
    arrays = np.load(directory / "features.npz")
    rows = [json.loads(line) for line in (directory / "features.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [word["word"] for word in rows[0]["words"]] == ["The", "unflapp", "cat", "."]
    assert rows[0]["words"][1] == {"word": "unflapp", "start": 4, "end": 11, "first_token": 2, "end_token": 5}
    assert [LINES[0][token["start"] : token["end"]] for token in rows[0]["features"][2:5]] == ["un", "fl", "app"]
    assert rows[0]["features"][0]["start"] is None and rows[1]["words"] == []
    pair = rows[2]
    assert [token["token"] for token in pair["features"]] == [
        "[CLS]",
        "a",
        "river",
        "[SEP]",
        "by",
        "the",
        "bank",
        "[SEP]",
    ]
    assert [LINES[2][word["start"] : word["end"]] for word in pair["words"]] == ["A", "river", "by", "the", "Bank"]
    assert arrays["word_splits"].tolist() == [0, 4, 4, 9, 30] and arrays["word_tokens"][6].tolist() == [4, 5]
    assert arrays["token_characters"][10].tolist() == [-1, -1] and arrays["word_characters"][6].tolist() == [12, 14]


@pytest.mark.parametrize(
    "layers, message",
    [(("4",), "--layers=4 is no layer of the model; expected"), (("-5",), "=-5"), (("x",), "=x"), ((), "is empty")],
)
def test_layers_that_do_not_exist_are_refused(layers, message):
    with pytest.raises(UserError, match=message):
        feature_vectors.checked_layers(layers, 3)


def test_vectors_beyond_the_memory_limit_are_refused_and_the_message_names_a_remedy(directory, monkeypatch):
    monkeypatch.setattr(feature_vectors, "_MOST_VALUES", 300)
    with pytest.raises(UserError, match="fewer --layers, or --max_sentences=2"):
        feature_vectors.run(SUBJECT, Options(input_file=str(directory / "t.txt"), layers=("-1",)), lambda line: None)


def test_the_npz_needs_no_pickle(directory):
    assert (
        np.load(io.BytesIO((directory / "features.npz").read_bytes()), allow_pickle=False)["vectors"].dtype
        == np.float32
    )

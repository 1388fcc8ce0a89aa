"""The picture of a corpus report can be drawn for any corpus."""

import json

import pytest

from keras_bert_app.drawing.corpus_picture import draw_corpus_report
from pipelines.corpus.preparation import prepare_corpus

LINES = ["$x$ and $y$", "中文字。", "\ue000\ue001", "a line of many words " * 30, "\x00\x1b"]


@pytest.mark.filterwarnings("error")  # matplotlib warns about a glyph that no font has
@pytest.mark.parametrize(
    "documents",
    [
        [["One.", "Two."]],
        [[f"Own {i}.", *LINES] for i in range(30)],
        [["word " * 5000 + str(i), "b"] for i in range(9)],
    ],
)
def test_the_picture_of_a_corpus_of_any_text_can_be_drawn(tmp_path, documents):
    prepare_corpus(
        str(tmp_path),
        documents=documents,
        holdout_fraction=0.2,
        draw=lambda report: draw_corpus_report(report, "corpus \ue000 中"),
    )
    picture = (tmp_path / "report.png").read_bytes()
    assert picture.startswith(b"\x89PNG") and len(picture) > 20_000


def test_a_report_without_a_document_can_be_drawn(tmp_path):
    prepare_corpus(str(tmp_path), documents=[["One.", "Two."]])
    report = json.loads((tmp_path / "report.json").read_text())
    report["scripts"]["characters"] = {}
    report["lengths"] = {name: {"mean": 0, "max": 0, "bins": []} for name in report["lengths"]}
    assert draw_corpus_report(report, "empty").startswith(b"\x89PNG")

"""Tests the report, which is one page with the findings of all analyses."""

import dataclasses
import json
import re

from keras_bert_app.analysis import analysis_report, study_registry
from keras_bert_app.analysis.findings import Findings, Table, contents
from keras_bert_app.analysis.options import Options


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


MINE = {"weights": "workdir runs/mine/checkpoints/step-00000100", "sha256": "12"}
OTHER = {"weights": "workdir runs/mine/checkpoints/step-00000200", "sha256": "34"}


def write(directory, findings, options=None):
    for name, content in contents(findings, options or Options(num_seeds=2)).items():
        (directory / name).write_bytes(content)


def test_tables_remarks_and_pictures_of_every_analysis_are_on_one_page_in_their_order(tmp_path):
    first, second = study_registry.NAMES[:2]
    write(
        tmp_path,
        Findings(
            second,
            "Second",
            [Table("Counts", ("what", "how many", "share"), [("a </script>", 1234, 0.25)])],
            ["A remark."],
            {"x.png": b"\x89PNG", "x.html": "<p>"},
            {"more": 1},
            MINE,
        ),
        Options(words=("bank", "cell"), init_checkpoint="x"),
    )
    write(tmp_path, Findings(first, "First", origin=MINE))
    (tmp_path / "statistics.json").write_text("{}")
    page = analysis_report.report(str(tmp_path), "Inside <mine>", MINE).decode()
    assert "<title>Inside &lt;mine&gt;</title>" in page and page.count("</script>") == 2
    sections = data_of(page)
    assert [section["title"] for section in sections] == ["First", "Second"]
    assert sections[1] == {
        "name": second,
        "title": "Second",
        "of": "",
        "how": f"{MINE['weights']}; words=bank,cell; num_seeds=3; seed=0",
        "remarks": ["A remark."],
        "tables": [
            {"title": "Counts", "columns": ["what", "how many", "share"], "rows": [["a </script>", "1,234", "0.2500"]]}
        ],
        "pictures": [{"name": "x.png", "png": "iVBORw=="}],
        "beside": ["x.html"],
    }


def test_findings_about_another_model_are_named(tmp_path):
    first, second, third = study_registry.NAMES[:3]
    write(tmp_path, Findings(first, "First", origin=MINE))
    write(tmp_path, Findings(second, "Second", origin=OTHER))
    # These findings are about the same weights in another place.
    write(tmp_path, Findings(third, "Third", origin={**MINE, "weights": "huggingface exported"}))
    sections = data_of(analysis_report.report(str(tmp_path), "Inside mine", MINE).decode())
    assert [section["of"] for section in sections] == [
        "",
        f"These findings are about another model than this page: {OTHER['weights']}, not {MINE['weights']}.",
        "",
    ]
    assert [section["how"] for section in sections] == [
        f"{MINE['weights']}; num_seeds=2; seed=0",
        f"{OTHER['weights']}; num_seeds=2; seed=0",
        "huggingface exported; num_seeds=2; seed=0",
    ]


def test_the_file_of_findings_records_the_model_and_every_option(tmp_path):
    write(tmp_path, Findings("attention", "First", origin=MINE), Options(text="a cat", seed=7))
    record = json.loads((tmp_path / "attention.json").read_text())
    assert record["origin"] == MINE and record["options"]["text"] == "a cat" and record["options"]["seed"] == 7
    assert set(record["options"]) == {field.name for field in dataclasses.fields(Options)}


def test_unreadable_findings_are_named_and_the_others_are_shown(tmp_path):
    first, second, third, fourth = study_registry.NAMES[:4]
    write(tmp_path, Findings(first, "First", origin=MINE))
    (tmp_path / f"{second}.json").write_text('{"title": "cut o')
    (tmp_path / f"{third}.json").write_text("{}")  # written by another program
    write(tmp_path, Findings(fourth, "Fourth", files={"x.png": b"\x89PNG"}, origin=MINE))
    (tmp_path / "x.png").unlink()
    titles = [
        section["title"] for section in data_of(analysis_report.report(str(tmp_path), "Inside mine", MINE).decode())
    ]
    assert titles[0] == "First" and len(titles) == 4
    assert all(
        f"{name}.json and its pictures cannot be read; run --what={name} again" in title
        for name, title in zip((second, third, fourth), titles[1:], strict=True)
    )

"""The page of all that was found."""

import json
import re

from keras_bert_app.analysis import registry, report
from keras_bert_app.analysis.findings import Findings, Table, contents


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def write(directory, findings):
    for name, content in contents(findings).items():
        (directory / name).write_bytes(content)


def test_tables_remarks_and_pictures_of_every_analysis_are_on_one_page_in_their_order(tmp_path):
    first, second = registry.NAMES[:2]
    write(tmp_path, Findings(second, "Second", [Table("Counts", ("what", "how many", "share"), [("a </script>", 1234, 0.25)])],
                             ["A remark."], {"x.png": b"\x89PNG", "x.html": "<p>"}, {"more": 1}))
    write(tmp_path, Findings(first, "First"))
    (tmp_path / "statistics.json").write_text("{}")
    page = report.report(str(tmp_path), "Inside <mine>").decode()
    assert "<title>Inside &lt;mine&gt;</title>" in page and page.count("</script>") == 2
    sections = data_of(page)
    assert [section["title"] for section in sections] == ["First", "Second"]
    assert sections[1] == {
        "name": second, "title": "Second", "remarks": ["A remark."],
        "tables": [{"title": "Counts", "columns": ["what", "how many", "share"], "rows": [["a </script>", "1,234", "0.2500"]]}],
        "pictures": [{"name": "x.png", "png": "iVBORw=="}], "beside": ["x.html"]}

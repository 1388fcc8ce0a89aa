"""The HTML page with the findings of all analyses in one directory."""

import base64
import dataclasses
import os

from keras_bert_app.analysis import study_registry
from keras_bert_app.analysis.findings import Table
from keras_bert_app.analysis.options import Options
from keras_bert_app.drawing.pages import page
from keras_bert_app.errors import UserError
from keras_bert_app.files import read_json
from pipelines import storage

REPORT = "report.html"


def report(output_dir: str, title: str, origin: dict) -> bytes:
    """Builds the page from every NAME.json in a directory, in the order of study_registry.

    The page contains the tables, remarks and pictures. It lists further pages and the large files of the directory. It
    also marks findings about another model.

    Args:
        output_dir: str. The directory of the findings.
        title: str. The title of the page.
        origin: dict. The result of encoders.origin_of for the model of the page.

    Returns:
        bytes. The page in UTF-8.
    """
    sections = [
        _section(output_dir, name, origin)
        for name in study_registry.NAMES
        if storage.exists(os.path.join(output_dir, f"{name}.json"))
    ]
    return page("report", title, sections).encode()


def _section(output_dir: str, name: str, origin: dict) -> dict:
    """The data of one analysis for the page."""
    path = os.path.join(output_dir, f"{name}.json")
    try:
        findings = read_json(path)
        tables = [Table(**table) for table in findings["tables"]]
        pictures = [os.path.join(output_dir, file) for file in findings["files"] if file.endswith(".png")]
        if not all(map(storage.exists, pictures)):
            return _unreadable_section(path, name)
        return {
            "name": name,
            "title": findings["title"],
            "of": _other_model_warning(findings["origin"], origin),
            "how": _conditions(findings["origin"], findings["options"]),
            "remarks": findings["remarks"],
            "tables": [{"title": table.title, "columns": table.columns, "rows": table.cells()} for table in tables],
            "pictures": list(map(_picture, pictures)),
            "beside": [file for file in findings["files"] if not file.endswith(".png")],
        }
    except (UserError, KeyError, TypeError):
        # The file was cut off, or another program wrote it.
        return _unreadable_section(path, name)


def _unreadable_section(path: str, name: str) -> dict:
    return {
        "name": name,
        "title": f"{path} and its pictures cannot be read; run --what={name} again",
        "of": "",
        "how": "",
        "remarks": [],
        "tables": [],
        "pictures": [],
        "beside": [],
    }


def _other_model_warning(findings_origin: dict, origin: dict) -> str:
    if findings_origin["sha256"] == origin["sha256"]:
        return ""
    return (
        f"These findings are about another model than this page: {findings_origin['weights']}, not {origin['weights']}."
    )


def _conditions(findings_origin: dict, options: dict) -> str:
    """A line with the model, the seeds, and the options that differ from their defaults."""
    defaults = dataclasses.asdict(Options())
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    shown = [
        f"{name}={','.join(value) if isinstance(value, tuple) else value}"
        for name, value in given.items()
        if name in ("num_seeds", "seed") or name != "init_checkpoint" and value != defaults.get(name)
    ]
    return "; ".join([findings_origin["weights"], *shown])


def _picture(path: str) -> dict:
    with storage.open_file(path) as file:
        return {"name": os.path.basename(path), "png": base64.b64encode(file.read()).decode()}

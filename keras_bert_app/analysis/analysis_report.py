"""All that was found in one directory, as one HTML page."""

import base64
import dataclasses
import os

import tensorflow as tf

from keras_bert_app.analysis import study_registry
from keras_bert_app.analysis.findings import Table
from keras_bert_app.analysis.options import Options
from keras_bert_app.drawing.pages import page
from keras_bert_app.errors import UserError
from keras_bert_app.files import read_json

REPORT = "report.html"


def report(output_dir, title, origin):
    """The page, bytes: tables, remarks and pictures of every analysis whose NAME.json lies there, in registry's order.

    Pictures are within it; pages and large files are named, and lie beside it. What was found in another model is named so.

    Args:
        origin: encoders.origin_of the model that the page is about.
    """
    sections = []
    for name in study_registry.NAMES:
        path = os.path.join(output_dir, f"{name}.json")
        if not tf.io.gfile.exists(path):
            continue
        try:
            found = read_json(path)
            tables = [Table(**table) for table in found["tables"]]
            pictures = [_picture(os.path.join(output_dir, file)) for file in found["files"] if file.endswith(".png")]
        except (UserError, KeyError, TypeError, tf.errors.NotFoundError):
            # Of another program, or of an earlier run of which something was deleted.
            sections.append(
                {
                    "name": name,
                    "title": f"{path} and its pictures cannot be read; run --what={name} again",
                    "of": "",
                    "how": "",
                    "remarks": [],
                    "tables": [],
                    "pictures": [],
                    "beside": [],
                }
            )
            continue
        sections.append(
            {
                "name": name,
                "title": found["title"],
                "of": _of(found, origin),
                "how": _how(found),
                "remarks": found["remarks"],
                "tables": [{"title": table.title, "columns": table.columns, "rows": table.cells()} for table in tables],
                "pictures": pictures,
                "beside": [file for file in found["files"] if not file.endswith(".png")],
            }
        )
    return page("report", title, sections).encode()


def _of(found, origin):
    """A warning, where what was found is of another model than the page; else "". Args: found: dict of NAME.json."""
    theirs = found.get("origin") or {}
    if theirs.get("sha256") == origin["sha256"]:
        return ""
    if not theirs:
        return (
            "Found by an earlier version of this program, which did not note in which model; this page is about "
            f"{origin['weights']}."
        )
    return f"Found in another model than this page is about: {theirs['weights']}, not {origin['weights']}."


def _how(found):
    """A line: in which model it was found, with which seeds, and the options that are not the default."""
    defaults, options = (
        dataclasses.asdict(Options()),
        {name: tuple(value) if isinstance(value, list) else value for name, value in found.get("options", {}).items()},
    )
    told = [
        f"{name}={','.join(value) if isinstance(value, tuple) else value}"
        for name, value in options.items()
        if name in ("num_seeds", "seed") or name != "init_checkpoint" and value != defaults.get(name)
    ]
    return "; ".join([*filter(None, [(found.get("origin") or {}).get("weights")]), *told])


def _picture(path):
    with tf.io.gfile.GFile(path, "rb") as file:
        return {"name": os.path.basename(path), "png": base64.b64encode(file.read()).decode()}

"""All that was found in one directory, as one HTML page."""

import base64
import json
import os

import tensorflow as tf

from keras_bert_app.analysis import registry
from keras_bert_app.analysis.findings import Table
from keras_bert_app.drawing.pages import page

REPORT = "report.html"


def report(output_dir, title):
    """The page, bytes: tables, remarks and pictures of every analysis whose NAME.json lies there, in registry's order.

    Pictures are within it; pages and large files are named, and lie beside it.
    """
    sections = []
    for name in registry.NAMES:
        path = os.path.join(output_dir, f"{name}.json")
        if not tf.io.gfile.exists(path):
            continue
        with tf.io.gfile.GFile(path) as file:
            found = json.load(file)
        tables = [Table(**table) for table in found["tables"]]
        sections.append({
            "name": name, "title": found["title"], "remarks": found["remarks"],
            "tables": [{"title": table.title, "columns": table.columns, "rows": table.cells()} for table in tables],
            "pictures": [_picture(os.path.join(output_dir, file)) for file in found["files"] if file.endswith(".png")],
            "beside": [file for file in found["files"] if not file.endswith(".png")]})
    return page("report", title, sections).encode()


def _picture(path):
    with tf.io.gfile.GFile(path, "rb") as file:
        return {"name": os.path.basename(path), "png": base64.b64encode(file.read()).decode()}

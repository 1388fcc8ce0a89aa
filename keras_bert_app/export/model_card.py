"""The README.md of an exported model: its kind, its origin, and how to call it."""

import json

import tensorflow as tf

_CURL = "curl -H 'Content-Type: application/json'"
_SERVER = "http://localhost:8501/v1/models"


def card(about, signatures: dict, name: str, facts: dict[str, list[str]]) -> str:
    """Writes the model card of an export.

    Args:
        about: specs.About. The kind of the export and its examples.
        signatures: dict from signature name to SignatureDef.
        name: str. The name of the model.
        facts: dict from heading to list of lines.

    Returns:
        str: Markdown.
    """
    lines = [f"# {name}", "", f"A TensorFlow SavedModel of kind {about.kind}, written by keras_bert_app."]
    for heading, items in facts.items():
        lines += ["", f"## {heading}", "", *(f"- {item}" for item in items)]
    lines += ["", "## Signatures", "", "| signature | takes | gives |", "|---|---|---|"]
    for signature, definition in sorted(signatures.items()):
        lines.append(f"| `{signature}` | {_shown(definition.inputs)} | {_shown(definition.outputs)} |")
    if about.examples:
        lines += [
            "",
            "## How to call it",
            "",
            f"Start `serve --model_base_path=... --model_name={name}` or TensorFlow Serving, then send a request:",
        ]
    for signature, inputs in about.examples.items():
        body = json.dumps({"signature_name": signature, "inputs": inputs}, ensure_ascii=False)
        quoted = body.replace("'", "'\\''")
        lines += ["", "```sh", f"{_CURL} {_SERVER}/{name}:predict -d '{quoted}'", "```"]
    lines += [
        "",
        "A TensorFlow model is a program, so load only models that you trust. "
        "`manifest.json` has the sha256 of every file.",
        "",
    ]
    return "\n".join(lines)


def _shown(tensors):
    """Formats the names, types and shapes of a SignatureDef's inputs or outputs."""
    entries = []
    for name, info in sorted(tensors.items()):
        shape = ", ".join("?" if size.size < 0 else str(size.size) for size in info.tensor_shape.dim)
        entries.append(f"`{name}` {tf.dtypes.as_dtype(info.dtype).name} [{shape}]")
    return ", ".join(entries)

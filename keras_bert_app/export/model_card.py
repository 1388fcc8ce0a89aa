"""The README.md beside an exported model: what it is, how it was made, how to call it."""

import json

import tensorflow as tf

_SERVER = "http://localhost:8501/v1/models"


def card(about, signatures, name, facts):
    """Markdown of an export.

    Args:
        about: specs.About. signatures: dict name -> SignatureDef. name: of the model. facts: dict heading -> list of lines.
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
            f"Once `serve --model_base_path=... --model_name={name}` or TensorFlow Serving runs:",
        ]
    for signature, inputs in about.examples.items():
        body = json.dumps({"signature_name": signature, "inputs": inputs}, ensure_ascii=False)
        quoted = body.replace("'", "'\\''")
        lines += ["", "```sh", f"curl {_SERVER}/{name}:predict -d '{quoted}'", "```"]
    lines += [
        "",
        "A TensorFlow model is a program: load only those that you trust. `manifest.json` has the sha256 of every file.",
        "",
    ]
    return "\n".join(lines)


def _shown(tensors):
    """Names, types and shapes of a SignatureDef's inputs or outputs."""
    found = []
    for name, info in sorted(tensors.items()):
        shape = ", ".join("?" if size.size < 0 else str(size.size) for size in info.tensor_shape.dim)
        found.append(f"`{name}` {tf.dtypes.as_dtype(info.dtype).name} [{shape}]")
    return ", ".join(found)

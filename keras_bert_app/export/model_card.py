"""The README.md beside an exported model: what it is, how it was made, how to call it."""

import json

_SERVER = "http://localhost:8501/v1/models"


def card(module, name, facts):
    """Markdown of an export.

    Args:
        module: as saved_models.write_saved_model takes it. name: of the model. facts: dict heading -> list of lines.
    """
    lines = [f"# {name}", "", f"A TensorFlow SavedModel of kind {module.about.kind}, written by keras_bert_app."]
    for heading, items in facts.items():
        lines += ["", f"## {heading}", "", *(f"- {item}" for item in items)]
    lines += ["", "## Signatures", "", "| signature | takes | gives |", "|---|---|---|"]
    for signature, function in module.exported.items():
        takes = ", ".join(_shown(spec.name, spec) for spec in function.input_signature)
        gives = ", ".join(_shown(key, spec) for key, spec in
                          sorted(function.get_concrete_function().structured_outputs.items()))
        lines.append(f"| `{signature}` | {takes} | {gives} |")
    if module.about.examples:
        lines += ["", "## How to call it", "", f"Once `serve --model_base_path=... --model_name={name}` or TensorFlow Serving "
                  "runs:"]
    for signature, inputs in module.about.examples.items():
        body = json.dumps({"signature_name": signature, "inputs": inputs}, ensure_ascii=False)
        quoted = body.replace("'", "'\\''")
        lines += ["", "```sh", f"curl {_SERVER}/{name}:predict -d '{quoted}'", "```"]
    lines += ["", "A TensorFlow model is a program: load only those that you trust. `manifest.json` has the sha256 of every file.",
              ""]
    return "\n".join(lines)


def _shown(name, spec):
    shape = ", ".join("?" if size is None else str(size) for size in spec.shape)
    return f"`{name}` {spec.dtype.name} [{shape}]"

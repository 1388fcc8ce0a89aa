"""Self-contained HTML pages: one file that holds its data, style and script, and that asks no network for anything."""

import html
import json
import pathlib
import string

_HERE = pathlib.Path(__file__).parent


def page(name, title, data):
    """A page as str.

    Args:
        name: of the script beside this file, which reads `data`. title: of the page, plain text. data: anything
            that JSON holds.
    """

    def text(file):
        return (_HERE / file).read_text(encoding="utf-8")

    # Within a script, "<" could end it ("</script>") or open a comment.
    escaped = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return string.Template(text("frame.html")).substitute(
        title=html.escape(title), style=text("style.css"), data=escaped, script=text("elements.js") + text(f"{name}.js")
    )

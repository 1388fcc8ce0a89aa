"""Self-contained HTML pages. One file holds the data, the style and the script, and needs no network."""

import html
import json
import pathlib
import string
from typing import Any

_HERE = pathlib.Path(__file__).parent


def page(name: str, title: str, data: Any) -> str:
    """Makes a self-contained page.

    Args:
        name: str. The script next to this file, without ".js". The script reads `data`.
        title: str. Plain text.
        data: any value that JSON can hold.

    Returns:
        str: the text of an HTML file.
    """

    def text(file):
        return (_HERE / file).read_text(encoding="utf-8")

    # A "<" within a script could end the script ("</script>") or open a comment.
    escaped = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return string.Template(text("frame.html")).substitute(
        title=html.escape(title), style=text("style.css"), data=escaped, script=text("elements.js") + text(f"{name}.js")
    )

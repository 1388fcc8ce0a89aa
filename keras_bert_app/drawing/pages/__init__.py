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
        name: str. The script next to this file, without ".js". The script reads `data`. A style of the same name, with
            ".css", comes after the style of all pages.
        title: str. Plain text.
        data: any value that JSON can hold.

    Returns:
        str: the text of an HTML file.

    Raises:
        ValueError: the data holds a number that is not finite, which JSON cannot hold.
    """

    def text(file):
        return (_HERE / file).read_text(encoding="utf-8")

    style = text("style.css") + (text(f"{name}.css") if (_HERE / f"{name}.css").exists() else "")

    # A "<" within a script could end the script ("</script>") or open a comment.
    escaped = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return string.Template(text("frame.html")).substitute(
        title=html.escape(title), style=style, data=escaped, script=text("elements.js") + text(f"{name}.js")
    )

"""A hook of mkdocs: links from a page to files of the repository outside of docs, such as ../BUILD.md.

The site does not have these files. The hook therefore replaces the link by its text and the path of the file. If the
file does not exist, the hook logs a warning, so `mkdocs build --strict` fails.
"""

import logging
import pathlib
import re

_LOG = logging.getLogger("mkdocs.hooks.repository_links")
_BLOCK_OF_CODE = re.compile(r"(^ *```.*?^ *```)", re.M | re.S)
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<target>\.\./[^)\s#]*)(?:#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page, config, **_) -> str:
    """mkdocs calls this function with the text of each page."""
    docs = pathlib.Path(config["docs_dir"]).resolve()
    return replace_links(markdown, docs / page.file.src_uri, docs)


def replace_links(markdown: str, page: pathlib.Path, docs: pathlib.Path) -> str:
    """Replaces the links that lead out of docs by plain text.

    Args:
        markdown: the text of a page.
        page: the absolute path of the page.
        docs: the absolute path of the folder docs, which lies at the top of the repository.
    """

    def replaced(match):
        path = (page.parent / match["target"]).resolve()
        if path.is_relative_to(docs):
            return match[0]
        name = path.relative_to(docs.parent).as_posix() if path.is_relative_to(docs.parent) else match["target"]
        if not path.exists():
            _LOG.warning("%s: the link to %s leads to no file", page.relative_to(docs).as_posix(), match["target"])
        return match["text"] if match["text"].strip("`") == name else f"{match['text']} (`{name}`)"

    parts = _BLOCK_OF_CODE.split(markdown)
    parts[::2] = [_LINK.sub(replaced, part) for part in parts[::2]]
    return "".join(parts)

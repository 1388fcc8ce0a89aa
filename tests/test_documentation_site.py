"""The documentation site: mkdocs.yml lists every page, and the build checks links to files outside docs."""

import itertools
import logging
import pathlib
import re

from docs.repository_links import replace_links

ROOT = pathlib.Path(__file__).parents[1]
_ITEM = re.compile(r"(?:[-*+]|\d+\.) ")


def test_every_page_has_one_place_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r"^ *- (?:[^:\n]+: )?(\S+\.md)$", navigation, re.M)
    assert sorted(listed) == sorted(path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md"))


def test_the_site_shows_lists_and_tables_as_the_repository_does():
    """The site's Markdown needs a blank line before a list or a table, and four spaces before an inner item."""
    faults = []
    for path in sorted(ROOT.glob("docs/**/*.md")):
        text = re.sub(r"^ *```.*?^ *```$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
        for before, line in itertools.pairwise(text.split("\n")):
            starts_list = _ITEM.match(line) and before and not _ITEM.match(before) and not before.startswith(" ")
            starts_table = line.startswith("|") and before and not before.startswith("|")
            if starts_list or starts_table or re.match(rf" {{1,3}}{_ITEM.pattern}", line):
                faults.append(f"{path.relative_to(ROOT)}: {line[:80]}")
    assert not faults


def test_a_link_out_of_docs_becomes_text_on_the_site_and_a_broken_link_is_reported(tmp_path, caplog):
    caplog.set_level(logging.WARNING, logger="mkdocs.hooks.repository_links")  # commands raise the level of all loggers
    docs = tmp_path / "docs"
    (docs / "results").mkdir(parents=True)
    (tmp_path / "BUILD.md").touch()
    page = docs / "results" / "claims.md"
    lines = {
        "See [the map](../../BUILD.md#map).": "See the map (`BUILD.md`).",
        "See [`BUILD.md`](../../BUILD.md).": "See `BUILD.md`.",
        "See [the log](../log.md) and ![it](../mini.png).": "See [the log](../log.md) and ![it](../mini.png).",
        "```\n[the map](../../BUILD.md)\n```": "```\n[the map](../../BUILD.md)\n```",
    }
    assert replace_links("\n\n".join(lines), page, docs) == "\n\n".join(lines.values())
    assert not caplog.records
    assert replace_links("[gone](../../GONE.md)", page, docs) == "gone (`GONE.md`)"
    assert caplog.messages == ["results/claims.md: the link to ../../GONE.md leads to no file"]

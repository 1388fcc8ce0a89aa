"""Tests the pages of analyses in a headless browser."""

import asyncio
import dataclasses

import numpy as np
import pytest

from keras_bert_app.analysis import analysis_report
from keras_bert_app.drawing.attention_page import attention_page
from tests import browser
from tests.analysis.studies.test_senses import senses  # noqa: F401  fixture
from tests.analysis.test_report import write

pytestmark = pytest.mark.skipif(browser.COMMAND is None, reason="no chromium is installed here")


def result_of_steps(html, tmp_path, steps):
    """Opens a page in a browser without a network. Returns the result of the coroutine function steps(page)."""
    (tmp_path / "page.html").write_text(html, encoding="utf-8")

    async def use():
        async with browser.open_page(str(tmp_path / "profile")) as page:
            await page.command("Network.enable")
            await page.command(
                "Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0
            )
            await page.open((tmp_path / "page.html").as_uri())
            await page.until("document.readyState === 'complete' && document.querySelector('svg, img, canvas')")
            return await steps(page)

    return asyncio.run(use())


def all_texts(page, selector):
    return page.evaluate(f"[...document.querySelectorAll({selector!r})].map((one) => one.textContent)")


def test_a_head_a_word_and_pieces_are_chosen_on_the_attention_page(tmp_path):
    # The model has two layers of three heads. In layer 2, head 3 attends from each token to the next token.
    weights = np.full((2, 3, 4, 4), 0.25)
    weights[1, 2] = np.eye(4)[[1, 2, 3, 3]]
    html = attention_page(
        {
            "words": (weights, ["[CLS]", "un<b>", "known", "[SEP]"], [0, 3]),
            "pieces": (weights, ["[CLS]", "##un", "##known", "[SEP]"], [0, 3]),
        },
        (0, 0),
        "a </script> title",
    )

    async def steps(page):
        headings = [await all_texts(page, "h2")]
        await page.evaluate("document.querySelector('[aria-label=\"layer 2, head 3\"]').click()")
        headings.append(await all_texts(page, "h2"))
        lines = [await all_texts(page, "svg line title")]
        # Clicks a word in the left column.
        await page.evaluate(
            "[...document.querySelectorAll('svg text[style*=cursor]')][1].dispatchEvent(new Event('click'))"
        )
        lines.append(await all_texts(page, "svg line title"))
        await page.evaluate("document.querySelector('input').click()")
        without_special = await all_texts(page, "svg line title")
        await page.evaluate(
            "document.querySelector('select').value = 'pieces';"
            "document.querySelector('select').dispatchEvent(new Event('change'))"
        )
        return (
            headings,
            lines,
            without_special,
            await all_texts(page, "svg text[style*=cursor]"),
            await page.evaluate("document.title"),
        )

    headings, lines, without_special, labels, title = result_of_steps(html, tmp_path, steps)
    assert headings == [
        ["All heads", "Layer 1, head 1: map", "Layer 1, head 1"],
        ["All heads", "Layer 2, head 3: map", "Layer 2, head 3"],
    ]
    shares = ["[CLS] → un<b>: 100%", "un<b> → known: 100%", "known → [SEP]: 100%", "[SEP] → [SEP]: 100%"]
    assert lines == [shares, shares[1:2]]
    assert without_special == shares[1:2]
    assert [label.removesuffix("click: only the lines of this token") for label in labels] == ["##un", "##known"]
    assert title == "a </script> title"


def test_a_dot_of_the_senses_page_shows_its_sentence_and_the_nearest_ones(senses, tmp_path):  # noqa: F811
    async def steps(page):
        dots = await page.evaluate("document.querySelectorAll('svg circle').length")
        sentences = await all_texts(page, "svg circle title")
        await page.evaluate("document.querySelectorAll('svg circle')[3].dispatchEvent(new Event('mouseenter'))")
        pointed = await page.evaluate("document.querySelector('p[aria-live]').textContent")
        await page.evaluate("document.querySelectorAll('svg circle')[3].dispatchEvent(new Event('click'))")
        nearest = await all_texts(page, "ol li")
        views = await page.evaluate("[...document.querySelectorAll('select')][1].options.length")
        await page.evaluate(
            "const views = [...document.querySelectorAll('select')][1]; views.selectedIndex = views.options.length - 1;"
            "views.dispatchEvent(new Event('change'))"
        )
        return (
            dots,
            sentences,
            pointed,
            nearest,
            views,
            await page.evaluate("document.querySelectorAll('svg circle').length"),
        )

    dots, sentences, pointed, nearest, views, dots_after = result_of_steps(senses.files["senses.html"], tmp_path, steps)
    assert dots == dots_after == 17 and views >= 4  # one view for every layer and one for the untrained encoder
    assert pointed == sentences[3] and "ank" in pointed
    assert len(nearest) >= 3 and all(
        any(text.split(" ", 1)[1].strip("…") in sentence for sentence in sentences) for text in nearest
    )


def test_the_report_shows_every_picture_and_links_to_each_part(senses, tmp_path):  # noqa: F811
    findings = dataclasses.replace(senses, origin={"weights": "workdir runs/mine", "sha256": "12"})
    write(tmp_path, findings)
    html = analysis_report.report(str(tmp_path), "Inside it", findings.origin).decode()

    async def steps(page):
        await page.until("[...document.images].every((image) => image.complete)")
        widths = await page.evaluate("[...document.images].map((image) => image.naturalWidth)")
        targets = await page.evaluate(
            "[...document.querySelectorAll('a[href^=\"#\"]')].map((one) => Boolean(document.querySelector("
            "one.getAttribute('href'))))"
        )
        return widths, targets, await all_texts(page, "td")

    widths, targets, cells = result_of_steps(html, tmp_path, steps)
    assert len(widths) == 2 and all(width > 300 for width in widths)
    assert targets and all(targets) and "bank" in cells

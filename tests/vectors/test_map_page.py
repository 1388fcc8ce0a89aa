"""The page of a map of vectors in a headless browser."""

import numpy as np
import pytest

from keras_bert_app.drawing.vector_map_page import vector_map_page
from tests import browser
from tests.analysis.test_pages import all_texts, result_of_steps
from tests.vectors.test_vector_maps import described_of

pytestmark = pytest.mark.skipif(browser.COMMAND is None, reason="no chromium is installed here")

TEXTS = [f"text {number} {'cat' if number % 3 else '<i>Dog</i>'}" for number in range(40)] + ["", "long " * 300]
SERIES = {"positives": np.array([[0, 1], [2, 3]]), "random pairs": np.array([[0, 3], [1, 2]])}


async def mouse(page, index, *kinds):
    """Sends mouse events at a point of the map."""
    x, y = await page.evaluate(
        f"(() => {{ const box = canvas.getBoundingClientRect(), [x, y] = place({index});"
        "return [box.left + x, box.top + y]; })()"
    )
    for kind in kinds:
        button = "none" if kind == "mouseMoved" else "left"
        await page.command("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, clickCount=1)


def test_a_click_shows_the_nearest_texts_and_the_search_and_the_keys_work(tmp_path):
    described, *_ = described_of(TEXTS, SERIES, (0, 1))

    async def steps(page):
        seen = {}
        await mouse(page, 7, "mouseMoved")
        seen["tip"] = await page.evaluate("document.querySelector('.tip').hidden || tip.textContent")
        await mouse(page, 7, "mousePressed", "mouseReleased")
        seen["chosen"] = await all_texts(page, ".chosen")
        seen["nearest"] = await all_texts(page, ".nearest li")
        await page.evaluate(
            "document.querySelector('select').value = '0';"
            "document.querySelector('select').dispatchEvent(new Event('change'))"
        )
        seen["nearest before"] = await all_texts(page, ".nearest li")
        await page.evaluate("box.focus()")
        for key in "dOg":
            await page.press(key)
        seen["matches"] = await all_texts(page, ".matches li")
        seen["marked"] = await all_texts(page, ".matches mark")
        await page.press("Tab")
        for _ in range(3):  # past the buttons of the zoom
            await page.press("Tab")
        seen["focus"] = await page.evaluate("document.activeElement === canvas")
        await page.press("Escape")
        seen["nothing chosen"] = await all_texts(page, ".chosen")
        await page.press("ArrowDown")
        await page.press("ArrowDown")
        await page.press("Enter")
        seen["by keys"] = await all_texts(page, ".chosen")
        await page.press("+")
        seen["zoom"] = await page.evaluate("state.zoom")
        # A button of the list chooses its text and keeps the focus in the list.
        await page.evaluate("document.querySelector('.nearest button').focus()")
        wanted = (await all_texts(page, ".nearest button"))[0]
        await page.press("Enter")
        seen["by list"] = (wanted, (await all_texts(page, ".chosen"))[0])
        seen["list has focus"] = await page.evaluate(
            "document.querySelector('.reading').contains(document.activeElement)"
        )
        seen["histograms"] = await all_texts(page, "svg text")
        seen["cells"] = await all_texts(page, "td")
        return seen

    seen = result_of_steps(vector_map_page(described, "a title", ["A note."]), tmp_path, steps)
    assert seen["tip"] == TEXTS[7] and seen["chosen"] == [TEXTS[7]]
    for key, view in (("nearest", described["views"][1]), ("nearest before", described["views"][0])):
        shown = [(TEXTS[row].strip() or "(empty text)")[:500] for row in view["nearest"][7]]
        expected = [f"{cosine:.3f}{text}" for cosine, text in zip(view["cosines"][7], shown, strict=True)]
        assert [line.removesuffix("…")[:400] for line in seen[key]] == [line[:400] for line in expected]
    assert seen["nearest"] != seen["nearest before"]
    assert seen["matches"] == [text for text in TEXTS if "Dog" in text] and set(seen["marked"]) == {"Dog"}
    assert seen["focus"] and seen["nothing chosen"] == [] and "Dog" in seen["by keys"][0] and seen["zoom"] == 1.5
    assert seen["by list"][0] == seen["by list"][1] and seen["list has focus"]
    assert seen["histograms"].count("positives") == 2
    assert f"{described['measures'][0]['uniformity']:.3f}" in seen["cells"]

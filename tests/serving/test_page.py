"""The page on /: its files, and its display in a headless browser."""

import asyncio
import pathlib
import re

import pytest

from keras_bert_app.serving.model_configs import ModelConfig
from tests import browser
from tests.serving import contract_models
from tests.serving.conftest import running

PAGE = pathlib.Path(__file__).parents[2] / "keras_bert_app" / "serving" / "page"
needs_browser = pytest.mark.skipif(browser.COMMAND is None, reason="no chromium is installed here")

# Kind -> selector -> the texts of these elements in the answer, in order.
EXPECTED = {
    "fill_mask": {
        ".text mark": ["name", "list"],
        "h2": ["Mask 1", "Mask 2"],
        ".chosen .name": ["name", "list"],
        ".number": ["61.0 %", "20.0 %", "10.0 %", "5.0 %", "< 0.1 %", "40.0 %", "30.0 %", "20.0 %", "6.0 %", "4.0 %"],
    },
    "classification": {
        ".name": ["entailment", contract_models.HOSTILE, "contradiction"],
        ".chosen .name": ["entailment"],
        ".note": ["The input is longer than the model can read; a part of it was left out."],
    },
    "multi_label": {
        ".name": ["wheat", "grain", "corn", "trade"],
        ".note": [],
        ".chosen .name": ["wheat", "grain", "corn"],
    },
    "regression": {".large": ["4.751"]},
    "rerank": {".large": ["-3.250"]},
    "tagging": {
        "mark": [
            "Ada LovelacePER 98.0 %",
            "Charles BabbagePER 95.0 %",
            "LondonLOC 99.0 %",
            f"Paris{contract_models.HOSTILE} 50.0 %",
        ],
        ".text": [
            "Ada LovelacePER 98.0 % met Charles BabbagePER 95.0 % in LondonLOC 99.0 % \U0001f600 and "
            f"Paris{contract_models.HOSTILE} 50.0 %."
        ],
    },
    "part_of_speech": {
        ".words mark": ["Dogs", "bark", "loudly", "."],
        ".words small": ["NOUN", "VERB", "ADV", "PUNCT"],
    },
    "question_answering": {
        ".large": ["1889"],
        "mark": ["188983.0 %"],
        ".name": ["1889", "in 1889", contract_models.HOSTILE],
    },
    "multiple_choice": {".name": ["to go out", "to sleep", "to cook"], ".chosen .name": ["to go out"]},
    "text_to_text": {".text": [f"Ein Buch. {contract_models.HOSTILE}"], "li": ["Buch. (-1.26)"]},
    "generation": {
        ".text": [f"Once 20 0.50 0.75 {contract_models.HOSTILE}"],
        "mark": [f" 20 0.50 0.75 {contract_models.HOSTILE}"],
        "button": ["Go on"],
    },
    "embeddings": {"th": ["1", "2", "3", "1  A cat sits.", "2  A cat sat.", f"3  {contract_models.HOSTILE}"]},
    "encoder": {"*": []},
}


@pytest.fixture(scope="module")
def contract(tmp_path_factory):
    """A server with one model of each kind."""
    root = str(tmp_path_factory.mktemp("contract"))
    names = contract_models.write_all(root)
    with running(*[ModelConfig(name, f"{root}/{name}") for name in names]) as client:
        yield client


def test_the_page_and_its_files_load_nothing_from_elsewhere(client):
    status, headers, body = client.ask("GET", "/")
    assert status == 200 and headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    # The page must name this type, because the server refuses the types that any page may send.
    assert b'"Content-Type": "application/json"' in client.ask("GET", "/page/page.js")[2]
    named = re.findall(r'(?:src|href)="([^"]+)"', body.decode())
    for name in [*named, *(f"/page/{path.name}" for path in PAGE.glob("*.js"))]:
        if name != "data:,":
            status, headers, body = client.ask("GET", name)
            assert status == 200 and headers["X-Content-Type-Options"] == "nosniff"
            assert not re.search(rb"https?://|innerHTML|document\.write|eval\(", body)


@needs_browser
def test_every_kind_is_drawn_and_no_text_becomes_markup(contract, tmp_path):
    texts = "[...document.querySelectorAll('#answer {}')].map((node) => node.textContent)"

    async def case():
        async with browser.open_page(str(tmp_path)) as page:
            await page.open(f"http://127.0.0.1:{contract.port}/")
            await page.until("document.querySelector('#fields textarea')")
            for name, expected in EXPECTED.items():
                await page.evaluate(f"model.value = '{name}'; model.dispatchEvent(new Event('change')); ask.click()")
                await page.until("!raw.hidden && !ask.disabled")
                assert {key: await page.evaluate(texts.format(key)) for key in expected} == expected, name
                assert await page.evaluate("error.textContent") == ""
                assert await page.evaluate("document.querySelectorAll('img').length") == 0
                assert await page.evaluate("document.title") == "Served models"
                assert await page.evaluate("raw.open") is (name == "encoder")

    asyncio.run(case())


@needs_browser
def test_a_continuation_goes_on_with_other_numbers_and_a_new_seed(contract, tmp_path):
    async def case():
        async with browser.open_page(str(tmp_path)) as page:
            await page.open(f"http://127.0.0.1:{contract.port}/")
            await page.until("document.querySelector('#fields textarea')")
            await page.evaluate("model.value = 'generation'; model.dispatchEvent(new Event('change'))")
            titles = "[...document.querySelectorAll('#fields label')].map((node) => node.firstChild.textContent)"
            assert await page.evaluate(titles) == [
                "Text",
                "Most new pieces",
                "Temperature; 0 takes the most probable piece",
            ]
            await page.evaluate("document.querySelector('[name=temperature]').value = '1.25'; ask.click()")
            await page.until("!raw.hidden && !ask.disabled")
            first = await page.evaluate("document.querySelector('#request').textContent")
            await page.evaluate("document.querySelector('#answer button').click()")
            await page.until("!ask.disabled && document.querySelector('#answer .text')?.textContent.length > 80")
            added = f" 20 1.25 0.75 {contract_models.HOSTILE}"
            assert await page.evaluate("document.querySelector('#answer .text').textContent") == f"Once{added}{added}"
            assert await page.evaluate("document.querySelector('#fields textarea').value") == f"Once{added}"
            second = await page.evaluate("document.querySelector('#request').textContent")
            seeds = [re.search(r'"seed":\[(\d+)\]', request)[1] for request in (first, second)]
            assert seeds[0] != seeds[1]

    asyncio.run(case())


# The page sends its second request as soon as it shows the answer.
LIST_REQUESTS = """(() => {
  const send = window.fetch;
  window.fetch = (path, options) => {
    asked.push(JSON.parse(options.body).signature_name);
    return send(path, options);
  };
})()"""


@needs_browser
def test_a_heat_map_follows_the_answer_and_its_failure_leaves_the_answer(contract, tmp_path):
    async def case():
        async with browser.open_page(str(tmp_path), width=320) as page:

            async def ask(name, until):
                await page.evaluate(f"window.asked = []; model.value = '{name}'")
                await page.evaluate("model.dispatchEvent(new Event('change')); ask.click()")
                await page.until(f"document.querySelector('#answer {until}')")

            async def texts(selector):
                return await page.evaluate(f"[...document.querySelectorAll('{selector}')].map((n) => n.textContent)")

            await page.open(f"http://127.0.0.1:{contract.port}/")
            await page.until("document.querySelector('#fields textarea')")
            await page.evaluate(LIST_REQUESTS)
            await ask("text_to_text", ".heat")
            assert await page.evaluate("asked") == ["serving_default", "alignments"]
            columns = ["[CLS]", contract_models.HOSTILE, *(f"piece{number}" for number in range(58))]
            assert await texts(".heat th[scope=col]") == columns
            assert await texts(".heat th[scope=row]") == ["Buch", "[SEP]"]
            fields = "[...document.querySelectorAll('.heat td[title]')]"
            assert await page.evaluate(f"{fields}.length") == 2 * 60
            shares = await page.evaluate(f"{fields}.slice(0, 3).map((node) => node.style.getPropertyValue('--share'))")
            assert shares == ["0.25", "0.75", "0"]
            assert await page.evaluate(f"{fields}[0].title") == "Buch → [CLS]: 25.0 %"
            assert await texts("#answer h2") == ["What each piece of the answer looks at"]
            assert await texts("#answer .note") == [
                "Only the first 60 pieces of the text and of the answer are shown; the rest was left out."
            ]
            assert await page.evaluate("document.querySelectorAll('img').length") == 0
            # The map scrolls sideways inside the page.
            assert await page.evaluate("document.documentElement.scrollWidth <= 320")

            await ask("failing_alignments", ".note")
            (note,) = await texts("#answer .note")
            assert note.startswith("The alignments cannot be shown: ") and "no alignments" in note
            assert await page.evaluate("asked") == ["serving_default", "alignments"]
            assert await texts("#answer .text") == EXPECTED["text_to_text"][".text"] and not await texts(".heat")
            assert await page.evaluate("error.hidden")

            await ask("text_alone", ".text")
            assert await page.evaluate("asked") == ["serving_default"]

    asyncio.run(case())


@needs_browser
def test_the_page_works_from_the_keyboard_and_shows_errors(contract, tmp_path):
    async def case():
        async with browser.open_page(str(tmp_path)) as page:
            await page.open(f"http://127.0.0.1:{contract.port}/#encoder")
            await page.until("document.querySelector('#fields textarea')")
            for expected in ("model", "signature", "", "ask"):
                await page.press("Tab")
                assert await page.evaluate("document.activeElement.id") == expected
            await page.press("Enter")
            await page.until("!raw.hidden")
            await page.press("Tab", modifiers=8)
            await page.evaluate("document.activeElement.select()")
            await page.command("Input.insertText", text='{"input_word_ids": [["a"]]}')
            await page.press("Enter", modifiers=2)
            await page.until("error.textContent.includes('there is a string')")
            await page.evaluate("document.activeElement.select()")
            await page.command("Input.insertText", text="no json")
            await page.press("Enter", modifiers=2)
            await page.until("error.textContent.startsWith('This is not JSON')")

    asyncio.run(case())

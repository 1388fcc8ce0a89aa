"""A headless Chromium that tests control over the DevTools protocol with aiohttp's WebSocket, without a driver."""

import asyncio
import base64
import contextlib
import itertools
import os
import shutil
from collections.abc import AsyncIterator

import aiohttp

COMMAND = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Page:
    """One tab.

    Args:
        socket: an aiohttp WebSocket that is connected to the tab.
    """

    def __init__(self, socket):
        self._socket, self._numbers = socket, itertools.count(1)

    async def command(self, method: str, **parameters):
        """Sends a command of the DevTools protocol, and returns its result."""
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        async for message in self._socket:
            answer = message.json()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    async def evaluate(self, script: str):
        """Returns the value of a JavaScript expression."""
        result = await self.command("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    async def until(self, script: str, seconds: float = 20) -> None:
        """Waits until a JavaScript expression is true."""
        for _ in range(int(seconds / 0.02)):
            if await self.evaluate(f"Boolean({script})"):
                return
            await asyncio.sleep(0.02)
        raise AssertionError(f"not true within {seconds} s: {script}\n{await self.evaluate('document.body.innerText')}")

    async def open(self, url: str) -> None:
        """Loads a page."""
        # The blank page forces a load even when only the fragment of the URL changes.
        await self.command("Page.navigate", url="about:blank")
        await self.command("Page.navigate", url=url)

    async def press(self, key: str, modifiers: int = 0) -> None:
        """Presses a key.

        Args:
            key: a character, or a name such as "Enter".
            modifiers: the sum of 1 for Alt, 2 for Ctrl, 4 for Meta and 8 for Shift.
        """
        text = {"Enter": "\r", " ": " "}.get(key, key if len(key) == 1 else "")
        codes = {"Enter": 13, "Tab": 9, " ": 32, "ArrowDown": 40}
        event = {"key": key, "modifiers": modifiers, "windowsVirtualKeyCode": codes.get(key, ord(key[0]))}
        await self.command("Input.dispatchKeyEvent", type="keyDown", text=text, **event)
        await self.command("Input.dispatchKeyEvent", type="keyUp", **event)

    async def screenshot(self, path: str) -> None:
        """Writes a PNG file of the whole page."""
        shot = await self.command("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))


@contextlib.asynccontextmanager
async def open_page(profile: str, width: int = 1000, height: int = 900, dark: bool = False) -> AsyncIterator[Page]:
    """Starts a browser, gives a Page within the block, and ends the browser after it.

    Args:
        profile: an empty directory.
        width: pixels.
        height: pixels.
        dark: whether the browser prefers dark colours.
    """
    process = await asyncio.create_subprocess_exec(
        COMMAND,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-quic",
        f"--user-data-dir={profile}",
        "--remote-debugging-port=0",
        "about:blank",
        stderr=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        path = os.path.join(profile, "DevToolsActivePort")
        while not os.path.exists(path) or not open(path, encoding="ascii").read().strip():
            assert process.returncode is None, "the browser ended at once"
            await asyncio.sleep(0.05)
        port = open(path, encoding="ascii").read().split()[0]
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json") as response:
                target = next(target for target in await response.json() if target["type"] == "page")
            async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                page = Page(socket)
                await page.command(
                    "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
                )
                await page.command(
                    "Emulation.setEmulatedMedia",
                    features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
                )
                yield page
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()

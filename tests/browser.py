"""A headless Chromium for the tests, spoken to over its DevTools pipe: no driver, no port, no address."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOUND = ("chromium", "chromium-browser", "google-chrome")
#: Seconds after which a browser that says nothing counts as hung.
LONGEST = 60
#: Chromium reads commands from descriptor 3 and answers on 4: a process that puts them there and becomes it.
PIPES = """
import os, sys
commands, answers = (os.dup(int(number)) for number in sys.argv[1:3])
high = [os.dup2(commands, 103), os.dup2(answers, 104)]
for number, at in zip(high, (3, 4)):
    os.dup2(number, at)
os.execv(sys.argv[3], sys.argv[3:])
"""


def chromium() -> str:
    """Where it is; skips the test when it is nowhere, which is a failure in CI."""
    for name in FOUND:
        if path := shutil.which(name):
            return path
    message = "no Chromium here (Debian: apt-get install chromium)"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


class Browser:
    """One page of a running Chromium."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> Any:
        """One command and its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            found = self._next()
            if found.get("id") == self._number:
                assert "error" not in found, f"{method}: {found['error']}"
                return found["result"]
            self.events.append(found)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            assert select.select([self._read], [], [], LONGEST)[0], f"Chromium says nothing for {LONGEST} s"
            part = os.read(self._read, 1 << 20)
            assert part, "Chromium has ended"
            self._buffer += part
        message, self._buffer = self._buffer.split(b"\0", 1)
        found = json.loads(message)
        assert isinstance(found, dict)
        return found

    def show(self, path: Path, width: int, *, dark: bool = False, height: int = 900) -> None:
        """Open a file at a width, light or dark, and wait until it is there."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        scheme = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", media="screen", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events.clear()
        self.call("Page.navigate", url=path.absolute().as_uri())
        until = time.monotonic() + 30
        while self.evaluate("document.readyState + location.protocol") != "completefile:":
            assert time.monotonic() < until, f"{path} is not there after 30 s"
            time.sleep(0.02)

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def complaints(self) -> list[str]:
        """Console errors, exceptions, and requests for anything but the page itself and data in it."""
        found = []
        for event in self.events:
            params, method = event.get("params", {}), event.get("method")
            if method == "Runtime.exceptionThrown":
                found.append(f"exception: {params['exceptionDetails']}")
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                found.append(f"console: {params['args']}")
            elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(f"log: {params['entry']['text']}")
            elif method == "Network.requestWillBeSent" and not params["request"]["url"].startswith(("file:", "data:")):
                found.append(f"request: {params['request']['url']}")
        return found

    def requests(self) -> list[str]:
        """Every address that was asked for."""
        return [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]

    def picture(self, path: Path) -> None:
        """The whole page as a PNG."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True, format="png")["data"]
        path.write_bytes(base64.b64decode(data))

    def pdf(self, path: Path) -> None:
        """The page as it prints, on A4."""
        data = self.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, printBackground=False)["data"]
        path.write_bytes(base64.b64decode(data))


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A running Chromium with a profile in `folder`."""
    program = chromium()
    to_it, from_us = os.pipe()
    from_it, by_it = os.pipe()
    command = [
        sys.executable, "-c", PIPES, str(to_it), str(by_it),
        program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-default-browser-check",
        "--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank",
    ]  # fmt: skip
    with subprocess.Popen(command, pass_fds=(to_it, by_it), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        os.close(to_it)
        os.close(by_it)
        try:
            yield Browser(from_it, from_us)
        finally:
            os.close(from_us)
            os.close(from_it)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()

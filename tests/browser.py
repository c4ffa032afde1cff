"""Chromium driven over the plain WebDriver protocol
(https://www.w3.org/TR/webdriver2/), with nothing but the standard library."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

CHROMIUM = (
    shutil.which("chromium")
    or shutil.which("chromium-browser")
    or shutil.which("google-chrome")
)
DRIVER = shutil.which("chromedriver")

_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {
    "Enter": "\ue007",
    "Tab": "\ue004",
    "Right": "\ue014",
    "Down": "\ue015",
    "Space": "\ue00d",
    "End": "\ue010",
}


class DriverError(Exception):
    """What the driver says went wrong."""


class Browser:
    """One headless browser with a profile of its own and no network but files."""

    def __init__(
        self,
        profile: Path,
        width: int = 1400,
        height: int = 1000,
        dark: bool = False,
    ) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._process = subprocess.Popen(
            [str(DRIVER), f"--port={port}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._url = f"http://127.0.0.1:{port}"
        args = [
            *(
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
                "--no-first-run",
            ),
            *(
                "--hide-scrollbars",
                f"--window-size={width},{height}",
                f"--user-data-dir={profile}",
            ),
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
        ]
        options = {"binary": CHROMIUM, "args": args}
        wanted = {
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
            "unhandledPromptBehavior": "ignore",
        }
        for _ in range(100):
            try:
                made = self._send(
                    "POST", "/session", {"capabilities": {"alwaysMatch": wanted}}
                )
                break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.1)
        else:
            raise RuntimeError("chromedriver does not answer")
        self._session = f"/session/{made['sessionId']}"

    def open(self, page: Path, fragment: str = "") -> None:
        self._send(
            "POST",
            self._session + "/url",
            {"url": page.resolve().as_uri() + fragment},
        )

    def run(self, script: str, *args: Any) -> Any:
        """The value that a script returns."""
        return self._send(
            "POST",
            self._session + "/execute/sync",
            {"script": script, "args": list(args)},
        )

    def until(self, script: str, seconds: float = 5.0) -> bool:
        """Whether what ``script`` returns becomes true: a page may act a moment
        after it is loaded."""
        end = time.monotonic() + seconds
        while not self.run(script):
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True

    def click(self, selector: str) -> None:
        """A real click in the middle of an element, away from the bar at the top of
        the page."""
        self.run(
            "document.querySelector(arguments[0]).scrollIntoView({ block: 'center' })",
            selector,
        )
        self._send(
            "POST", f"{self._session}/element/{self._find(selector)}/click", {}
        )

    def press(self, *keys: str) -> None:
        """Keys as a user presses them, into what has the focus."""
        actions = []
        for key in keys:
            value = KEYS.get(key, key)
            actions += [
                {"type": "keyDown", "value": value},
                {"type": "keyUp", "value": value},
            ]
        source = {"type": "key", "id": "keyboard", "actions": actions}
        self._send("POST", self._session + "/actions", {"actions": [source]})

    def alert(self) -> str | None:
        """The text of an open dialog; None without one."""
        try:
            return str(self._send("GET", self._session + "/alert/text"))
        except DriverError:
            return None

    def messages(self) -> list[str]:
        """What the console got since the last call."""
        rows = self._send("POST", self._session + "/se/log", {"type": "browser"})
        return [row["message"] for row in rows]

    def resize(self, width: int, height: int) -> None:
        """The size of the page itself; a window cannot be as narrow as a
        telephone."""
        size = {
            "width": width,
            "height": height,
            "deviceScaleFactor": 1,
            "mobile": False,
        }
        body = {"cmd": "Emulation.setDeviceMetricsOverride", "params": size}
        self._send("POST", self._session + "/goog/cdp/execute", body)

    def screenshot(self, path: Path) -> None:
        path.write_bytes(
            base64.b64decode(self._send("GET", self._session + "/screenshot"))
        )

    def close(self) -> None:
        try:
            self._send("DELETE", self._session)
        finally:
            self._process.terminate()
            self._process.wait(20)

    def _find(self, selector: str) -> str:
        found = self._send(
            "POST",
            self._session + "/element",
            {"using": "css selector", "value": selector},
        )
        return str(found[_ELEMENT])

    def _send(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._url + path,
            data,
            {"Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.loads(answer.read())["value"]
        except urllib.error.HTTPError as error:
            raise DriverError(
                json.loads(error.read())["value"]["message"]
            ) from None

"""A headless Chromium, driven by chromedriver's HTTP protocol through the standard library."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--window-size=1000,800",
)  # fmt: skip
KEYS = {"ArrowLeft": "\ue012", "ArrowRight": "\ue014", "End": "\ue010", "Home": "\ue011"}


def missing() -> str | None:
    """Return the reason why there is no browser; None if there is one."""
    lacking = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"needs {' and '.join(lacking)} (Debian: chromium, chromium-driver)" if lacking else None


class Browser:
    """One window with an empty profile; `with` ends it and its driver."""

    def __init__(self, profile: Path) -> None:
        self._driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True,
        )  # fmt: skip
        assert self._driver.stdout is not None
        port = next(
            found[1]
            for line in self._driver.stdout
            if (found := re.search(r"on port (\d+)\.", line))
        )
        self._url = f"http://127.0.0.1:{port}/session"
        options = {
            "binary": shutil.which("chromium"), "args": [*_FLAGS, f"--user-data-dir={profile}"],
        }  # fmt: skip
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        made = self._ask("", {"capabilities": {"alwaysMatch": wanted}})
        self._url += f"/{made['sessionId']}"

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        where: TracebackType | None,
    ) -> None:  # fmt: skip
        try:
            self._ask("", method="DELETE")
        finally:
            self._driver.terminate()
            self._driver.wait()
            assert self._driver.stdout is not None
            self._driver.stdout.close()

    def _ask(self, path: str, body: Any = None, method: str = "POST") -> Any:
        data = None if method != "POST" else json.dumps(body or {}).encode()
        try:
            with urlopen(Request(self._url + path, data, method=method)) as answer:
                return json.load(answer)["value"]
        except HTTPError as error:
            raise AssertionError(f"{path}: {error.read().decode()}") from None

    def open(self, path: Path) -> None:
        self._ask("/url", {"url": path.as_uri()})

    def run(self, script: str, *args: Any) -> Any:
        """Run JavaScript and return its value."""
        return self._ask("/execute/sync", {"script": script, "args": list(args)})

    def press(self, key: str) -> None:
        typed = [{"type": kind, "value": KEYS[key]} for kind in ("keyDown", "keyUp")]
        self._ask("/actions", {"actions": [{"type": "key", "id": "keys", "actions": typed}]})

    def click(self, selector: str) -> None:
        found = self._ask("/element", {"using": "css selector", "value": selector})
        self._ask(f"/element/{next(iter(found.values()))}/click")

    def prefer(self, scheme: str) -> None:
        """Set the reader's colour scheme, light or dark."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        params = {"features": features}
        self._ask("/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": params})

    def resize(self, width: int) -> None:
        self._ask("/window/rect", {"width": width, "height": 800})

    def complaints(self) -> list[str]:
        """Return the lines that the page wrote to its console since the last call."""
        return [entry["message"] for entry in self._ask("/se/log", {"type": "browser"})]

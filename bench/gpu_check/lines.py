"""A pytest plugin that writes a line of JSON when a test begins and when it ends.

`--lines FILE` names the file. Tests that are already in FILE are skipped, so that another process
can continue after a crash. After a failure the devices are checked. If one is broken, the session
ends with status DEAD, because all later tests would fail.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pytest

DEAD = 9


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Return a dict from each test to the last line that was written for the test. If the outcome
    in this line is `died`, the test has crashed its process."""
    found: dict[str, dict[str, Any]] = {}
    for text in path.read_text().splitlines() if path.exists() else ():
        try:
            line = json.loads(text)
        except ValueError:  # incomplete line
            continue
        found[line["test"]] = line
    return found


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--lines", type=Path, required=True, help="where a line for each test goes")
    parser.addoption("--part", default="0/1", help="I/N: the I-th of N parts of the tests")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Lines(config.getoption("--lines"), config.getoption("--part")))


class _Lines:
    def __init__(self, path: Path, part: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._part, self._parts = map(int, part.split("/"))
        self._path, self._known = path, set(read(path))
        self._outcome: dict[str, Any] = {}

    def _add(self, test: str, **facts: Any) -> None:
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"test": test} | facts) + "\n")

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        left_out = [item for item in items if item.nodeid in self._known or not self._is_mine(item)]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if item not in set(left_out)]

    def _is_mine(self, item: pytest.Item) -> bool:
        return zlib.crc32(item.nodeid.encode()) % self._parts == self._part

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._outcome = {"outcome": "passed", "seconds": 0.0}
        self._add(nodeid, outcome="died")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        now = self._outcome
        now["seconds"] = round(now["seconds"] + report.duration, 3)
        if report.failed:
            now |= {"outcome": "failed", "why": str(report.longrepr)[-2000:]}
        elif report.skipped and now["outcome"] == "passed":
            why = report.longrepr[-1] if isinstance(report.longrepr, tuple) else report.longrepr
            now |= {"outcome": "skipped", "why": str(why)[:300]}

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._add(nodeid, **self._outcome)
        if self._outcome["outcome"] == "failed" and (reason := dead_device()):
            self._add(nodeid, **self._outcome | {"dead": reason})
            pytest.exit(f"a device does not work any more: {reason}", returncode=DEAD)


def dead_device() -> str | None:
    """Synchronize every device. Return the error of a device for which two calls in a row fail, or
    None if all devices work."""
    import gputensor as gt

    try:
        for index in range(gt.cuda.device_count()):
            for _ in range(2):  # the first call may report an earlier error
                try:
                    gt.cuda.synchronize(index)
                    break
                except Exception as error:
                    reason = error
            else:
                raise reason
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0][:300]
    return None

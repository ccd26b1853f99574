"""Measure the CPU seconds of each folder of tests, with those of child processes.

CPU seconds depend less on other load than wall time. The seconds of a fixed loop are recorded too,
to compare machines. `python -m tests.budgets` checks the budgets.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest


def folder_of(test: str) -> str:
    """Return a test's folder, `tests/core`; for a file in tests/ itself, the file."""
    return "/".join(test.partition("::")[0].split("/")[:2])


def reference_s() -> float:
    """Return CPU seconds of a fixed loop of Python and NumPy, the best of three."""
    return min(_loop_s() for _ in range(3))


def _loop_s() -> float:
    start = time.process_time()
    seen: dict[tuple[int, str], float] = {}
    for i in range(100_000):
        seen[i % 997, str(i % 13)] = seen.get((i % 991, "1"), 0.0) + i
    x = np.arange(200_000) * 7919 % 200_003
    for _ in range(4):
        np.sort(x).astype(np.float64).sum()
    return time.process_time() - start


def _cpu_s() -> float:
    return sum(os.times()[:4])


class Times:
    """Collects the times, also of workers, and writes them to a file at the end."""

    def __init__(self, config: pytest.Config, path: str) -> None:
        self.config, self.path = config, Path(path)
        self.seconds: Counter[str] = Counter()
        self.tests: Counter[str] = Counter()
        self.last = 0.0
        self.before_s = reference_s()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Any:
        self.last = _cpu_s()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Any:
        report = yield
        now = _cpu_s()
        report.cpu_s, self.last = now - self.last, now
        return report

    def pytest_runtest_logreport(self, report: Any) -> None:
        # a test whose process crashed has no time
        self.seconds[folder_of(report.nodeid)] += getattr(report, "cpu_s", 0.0)
        self.tests[folder_of(report.nodeid)] += report.when == "call"

    def pytest_sessionfinish(self) -> None:
        if hasattr(self.config, "workerinput"):
            return  # the main process gets the reports of all workers
        found = {
            "tier": self.config.getoption("--tier"),
            "reference_s": min(self.before_s, reference_s()),
            "folders": {name: [s, self.tests[name]] for name, s in sorted(self.seconds.items())},
        }
        self.path.write_text(json.dumps(found, indent=1) + "\n")

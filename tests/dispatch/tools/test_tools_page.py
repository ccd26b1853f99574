"""docs/internals/dispatch_tools.md names every tool of `gt.dispatch`; its blocks run with the other
pages'."""

from __future__ import annotations

import re
from pathlib import Path

from gputensor import dispatch

PAGE = Path(__file__).parents[3] / "docs" / "internals" / "dispatch_tools.md"


def test_the_page_names_every_tool() -> None:
    named = set(re.findall(r"\w+", PAGE.read_text(encoding="utf-8")))
    assert set(dispatch.__all__) <= named, set(dispatch.__all__) - named

"""Names of a test's cases that are the same in every process, as pytest's workers must agree on
them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def has_address(name: str) -> bool:
    return _ADDRESS.search(name) is not None


def without_address(show: Callable[[Any], str]) -> Callable[[Any], str]:
    """`repr` or `str`, less the addresses of objects."""
    return lambda value: _ADDRESS.sub("", show(value))

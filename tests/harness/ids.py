"""Names of test cases that are equal in every process, as pytest's workers require."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def has_address(name: str) -> bool:
    return _ADDRESS.search(name) is not None


def without_address(show: Callable[[Any], str]) -> Callable[[Any], str]:
    """Return `repr` or `str` without addresses of objects."""
    return lambda value: _ADDRESS.sub("", show(value))

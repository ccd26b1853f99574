"""The frozen cases of this folder, which need no PyTorch."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from .cases import Case, read

KINDS = ("leaves", "gradients")


def file(kind: str) -> Path:
    return Path(__file__).with_name(f"{kind}.cases")


@cache
def cases(kind: str) -> list[Case]:
    return read(file(kind))[1]

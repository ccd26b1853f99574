"""The compiled library, engine/module.cpp. Imported by library.py alone."""

from collections.abc import Callable
from typing import Any

import numpy as np

def bind(
    family: str, op: str, kinds: tuple[int, ...], common: int, out: int,
    otherwise: Callable[..., Any], /,
) -> Callable[..., Any] | None: ...  # fmt: skip
def capabilities() -> tuple[str, ...]: ...
def function(family: str, name: str, /) -> Callable[..., int] | None: ...
def serve(
    family: str, name: str, otherwise: Callable[..., Any], /
) -> Callable[..., Any] | None: ...
def set_threads(count: int, /) -> None: ...
def use(capability: str, dtypes: tuple[np.dtype[Any], ...], /) -> None: ...

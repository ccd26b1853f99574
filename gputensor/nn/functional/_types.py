"""Annotations of gt.nn.functional for arguments with more than one form.

`dispatch/refusal.py` finds them by these names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

Ints: TypeAlias = int | Sequence[int]  # one number for all dimensions, or one for each
Sizes: TypeAlias = int | Sequence[int | None] | None  # an item None keeps the size
Reals: TypeAlias = float | Sequence[float]
Padding: TypeAlias = Ints | str

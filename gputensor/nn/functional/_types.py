"""Annotations of gt.nn.functional for arguments with more than one form.

`dispatch/refusal.py` finds them by these names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from ...dispatch.refusal import refuse
from ...tensor.tensor import Tensor

Ints: TypeAlias = int | Sequence[int]  # one for all dimensions, or one for each
Sizes: TypeAlias = int | Sequence[int | None] | None  # the same; None in the sequence keeps a size
Reals: TypeAlias = float | Sequence[float]
Padding: TypeAlias = Ints | str

# What a function without `declares` calls if it fails; a `try` costs nothing until then.
_refuse: Callable[..., Tensor] = refuse

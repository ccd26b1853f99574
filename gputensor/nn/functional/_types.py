"""Type annotations of gt.nn.functional for arguments with several forms.

`dispatch/refusal.py` looks the annotations up by these names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from ...dispatch.refusal import refuse
from ...tensor.tensor import Tensor

Ints: TypeAlias = int | Sequence[int]  # one number for all dimensions, or one for each
Sizes: TypeAlias = int | Sequence[int | None] | None  # as Ints; None in the sequence keeps a size
Reals: TypeAlias = float | Sequence[float]
Padding: TypeAlias = Ints | str

# A function without `declares` calls this if it fails. Until then its `try` costs nothing.
_refuse: Callable[..., Tensor] = refuse

"""Type annotations of gt.nn.functional for arguments with several forms.

`dispatch/refusal.py` looks the annotations up by these names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from ...dispatch.refusal import refuse
from ...tensor.tensor import Tensor

# One number for all dimensions, or one for each dimension.
Ints: TypeAlias = int | Sequence[int]
# Like Ints. None in the sequence keeps the size of that dimension.
Sizes: TypeAlias = int | Sequence[int | None] | None
Reals: TypeAlias = float | Sequence[float]
Padding: TypeAlias = Ints | str

# Functions without the decorator `declares` call `_refuse` in an `except` clause, because a `try`
# costs nothing if no error occurs.
_refuse: Callable[..., Tensor] = refuse

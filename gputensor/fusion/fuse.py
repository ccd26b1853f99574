"""`gt.fuse`: a block, or a function, in which element-by-element operators run as chains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from ..core import errors
from ..core.guard import Function, decorated
from .block import Fusing
from .explain import Explanation, explain
from .replay import replays_of


class _Fuse:
    """Run element-by-element operators as chains: `with gt.fuse():`, `@gt.fuse`, `gt.fuse(f)`.

    Within, they are recorded, and what needs their elements, another operator or a look at a value,
    runs what was recorded as one loop. Every result is to the bit what it is without. A function
    gets a block around each of its calls. GPUTENSOR_FUSE=off leaves everything as it is.

    native: on the CPU, arithmetic of a chain becomes one loop that g++ builds, in about a second,
    and keeps on disk; other operators stay as they are, and so does every bit.
    GPUTENSOR_FUSE=native says so for all blocks. RuntimeError where such a chain runs without g++.

    recompute: what only backward needs is computed again there, in the chain that reads it, where
    that is arithmetic which moves fewer bytes than a store and a load. Its function runs its Python
    in each call.

    >>> x = gt.ones(3)
    >>> with gt.fuse():
    ...     y = (x * 2 + 1).sqrt()
    >>> y
    tensor([1.7321, 1.7321, 1.7321])
    """

    explain: staticmethod[..., Explanation] = staticmethod(explain)

    @overload
    def __call__(
        self, function: None = None, *, native: bool = False, recompute: bool = False
    ) -> Fusing: ...
    @overload
    def __call__(
        self, function: Function, *, native: bool = False, recompute: bool = False
    ) -> Function: ...
    def __call__(
        self, function: Callable[..., Any] | None = None, *, native: bool = False,
        recompute: bool = False,
    ) -> Any:  # fmt: skip
        for name, value in (("native", native), ("recompute", recompute)):
            if type(value) is not bool:
                raise errors.wrong_type("fuse", name, "be a bool", value)
        if function is None:
            return Fusing(native, recompute)
        if not callable(function):
            raise errors.wrong_type("fuse", "function", "be callable", function)
        replays = None if recompute else replays_of(function, native)
        if replays is not None:
            return replays.fused()
        return decorated(lambda: Fusing(native, recompute), function)


fuse: _Fuse = _Fuse()

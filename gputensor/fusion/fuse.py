"""`gt.fuse`: a block, or a function, in which element-by-element operators run as chains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from ..core import errors
from ..core.guard import Function, decorated
from .block import Fusing
from .explain import Explanation, explain
from .replay.replays import replays_of


class _Fuse:
    """Run elementwise operators as chains: `with gt.fuse():`, `@gt.fuse`, `gt.fuse(f)`.

    In the block operators are recorded. When elements are needed, by another operator or by Python,
    the recorded operators run as one loop. Results have the same bits as without fusion. A
    decorated function runs each call in a block. GPUTENSOR_FUSE=off disables fusion.

    recompute: backward recomputes values that only it needs, in the chain that reads them, if that
    moves fewer bytes than a store and a load. The function's Python then runs in each call.

    >>> x = gt.ones(3)
    >>> with gt.fuse():
    ...     y = (x * 2 + 1).sqrt()
    >>> y
    tensor([1.7321, 1.7321, 1.7321])
    """

    explain: staticmethod[..., Explanation] = staticmethod(explain)

    @overload
    def __call__(self, function: None = None, *, recompute: bool = False) -> Fusing: ...
    @overload
    def __call__(self, function: Function, *, recompute: bool = False) -> Function: ...
    def __call__(
        self, function: Callable[..., Any] | None = None, *, recompute: bool = False
    ) -> Any:
        if type(recompute) is not bool:
            raise errors.wrong_type("fuse", "recompute", "be a bool", recompute)
        if function is None:
            return Fusing(recompute)
        if not callable(function):
            raise errors.wrong_type("fuse", "function", "be callable", function)
        replays = None if recompute else replays_of(function)
        if replays is not None:
            return replays.fused()
        return decorated(lambda: Fusing(recompute), function)


fuse: _Fuse = _Fuse()

"""`gt.fuse`: a block, or a function, in which element-by-element operators run as chains.
`gt.fuse.explain(f, *args)` shows the chains of a function's operators, and why each one ended."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, overload

from ..core import errors
from ..core.guard import Function, decorated
from ..tensor.tensor import Tensor
from . import running
from .block import Fusing
from .chain import Chain, unique_bytes
from .replay.purity import found_in
from .replay.replays import replays_of


@dataclass(slots=True, repr=False, eq=False)
class Explanation:
    """Result of `gt.fuse.explain`.

    chains: pairs (chain, the reason why it ran), in the order of execution. result: the function's
    result. why_not: the reason why a similar call is not replayed (see replay/), or None if it is
    replayed. unrecorded: the operands that were read at once, because other code may write to
    their memory (docs/usage/fusion.md), by name. bytes_moved: bytes that the chains read and write.
    bytes_apart: bytes that the same operators move one by one."""

    chains: list[tuple[Chain, str]]
    result: Any
    why_not: str | None = None
    unrecorded: tuple[str, ...] = ()

    @property
    def replays(self) -> bool:
        """True if `gt.fuse(function)` replays the next call of this kind, without the function's
        Python."""
        return self.why_not is None

    @property
    def bytes_moved(self) -> int:
        return sum(chain.bytes_moved for chain, _ in self.chains)

    @property
    def bytes_apart(self) -> int:
        return sum(chain.bytes_apart for chain, _ in self.chains)

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as a dict. operators: the number of kernels that would run without
        fusion."""
        return {
            "chains": [_chain(chain, reason) for chain, reason in self.chains],
            "operators": sum([len(chain.instructions) for chain, _ in self.chains]),
            "bytes_moved": self.bytes_moved, "bytes_apart": self.bytes_apart,
            "replays": self.replays, "why_not": self.why_not, "unrecorded": [*self.unrecorded],
        }  # fmt: skip

    def lines(self) -> list[str]:
        """Return lines of text: each chain with its source and the reason why it ended, and the
        total bytes."""
        lines = []
        for number, (chain, reason) in enumerate(self.chains):
            count = len(chain.instructions)
            lines.append(
                f"chain {number}: {count} operator{'s' * (count > 1)} over "
                f"{list(chain.walk.sizes)} on {chain.device}; it ran as {reason}; "
                f"{chain.bytes_moved} bytes moved, {chain.bytes_apart} without fusion"
            )
            lines += [f"  {line}" for line in str(chain).splitlines()]
            lines += [f"  | {line}" for line in (running.source(chain) or "").splitlines()]
        lines += [
            f"read at once, as other code may write to its memory: {name}"
            for name in self.unrecorded
        ]
        total = f"{len(self.chains)} chain{'s' * (len(self.chains) != 1)}"
        moved = f"{self.bytes_moved} bytes moved, {self.bytes_apart} without fusion"
        return [*lines, f"{total}: {moved}"]

    def __str__(self) -> str:
        *chains, total = self.lines()
        again = f"run its Python, because it {self.why_not}"
        again = "are replayed without its Python" if self.replays else again
        return "\n".join([*chains, f"further calls like this one {again}", total])

    __repr__ = __str__


def _chain(chain: Chain, reason: str) -> dict[str, Any]:
    read = [unique_bytes(x) for x in chain.inputs]
    return {
        "device": str(chain.device), "sizes": list(chain.walk.sizes), "why": reason,
        "inputs": [{"value": n, "bytes": size} for n, size in enumerate(read)],
        "operators": [
            {
                "value": n, "operator": step.what.operator.qualified_name,
                "dtype": str(step.what.result), "reads": [x for x in step.operands if x >= 0],
                "bytes_read": chain.bytes_read(step), "bytes_written": step.what.geometry.nbytes,
            }
            for n, step in chain.steps.items()
        ],
        "stores": [{"value": n, "bytes": chain.geometry(n).nbytes} for n in chain.stores],
        "bytes_moved": chain.bytes_moved, "bytes_apart": chain.bytes_apart,
        "source": running.source(chain),
    }  # fmt: skip


def explain(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Explanation:
    """Run `function(*args, **kwargs)` within a block of `gt.fuse`, and explain what was fused.

    Operators on few elements, which a block would run at once, are recorded, too. Chains of other
    threads during the call are included. An operator that is alone in its chain, or not recorded,
    does not get faster by fusion.
    """
    if not callable(function):
        raise errors.wrong_type("fuse.explain", "function", "be callable", function)
    chains: list[tuple[Chain, str]] = []

    def told(chain: Chain, reason: str) -> None:
        chains.append((chain, reason))

    read: list[Tensor] = []
    running.watchers.append(told)
    running.unrecorded.append(read.append)
    named = _named(function, args, kwargs)
    try:
        replays = replays_of(function)
        if replays is not None:
            result = replays.run(args, kwargs)
        else:
            with Fusing():
                result = function(*args, **kwargs)
    finally:
        running.watchers.remove(told)
        running.unrecorded.remove(read.append)
    why = "is no plain function" if replays is None else replays.why
    return Explanation(chains, result, why, _names(read, named))


def _named(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return a dict that maps names to the values of a call's arguments and outer variables. An
    argument to which the function gives no name is named by its position."""
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    if code is None:
        return {f"argument {n}": x for n, x in enumerate(args)} | kwargs
    cells = zip(code.co_freevars, function.__closure__ or ())
    outer = {name: found_in(cell, "cell_contents") for name, cell in cells}
    used = function.__globals__
    outer |= {name: used[name] for name in code.co_names if name in used}
    places = code.co_varnames[: code.co_argcount]
    given = {places[n] if n < len(places) else f"argument {n}": x for n, x in enumerate(args)}
    given |= kwargs
    return given | {name: x for name, x in outer.items() if name not in given}


def _names(read: list[Tensor], named: dict[str, Any]) -> tuple[str, ...]:
    """Return a name for each operand: the variable that has its memory, or a description of its
    layout if there is no such variable."""
    found: dict[str, None] = {}
    for x in read:
        storage = x._get_storage()
        names = [
            name for name, value in named.items()
            if isinstance(value, Tensor) and value._get_storage() is storage
        ]  # fmt: skip
        found[names[0] if names else f"a tensor {errors.describe(x)}"] = None
    return tuple(found)


class _Fuse:
    """Run elementwise operators as chains: `with gt.fuse():`, `@gt.fuse`, `gt.fuse(f)`.

    In the block operators are recorded. When elements are needed, by another operator or by Python,
    the recorded operators run as one loop. Results have the same bits as without fusion. A
    decorated function runs each call in a block. GPUTENSOR_FUSE=off disables fusion.

    recompute: values that only backward needs are computed again, in the chain that reads them, if
    that moves fewer bytes than a store and a load. The function's Python then runs in each call.

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

"""`gt.fuse.explain(f, *args)`: what a function's operators were fused to, and what ended each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core import errors
from . import running
from .block import Fusing
from .chain import Chain
from .replay import replays_of


class Explanation:
    """chains: each as (chain, why it ran then), in the order in which they ran. result: what the
    function returned. why_not: what keeps a call like this one from being replayed, see replay.py;
    None where nothing does. bytes_moved: what the chains read and write; bytes_apart: what their
    operators do one by one."""

    __slots__ = ("chains", "result", "why_not")
    chains: list[tuple[Chain, str]]
    result: Any
    why_not: str | None

    def __init__(
        self, chains: list[tuple[Chain, str]], result: Any, why_not: str | None = None
    ) -> None:
        self.chains, self.result, self.why_not = chains, result, why_not

    @property
    def replays(self) -> bool:
        """Whether `gt.fuse(function)` runs none of the function's Python when such a call comes
        again."""
        return self.why_not is None

    @property
    def bytes_moved(self) -> int:
        return sum(chain.bytes_moved for chain, _ in self.chains)

    @property
    def bytes_apart(self) -> int:
        return sum(chain.bytes_apart for chain, _ in self.chains)

    def __str__(self) -> str:
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
        again = "none" if self.replays else f"all, as it {self.why_not}"
        lines.append(f"its Python in further calls like this one: {again}")
        total = f"{len(self.chains)} chain{'s' * (len(self.chains) != 1)}"
        return "\n".join(
            [*lines, f"{total}: {self.bytes_moved} bytes moved, {self.bytes_apart} without fusion"]
        )

    __repr__ = __str__


def explain(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Explanation:
    """Run `function(*args, **kwargs)` within a block of `gt.fuse`, and say what was fused.

    What other threads fuse meanwhile is seen too. An operator that is alone in its chain, or that
    was not recorded at all, gains nothing.
    """
    if not callable(function):
        raise errors.wrong_type("fuse.explain", "function", "be callable", function)
    chains: list[tuple[Chain, str]] = []

    def told(chain: Chain, reason: str) -> None:
        chains.append((chain, reason))

    running.watchers.append(told)
    try:
        replays = replays_of(function)
        if replays is not None:
            result = replays.run(args, kwargs)
        else:
            with Fusing():
                result = function(*args, **kwargs)
    finally:
        running.watchers.remove(told)
    return Explanation(chains, result, "is no plain function" if replays is None else replays.why)

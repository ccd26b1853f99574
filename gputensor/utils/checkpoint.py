"""`checkpoint`: what a function's derivative needs is computed again instead of kept.

The tensors that the function would save for backward are replaced by their numbers; the first one
that backward asks for lets the function run again, which saves the same tensors in the same order.
Source: torch/utils/checkpoint.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..amp.autocast_mode import autocast, get_autocast_dtype, is_autocast_enabled
from ..autograd.graph import saved_tensors_hooks
from ..autograd.modes import enable_grad, is_grad_enabled
from ..core import errors, lazy
from ..structured.generator import fork_rng, get_rng_state, set_rng_state
from ..tensor.tensor import Tensor

__all__ = ["checkpoint", "checkpoint_sequential"]


class _Frame:
    """One call of a function whose saved tensors are computed again.

    count: of the tensors that it saved. found: those computed again and not yet asked for.
    """

    def __init__(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any],
        preserve_rng_state: bool,
    ) -> None:  # fmt: skip
        self.function, self.args, self.kwargs = function, args, kwargs
        self.count = 0
        self.found: dict[int, Tensor] = {}
        self.random = get_rng_state() if preserve_rng_state else None
        self.casts = is_autocast_enabled("cpu"), get_autocast_dtype("cpu")

    def pack(self, x: Tensor) -> int:
        """The number of a tensor that the first run saves."""
        self.count += 1
        return self.count - 1

    def unpack(self, number: int) -> Tensor:
        """The tensor of that number; runs the function again where it is not there."""
        if number not in self.found:
            self._run_again()
        return self.found.pop(number)

    def _run_again(self) -> None:
        found: list[Tensor] = []

        def keep(x: Tensor) -> Tensor:
            found.append(x.detach())
            return x

        enabled, dtype = self.casts
        with (
            fork_rng(enabled=self.random is not None),
            enable_grad(),
            saved_tensors_hooks(keep, lambda x: x),
            autocast("cpu", dtype=dtype, enabled=enabled),
        ):
            if self.random is not None:
                set_rng_state(self.random)
            self.function(*self.args, **self.kwargs)
        if len(found) != self.count:
            rule = f"save as many tensors each time it runs, {self.count}"
            got = errors.Got(f"{len(found)}")
            raise errors.must("checkpoint", "function", rule, got, kind=errors.AutogradError)
        self.found = dict(enumerate(found))


def checkpoint(
    function: Callable[..., Any], *args: Any, use_reentrant: bool | None = None,
    context_fn: Any = None, determinism_check: str = "default", debug: bool = False,
    early_stop: bool = True, preserve_rng_state: bool = True, **kwargs: Any,
) -> Any:  # fmt: skip
    """Call a function, and compute what its derivative needs again in backward.

    Args:
        use_reentrant, determinism_check, debug, early_stop: accepted; the function runs again once,
            whole, by hooks on saved tensors, and must save as many tensors as before.
        preserve_rng_state: draw the same random numbers in both runs, on the CPU.
        context_fn: not to be had.
    """
    if not callable(function):
        raise errors.wrong_type("checkpoint", "function", "be callable", function)
    if context_fn is not None:
        rule = "be left out: blocks around the two runs are not to be had"
        raise errors.wrong_value("checkpoint", "context_fn", rule, context_fn)
    if not is_grad_enabled():
        return function(*args, **kwargs)
    frame = _Frame(function, args, kwargs, preserve_rng_state)
    with saved_tensors_hooks(frame.pack, frame.unpack):
        return function(*args, **kwargs)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Call functions one after the other, in `segments` parts of which each is a checkpoint."""
    listed = list(functions.children()) if hasattr(functions, "children") else list(functions)
    if not 0 < segments <= len(listed):
        rule = f"be from 1 to the number of functions, {len(listed)}"
        raise errors.wrong_value("checkpoint_sequential", "segments", rule, segments)
    size, x = len(listed) // segments, input
    for n in range(segments):
        part = listed[n * size : (n + 1) * size if n < segments - 1 else None]
        x = checkpoint(_chain(part), x, use_reentrant=use_reentrant, **kwargs)
    return x


def _chain(functions: Sequence[Callable[..., Any]]) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        for function in functions:
            x = function(x)
        return x

    return run


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())

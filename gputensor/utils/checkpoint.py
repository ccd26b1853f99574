"""`checkpoint`: recomputes intermediate tensors in backward, so that they need not be saved.

Instead of each tensor that the function saves for backward, a number is stored. When backward needs
the first of these tensors, the function runs again and saves its tensors in the same order. Source:
torch/utils/checkpoint.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from ..amp.autocast_mode import autocast, get_autocast_dtype, is_autocast_enabled
from ..amp.casting import DEVICES
from ..autograd.graph import saved_tensors_hooks
from ..autograd.modes import enable_grad, is_grad_enabled
from ..core import errors, lazy
from ..core.arguments import flag
from ..structured.generator import all_marks, return_all_to
from ..tensor.tensor import Tensor

__all__ = ["CheckpointError", "checkpoint", "checkpoint_sequential"]


class CheckpointError(errors.AutogradError):
    """Error if the second run of a checkpointed function saves other tensors than the first run."""


class _Stop(BaseException):
    """Raised in the second run after the last tensor is saved."""


class _Frame:
    """One checkpointed call of a function.

    stops: end the second run when it has saved all tensors. block: the context manager of the
    second run, or None. saved: shape, dtype and device of each tensor that the first run saved.
    found: the tensors of the second run that backward has not yet used.
    """

    def __init__(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any],
        preserve_rng_state: bool, checks: bool, stops: bool, block: Any,
    ) -> None:  # fmt: skip
        self.function, self.args, self.kwargs, self.checks = function, args, kwargs, checks
        self.stops, self.block = stops, block
        self.saved: list[tuple[Any, ...]] = []
        self.found: dict[int, Tensor] = {}
        self.random = all_marks() if preserve_rng_state else None
        self.casts = [
            (d.type, get_autocast_dtype(d.type), is_autocast_enabled(d.type))
            for d in DEVICES if d.type is not None
        ]  # fmt: skip

    def pack(self, x: Tensor) -> int:
        """Record a tensor that the first run saves. Return its number."""
        self.saved.append(_described(x))
        return len(self.saved) - 1

    def unpack(self, number: int) -> Tensor:
        """Return the tensor with this number. If it is not available, run the function again."""
        if number not in self.found:
            self._run_again()
        return self.found.pop(number)

    def _run_again(self) -> None:
        found: list[Tensor] = []

        def keep(x: Tensor) -> Tensor:
            found.append(x.detach())
            if self.stops and len(found) == len(self.saved):
                raise _Stop
            return x

        with ExitStack() as blocks:
            if self.random is not None:
                blocks.callback(return_all_to, all_marks())
                return_all_to(self.random)
            blocks.enter_context(enable_grad())
            blocks.enter_context(saved_tensors_hooks(keep, lambda x: x))
            for device_type, dtype, enabled in self.casts:
                blocks.enter_context(autocast(device_type, dtype, enabled))
            if self.block is not None:
                blocks.enter_context(self.block)
            with suppress(_Stop):
                self.function(*self.args, **self.kwargs)
        self._check(found)
        self.found = dict(enumerate(found))

    def _check(self, found: Sequence[Tensor]) -> None:
        """Raise CheckpointError unless both runs saved the same number of tensors. If `checks`,
        also raise if the shapes, dtypes or devices of these tensors differ."""
        if len(found) != len(self.saved):
            rule = f"save as many tensors each time it runs, {len(self.saved)}"
            raise _differs(rule, f"{len(found)}")
        for n, (first, x) in enumerate(zip(self.saved, found)):
            if self.checks and first != _described(x):
                shape, dtype, device = first
                rule = f"save the same tensors each time it runs; number {n} was"
                rule += f" {dtype} of shape {tuple(shape)} on {device}"
                raise _differs(rule, f"{x.dtype} of shape {tuple(x.shape)} on {x.device}")


def _described(x: Tensor) -> tuple[Any, ...]:
    return x.shape, x.dtype, x.device


def _differs(rule: str, got: str) -> Exception:
    return errors.must("checkpoint", "function", rule, errors.Got(got), kind=CheckpointError)


def checkpoint(
    function: Callable[..., Any], *args: Any, use_reentrant: bool | None = None,
    context_fn: Any = None, determinism_check: str = "default", debug: bool = False,
    early_stop: bool = True, preserve_rng_state: bool = True, **kwargs: Any,
) -> Any:  # fmt: skip
    """Call a function without saving its intermediate results. Backward computes them again.

    Args:
        determinism_check: "default" compares shape, dtype and device of the tensors saved by both
            runs; "none" compares only their number.
        preserve_rng_state: make both runs draw the same random numbers, on every device.
        early_stop: end the second run when it has saved as many tensors as the first run.
        context_fn: returns two context managers, for the first and for the second run.
        use_reentrant, debug: accepted without effect.

    Raises: CheckpointError, in backward, if the second run saves other tensors.
    """
    if not callable(function):
        raise errors.wrong_type("checkpoint", "function", "be callable", function)
    if determinism_check not in ("default", "none"):
        rule = "be 'default' or 'none'"
        raise errors.wrong_value("checkpoint", "determinism_check", rule, determinism_check)
    if not is_grad_enabled():
        return function(*args, **kwargs)
    first, second = (nullcontext(), None) if context_fn is None else context_fn()
    is_strict, stops = determinism_check == "default", flag("checkpoint", "early_stop", early_stop)
    frame = _Frame(function, args, kwargs, preserve_rng_state, is_strict, stops, second)
    with first, saved_tensors_hooks(frame.pack, frame.unpack):
        return function(*args, **kwargs)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Divide functions into `segments` parts. Call the parts one after another, each but the last
    with a checkpoint, because backward begins with the last part."""
    listed = list(functions.children()) if hasattr(functions, "children") else list(functions)
    if not 0 < segments <= len(listed):
        rule = f"be from 1 to the number of functions, {len(listed)}"
        raise errors.wrong_value("checkpoint_sequential", "segments", rule, segments)
    size, x = len(listed) // segments, input
    for n in range(segments):
        part = listed[n * size : (n + 1) * size if n < segments - 1 else None]
        if n == segments - 1:
            return _chain(part)(x)
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

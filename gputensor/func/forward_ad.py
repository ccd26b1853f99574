"""`gt.autograd.forward_ad`: tensors with tangents, within a block. `gt.func.jvp` has the same
derivatives as a function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..core import errors, lazy
from ..tensor.tensor import Tensor
from . import custom_function as _custom_function, forward as _forward, levels as _levels


__all__ = [
    "UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual",
    "unpack_dual",
]  # fmt: skip


class UnpackedDualTensor(NamedTuple):
    """A primal and its tangent. The tangent is None if the tensor has none."""

    primal: Tensor
    tangent: Tensor | None


class dual_level:
    """Context manager: `with dual_level():` is a block in which tensors can have tangents. At its
    end, the tangents are dropped.

    As in PyTorch, only one block may be active; `gt.func.jvp` nests.
    """

    def __enter__(self) -> Any:
        if _current() is not None:
            rule = "be entered once at a time; nest gt.func.jvp"
            raise errors.must("dual_level", "block", rule, errors.Got("a block within a block"))
        _custom_function.install()
        self._level = _Block()
        self._level.__enter__()
        return self._level

    def __exit__(self, *exc: object) -> None:
        self._level.__exit__(*exc)


class _Block(_forward.DualLevel):
    """The level of a block of `dual_level`."""


def _current() -> Any:
    return next((x for x in _levels.levels() if isinstance(x, _Block)), None)


def enter_dual_level() -> Any:
    """Begin a block, which `exit_dual_level` ends."""
    return dual_level().__enter__()


def exit_dual_level(*, level: Any = None) -> None:
    """End the block that `enter_dual_level` began."""
    found = _current()
    if found is None:
        raise _no_level("exit_dual_level")
    found.__exit__(None, None, None)


def _no_level(op: str) -> Exception:
    return errors.must(op, "call", "be within a dual_level", errors.Got("a call outside"))


def make_dual(tensor: Tensor, tangent: Tensor, *, level: Any = None) -> Tensor:
    """Return a tensor of the block with this tangent. The tangent must have the tensor's sizes and
    dtype.

    >>> import gputensor.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     y = fwAD.make_dual(gt.zeros(2), gt.ones(2)).sin()
    ...     print(fwAD.unpack_dual(y).tangent)
    tensor([1., 1.])
    """
    found = _current()
    if found is None:
        raise _no_level("make_dual")
    for name, x in (("tensor", tensor), ("tangent", tangent)):
        if not isinstance(x, Tensor) or not (x.is_floating_point() or x.is_complex()):
            raise errors.wrong_type("make_dual", name, "be a Tensor of floats", x)
    if tensor.shape != tangent.shape or tensor.dtype is not tangent.dtype:
        rule = f"have the tensor's sizes and dtype, {errors.describe(tensor)}"
        raise errors.wrong_value("make_dual", "tangent", rule, tangent)
    return _levels.dual(found, tensor.view_as(tensor), tangent)


def unpack_dual(tensor: Tensor, *, level: Any = None) -> UnpackedDualTensor:
    """Return the primal and the tangent of a tensor of the block."""
    found = _current()
    if found is None:
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(*_levels.parts_of(found, tensor))


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())

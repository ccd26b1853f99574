"""Support of tensors in opt_einsum, which calls tensordot, transpose and einsum, in NumPy's form.

opt_einsum looks for these functions in the package named at the beginning of a type's `__module__`,
or in a module from its list of aliases. This module is such an alias."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .. import Tensor


def register(dispatch: ModuleType) -> None:
    """Add an alias, so that opt_einsum uses this module for tensors of gputensor. dispatch: the
    module `opt_einsum.backends.dispatch`."""
    dispatch._aliases["gputensor"] = __name__


def tensordot(x: Tensor, y: Tensor, axes: int | tuple[Sequence[int], Sequence[int]]) -> Tensor:
    from ..functional import tensordot

    return tensordot(x, y, axes)


def transpose(x: Tensor, axes: Sequence[int]) -> Tensor:
    return x.permute(tuple(axes))


def einsum(equation: str, *operands: Any, out: None = None) -> Tensor:
    from ..functional import einsum

    return einsum(equation, *operands)

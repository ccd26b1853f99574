"""Support of tensors in einops, which has no registry: it finds all subclasses of its
AbstractBackend."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def register(backends: ModuleType) -> None:
    """Define a backend for tensors. backends: the module `einops._backends`."""

    class GputensorBackend(backends.AbstractBackend):  # type: ignore[name-defined, misc]
        # The backend uses only public functions with PyTorch's semantics: `repeat` expands without
        # a copy, and einops itself rejects `mean` of integers.
        framework_name = "gputensor"

        def __init__(self) -> None:
            from .. import functional
            from .._generated import functions
            from ..tensor.tensor import Tensor

            self.functional, self.functions, self.Tensor = functional, functions, Tensor

        def is_appropriate_type(self, tensor: Any) -> bool:
            return isinstance(tensor, self.Tensor)

        def from_numpy(self, x: Any) -> Any:
            from ..exchange.numpy.bridge import from_numpy

            return from_numpy(x)

        def to_numpy(self, x: Any) -> Any:
            return x.detach().cpu().numpy()

        def arange(self, start: int, stop: int) -> Any:
            return self.functions.arange(start, stop)

        def reduce(self, x: Any, operation: str, axes: tuple[int, ...]) -> Any:
            if operation == "prod":  # one dimension at a time, from the last to the first
                for dim in sorted(axes, reverse=True):
                    x = x.prod(dim)
                return x
            name = {"min": "amin", "max": "amax"}.get(operation, operation)
            return getattr(x, name)(dim=tuple(axes))

        def transpose(self, x: Any, axes: tuple[int, ...]) -> Any:
            return x.permute(axes)

        def stack_on_zeroth_dimension(self, tensors: list[Any]) -> Any:
            return self.functions.stack(tensors)

        def add_axis(self, x: Any, new_position: int) -> Any:
            return x.unsqueeze(new_position)

        def add_axes(self, x: Any, n_axes: int, pos2len: dict[int, int]) -> Any:
            for position in pos2len:
                x = x.unsqueeze(position)
            return x.expand([pos2len.get(k, -1) for k in range(n_axes)])

        def concat(self, tensors: list[Any], axis: int) -> Any:
            return self.functions.cat(tensors, axis)

        def is_float_type(self, x: Any) -> bool:
            return bool(x.is_floating_point())

        def einsum(self, pattern: str, *x: Any) -> Any:
            return self.functional.einsum(pattern, *x)

    # Python's list of subclasses holds weak references, so keep a reference here.
    backends.GputensorBackend = GputensorBackend  # type: ignore[attr-defined]

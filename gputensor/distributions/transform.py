"""Base class of transforms, and transforms built from other transforms: inverse, composition, cat,
stack.

Source: torch/distributions/transforms.py.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from .._generated.functions import cat, stack, zeros_like
from ..core.geometry import Size
from ..tensor.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .utils import absent, all_instances, quantity, refused, sum_rightmost

T = TypeVar("T", bound="Transform")


class Transform:
    """A differentiable function of tensors, its inverse, and the logarithm of its derivative.

    Args:
        cache_size: 1 keeps the last input and output, so that the inverse of that output is the
        input
            itself, without a computation; 0 keeps nothing.

    A subclass defines `domain`, `codomain` and `_call`; optionally `bijective`, `sign`, `_inverse`
    and `log_abs_det_jacobian`.
    """

    bijective = False
    domain: Any
    codomain: Any
    # True if the class has no parameters, so that all of its objects are equal.
    _is_plain = False

    def __init__(self, cache_size: int = 0) -> None:
        self._inv: Transform | None = None
        self._set_cache(cache_size)

    def _set_cache(self, cache_size: int) -> None:
        if cache_size not in (0, 1):
            raise refused(self, "cache_size", "be 0 or 1", cache_size)
        self._cache_size = cache_size
        self._cached_x_y: tuple[Any, Any] = (None, None)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_inv": None, "_cached_x_y": (None, None)}

    @property
    def event_dim(self) -> int:
        dims = self.domain.event_dim, self.codomain.event_dim
        if dims[0] != dims[1]:
            raise refused(self, "event_dim", "be equal for domain and codomain", dims)
        return int(dims[0])

    @property
    def inv(self) -> Transform:
        """The inverse transform; `x.inv.inv` is `x`."""
        if self._inv is None:
            self._inv = _InverseTransform(self)
        return self._inv

    @property
    def sign(self) -> Any:
        """Sign of a monotone transform's derivative: 1, -1 or a tensor."""
        raise absent(self, "sign")

    def with_cache(self: T, cache_size: int = 1) -> T:
        """Return this transform with the given cache size."""
        if self._cache_size == cache_size:
            return self
        made = copy.copy(self)
        made._inv = None
        made._set_cache(cache_size)
        return made

    def __eq__(self, other: object) -> bool:
        return self is other or (self._is_plain and isinstance(other, type(self)))

    def __call__(self, x: Tensor) -> Any:
        """Transform x."""
        return self._remembered(x, 0, self._call)

    def _inv_call(self, y: Tensor) -> Any:
        return self._remembered(y, 1, self._inverse)

    def _remembered(self, given: Tensor, place: int, compute: Callable[[Tensor], Tensor]) -> Any:
        if self._cache_size == 0:
            return compute(given)
        if given is not self._cached_x_y[place]:
            made = compute(given)
            self._cached_x_y = (made, given) if place else (given, made)
        return self._cached_x_y[1 - place]

    def _call(self, x: Tensor) -> Tensor:
        raise absent(self, "forward computation")

    def _inverse(self, y: Tensor) -> Tensor:
        raise absent(self, "inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log |det dy/dx| at input x and output y, without the event dimensions."""
        raise absent(self, "log_abs_det_jacobian")

    def forward_shape(self, shape: Size) -> Size:
        """Return the shape of the output for an input of `shape`."""
        return shape

    def inverse_shape(self, shape: Size) -> Size:
        """Return the shape of the input for an output of `shape`."""
        return shape

    def _need_dims(self, shape: Sequence[int], count: int) -> None:
        if len(shape) < count:
            raise refused(self, "shape", f"have at least {count} dimensions", tuple(shape))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Composite(Transform):
    """Base class of transforms whose domain and codomain depend on the instance. A subclass defines
    `_region(name)`; name is "domain" or "codomain"."""

    domain: Any = constraints.dependent_property(lambda self: self._region("domain"))
    codomain: Any = constraints.dependent_property(lambda self: self._region("codomain"))

    def _region(self, name: str) -> Constraint:
        raise absent(self, name)


class _InverseTransform(Composite):
    """The inverse of the transform `inv`. Both transforms share a cache."""

    _inv: Transform

    def __init__(self, transform: Transform) -> None:
        super().__init__(transform._cache_size)
        self._inv = transform

    def _region(self, name: str) -> Constraint:
        region: Constraint = self._inv.codomain if name == "domain" else self._inv.domain
        return region

    bijective: bool = quantity(lambda self: self._inv.bijective)
    sign: Any = quantity(lambda self: self._inv.sign)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def with_cache(self, cache_size: int = 1) -> Any:
        return self._inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    def __call__(self, x: Tensor) -> Any:
        return self._inv._inv_call(x)

    def _inv_call(self, y: Tensor) -> Any:
        return self._inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Size) -> Size:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Size) -> Size:
        return self._inv.forward_shape(shape)

    def __repr__(self) -> str:
        return f"_InverseTransform({self._inv!r})"


class ComposeTransform(Composite):
    """Composition of transforms, applied in the order of `parts`."""

    def __init__(self, parts: list[Any], cache_size: int = 0) -> None:
        if not all_instances(parts, Transform):
            raise refused(self, "parts", "be a list of Transforms", parts)
        self.parts: list[Transform] = parts
        super().__init__(cache_size)

    def _set_cache(self, cache_size: int) -> None:
        super()._set_cache(cache_size)
        if cache_size:
            self.parts = [part.with_cache(cache_size) for part in self.parts]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    def _region(self, name: str) -> Constraint:
        """Return the domain of the first part or the codomain of the last part, with enough event
        dimensions for all parts."""
        if not self.parts:
            return constraints.real
        parts, before, after = self.parts, "domain", "codomain"
        if name == "domain":
            parts, before, after = self.parts[::-1], after, before
        dim = getattr(parts[0], before).event_dim
        for part in parts:
            dim = max(dim - getattr(part, before).event_dim, 0) + getattr(part, after).event_dim
        region: Constraint = getattr(parts[-1], name)
        more = dim - region.event_dim
        return constraints.independent(region, more) if more > 0 else region

    bijective: bool = quantity(lambda self: all(part.bijective for part in self.parts))
    sign: Any = quantity(lambda self: math.prod(part.sign for part in self.parts))

    @property
    def inv(self) -> Transform:
        if self._inv is None:
            self._inv = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv._inv = self
        return self._inv

    def __call__(self, x: Tensor) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return zeros_like(x)
        xs = [x]
        for part in self.parts[:-1]:
            xs.append(part(xs[-1]))
        xs.append(y)
        total: Any = 0.0
        dim = self.domain.event_dim
        for part, before, after in zip(self.parts, xs, xs[1:]):
            log_det = part.log_abs_det_jacobian(before, after)
            total = total + sum_rightmost(log_det, dim - part.domain.event_dim)
            dim += part.codomain.event_dim - part.domain.event_dim
        made: Tensor = total
        return made

    def forward_shape(self, shape: Size) -> Size:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Size) -> Size:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        shown = ",\n    ".join(map(repr, self.parts))
        return f"ComposeTransform(\n    {shown}\n)"


class IndependentTransform(Composite):
    """`base_transform` with its last `reinterpreted_batch_ndims` batch dimensions as event
    dimensions."""

    def __init__(
        self, base_transform: Any, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        self.base_transform: Transform = base_transform
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(cache_size)

    def _set_cache(self, cache_size: int) -> None:
        super()._set_cache(cache_size)
        self.base_transform = self.base_transform.with_cache(cache_size)

    def _region(self, name: str) -> Constraint:
        of_base = getattr(self.base_transform, name)
        return constraints.independent(of_base, self.reinterpreted_batch_ndims)

    bijective: bool = quantity(lambda self: self.base_transform.bijective)
    sign: Any = quantity(lambda self: self.base_transform.sign)

    def _call(self, x: Tensor) -> Tensor:
        self._need_dims(x.shape, self.domain.event_dim)
        made: Tensor = self.base_transform(x)
        return made

    def _inverse(self, y: Tensor) -> Tensor:
        self._need_dims(y.shape, self.codomain.event_dim)
        made: Tensor = self.base_transform.inv(y)
        return made

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        log_det = self.base_transform.log_abs_det_jacobian(x, y)
        return sum_rightmost(log_det, self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Size) -> Size:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Size) -> Size:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class _Sequence(Composite):
    """Base class of transforms that apply one transform to each part along `dim`. A subclass splits
    and joins the parts."""

    transforms: list[Transform]
    dim: int

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        if not all_instances(tseq, Transform):
            raise refused(self, "tseq", "be a sequence of Transforms", tseq)
        self.transforms, self.dim = list(tseq), dim
        super().__init__(cache_size)

    def _set_cache(self, cache_size: int) -> None:
        super()._set_cache(cache_size)
        if cache_size:
            self.transforms = [t.with_cache(cache_size) for t in self.transforms]

    bijective: bool = quantity(lambda self: all(t.bijective for t in self.transforms))

    _parts: Any
    _joined: Any

    def _need_size(self, x: Tensor, size: int) -> None:
        if not -x.dim() <= self.dim < x.dim() or x.shape[self.dim] != size:
            raise refused(self, "x", f"have size {size} in dimension {self.dim}", x)

    def _call(self, x: Tensor) -> Tensor:
        made: Tensor = self._joined([t(part) for t, part in zip(self.transforms, self._parts(x))])
        return made

    def _inverse(self, y: Tensor) -> Tensor:
        parts = zip(self.transforms, self._parts(y))
        made: Tensor = self._joined([t.inv(part) for t, part in parts])
        return made

    def _log_dets(self, x: Tensor, y: Tensor) -> list[Tensor]:
        parts = zip(self.transforms, self._parts(x), self._parts(y))
        return [t.log_abs_det_jacobian(a, b) for t, a, b in parts]


class CatTransform(_Sequence):
    """Transform of consecutive parts of the input along `dim`, with one transform for each part.
    `lengths` are the sizes of the parts. `gt.cat` joins the results."""

    lengths: list[int]

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise refused(self, "lengths", f"be {len(self.transforms)} numbers", self.lengths)

    event_dim: int = quantity(lambda self: max(t.event_dim for t in self.transforms))
    length: int = quantity(lambda self: sum(self.lengths))

    def _region(self, name: str) -> Constraint:
        return constraints.cat([getattr(t, name) for t in self.transforms], self.dim, self.lengths)

    def _parts(self, x: Tensor) -> Sequence[Tensor]:
        self._need_size(x, self.length)
        return x.split(self.lengths, self.dim)

    def _joined(self, parts: list[Any]) -> Tensor:
        return cat(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        pairs = zip(self._log_dets(x, y), self.transforms)
        parts = [sum_rightmost(p, self.event_dim - t.event_dim) for p, t in pairs]
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + self.event_dim
        return cat(parts, dim) if dim < 0 else sum(parts[1:], start=parts[0])


class StackTransform(_Sequence):
    """Transform of the slices of the input along `dim`, with one transform for each slice.
    `gt.stack` joins the results."""

    def _region(self, name: str) -> Constraint:
        return constraints.stack([getattr(t, name) for t in self.transforms], self.dim)

    def _parts(self, x: Tensor) -> Sequence[Tensor]:
        self._need_size(x, len(self.transforms))
        return x.unbind(self.dim)

    def _joined(self, parts: list[Any]) -> Tensor:
        return stack(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return stack(self._log_dets(x, y), self.dim)

"""Code that families of views share: view kernels that are made from rules, and the cache of views
in each geometry.

A rule returns the view's geometry, given a geometry and the arguments. Its result is cached on the
given geometry, so a repeated view costs only a look-up. The index of select and the start of slice
are not part of the key, because they only change the offset.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._generated import operators
from ..core.arguments import exact
from ..core.errors import plainly
from ..core.geometry import Geometry, Sizes, geometry
from ..dispatch.shortcuts import Seen
from ..tensor.tensor import Tensor, blank
from .shortcuts import views as short_view

Kernel = Callable[..., Any]
MEMO_BOUND = 1 << 12


def view_kernel(op: str, rule: Callable[..., Geometry], overload: str = "") -> Kernel:
    """Make the kernel of a view operator that keeps the offset. overload: the name of the operator,
    if it is not `op`."""
    operator: Any = None

    def kernel(key_set: int, self: Tensor, *args: Any) -> Tensor:
        nonlocal operator
        shape = self._geometry
        try:
            seen = shape.views[op, *map(exact, args)] if args else shape.views[(op,)]
        except (KeyError, TypeError):  # The rule is not cached, or an argument is a list.
            operator = getattr(operators, overload or op)
            seen = plainly(remember, shape, op, args, lambda *a: Seen(rule(*a)))
        else:
            table = operator.table
            if seen.short is not table.short:
                short_view.learn(table, kernel, (shape, *args) if args else shape, seen, self)
        wanted = seen.value
        # The call of `view_of` is inlined (bench/host/overhead.py).
        storage = self._storage
        if storage is None:
            storage = self._get_storage()
        view = blank()
        view._geometry = wanted
        view._keys = self._keys
        view._device = self._device
        view._storage = storage
        view._offset = self._offset
        view._array = view._autograd = None
        return view

    kernel.__name__ = kernel.__qualname__ = op
    return kernel


def remember(shape: Geometry, op: str, args: tuple[Any, ...], rule: Callable[..., Any]) -> Any:
    args = tuple([tuple(a) if isinstance(a, list) else a for a in args])
    wanted = rule(shape, *args)
    if len(shape.views) >= MEMO_BOUND:
        shape.views.clear()
    shape.views[op, *map(exact, args)] = wanted
    return wanted


def seen(shape: Geometry, key: Any) -> Seen | None:
    """Return the cache entry for a key, or None if this call adds the entry. The entry has no
    geometry: it is used only to decide when a short cut is stored."""
    found: Seen | None = shape.views.get(key)
    if found is None:
        if len(shape.views) >= MEMO_BOUND:
            shape.views.clear()
        shape.views[key] = Seen(None)
    return found


def like(shape: Geometry, sizes: Sizes, strides: Sizes) -> Geometry:
    return geometry(sizes, strides, shape.dtype)

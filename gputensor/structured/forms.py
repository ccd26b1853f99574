"""Kernels that call another operator: in-place and out forms, copies of views, overloads that lack
an argument, and functional forms of in-place operators. They run on every device. Most of them copy
a result. A family with its own loops writes to `out` directly, without the copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._generated import calls, operators
from ..core import errors
from ..core.memory_format import contiguous_format, memory_format, preserve_format
from ..core.device import CPU
from ..core.promotion import can_cast
from ..dispatch.keys import BELOW_ADINPLACEORVIEW
from ..dispatch.operator import Operator
from ..dispatch.shortcuts import BELOW, CPU as CPU_CALL, jumps, learner
from ..iterator import overlap
from ..tensor.tensor import Tensor
from .shortcuts import indexed
from .transfer import resize_output

Kernel = Callable[..., Any]


def given(kernel: Any, **values: Any) -> Kernel:
    """Make the kernel of an overload that lacks some arguments. It calls `kernel`, which has all
    arguments. values: the fixed values of the arguments that the overload lacks."""
    _, *names = kernel.__code__.co_varnames
    places = sorted([(names.index(name), value) for name, value in values.items()])
    front = tuple([value for _, value in places])

    def with_front(key_set: int, *args: Any) -> Any:
        return kernel(key_set, *front, *args)

    def shorter(key_set: int, *args: Any) -> Any:
        full = list(args)
        for place, value in places:
            full.insert(place, value)
        return kernel(key_set, *full)

    is_front = [place for place, _ in places] == [*range(len(places))]
    made = with_front if is_front else shorter
    made.__module__ = kernel.__module__  # The module of a kernel gives its family.
    return made


def copy(of: Operator) -> Kernel:
    """Make the kernel of a `_copy` operator, which copies the view that `of` returns to new
    row-major memory. Source: torchgen's gen_functionalization_type.py,
    gen_composite_view_copy_kernel."""

    def kernel(key_set: int, *args: Any) -> Any:
        key_set &= BELOW_ADINPLACEORVIEW  # No other code can access the view: do not track it.
        found = of.redispatch_table[key_set](key_set, *args)
        if isinstance(found, Tensor):
            return _row_major_clone(found)
        return tuple([_row_major_clone(x) for x in found])

    return kernel


def _row_major_clone(x: Tensor) -> Tensor:
    """Return a row-major copy. If x is row-major, a plain clone gives this layout and has a short
    cut."""
    return calls.clone(x) if x._geometry.is_row_major else calls.clone(x, contiguous_format)


def inplace(of: Operator) -> Kernel:
    """Make an in-place kernel, which copies the result of `of` into self."""

    def kernel(key_set: int, self: Tensor, *args: Any) -> Tensor:
        op = f"{of.short_name}_"
        overlap.check_itself(op, self, "self")
        read = self
        if key_set & ~BELOW_ADINPLACEORVIEW and self.requires_grad:
            # Derivatives need the elements that self has before the write.
            read = calls.clone(self)
        made = of.redispatch_table[key_set](key_set, read, *args)
        shape = made._geometry
        if shape.sizes != self._geometry.sizes:
            raise errors.wrong_shape(op, "self", f"have the result's sizes {shape.sizes}", self)
        if not can_cast(shape.dtype, self._geometry.dtype):
            rule = f"have a dtype that {shape.dtype.short} casts to"
            raise errors.wrong_dtype(op, "self", rule, self)
        operators.copy_.redispatch_table[key_set](key_set, self, made, False)
        return self

    return kernel


def out(of: Operator, count: int = 1) -> Kernel:
    """Make an out kernel, which copies the result of `of` into `out`. `out` must have the result's
    dtype and device. If `of` is a factory, it is called with the dtype and device of `out`."""
    names = [argument.name for argument in of.schema.arguments]
    options = names[names.index("dtype") :] if "pin_memory" in names else []

    def kernel(key_set: int, *args: Any) -> Any:
        targets = args[-count:]
        for target in targets:
            overlap.check_itself(of.short_name, target)
        given = args[:-count]
        if options:
            own = {"dtype": targets[0]._geometry.dtype, "device": targets[0]._device}
            given += tuple([own.get(name) for name in options])
        made = of.redispatch_table[key_set](key_set, *given)
        results = (made,) if count == 1 else made
        for target, result in zip(targets, results):
            _check_takes(of.short_name, target, result)
        for target, result in zip(targets, results):
            if target._geometry.sizes != result._geometry.sizes:
                resize_output(of.short_name, target, result._geometry)
            operators.copy_.redispatch_table[key_set](key_set, target, result, False)
        return targets[0] if count == 1 else targets

    return kernel


def _check_takes(op: str, target: Tensor, result: Tensor) -> None:
    element = result._geometry.dtype
    if target._geometry.dtype is not element:
        raise errors.wrong_dtype(op, "out", f"have the result's dtype {element.short}", target)
    if target._device is not result._device:
        raise errors.mixed_devices(op, result, "the result", target, "out")


# --- factories for families that implement only the in-place form ---------------------------------
# A family assigns them to its own names: `functional = forms.functional`.


def functional(operator: Operator, loop: str) -> Kernel:
    """Make the functional kernel, which copies self to row-major memory and calls the in-place form
    on the copy."""
    return _of_inplace(operator, contiguous_format)


def kept_functional(operator: Operator, loop: str) -> Kernel:
    """Like `functional`, but the copy has the layout of self."""
    return _of_inplace(operator, preserve_format)


def out_of_functional(operator: Operator, loop: str) -> Kernel:
    """Make the out kernel, which copies the functional form's result to `out`. So `out` is
    unchanged if an error is raised."""
    base, overload = operator.short_name, operator.overload
    return out(_named(base, overload.removesuffix("out").removesuffix("_")))


def _of_inplace(operator: Operator, layout: memory_format) -> Kernel:
    base, overload = operator.short_name, operator.overload
    writes = _named(f"{base}_", overload)

    def kernel(key_set: int, self: Tensor, *rest: Any) -> Tensor:
        table = operator.table
        made = calls.clone(self) if layout is preserve_format else _row_major_clone(self)
        into_new(writes, key_set, made, *rest)
        if made._device is CPU:
            indexed.learn_functional(table, kernel, (self, *rest), made, writes.table)
        return made

    jumps(kernel, lambda: (
        (operators.clone, CPU_CALL, "copy.clone"),
        (writes, BELOW, learner(writes.table, BELOW) or ""),
    ))  # fmt: skip
    return kernel


def into_new(writes: Operator, key_set: int, made: Tensor, *rest: Any) -> Tensor:
    """Call an in-place operator on a new tensor. The write is not counted, so the tensor's version
    stays 0."""
    shapes = (made._geometry, *[x._geometry for x in rest if isinstance(x, Tensor)])
    short = writes.table.short.get(shapes if len(shapes) > 1 else shapes[0])
    if short is not None and short(made, *rest) is not None:
        made._get_storage().version = 0
        return made
    key_set &= BELOW_ADINPLACEORVIEW
    writes.redispatch_table[key_set](key_set, made, *rest)
    return made


def _named(base: str, overload: str) -> Operator:
    found: Operator = getattr(operators, f"{base}_{overload}" if overload else base)
    return found

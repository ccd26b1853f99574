"""Short cuts of pointwise operators on the CPU: see Note [Short cuts] in dispatch.

codegen/short_cuts/forms.py writes the forms, which are the most frequently called functions of the
project. Each short cut is for one entry. For plain tensors of the entry's geometries, it does in
one frame the work of the public function, of the kernels in between, and of the backend's kernel.
computed.py has the short cuts of operators with other arguments than operands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy import floating, ufunc

from .._generated import short_forms as forms
from ...core import number_range
from ...core.arguments import NUMBERS, ONE
from ...core.dtype import FLOATING
from ...dispatch import shortcuts
from ...dispatch.operator import Table
from ...dispatch.shortcuts import FUSED, LONG, ShortCut
from ...dispatch.tls import BELOW, PLAIN, state
from ...kernels.cpu.quiet import again, enter
from ...tensor.make import CPU_KEYS, from_array
from .computed import Around, around, fits

_now = state.get


def learn(table: Table, kernel: Callable[..., Any], key: Any, entry: Any) -> None:
    """Store the short cut of the functional form for operands that have this entry."""
    entry.is_fresh = False
    if not fits(entry):
        return
    loop, geometry, values = entry.loop, entry.geometry, len(key) if type(key) is tuple else 1
    behind = (ONE,) * (len(table.operator.schema.arguments) - values)
    make: Callable[..., ShortCut]
    if values == 1:
        make = forms.unary
    elif isinstance(key[0], type):
        if entry.numpy_allocates:
            found = _number_first(loop, geometry, around(table, behind))
            shortcuts.learn(table, kernel, key, found)
        return
    else:
        make = forms.with_number if isinstance(key[1], type) else forms.binary
    if not entry.numpy_allocates:
        loop = (forms.into_1, forms.into_2)[values - 1](loop, geometry)
    recorded = (*around(table, behind), _fused(table, key, behind))
    if make is forms.with_number and (element := _element(entry.loop, key)) is not None:
        found = forms.with_element(loop, geometry, recorded, element)
    else:
        found = make(loop, geometry, recorded)
    shortcuts.learn(table, kernel, key, found)


def _number_first(loop: Any, geometry: Any, recorded: Around) -> ShortCut:
    """Return the short cut for calls with a number as the first operand and a tensor as the
    second."""
    begin, finish = recorded

    def short(self: Any, other: Any) -> Any:
        now, node = _now(), None
        if other._keys is not CPU_KEYS or now is not PLAIN and now is not BELOW:
            return None
        if other._autograd is not None and now is not BELOW:
            if (node := begin(self, other)) is LONG:
                return None
        x = other._array
        if x is None:
            x = other._get_array()
        try:
            array = enter(loop, self, x)
        except RuntimeError as error:
            array = again(error, loop, self, x)
        except OverflowError:
            return None  # the full dispatch raises the error, which names the number
        tensor = from_array(array, geometry)
        return tensor if node is None else finish(tensor, node)

    return short


def _fused(table: Table, key: Any, behind: tuple[Any, ...]) -> list[Any]:
    """Return a list [function, behind]. In a block of `gt.fuse`, a short cut calls this function.
    At first, it calls the table's kernel. Later, `_Known` in fusion/record/quick.py puts a function
    for these operands in its place."""

    def first(*operands: Any) -> Any:
        kernel = table[FUSED]
        told = getattr(kernel, "told", None)
        if told is None:
            return kernel(FUSED, *operands, *behind)
        return told(found, key, operands, FUSED, *operands, *behind)

    found: list[Any] = [first, behind]
    return found


def _element(loop: Any, key: tuple[Any, type]) -> Any:
    """Return the NumPy dtype to which a loop casts a number of this type. Return None if the dtype
    depends on the number's value.

    key: the geometry of the first operand, and the type of the number.
    """
    element = key[0].dtype.np
    if type(loop) is not ufunc or key[1] is bool or not issubclass(element.type, floating):
        return None
    found = loop.resolve_dtypes((element, key[1], None))
    return element if found[:2] == (element, element) else None


def learn_inplace(table: Table, kernel: Callable[..., Any], key: Any, entry: Any) -> None:
    """Store the short cut of the in-place form."""
    entry.is_fresh = False
    if entry.block or not entry.geometry.numel:
        return
    if type(key) is not tuple:
        found = forms.unary_inplace(entry.loop)
    elif not isinstance(key[1], type):
        found = forms.inplace(entry.loop)
    elif (element := _element(entry.loop, key)) is not None:
        found = forms.inplace_element(entry.loop, element)
    else:
        found = forms.inplace_number(entry.loop)
    shortcuts.learn(table, kernel, key, found)


def learn_out(
    table: Table, kernel: Callable[..., Any], entry: Any, inputs: tuple[Any, ...], out: Any
) -> None:
    """Store the short cut of an out form whose `out` keeps its sizes and is not an input, or of an
    in-place operator of one operand."""
    if entry.seen is None:  # this is the first call with the entry
        entry.seen = True
        return
    entry.is_fresh = False
    if len(inputs) == 1 and inputs[0] is out:
        learn_inplace(table, kernel, out._geometry, entry)
        return
    kinds = [type(x) if type(x) in NUMBERS else x._geometry for x in inputs]
    if entry.block or not entry.geometry.numel or any([x is out for x in inputs]):
        return
    if isinstance(kinds[0], type):
        return
    make = forms.out_1 if len(kinds) == 1 else forms.out_2
    if isinstance(kinds[-1], type):
        make = forms.out_number
    shortcuts.learn(table, kernel, (*kinds, out._geometry), make(entry.loop))


def learn_scaled(
    table: Table, kernel: Callable[..., Any], loop: str, self: Any, other: Any,
    is_inplace: bool = False,
) -> None:  # fmt: skip
    """Store the short cut of `add(other, alpha=x)` or of `add_`. loop: the loop's name in the
    plan's key."""
    shapes = (self._geometry, other._geometry)
    place = (shapes[0], True, shapes[1]) if is_inplace else (None, *shapes)
    entry = table.plans.get((loop, *place))
    if entry is None or entry.block or not entry.geometry.numel:
        return
    common = entry.plan.common_dtype
    if entry.is_fresh:
        entry.is_fresh = False
    elif common.category == FLOATING and (*shapes, float) not in table.short:
        largest = number_range.largest_float(common)
        if is_inplace:
            made = forms.scaled_inplace(entry.loop, largest)
        elif entry.numpy_allocates:
            made = forms.scaled(entry.loop, entry.geometry, largest)
        else:
            return
        shortcuts.learn(table, kernel, (*shapes, float), made)

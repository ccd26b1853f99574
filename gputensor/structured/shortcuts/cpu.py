"""Short cuts of calls on the CPU. See Note [Short cuts] in dispatch.

They serve elementwise operators and others that compute a new tensor by one loop: products,
reductions, scans, softmax. codegen/emit_short.py writes the forms, the hottest functions of the
project: each is bound to one entry and does in one frame the work of the public function, the
kernels in between and the backend's kernel, for plain tensors of these geometries.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any

from numpy import empty, floating, ufunc

from ..._generated import short_forms as forms
from ...dispatch import shortcuts
from ...dispatch.operator import Table
from ...dispatch.shortcuts import LONG, Seen, ShortCut
from ...dispatch.tls import PLAIN, state
from ...core import number_range
from ...core.arguments import NUMBERS, ONE
from ...core.device import CPU
from ...core.dtype import FLOATING, dtype
from ...core.geometry import Geometry
from ...kernels.cpu.quiet import run
from ...tensor.make import CPU_KEYS, is_plain

_now = state.get


def learn(table: Table, kernel: Callable[..., Any], key: Any, entry: Any) -> None:
    """Leave the functional form's short cut for the operands that an entry was made of."""
    entry.is_fresh = False
    if not fits(entry):
        return
    loop, geometry, values = entry.loop, entry.geometry, len(key) if type(key) is tuple else 1
    make: Callable[..., ShortCut]
    if values == 1:
        make = forms.unary
    elif isinstance(key[0], type):
        return
    else:
        make = forms.with_number if isinstance(key[1], type) else forms.binary
    if not entry.numpy_allocates:
        loop = (forms.into_1, forms.into_2)[values - 1](loop, geometry)
    behind = (ONE,) * (len(table.operator.schema.arguments) - values)
    around = (*_around(table, behind), table, bool(behind))
    if make is forms.with_number and (element := _element(entry.loop, key)) is not None:
        found = forms.with_element(loop, geometry, around, element)
    else:
        found = make(loop, geometry, around)
    shortcuts.learn(table, kernel, key, found)


def _element(loop: Any, key: tuple[Any, type]) -> Any:
    """NumPy's dtype that a loop takes a number of this type in; None if that depends on more.

    key: the geometry of the first operand, and the type of the number.
    """
    element = key[0].dtype.np
    if type(loop) is not ufunc or key[1] is bool or not issubclass(element.type, floating):
        return None
    found = loop.resolve_dtypes((element, key[1], None))
    return element if found[:2] == (element, element) else None


def fits(entry: Any) -> bool:
    """True if NumPy allocates a plan's result in the planned layout."""
    geometry = entry.geometry
    return entry.numpy_allocates or not (
        entry.block or not geometry.numel or not geometry.in_numpy
    )  # fmt: skip


def learn_inplace(table: Table, kernel: Callable[..., Any], key: Any, entry: Any) -> None:
    """Leave the in-place form's."""
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
    """Leave the out form's, where `out` keeps its sizes and is none of the inputs."""
    if entry.seen is None:  # no call has found it yet
        entry.seen = True
        return
    entry.is_fresh = False
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
    """Leave that of `add(other, alpha=x)` or of `add_`, for any float x. loop: the name that the
    plan has."""
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


# --- what autograd does around a call ---------------------------------------------------------
# For operands that require grad a short cut records, as Autograd's kernel does. Below autograd,
# within a recorded call or a derivative, it records nothing (`tls.BELOW`).

# begin(*operands): None to record nothing, LONG for the full dispatch, or a node; finish(result,
# node) attaches it to the result.
Around = tuple[Callable[..., Any], Callable[..., Any] | Any]


def _around(table: Table, behind: tuple[Any, ...]) -> Around:
    """behind: the arguments after the operands."""
    return shortcuts.recording(table, behind) or (_only_plain, None)


def _only_plain(*operands: Any) -> Any:
    return None if all([type(x) in NUMBERS or is_plain(x) for x in operands]) else LONG


# --- what stands beside the operands --------------------------------------------------------------
# Params repeat from call to call: a short cut is for the objects it was made with. As programs use
# several sets of params, it calls the previously made short cut for other params.

# Types allowed in a short cut: immutable ones.
_KEPT = NUMBERS | {type(None), str, dtype}
# For one, two and three operands: the form, and its number of params.
_FORMS = ((forms.one, 3), (forms.two, 2), (forms.three, 2))
_LONGEST = 4  # the maximum length of a sequence of short cuts; the next one starts a new sequence


def _long_way(*args: Any) -> None:
    """Behind the last short cut."""


def learn_beside(
    table: Table, kernel: Callable[..., Any], args: tuple[Any, ...], make: Callable[..., Any],
    unsaid: tuple[Any, ...] = (),
) -> None:  # fmt: skip
    """Store the short cut of make(number of operands, params, otherwise) for calls with these
    arguments: first tensors, then numbers and params. unsaid: arguments after these, which short
    cuts never get."""
    count = next((n for n, x in enumerate(args) if not hasattr(x, "_keys")), len(args))
    params = args[count:]
    if table.learners.get("cpu") is not kernel or not all(map(is_kept, params)):
        return
    places = [a.type.has_tensor for a in table.operator.schema.arguments]
    if not all(places[:count]):  # a 0-d tensor replaces a number
        return
    shapes = [
        x._geometry if hasattr(x, "_keys") else type(x)
        for x, has_tensor in zip(args, places) if has_tensor
    ]  # fmt: skip
    key = shapes[0] if len(shapes) == 1 else tuple(shapes)
    behind: Any = shortcuts.left(table, key)
    depth = 0 if behind is None else getattr(behind, "depth", 1)
    if depth == _LONGEST:
        behind, depth = None, 0
    around = _around(table, (*params, *unsaid))
    found = make(count, params, behind or _long_way, around)
    if found is not None:
        if depth:
            found.depth = depth + 1
        shortcuts.learn(table, kernel, key, found)


def is_kept(x: Any) -> bool:
    """True if a short cut may keep a param, because it is immutable."""
    return type(x) in _KEPT or type(x) is tuple and all([type(n) is int for n in x])


def computed(entry: Any, inputs: tuple[Any, ...], beside: tuple[Any, ...]) -> Callable[..., Any]:
    """make(...) for `learn_beside`: an entry's loop with its arguments other than arrays."""
    geometry = entry.geometry
    loop, numbers = entry.loop, tuple([x for x in inputs if type(x) in NUMBERS])
    behind = (*numbers, *beside, None)
    bare = getattr(loop, "bare", None)
    if not entry.numpy_allocates:
        loop, behind = _into(loop, geometry), behind[:-1]
    elif bare is not None:
        loop, behind = bare(len(inputs) - len(numbers), behind[:-1])

    def make(
        count: int, params: tuple[Any, ...], otherwise: ShortCut, around: Around
    ) -> ShortCut | None:
        if not fits(entry) or count > len(_FORMS) or len(params) > _FORMS[count - 1][1]:
            return None
        return _FORMS[count - 1][0](loop, behind, geometry, params, otherwise, around)

    return make


def computed_inplace(
    entry: Any, inputs: tuple[Any, ...], beside: tuple[Any, ...]
) -> Callable[..., Any]:
    """make(...) of an in-place form, which writes to the first operand."""
    loop = entry.loop
    behind = (*[x for x in inputs if type(x) in NUMBERS], *beside)

    def make(
        count: int, params: tuple[Any, ...], otherwise: ShortCut, around: Around
    ) -> ShortCut | None:
        if entry.block or not entry.geometry.numel:
            return None

        # Not written out for each number of operands, which would save only a tenth of what this
        # saves.
        def short(self: Any, *rest: Any) -> Any:
            others = rest[: count - 1]
            if not all(map(is_, rest[count - 1 :], params)):
                return otherwise(self, *rest)
            if self._keys is not CPU_KEYS or _now() is not PLAIN:
                return None
            if self._autograd is not None and not forms.may_write(self):
                return None
            storage = self._storage
            if storage is None:
                storage = self._get_storage()
            for other in others:
                theirs = other._storage
                if (
                    other._keys is not CPU_KEYS
                    or other._autograd is not None and not is_plain(other)
                    or theirs is storage or storage.may_alias
                    or theirs is not None and theirs.may_alias
                ):  # fmt: skip
                    return None
            x = self._get_array()
            arrays = [other._get_array() for other in others]
            run(loop, x, *arrays, *behind, x)
            storage.version += 1
            return self

        return short

    return make


def made_by(loop: Callable[..., Any], geometry: Any) -> Callable[..., Any]:
    """make(...) for `learn_beside`: loop(*arrays, out) over a new array."""
    return made_of(_into(loop, geometry), geometry)


def made_of(loop: Callable[..., Any], geometry: Any) -> Callable[..., Any]:
    """make(...) for `learn_beside`: loop(*arrays) returns the result's array."""

    def make(count: int, params: tuple[Any, ...], otherwise: ShortCut, around: Around) -> ShortCut:
        return _FORMS[count - 1][0](loop, (), geometry, params, otherwise, around)

    return make


def reduction(loop: Any, behind: tuple[Any, ...], geometry: Any) -> Callable[..., Any]:
    """make(...) for `learn_beside`: loop(x, *behind[:2], out, *behind[2:]) over a new array."""

    def make(count: int, params: tuple[Any, ...], otherwise: ShortCut, around: Around) -> ShortCut:
        return forms.reduction(loop, behind, geometry, params, otherwise, around)

    return make


def learn_again(
    table: Table, kernel: Callable[..., Any], args: tuple[Any, ...], made: Any,
    loop: Callable[..., Any], unsaid: tuple[Any, ...] = (),
) -> None:  # fmt: skip
    """Leave loop(*arrays, out) over a new tensor like `made`, of a kernel that has no plans, where
    a call with these arguments came before. table: as in `shortcuts.learn`."""
    _learn_made(table, kernel, args, made, made_by(loop, made._geometry), unsaid)


def learn_given(
    table: Table, kernel: Callable[..., Any], args: tuple[Any, ...], made: Any,
    loop: Callable[..., Any],
) -> None:  # fmt: skip
    """The same where loop(*arrays) gives the array of the result, laid out as `made`."""
    _learn_made(table, kernel, args, made, made_of(loop, made._geometry), ())


def learn_reduction(
    table: Table, kernel: Callable[..., Any], args: tuple[Any, ...], made: Any,
    loop: Callable[..., Any], behind: tuple[Any, ...], unsaid: tuple[Any, ...] = (),
) -> None:  # fmt: skip
    """Store a short cut for a loop of the kind of `reduction`."""
    _learn_made(table, kernel, args, made, reduction(loop, behind, made._geometry), unsaid)


def _learn_made(
    table: Table, kernel: Callable[..., Any], args: tuple[Any, ...], made: Any,
    make: Callable[..., Any], unsaid: tuple[Any, ...],
) -> None:  # fmt: skip
    if table.learners.get("cpu") is not kernel or made._device is not CPU:
        return
    shape = made._geometry
    if not shape.nbytes or not shape.in_numpy:
        return
    if _comes_again(table, kernel, args):
        learn_beside(table, kernel, args, make, unsaid)


def learn_forward(
    table: Table, kernel: Callable[..., Any], args: tuple[Any, ...], to: Table,
    behind: tuple[Any, ...],
) -> None:  # fmt: skip
    """Store a short cut for a composite that calls one operator with its operand and `behind`,
    using that operator's short cut. `kernel` declares the jump with `jumps`."""
    found = shortcuts.left(to, args[0]._geometry)
    if found is None or not all(map(is_kept, behind)) or not _comes_again(table, kernel, args):
        return
    inner = found

    def make(count: int, params: tuple[Any, ...], otherwise: ShortCut, around: Around) -> ShortCut:
        a0, b0, c0 = (*params, None, None, None)[:3]

        def short(self: Any, a: Any = None, b: Any = None, c: Any = None) -> Any:
            if a is not a0 or b is not b0 or c is not c0:
                return otherwise(self, a, b, c)
            return inner(self, *behind)

        return short

    learn_beside(table, kernel, args, make)


def learn_cast(
    table: Table, kernel: Callable[..., Any], key: Any, copy: Callable[..., Any],
    geometry: Geometry, behind: tuple[Any, ...],
) -> None:  # fmt: skip
    """Leave that of copy(array, x) into a new row-major array. behind: all arguments behind x."""
    sizes, element = geometry.sizes, geometry.dtype.np

    def cast(x: Any) -> Any:
        array = empty(sizes, element)
        copy(array, x)
        return array

    around = _around(table, behind)
    shortcuts.learn(table, kernel, key, forms.one(cast, (), geometry, (), _long_way, around))


def _comes_again(table: Table, kernel: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    """True if an equal call of plain tensors and kept params came before and stored no short
    cut."""
    if table.learners.get("cpu") is not kernel:
        return False
    parts = [x._geometry if hasattr(x, "_keys") else x for x in args]
    if not all([type(x) is Geometry or is_kept(x) for x in parts]):
        return False
    key = (_comes_again, *parts, *map(type, parts))  # 1, 1.0 and True are equal
    known: Seen | None = table.plans.get(key)
    if known is None:
        table.remember(key, Seen(None))
    elif known.short is not table.short:
        known.short = table.short
        return True
    return False


def _into(loop: Any, geometry: Any) -> Callable[..., Any]:
    sizes, element = geometry.sizes, geometry.dtype.np

    def into(*values: Any) -> Any:
        array = empty(sizes, element)
        loop(*values, array)
        return array

    return into

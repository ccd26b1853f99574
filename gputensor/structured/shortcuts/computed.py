"""Short cuts of CPU calls that have params as well as operands: see Note [Short cuts] in dispatch.

They are for operators that compute a new tensor by one loop: products, reductions, scans, softmax,
and pointwise operators with params. A short cut is made for the params of one call, because most
calls repeat their params. For other params, it calls the short cut that was stored before it.

A maker is a function make(number of operands, params, otherwise, around) that returns the short cut
for these params, or None. otherwise: the short cut to call for other params.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import is_
from typing import Any

from numpy import empty, may_share_memory, ndarray

from .._generated import short_forms as forms
from ...core.arguments import NUMBERS, are_equal
from ...core.device import CPU, device
from ...core.dtype import dtype
from ...core.geometry import Geometry
from ...dispatch import shortcuts
from ...dispatch.backend_select import TENSOR_KEYS
from ...dispatch.operator import Table
from ...dispatch.shortcuts import LONG, Seen, ShortCut
from ...dispatch.tls import BELOW, PLAIN, state
from ...kernels import stub
from ...kernels.cpu.quiet import run
from ...runtime import cpu
from ...tensor.make import CPU_KEYS, is_plain

# A pair (begin, finish). begin(*operands) returns a node, None if autograd records nothing, or LONG
# if the full dispatch is needed. finish(result, node) attaches the node to the result.
Around = tuple[Callable[..., Any], Callable[..., Any] | Any]
Maker = Callable[[int, tuple[Any, ...], ShortCut, Around], ShortCut | None]
_now = state.get

# The types of params that a short cut may keep. All of them are immutable.
_KEPT = NUMBERS | {type(None), str, dtype}
# For calls with 1, 2 and 3 operands: a function that makes the short cut, and the maximum number of
# params that it supports.
_FORMS = ((forms.one, 3), (forms.two, 2), (forms.three, 2))
_LONGEST = 4  # When a sequence of short cuts has this length, a new one begins.


def around(table: Table, behind: tuple[Any, ...], place: str = "cpu") -> Around:
    """Return the pair of functions with which a short cut records a call if an operand requires
    grad. They do what the Autograd kernel does. Short cuts do not call them below autograd
    (`tls.BELOW`), that is, in a recorded call or in a derivative.

    behind: the arguments after the operands. place: the device type of the operands.
    """
    return shortcuts.recording(table, behind, place) or (only_plain, None)


def only_plain(*operands: Any) -> Any:
    return None if all([type(x) in NUMBERS or is_plain(x) for x in operands]) else LONG


def is_kept(x: Any) -> bool:
    """Return True if a short cut may keep a param, because the param is immutable."""
    return type(x) in _KEPT or type(x) is tuple and all([type(n) in (int, bool) for n in x])


def fits(entry: Any) -> bool:
    """Return True if NumPy allocates a plan's result in the planned layout."""
    geometry = entry.geometry
    return entry.numpy_allocates or not (
        entry.block or not geometry.numel or not geometry.in_numpy
    )  # fmt: skip


# --- storing a short cut --------------------------------------------------------------------------


def learn(
    table: Table, kernel: Callable[..., Any], args: tuple[Any, ...], make: Maker | None,
    unsaid: tuple[Any, ...] = (), at: device = CPU,
) -> None:  # fmt: skip
    """Store the short cut that a maker returns, for calls with the arguments `args`: tensors first,
    then numbers and params. unsaid: the arguments after `args`, which calls of the short cut omit.
    at: the device of the tensors."""
    count = next((n for n, x in enumerate(args) if not hasattr(x, "_keys")), len(args))
    params = args[count:]
    is_here = count and table.learners.get(at.type) is kernel and args[0]._device is at
    if make is None or not is_here:
        return
    places = [a.type.has_tensor for a in table.operator.schema.arguments]
    # The first test also fails if a 0-d tensor is passed in place of a number.
    if not all(places[:count]) or not all(map(is_kept, params)):
        return
    shapes = [
        x._geometry if hasattr(x, "_keys") else type(x)
        for x, has_tensor in zip(args, places) if has_tensor
    ]  # fmt: skip
    key = shapes[0] if len(shapes) == 1 else tuple(shapes)
    store(
        table,
        kernel,
        key,
        lambda before: make(count, params, before, around(table, (*params, *unsaid))),
        at,
    )


def store(
    table: Table, kernel: Callable[..., Any], key: Any, make: Callable[[ShortCut], Any],
    at: device = CPU,
) -> None:  # fmt: skip
    """Store a short cut under its key, for operands on the device `at`. make(earlier short cut)
    returns the new short cut, or None. For other params, the new short cut calls the earlier one.
    """
    before: Any = shortcuts.left(table, key, at)
    depth = 0 if before is None else getattr(before, "depth", 1)
    if depth == _LONGEST:
        before, depth = None, 0
    found: Any = make(before or long_way)
    if found is not None:
        if depth:
            found.depth = depth + 1
        shortcuts.learn(table, kernel, key, found, at)


def long_way(*args: Any) -> None:
    """Return None, so that the full dispatch is used. This function is the end of each sequence of
    short cuts."""


def learn_again(
    table: Table, kernel: Callable[..., Any], args: tuple[Any, ...], make: Maker | None,
    unsaid: tuple[Any, ...] = (), at: device = CPU,
) -> None:  # fmt: skip
    """Like `learn`, for a kernel without plans. The short cut is stored if an earlier call had
    these arguments. table: as in `shortcuts.learn`."""
    if make is not None and comes_again(table, kernel, args, at):
        learn(table, kernel, args, make, unsaid, at)


def learn_forward(
    table: Table, kernel: Callable[..., Any], args: tuple[Any, ...], to: Table,
    behind: tuple[Any, ...],
) -> None:  # fmt: skip
    """Store a short cut for a composite kernel that only calls one other operator, with its own
    operand and the arguments `behind`. The short cut calls the other operator's short cut. to: the
    other operator's table. `jumps` must declare that `kernel` makes this call."""
    place = args[0]._device
    inner = shortcuts.left(to, args[0]._geometry, place)
    if inner is not None and all(map(is_kept, behind)):
        learn_again(table, kernel, args, _forwarding(inner, behind), at=place)


def learn_calling(
    table: Table, kernel: Callable[..., Any], args: tuple[Any, ...], call: Callable[..., Any]
) -> None:
    """Store a short cut for a composite kernel that, for these layouts and params, only calls
    operators. call(*args): does this without checks, or returns None for the full dispatch. The key
    of the short cut has all tensors, and None for each tensor that is missing."""
    keys, place = args[0]._keys, args[0]._device
    if keys is not TENSOR_KEYS[place.type] or not comes_again(table, kernel, args, place):
        return
    arguments = zip(args, table.operator.schema.arguments)
    given = [x for x, argument in arguments if argument.type.has_tensor]
    key = tuple([None if x is None else x._geometry for x in given])
    tensors = [n for n, x in enumerate(args) if hasattr(x, "_keys")]
    params = [(n, x) for n, x in enumerate(args) if not hasattr(x, "_keys")]

    def make(otherwise: ShortCut) -> ShortCut:
        def short(*given: Any) -> Any:
            for n, value in params:
                if given[n] is not value and not are_equal((given[n],), (value,)):
                    return otherwise(*given)
            now = _now()
            if now is not PLAIN and now is not BELOW:
                return None
            for n in tensors:
                if given[n]._keys is not keys or given[n]._device is not place:
                    return None
            return call(*given)

        return short

    store(table, kernel, key, make, place)


def _forwarding(inner: ShortCut, behind: tuple[Any, ...]) -> Maker:
    def make(count: int, params: tuple[Any, ...], otherwise: ShortCut, around: Around) -> ShortCut:
        a0, b0, c0 = (*params, None, None, None)[:3]

        def short(self: Any, a: Any = None, b: Any = None, c: Any = None) -> Any:
            if a is not a0 or b is not b0 or c is not c0:
                if not are_equal((a, b, c), (a0, b0, c0)):
                    return otherwise(self, a, b, c)
            return inner(self, *behind)

        return short

    return make


def comes_again(
    table: Table, kernel: Callable[..., Any], args: tuple[Any, ...], at: device = CPU
) -> bool:
    """Return True if an earlier call had equal arguments and stored no short cut. The arguments
    must be plain tensors on the device `at`, and immutable params."""
    if table.learners.get(at.type) is not kernel:
        return False
    parts = [x._geometry if hasattr(x, "_keys") else x for x in args]
    if not all([type(x) is Geometry or is_kept(x) for x in parts]):
        return False
    key = (comes_again, at, *parts, *map(type, parts))  # The types distinguish 1, 1.0 and True.
    known: Seen | None = table.plans.get(key)
    if known is None:
        table.remember(key, Seen(None))
    elif known.short is not table.short:
        known.short = table.short
        return True
    return False


# --- makers ---------------------------------------------------------------------------------------
# A maker is None if NumPy would allocate the result in another layout.


def made_of(
    loop: Callable[..., Any], geometry: Geometry, behind: tuple[Any, ...] = ()
) -> Maker | None:
    """Return the maker for a loop that returns the result: loop(*arrays, *behind)."""
    is_numpys = geometry.nbytes and geometry.in_numpy
    return made_new(loop, geometry, behind) if is_numpys else None


def made_new(loop: Callable[..., Any], geometry: Geometry, behind: tuple[Any, ...] = ()) -> Maker:
    """Like `made_of`, for a loop that always returns a new array in the layout of `geometry`."""

    def make(
        count: int, params: tuple[Any, ...], otherwise: ShortCut, around: Around
    ) -> ShortCut | None:
        form, most = _FORMS[count - 1] if count <= len(_FORMS) else (None, 0)
        if form is None or len(params) > most:
            return None
        return form(loop, behind, geometry, params, otherwise, around)

    return make


def made_by(
    loop: Callable[..., Any], geometry: Geometry, behind: tuple[Any, ...] = ()
) -> Maker | None:
    """Return the maker for a loop that writes to a new array: loop(*arrays, *behind, out)."""
    return made_of(into(loop, geometry), geometry, behind)


def reduction(loop: Any, behind: tuple[Any, ...], geometry: Geometry) -> Maker | None:
    """Return the maker for a reduction that writes to a new array: loop(x, *behind[:2], out,
    *behind[2:])."""

    def make(count: int, *rest: Any) -> ShortCut:
        return forms.reduction(loop, behind, geometry, *rest)

    return make if geometry.nbytes and geometry.in_numpy else None


def new_array(geometry: Geometry) -> Callable[[], Any] | None:
    """Return a function that allocates an uninitialised array of this geometry. Return None if the
    geometry has no elements, is not row-major, or has a dtype that arrays do not have."""
    if not geometry.numel or not geometry.is_contiguous or geometry.dtype.is_float8:
        return None
    return partial(empty if geometry.in_numpy else cpu.empty, geometry.sizes, geometry.dtype.np)


def into(loop: Any, geometry: Geometry) -> Callable[..., Any]:
    """Return a function that takes values, allocates an array, calls loop(*values, array), and
    returns the array."""
    sizes, element = geometry.sizes, geometry.dtype.np

    def into(*values: Any) -> Any:
        array = empty(sizes, element)
        loop(*values, array)
        return array

    return into


def of_entry(entry: Any, inputs: tuple[Any, ...], beside: tuple[Any, ...]) -> Maker | None:
    """Return the maker for a pointwise plan. The loop receives the arrays, the numbers and
    `beside`."""
    loop, numbers = entry.loop, tuple([x for x in inputs if type(x) in NUMBERS])
    behind = (*numbers, *beside)
    bare = getattr(loop, "bare", None)
    if not fits(entry):
        return None
    if not entry.numpy_allocates:
        return made_by(loop, entry.geometry, behind)
    loop, behind = bare(len(inputs) - len(numbers), behind) if bare else (loop, (*behind, None))
    return made_new(loop, entry.geometry, behind)


def of_entry_inplace(entry: Any, inputs: tuple[Any, ...], beside: tuple[Any, ...]) -> Maker | None:
    """Return the maker for a pointwise plan whose loop writes to the first operand."""
    behind = (*[x for x in inputs if type(x) in NUMBERS], *beside)
    return None if entry.block or not entry.geometry.numel else written_by(entry.loop, behind)


def written_by(loop: Callable[..., Any], behind: tuple[Any, ...]) -> Maker:
    """Return the maker for loop(x, *others, *behind, x), which writes to its first operand."""

    def make(count: int, params: tuple[Any, ...], otherwise: ShortCut, around: Around) -> ShortCut:
        # This function takes any number of operands. Separate functions for 1, 2 and 3 operands
        # would save only a tenth of the time.
        def short(self: Any, *rest: Any) -> Any:
            others, given = rest[: count - 1], rest[count - 1 :]
            if not all(map(is_, given, params)) and not are_equal(given, params):
                return otherwise(self, *rest)
            if self._keys is not CPU_KEYS or _now() is not PLAIN:
                return None
            if self._autograd is not None and not forms.may_write(self):
                return None
            storage = self._storage
            if storage is None:
                storage = self._get_storage()
            x = self._get_array()
            if others and not all([is_beside(storage, x, other) for other in others]):
                return None
            run(loop, x, *[other._get_array() for other in others], *behind, x)
            storage.version += 1
            return self

        return short

    return make


def filling(geometry: Geometry) -> ShortCut | None:
    """Return the short cut of `fill_` for numbers that need no check. It is called with (self,
    number) and returns self. Return None if NumPy's `fill` does not cast numbers to the dtype as
    the kernel does."""
    fits = fits_in(geometry)
    if fits is None or not geometry.numel:
        return None
    fill = filler(geometry)

    def short(self: Any, value: Any) -> Any:
        if self._keys is not CPU_KEYS or _now() is not PLAIN:
            return None
        if self._autograd is not None and not forms.may_write(self) or not fits(value):
            return None
        storage = self._storage
        if storage is None:
            storage = self._get_storage()
        fill(self._get_array(), value)
        storage.version += 1
        return self

    return short


def filler(geometry: Geometry) -> Callable[[Any, Any], None]:
    """Return a function that fills an array of this geometry with a number that needs no check."""
    return ndarray.fill if geometry.in_numpy else stub.cpu("fill").fill


# Maps the kind of a NumPy dtype to types of numbers. NumPy's `fill` casts numbers of these types as
# the kernel of `fill_` does.
_FILLED = {"f": (float, int, bool), "i": (int, bool), "u": (int, bool), "b": (bool,)}


def fits_in(geometry: Geometry) -> Callable[[Any], bool] | None:
    """Return a function that takes a number. It returns True if NumPy's `fill` and the kernel of
    `fill_` cast the number to the same value, so that no check is needed. Return None if the dtype
    has no such numbers."""
    kind = geometry.dtype.np.kind
    of = _FILLED.get(kind)
    # Every floating dtype represents numbers in this range. Every integer dtype represents 0 to
    # 127.
    least, most = (-65000, 65000) if kind == "f" else (0, 127)
    if of is None or geometry.dtype.is_float8:
        return None
    return lambda value: type(value) in of and least <= value <= most


def is_beside(storage: Any, array: Any, x: Any) -> bool:
    """Return True if x is a plain operand and shares no memory with `array`, to which the loop
    writes."""
    theirs = x._storage
    if x._keys is not CPU_KEYS or x._autograd is not None and not is_plain(x) or theirs is storage:
        return False
    may_alias = theirs is not None and (storage.may_alias or theirs.may_alias)
    return not may_alias or not may_share_memory(array, x._get_array())

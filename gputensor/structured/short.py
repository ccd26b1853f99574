"""Short cuts of element-by-element operators on the CPU. See Note [Short cuts] in dispatch.

Each is bound to one entry: what it needs of the plan is in its cells, and it does in one frame what
the public function, the kernels in between and the backend's kernel would do for plain tensors of
these geometries. These are the hottest functions of the project, so calls are written out.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any

from numpy import empty

from ..dispatch import shortcuts
from ..dispatch.operator import Operator
from ..dispatch.shortcuts import ShortCut
from ..dispatch.tls import BELOW, PLAIN, state
from ..core.arguments import NUMBERS, ONE
from ..core.device import CPU
from ..core.dtype import dtype
from ..kernels.cpu.quiet import again, enter, run
from ..tensor.make import ALIGNED_FROM_BYTES, CPU_KEYS
from ..tensor.tensor import Tensor

_now = state.get
_new = object.__new__


def learn(operator: Operator, kernel: Callable[..., Any], key: Any, entry: Any) -> None:
    """Leave the functional form's short cut for the operands that an entry was made of."""
    entry.is_fresh = False
    geometry = entry.geometry
    allocates = entry.numpy_allocates
    if not fits(entry):
        return
    if type(key) is not tuple:
        make = _unary if allocates else _unary_into
    elif isinstance(key[1], type):
        make = _with_number if allocates else _with_number_into
    elif isinstance(key[0], type):
        return
    else:
        make = _binary if allocates else _binary_into
    behind = (ONE,) * (len(operator.schema.arguments) - (len(key) if type(key) is tuple else 1))
    found = make(entry.loop, geometry, _around(operator, behind))
    shortcuts.learn(operator, kernel, key, found)


def fits(entry: Any) -> bool:
    """Whether a plan's result is made by NumPy as it has to lie."""
    geometry = entry.geometry
    return entry.numpy_allocates or not (
        entry.block or not geometry.numel or not geometry.is_contiguous
        or geometry.nbytes >= ALIGNED_FROM_BYTES
    )  # fmt: skip


def learn_inplace(operator: Operator, kernel: Callable[..., Any], key: Any, entry: Any) -> None:
    """Leave the in-place form's."""
    entry.is_fresh = False
    if entry.block or not entry.geometry.numel:
        return
    if type(key) is not tuple:
        found = _unary_inplace(entry.loop)
    else:
        found = (_inplace_number if isinstance(key[1], type) else _inplace)(entry.loop)
    shortcuts.learn(operator, kernel, key, found)


# --- what autograd does around a call ---------------------------------------------------------
# A short cut that meets operands which autograd knows does what Autograd's kernel does: it records.
# Within a recorded call, or a derivative, it has nothing to do (`tls.BELOW`).

# begin(*operands): None where nothing is to be recorded, LONG for the long way, or else a node;
# finish(result, node) gives it to the result.
Around = tuple[Callable[..., Any], Callable[..., Any] | Any]
LONG = object()


def _around(operator: Operator, behind: tuple[Any, ...]) -> Around:
    """behind: the arguments behind the operands."""
    return shortcuts.recording(operator, behind) or (_only_plain, None)


def _only_plain(*operands: Any) -> Any:
    return None if all([type(x) in NUMBERS or _is_plain(x) for x in operands]) else LONG


def _is_plain(x: Tensor) -> bool:
    """Whether autograd has nothing to do for an operand that is read: it is no view, or one of a
    tensor that requires no gradient."""
    base = x._autograd
    return base is None or type(base) is Tensor and base._autograd is None


# --- what stands beside the operands --------------------------------------------------------------
# Params stay the same from call to call: a short cut is of the very ones that it was made with. As
# programs have some sets of them, it goes to the one that was made before it where others come.

# What may be in a short cut: what nobody can change.
_KEPT = NUMBERS | {type(None), str, dtype}
_LONGEST = 4  # so many short cuts stand behind each other; the next one stands alone


def _long_way(*args: Any) -> None:
    """Behind the last short cut."""


def learn_beside(
    operator: Operator, kernel: Callable[..., Any], args: tuple[Any, ...], make: Callable[..., Any]
) -> None:
    """Leave what make(number of operands, params, otherwise) gives for calls with these arguments,
    of which the first ones are tensors, and the rest are numbers and params."""
    count = next((n for n, x in enumerate(args) if not hasattr(x, "_keys")), len(args))
    params = args[count:]
    if operator.table.learners.get("cpu") is not kernel or not all(map(_is_kept, params)):
        return
    places = [a.type.has_tensor for a in operator.schema.arguments]
    if not all(places[:count]):  # a 0-d tensor stands for a number
        return
    shapes = [
        x._geometry if hasattr(x, "_keys") else type(x)
        for x, has_tensor in zip(args, places) if has_tensor
    ]  # fmt: skip
    key = shapes[0] if len(shapes) == 1 else tuple(shapes)
    behind: Any = shortcuts.left(operator.table, key)
    depth = 0 if behind is None else getattr(behind, "depth", 1)
    if depth == _LONGEST:
        behind, depth = None, 0
    found = make(count, params, behind or _long_way, _around(operator, params))
    if found is not None:
        if depth:
            found.depth = depth + 1
        shortcuts.learn(operator, kernel, key, found)


def _is_kept(x: Any) -> bool:
    return type(x) in _KEPT or type(x) is tuple and all([type(n) is int for n in x])


def computed(entry: Any, inputs: tuple[Any, ...], beside: tuple[Any, ...]) -> Callable[..., Any]:
    """make(...) for `learn_beside`: the loop of an entry, with what it takes beside arrays."""
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
        if not fits(entry) or count > len(_COMPUTED) or len(params) > (3, 2, 2)[count - 1]:
            return None
        return _COMPUTED[count - 1](loop, behind, geometry, params, otherwise, around)

    return make


def computed_inplace(
    entry: Any, inputs: tuple[Any, ...], beside: tuple[Any, ...]
) -> Callable[..., Any]:
    """The same of an in-place form, which writes to the first operand."""
    loop = entry.loop
    behind = (*[x for x in inputs if type(x) in NUMBERS], *beside)

    def make(
        count: int, params: tuple[Any, ...], otherwise: ShortCut, around: Around
    ) -> ShortCut | None:
        if entry.block or not entry.geometry.numel:
            return None

        # Not written out for each number of operands: what it saves is ten times what that would.
        def short(self: Any, *rest: Any) -> Any:
            others = rest[: count - 1]
            if not all(map(is_, rest[count - 1 :], params)):
                return otherwise(self, *rest)
            if self._keys is not CPU_KEYS or self._autograd is not None or _now() is not PLAIN:
                return None
            storage = self._storage
            if storage is None:
                storage = self._get_storage()
            for other in others:
                theirs = other._storage
                if (
                    other._keys is not CPU_KEYS
                    or other._autograd is not None and not _is_plain(other)
                    or theirs is storage or storage.is_shared
                    or theirs is not None and theirs.is_shared
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
    into = _into(loop, geometry)

    def make(count: int, params: tuple[Any, ...], otherwise: ShortCut, around: Around) -> ShortCut:
        return _COMPUTED[count - 1](into, (), geometry, params, otherwise, around)

    return make


def _into(loop: Any, geometry: Any) -> Callable[..., Any]:
    sizes, element = geometry.sizes, geometry.dtype.np

    def into(*values: Any) -> Any:
        array = empty(sizes, element)
        loop(*values, array)
        return array

    return into


def _one(
    loop: Any, behind: tuple[Any, ...], geometry: Any, params: tuple[Any, ...], otherwise: ShortCut,
    around: Around,
) -> ShortCut:  # fmt: skip
    begin, finish = around
    a0, b0, c0 = (*params, None, None, None)[:3]
    element = geometry.dtype.np

    def short(self: Any, a: Any = None, b: Any = None, c: Any = None) -> Any:
        if a is not a0 or b is not b0 or c is not c0:
            return otherwise(self, a, b, c)
        now, node = _now(), None
        if self._keys is not CPU_KEYS or now is not PLAIN and now is not BELOW:
            return None
        if self._autograd is not None and now is PLAIN and (node := begin(self)) is LONG:
            return None
        x = self._array
        if x is None:
            x = self._get_array()
        try:
            array = enter(loop, x, *behind)
        except RuntimeError as error:
            array = again(error, loop, x, *behind)
        if array.dtype is not element:
            array = array.astype(element, copy=False)
        tensor = _new(Tensor)
        tensor._geometry = geometry
        tensor._keys = CPU_KEYS
        tensor._device = CPU
        tensor._storage = None
        tensor._offset = 0
        tensor._array = array
        tensor._autograd = None
        return tensor if node is None else finish(tensor, node)

    return short


def _two(
    loop: Any, behind: tuple[Any, ...], geometry: Any, params: tuple[Any, ...], otherwise: ShortCut,
    around: Around,
) -> ShortCut:  # fmt: skip
    begin, finish = around
    a0, b0 = (*params, None, None)[:2]
    element = geometry.dtype.np

    def short(self: Any, other: Any, a: Any = None, b: Any = None) -> Any:
        if a is not a0 or b is not b0:
            return otherwise(self, other, a, b)
        now, node = _now(), None
        if (
            self._keys is not CPU_KEYS or other._keys is not CPU_KEYS
            or now is not PLAIN and now is not BELOW
        ):  # fmt: skip
            return None
        if self._autograd is not None or other._autograd is not None:
            if now is PLAIN and (node := begin(self, other)) is LONG:
                return None
        x = self._array
        if x is None:
            x = self._get_array()
        y = other._array
        if y is None:
            y = other._get_array()
        try:
            array = enter(loop, x, y, *behind)
        except RuntimeError as error:
            array = again(error, loop, x, y, *behind)
        if array.dtype is not element:
            array = array.astype(element, copy=False)
        tensor = _new(Tensor)
        tensor._geometry = geometry
        tensor._keys = CPU_KEYS
        tensor._device = CPU
        tensor._storage = None
        tensor._offset = 0
        tensor._array = array
        tensor._autograd = None
        return tensor if node is None else finish(tensor, node)

    return short


def _three(
    loop: Any, behind: tuple[Any, ...], geometry: Any, params: tuple[Any, ...], otherwise: ShortCut,
    around: Around,
) -> ShortCut:  # fmt: skip
    begin, finish = around
    a0, b0 = (*params, None, None)[:2]
    element = geometry.dtype.np

    def short(self: Any, second: Any, third: Any, a: Any = None, b: Any = None) -> Any:
        if a is not a0 or b is not b0:
            return otherwise(self, second, third, a, b)
        now, node = _now(), None
        if (
            self._keys is not CPU_KEYS or second._keys is not CPU_KEYS
            or third._keys is not CPU_KEYS or now is not PLAIN and now is not BELOW
        ):  # fmt: skip
            return None
        if (
            self._autograd is not None or second._autograd is not None
            or third._autograd is not None
        ):  # fmt: skip
            if now is PLAIN and (node := begin(self, second, third)) is LONG:
                return None
        x = self._array
        if x is None:
            x = self._get_array()
        y = second._array
        if y is None:
            y = second._get_array()
        z = third._array
        if z is None:
            z = third._get_array()
        try:
            array = enter(loop, x, y, z, *behind)
        except RuntimeError as error:
            array = again(error, loop, x, y, z, *behind)
        if array.dtype is not element:
            array = array.astype(element, copy=False)
        tensor = _new(Tensor)
        tensor._geometry = geometry
        tensor._keys = CPU_KEYS
        tensor._device = CPU
        tensor._storage = None
        tensor._offset = 0
        tensor._array = array
        tensor._autograd = None
        return tensor if node is None else finish(tensor, node)

    return short


_COMPUTED = (_one, _two, _three)


def reduction(loop: Any, behind: tuple[Any, ...], geometry: Any) -> Callable[..., Any]:
    """make(...) for `learn_beside`: loop(x, *behind[:2], out, *behind[2:]) over a new array."""
    sizes, element = geometry.sizes, geometry.dtype.np
    first, second, third = behind

    def make(
        count: int, params: tuple[Any, ...], otherwise: ShortCut, around: Around
    ) -> ShortCut | None:
        begin, finish = around
        a0, b0, c0 = (*params, None, None, None)[:3]

        def short(self: Any, a: Any = None, b: Any = None, c: Any = None) -> Any:
            if (
                a is not a0 and (type(a) is not tuple or a != a0) or b is not b0 or c is not c0
            ):  # fmt: skip
                return otherwise(self, a, b, c)
            now, node = _now(), None
            if self._keys is not CPU_KEYS or now is not PLAIN and now is not BELOW:
                return None
            if self._autograd is not None and now is PLAIN and (node := begin(self)) is LONG:
                return None
            x = self._array
            if x is None:
                x = self._get_array()
            array = empty(sizes, element)
            try:
                enter(loop, x, first, second, array, third)
            except RuntimeError as error:
                again(error, loop, x, first, second, array, third)
            tensor = _new(Tensor)
            tensor._geometry = geometry
            tensor._keys = CPU_KEYS
            tensor._device = CPU
            tensor._storage = None
            tensor._offset = 0
            tensor._array = array
            tensor._autograd = None
            return tensor if node is None else finish(tensor, node)

        return short

    return make


# --- functional -----------------------------------------------------------------------------------


def _unary(loop: Any, geometry: Any, around: Around) -> ShortCut:
    begin, finish = around

    def short(self: Any) -> Any:
        now, node = _now(), None
        if self._keys is not CPU_KEYS or now is not PLAIN and now is not BELOW:
            return None
        if self._autograd is not None and now is PLAIN and (node := begin(self)) is LONG:
            return None
        x = self._array
        if x is None:
            x = self._get_array()
        try:
            array = enter(loop, x)
        except RuntimeError as error:
            array = again(error, loop, x)
        tensor = _new(Tensor)
        tensor._geometry = geometry
        tensor._keys = CPU_KEYS
        tensor._device = CPU
        tensor._storage = None
        tensor._offset = 0
        tensor._array = array
        tensor._autograd = None
        return tensor if node is None else finish(tensor, node)

    return short


def _unary_into(loop: Any, geometry: Any, around: Around) -> ShortCut:
    sizes, element = geometry.sizes, geometry.dtype.np

    def into(x: Any) -> Any:
        array = empty(sizes, element)
        loop(x, array)
        return array

    return _unary(into, geometry, around)


def _binary(loop: Any, geometry: Any, around: Around) -> ShortCut:
    begin, finish = around

    def short(self: Any, other: Any) -> Any:
        now, node = _now(), None
        if (
            self._keys is not CPU_KEYS or other._keys is not CPU_KEYS
            or now is not PLAIN and now is not BELOW
        ):  # fmt: skip
            return None
        if self._autograd is not None or other._autograd is not None:
            if now is PLAIN and (node := begin(self, other)) is LONG:
                return None
        x = self._array
        if x is None:
            x = self._get_array()
        y = other._array
        if y is None:
            y = other._get_array()
        try:
            array = enter(loop, x, y)
        except RuntimeError as error:
            array = again(error, loop, x, y)
        tensor = _new(Tensor)
        tensor._geometry = geometry
        tensor._keys = CPU_KEYS
        tensor._device = CPU
        tensor._storage = None
        tensor._offset = 0
        tensor._array = array
        tensor._autograd = None
        return tensor if node is None else finish(tensor, node)

    return short


def _binary_into(loop: Any, geometry: Any, around: Around) -> ShortCut:
    sizes, element = geometry.sizes, geometry.dtype.np

    def into(x: Any, y: Any) -> Any:
        array = empty(sizes, element)
        loop(x, y, array)
        return array

    return _binary(into, geometry, around)


def _with_number(loop: Any, geometry: Any, around: Around) -> ShortCut:
    begin, finish = around

    def short(self: Any, other: Any) -> Any:
        now, node = _now(), None
        if self._keys is not CPU_KEYS or now is not PLAIN and now is not BELOW:
            return None
        if self._autograd is not None and now is PLAIN and (node := begin(self, other)) is LONG:
            return None
        x = self._array
        if x is None:
            x = self._get_array()
        try:
            array = enter(loop, x, other)
        except RuntimeError as error:
            array = again(error, loop, x, other)
        except OverflowError:
            return None  # the way that is not short says which number is too large
        tensor = _new(Tensor)
        tensor._geometry = geometry
        tensor._keys = CPU_KEYS
        tensor._device = CPU
        tensor._storage = None
        tensor._offset = 0
        tensor._array = array
        tensor._autograd = None
        return tensor if node is None else finish(tensor, node)

    return short


def _with_number_into(loop: Any, geometry: Any, around: Around) -> ShortCut:
    sizes, element = geometry.sizes, geometry.dtype.np

    def into(x: Any, number: Any) -> Any:
        array = empty(sizes, element)
        loop(x, number, array)
        return array

    return _with_number(into, geometry, around)


# --- in place -------------------------------------------------------------------------------------
# A view that is written to may be one of a tensor that has a history tomorrow: the long way.


def _unary_inplace(loop: Any) -> ShortCut:
    def short(self: Any) -> Any:
        if self._keys is not CPU_KEYS or self._autograd is not None or _now() is not PLAIN:
            return None
        storage = self._storage
        if storage is None:
            storage = self._get_storage()
        x = self._array
        if x is None:
            x = self._get_array()
        try:
            enter(loop, x, x)
        except RuntimeError as error:
            again(error, loop, x, x)
        storage.version += 1
        return self

    return short


def _inplace(loop: Any) -> ShortCut:
    def short(self: Any, other: Any) -> Any:
        if (
            self._keys is not CPU_KEYS or other._keys is not CPU_KEYS
            or self._autograd is not None
            or other._autograd is not None and not _is_plain(other) or _now() is not PLAIN
        ):  # fmt: skip
            return None
        storage, theirs = self._storage, other._storage
        if storage is None:
            storage = self._get_storage()
        if theirs is storage or storage.is_shared or theirs is not None and theirs.is_shared:
            return None  # they may share memory
        x = self._array
        if x is None:
            x = self._get_array()
        y = other._array
        if y is None:
            y = other._get_array()
        try:
            enter(loop, x, y, x)
        except RuntimeError as error:
            again(error, loop, x, y, x)
        storage.version += 1
        return self

    return short


def _inplace_number(loop: Any) -> ShortCut:
    def short(self: Any, other: Any) -> Any:
        if self._keys is not CPU_KEYS or self._autograd is not None or _now() is not PLAIN:
            return None
        storage = self._storage
        if storage is None:
            storage = self._get_storage()
        x = self._array
        if x is None:
            x = self._get_array()
        try:
            enter(loop, x, other, x)
        except RuntimeError as error:
            again(error, loop, x, other, x)
        except OverflowError:
            return None  # before anything was written: NumPy converts the number first
        storage.version += 1
        return self

    return short

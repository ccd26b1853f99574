"""Levels of `gt.func`: tensors that represent a batch of values, or a value with its tangent.

Note [Levels] Each running `vmap` and each block of forward differentiation is a level; each thread
has a stack of levels. A tensor of a level is a wrapper: a `BatchedTensor` contains a tensor whose
first dimension is the batch, and a `DualTensor` contains a primal and a tangent. The content of a
wrapper may be a wrapper of an outer level, never of an inner one.

The key sets of wrappers have FuncTorchBatched or FuncTorchGradWrapper, above autograd. An operator
that gets a wrapper reaches the fallback of that key (operators.py), which lets the innermost level
among the operands handle the call. The level unwraps the operands and calls operators on their
contents, and these calls start again at the highest key. So levels nest in any order, and autograd
records the calls whose operands are not wrapped.

Reverse derivatives need no wrapper: see reverse.py. Source: aten/src/ATen/functorch/DynamicLayer.h;
there reverse differentiation is a level too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from itertools import count
from textwrap import indent
from typing import Any, ClassVar

from .._generated import functions
from ..autograd.history import WRAPPED, requires_grad
from ..core import errors
from ..core.geometry import Geometry, geometry
from ..core.guard import Guard
from ..dispatch import tls
from ..dispatch.backend_select import TENSOR_KEYS
from ..dispatch.keys import BATCHED, DUAL
from ..tensor.storage import Storage
from ..tensor.tensor import Tensor

_numbers = count(1)
_stack: ContextVar[tuple[Level, ...]] = ContextVar("gputensor_func_levels", default=())
_new = object.__new__


class Level(Guard):
    """One running vmap or block of forward differentiation. number: increases with each new
    level."""

    is_alive: bool = True
    is_vmap: ClassVar[bool] = False
    # The dispatch key through which an operator reaches the running level if no operand belongs to
    # a level.
    bit: ClassVar[int] = DUAL

    def __init__(self) -> None:
        self.number: int = next(_numbers)

    def has_written(self, x: Any) -> bool:
        """True if a batch or a tangent of this level was written to x, although x has no wrapper of
        this level.
        """
        return False

    def owns(self, x: Any) -> bool:
        """True if x is a wrapper of this level."""
        return isinstance(x, Wrapper) and x.level is self

    def compute(self, entry: Any, args: Sequence[Any]) -> Any:
        """Compute an operator. Among the levels of its operands, this level is the innermost.

        entry: the operator's Entry of operators.py.
        """
        raise NotImplementedError

    def _enter(self) -> None:
        _stack.set((*_stack.get(), self))
        include, keep = tls.state.get()
        tls.state.set((include | self.bit, keep))

    def _found(self) -> Any:
        found = _stack.get()
        return found[: found.index(self)] if self in found else found

    def _put_back(self, found: Any) -> None:
        _stack.set(found)
        self.is_alive = False
        if not any(x.bit == self.bit for x in found):
            include, keep = tls.state.get()
            tls.state.set(tls.same((include & ~self.bit, keep)))


def levels() -> tuple[Level, ...]:
    """Return the levels of this thread or task, innermost last."""
    return _stack.get()


def set_levels(found: tuple[Level, ...]) -> None:
    """Set the levels of this thread or task. The caller restores the previous levels."""
    _stack.set(found)


def around(level: Level) -> tuple[Level, ...]:
    """Return the levels that enclose `level`, innermost last."""
    return tuple([x for x in _stack.get() if x.number < level.number])


# --- wrappers -------------------------------------------------------------------------------------


class Wrapper(Tensor):
    """A tensor of a level. It has a geometry but no memory. value: the tensor that it contains."""

    __slots__ = ("level", "value")
    level: Any
    value: Tensor

    def hold(self, value: Tensor, shape: Geometry, bit: int) -> None:
        """Initialise this object as the wrapper of a value."""
        place = value._device
        self.value = value
        self._geometry, self._device, self._offset = shape, place, value._offset
        self._keys = TENSOR_KEYS[place.type] | bit | value._keys & (BATCHED | DUAL)
        self._storage = Storage.over(None, shape.nbytes, place)
        self._array = None
        self._autograd = WRAPPED if bit is DUAL or requires_grad(value) else None


class BatchedTensor(Wrapper):
    """A batch of tensors, which are the slices of `value` along its first dimension.

    is_spread: True if the entries have equal values and are separate only so that each has its own
    gradient; see Note [Spread batches] in vmap_level.py.
    """

    __slots__ = ("is_spread",)
    is_spread: bool

    def __repr__(self) -> str:
        # The text has PyTorch's form. The number is the running level's, counted from 1.
        running = levels()
        number = running.index(self.level) + 1 if self.level in running else 0
        value = indent(repr(self.value), "    ")
        return f"BatchedTensor(lvl={number}, bdim=0, value=\n{value}\n)"


class DualTensor(Wrapper):
    """A primal, `value`, and its tangent."""

    __slots__ = ("tangent",)
    tangent: Tensor

    def __repr__(self) -> str:
        return f"{repr(self.value)[:-1]}, tangent={self.tangent!r})"


def level_number(x: Any) -> int:
    """Return the number of a wrapper's level, or 0 for any other tensor."""
    return x.level.number if isinstance(x, Wrapper) else 0


def batched(level: Any, value: Any) -> Tensor:
    """Wrap the slices of `value` as a tensor of a vmap's level."""
    # A wrapper of an outer level must not contain a wrapper of an inner level. So wrap the content
    # of the inner level's wrapper.
    if level_number(value) > level.number:
        if isinstance(value, DualTensor):
            parts = batched(level, value.value), batched(level, value.tangent)
            return dual(value.level, *parts)
        return batched(value.level, batched(level, value.value.transpose(0, 1)))
    made = _new(BatchedTensor)
    made.level, made.is_spread = level, False
    shape = value._geometry
    made.hold(value, geometry(shape.sizes[1:], shape.strides[1:], shape.dtype), BATCHED)
    return made


def physical(level: Any, x: Any) -> Tensor:
    """Return the tensor with the level's batch as its first dimension. A tensor without the batch
    is expanded."""
    number = level_number(x)
    if number == level.number:
        held: Tensor = x.value
        return held
    if number < level.number:
        written: Tensor | None = level.batch_of(x)
        if written is not None:
            return written
        expanded: Tensor = x.unsqueeze(0).expand(level.size, *x._geometry.sizes)
        return expanded
    if isinstance(x, DualTensor):
        return dual(x.level, physical(level, x.value), physical(level, x.tangent))
    return batched(x.level, physical(level, x.value).transpose(0, 1))


def is_of(level: Level, x: Any) -> bool:
    """True if the tensor, or a tensor within its wrappers, belongs to the level."""
    while isinstance(x, Wrapper):
        if x.level is level or isinstance(x, DualTensor) and is_of(level, x.tangent):
            return True
        x = x.value
    return False


def shares_memory(a: Any, b: Any) -> bool:
    """True if tensors inside the two wrappers share a storage. Tangents count too."""
    if isinstance(a, DualTensor) and shares_memory(a.tangent, b):
        return True
    if isinstance(a, Wrapper):
        return shares_memory(a.value, b)
    if isinstance(b, Wrapper):
        return shares_memory(b, a)
    return a is b or a._storage is not None and a._storage is b._storage


def held(level: Any, x: Any) -> Any:
    """Return the tensor inside a wrapper of this level. Return other values unchanged."""
    return x.value if level.owns(x) else x


def aligned(value: Tensor, ndim: int, rank: int) -> Tensor:
    """Insert dimensions of size 1 after the batch dimension, so that entries with `ndim` dimensions
    get `rank` dimensions."""
    for _ in range(rank - ndim):
        value = value.unsqueeze(1)
    return value


def rebuilt(like: Any, parts: list[Any]) -> Any:
    """Return a list, tuple or named tuple of the type of `like` with these items."""
    return type(like)(parts) if type(like) in (list, tuple) else type(like)(*parts)


def tensors_in(args: Sequence[Any]) -> list[Tensor]:
    """Return the tensors among an operator's arguments, including those in lists."""
    found: list[Tensor] = []
    for value in args:
        listed = value if isinstance(value, (list, tuple)) else (value,)
        found += [x for x in listed if isinstance(x, Tensor)]
    return found


def each(result: Any, change: Callable[[Any], Any]) -> Any:
    """Apply `change` to each tensor of an operator's result."""
    if isinstance(result, Tensor):
        return change(result)
    if isinstance(result, (list, tuple)):
        return rebuilt(result, [each(x, change) for x in result])
    return result


def wrapped(level: Any, result: Any) -> Any:
    """Wrap the tensors that an operator returned for whole batches."""
    return each(result, lambda x: batched(level, x))


def unfolded(level: Any, result: Any, outer: int) -> Any:
    """Split the first dimension of each tensor into the batch and a dimension of size `outer`, then
    wrap the tensors, as `wrapped` does."""
    return each(
        result,
        lambda x: batched(level, x.reshape(level.size, outer, *x._geometry.sizes[1:])),
    )


def dual(level: Any, primal: Any, tangent: Any) -> Tensor:
    """Return a tensor of a forward level with this primal and tangent. If the tangent is None,
    which means zero, return the primal itself."""
    if tangent is None:
        alone: Tensor = primal
        return alone
    holder = primal if level_number(primal) >= level_number(tangent) else tangent
    # A wrapper of an outer level must not contain a wrapper of an inner level. So wrap the content
    # of the inner level's wrapper.
    if level_number(holder) > level.number:
        outer = holder.level
        if isinstance(holder, BatchedTensor):
            parts = physical(outer, primal), physical(outer, tangent)
            return batched(outer, dual(level, *parts))
        (p, dp), (t, dt) = parts_of(outer, primal), parts_of(outer, tangent)
        dp = functions.zeros_like(p) if dp is None else dp
        return dual(outer, dual(level, p, t), dual(level, dp, dt))
    made = _new(DualTensor)
    made.level, made.tangent = level, tangent
    made.hold(primal, primal._geometry, DUAL)
    made._keys |= tangent._keys & BATCHED  # so that results also have the tangent's batch
    return made


def parts_of(level: Any, x: Any) -> tuple[Tensor, Tensor | None]:
    """Return the primal and the tangent of x at a forward level. The tangent is None if x has no
    tangent at this level."""
    number = level_number(x)
    if number == level.number:
        return x.value, x.tangent
    if number < level.number:
        return x, level.tangent_of(x)
    p, t = parts_of(level, x.value)
    if isinstance(x, BatchedTensor):
        return batched(x.level, p), None if t is None else batched(x.level, t)
    dp, dt = parts_of(level, x.tangent)
    return dual(x.level, p, dp), None if t is None else dual(x.level, t, dt)


def check_alive(x: Wrapper, op: str) -> None:
    """Raise an error for a wrapper whose transform has ended."""
    if not x.level.is_alive:
        rule = "not be used after the transform that made it has returned"
        raise errors.must(op, "a tensor of gt.func", rule, errors.Got(repr(x)))

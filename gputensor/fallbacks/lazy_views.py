"""Lazy tensors, whose memory does not hold their values: conjugates, negatives, efficient zeros.

Note [Lazy views]
`x.conj()`, and `x.imag` of a conjugate, are views with an additional bit in their key set
(Conjugate, Negative). An efficient zero has the bit ZeroTensor and no memory. The bits are dispatch
keys, so they cost ordinary tensors nothing. Views of lazy tensors keep the bit. Most other
operators reach the fallback of the key, which passes a materialised copy to the operator and writes
changes back. Exceptions are the operators registered here, and operators with the field `reads` in
native_functions.yaml. A backend's kernel never sees a bit, because it gets the result of
`_as_it_lies`.
Source: aten/src/ATen/native/MathBitsFallback.h, ZeroTensorFallback.cpp. There are two differences.
The keys stay active within a DispatchMode, where PyTorch 2.13 reads conjugates unconjugated. For an
efficient zero z, x / z equals x / 0; in PyTorch it is inf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .._generated import operators as _operators
from ..core import errors
from ..core.device import CPU, META
from ..core.geometry import geometry
from ..dispatch import dispatcher, keys, tls
from ..dispatch.backend_select import TENSOR_KEYS
from ..dispatch.keys import BELOW_ADINPLACEORVIEW, CONJUGATE, LAZY, NEGATIVE, ZERO
from ..dispatch.operator import Operator, Table
from ..structured.transfer import set_geometry
from ..tensor.storage import Storage
from ..tensor.make import allocate, from_storage, view_of, zero_tensor
from ..tensor.tensor import Tensor

Kernel = Callable[..., Any]


def install() -> None:
    """Register the fallbacks of the keys Conjugate, Negative and ZeroTensor, and the kernels of
    operators that need no fallback."""
    fallback = dispatcher.register_fallback
    fallback(
        keys.key("Conjugate"), lambda table, key_set: _make(table, "Conjugate", CONJUGATE), "maker"
    )
    fallback(
        keys.key("Negative"), lambda table, key_set: _make(table, "Negative", NEGATIVE), "maker"
    )
    fallback(
        keys.key("ZeroTensor"), lambda table, key_set: _make(table, "ZeroTensor", ZERO), "maker"
    )
    for key in ("Conjugate", "Negative", "ZeroTensor"):
        # The kernel of clone passes its key set to copy_. This key set must contain the lazy bits.
        dispatcher.register_behind("aten::clone", keys.key(key), None, "fallthrough")
    for name, key, kernel in (
        ("copy_", "Conjugate", _copy_turned),
        ("copy_", "Negative", _copy_turned),
        ("copy_", "ZeroTensor", _copy_zero),
        ("view.dtype", "Conjugate", _view_dtype),
        ("view.dtype", "Negative", _view_dtype),
        ("conj_physical_", "Conjugate", _conj_physical_as_it_lies),
        ("neg_", "Negative", _neg_as_it_lies),
        ("mul.Tensor", "ZeroTensor", _zero_times),
        ("div.Tensor", "ZeroTensor", _zero_divided),
        ("add.Tensor", "ZeroTensor", _zero_plus),
        ("sub.Tensor", "ZeroTensor", _zero_minus),
    ):
        dispatcher.register_behind(f"aten::{name}", keys.key(key), kernel, "native")


# --- the fallback ---------------------------------------------------------------------------------


def _make(table: Table, key: str, bit: int) -> Kernel:
    """Return an operator's kernel at the key Conjugate, Negative or ZeroTensor."""
    operator, below = table.operator, keys.below(key)
    if _passes(operator, bit):

        def pass_on(key_set: int, *args: Any) -> Any:
            key_set &= below
            return operator.redispatch_table[key_set](key_set, *args)

        return pass_on
    schema = table.signature.schema
    tensors = [(n, a) for n, a in enumerate(schema.arguments) if a.type.has_tensor]
    resolve = _zeros if bit == ZERO else clone_below

    def materialise(key_set: int, *args: Any) -> Any:
        given = list(args)
        changed: list[tuple[Tensor, Tensor]] = []
        for number, argument in tensors:
            value = given[number]
            found = value if isinstance(value, (list, tuple)) else (value,)
            if not any(getattr(x, "_keys", 0) & bit for x in found):
                continue
            if argument.is_write and bit == ZERO:
                raise errors.zeros_are_immutable(operator.short_name, argument.name)
            plain = [resolve(x) if getattr(x, "_keys", 0) & bit else x for x in found]
            if argument.is_write:
                changed += [(x, y) for x, y in zip(found, plain) if x is not y]
            given[number] = plain if found is value else plain[0]
        key_set &= below
        result = operator.redispatch_table[key_set](key_set, *given)
        for original, copy in changed:
            _write_back(original, copy)
        return _with_originals(result, changed) if changed else result

    return materialise


def _passes(operator: Operator, bit: int) -> bool:
    """Return True if the operator may run on lazy tensors directly. This holds for view operators,
    whose results keep the bit, and for operators that read no elements.

    For efficient zeros, return False for operators that access the storage, which does not exist.
    """
    tags = operator.tags
    if "reads_storage" in tags:
        return bit != ZERO
    if "reads_geometry" in tags or "inplace_view" in tags:
        return True
    if bit == CONJUGATE and "reads_conjugates" in tags:
        return True
    aliased = [a for a in operator.schema.arguments if a.type.aliases]
    return bool(aliased) and not any(a.is_write for a in aliased)


def clone_below(tensor: Tensor) -> Tensor:
    """Return a materialised copy. It is made below autograd, and no version counter is
    increased."""
    key_set = _below(tensor._keys)
    return _operators.clone.redispatch_table[key_set](key_set, tensor, None)


def _below(bits: int) -> int:
    """Return the key set of a call below ADInplaceOrView. Modes still intercept this call."""
    include, keep = tls.state.get()
    return (bits | include) & keep & BELOW_ADINPLACEORVIEW


def _zeros(tensor: Tensor) -> Tensor:
    """Return zeros with memory: a tensor of one element, expanded to the sizes."""
    shape = tensor._geometry
    one = allocate(geometry((), (), shape.dtype), tensor._device)
    key_set = _below(one._keys)
    _operators.zero_.redispatch_table[key_set](key_set, one)
    return view_of(one, geometry(shape.sizes, (0,) * shape.ndim, shape.dtype), 0)


def _write_back(original: Tensor, plain: Tensor) -> None:
    if original._geometry.sizes != plain._geometry.sizes:  # an `out` argument was resized
        set_geometry(original, plain._geometry)
    key_set = _below(original._keys | plain._keys)
    _operators.copy_.redispatch_table[key_set](key_set, original, plain, False)


def _with_originals(result: Any, changed: list[tuple[Tensor, Tensor]]) -> Any:
    if isinstance(result, (list, tuple)):
        return type(result)(_with_originals(x, changed) for x in result)
    return next((original for original, plain in changed if plain is result), result)


# --- operators with kernels of their own --------------------------------------------------------


def _as_it_lies(tensor: Tensor) -> Tensor:
    """Return a tensor over the same memory that does not have the lazy bits, for backends'
    kernels."""
    view = view_of(tensor, tensor._geometry, tensor._offset)
    view._keys &= ~LAZY
    return view


def _copy_turned(key_set: int, self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Copy between tensors with different lazy bits. If the dtypes and devices are equal, the copy
    needs no temporary tensor."""
    key_set &= ~LAZY
    differs = (self._keys ^ src._keys) & (CONJUGATE | NEGATIVE)
    to, source = _as_it_lies(self), _as_it_lies(src)
    turns = list(_turns(differs if self._geometry.dtype.is_complex else differs & ~CONJUGATE))
    if turns and (
        to._geometry.dtype is not source._geometry.dtype or to._device is not source._device
    ):
        # Conjugate or negate before the cast, because for bool and unsigned dtypes the cast of -x
        # may differ from the negated cast of x.
        fresh = clone_below(source)
        for turn in turns:
            _run(turn, key_set, fresh, fresh)
        source, turns = fresh, []
    if turns:
        if source._geometry.sizes != to._geometry.sizes:
            source = _operators.expand.redispatch_table[key_set](
                key_set, source, to._geometry.sizes, False
            )
        _run(turns[0], key_set, source, to)
        for turn in turns[1:]:
            _run(turn, key_set, to, to)
    else:
        _operators.copy_.redispatch_table[key_set](key_set, to, source, non_blocking)
    return self


def _turns(bits: int) -> Iterator[Operator]:
    if bits & CONJUGATE:
        yield _operators.conj_physical_out
    if bits & NEGATIVE:
        yield _operators.neg_out


def _run(turn: Operator, key_set: int, source: Tensor, to: Tensor) -> None:
    turn.redispatch_table[key_set](key_set, source, to)


def _copy_zero(key_set: int, self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    if self._keys & ZERO:
        raise errors.zeros_are_immutable("copy_", "self")
    if src._geometry.sizes != self._geometry.sizes:
        key = _below(src._keys)
        _operators.expand.redispatch_table[key](
            key, src, self._geometry.sizes, False
        )  # raises if src cannot be expanded to the sizes
    key_set &= BELOW_ADINPLACEORVIEW & ~LAZY
    _operators.zero_.redispatch_table[key_set](key_set, _as_it_lies(self))
    return self


def _view_dtype(key_set: int, self: Tensor, dtype: Any) -> Tensor:
    raise errors.must("view", "self", "not be a lazy view", self, remedy="use .clone() first")


def _conj_physical_as_it_lies(key_set: int, self: Tensor) -> Tensor:
    key_set = key_set & ~LAZY & BELOW_ADINPLACEORVIEW
    _operators.conj_physical_.redispatch_table[key_set](key_set, _as_it_lies(self))
    return self


def _neg_as_it_lies(key_set: int, self: Tensor) -> Tensor:
    # This kernel handles only the Negative bit. If the tensor also has the Conjugate bit, the call
    # continues to the fallback of that key.
    view = view_of(self, self._geometry, self._offset)
    view._keys &= ~NEGATIVE
    key_set = key_set & ~NEGATIVE & BELOW_ADINPLACEORVIEW
    _operators.neg_.redispatch_table[key_set](key_set, view)
    return self


# --- arithmetic with efficient zeros --------------------------------------------------------------

_META_KEYS = keys.key_set(("Meta",))


def _result(operator: Operator, self: Any, other: Any, *rest: Any) -> Tensor:
    """Return an efficient zero with the sizes and the dtype of the operator's result."""
    place = _common_device(operator, self, other)
    made = operator.redispatch_table[_META_KEYS](_META_KEYS, _on_meta(self), _on_meta(other), *rest)
    return zero_tensor(made._geometry, place)


def _on_meta(operand: Any) -> Any:
    if not hasattr(operand, "_keys"):
        return operand
    shape = operand._geometry
    storage = Storage.over(None, shape.extent * shape.dtype.itemsize, META)
    return from_storage(storage, 0, shape, TENSOR_KEYS["meta"])


def _common_device(operator: Operator, self: Any, other: Any) -> Any:
    """Return the operands' common device. A 0-d CPU tensor may be combined with operands of another
    device."""
    tensors = [x for x in (self, other) if hasattr(x, "_keys")]
    place = next((x._device for x in tensors if x._device is not CPU), CPU)
    for x in tensors:
        if x._device is not place and not (x._device is CPU and x._geometry.ndim == 0):
            raise errors.mixed_devices(operator.short_name, self, "self", other, "other")
    return place


def _is_zero(operand: Any) -> bool:
    return bool(getattr(operand, "_keys", 0) & ZERO)


def _materialised(operator: Operator, key_set: int, *args: Any) -> Tensor:
    key_set &= keys.below("ZeroTensor")
    given = [_zeros(x) if _is_zero(x) else x for x in args]
    made: Tensor = operator.redispatch_table[key_set](key_set, *given)
    return made


def _zero_times(key_set: int, self: Any, other: Any) -> Tensor:
    return _result(_operators.mul_Tensor, self, other)


def _zero_divided(key_set: int, self: Any, other: Any) -> Tensor:
    if _is_zero(self) and not _is_zero(other):
        return _result(_operators.div_Tensor, self, other)
    return _materialised(_operators.div_Tensor, key_set, self, other)


def _zero_plus(key_set: int, self: Any, other: Any, alpha: Any = 1) -> Tensor:
    if _is_zero(self) and _is_zero(other):
        return _result(_operators.add_Tensor, self, other, alpha)
    return _materialised(_operators.add_Tensor, key_set, self, other, alpha)


def _zero_minus(key_set: int, self: Any, other: Any, alpha: Any = 1) -> Tensor:
    if _is_zero(self) and _is_zero(other):
        return _result(_operators.sub_Tensor, self, other, alpha)
    return _materialised(_operators.sub_Tensor, key_set, self, other, alpha)

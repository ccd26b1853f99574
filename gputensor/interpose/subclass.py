"""Tensors of classes that users derive from Tensor, and what a handler that is not overridden does.

A class with a `__gputensor_dispatch__` of its own is asked for every operator that meets one of its
tensors (`interpose/modes.py`). A wrapper has sizes, dtype and device, but no
memory: its handler unwraps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core import dtype as dtypes
from ..core import errors
from ..core.geometry import contiguous_geometry, geometry
from ..dispatch import defaults
from ..dispatch.backend_select import TENSOR_KEYS, resolve
from ..dispatch.keys import PYTHON
from ..dispatch.tls import ExcludeDispatchKeys
from ..tensor.storage import Storage

if TYPE_CHECKING:
    from ..dispatch.operator import Operator
    from ..tensor.tensor import Tensor


def of(kind: type, data: Tensor) -> Any:
    """A tensor of class `kind` that looks at what `data` looks at."""
    made = _new(kind)
    made._geometry, made._device, made._offset = data._geometry, data._device, data._offset
    made._storage, made._array = data._get_storage(), None
    return _finished(made, data._keys)


def wrapper(
    kind: type, size: Any, strides: Any, storage_offset: int, dtype: Any, device: Any
) -> Any:
    """A tensor of class `kind` without memory."""
    from ..core.device import device as make

    sizes = tuple(size)
    element = defaults.get_default_dtype() if dtype is None else dtype
    if not isinstance(element, dtypes.dtype):
        raise errors.not_a_dtype("_make_wrapper_subclass", element)
    place = resolve(None if device is None else make(device))
    made = _new(kind)
    made._geometry = (
        contiguous_geometry(sizes, element)
        if strides is None
        else geometry(sizes, tuple(strides), element)
    )
    made._device, made._offset, made._array = place, storage_offset, None
    made._storage = Storage(
        None, (storage_offset + made._geometry.extent) * element.itemsize, place
    )
    return _finished(made, TENSOR_KEYS[place.type])


def _new(kind: type) -> Any:
    from ..tensor.tensor import Tensor

    if not (isinstance(kind, type) and issubclass(kind, Tensor)):
        raise errors.must(
            "_make_subclass", "cls", "be a subclass of Tensor", kind, kind=errors.ArgumentTypeError
        )
    return object.__new__(kind)


def _finished(made: Any, bits: int) -> Any:
    from ..tensor.tensor import Tensor, variable

    made._keys = bits | PYTHON if type(made)._has_handler else bits & ~PYTHON
    made._autograd = None
    if type(made) is not Tensor:
        # Autograd's short paths are for Tensor alone; what it knows more about goes the long way.
        variable.meta_of(made)
    return made


def call_as_tensors(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
    """What `Tensor.__gputensor_dispatch__` does: the operator itself, on its operands' memory."""
    with ExcludeDispatchKeys(PYTHON):
        return _plain(op(*args, **(kwargs or {})))


def _plain(result: Any) -> Any:
    # Views are made with the key set of their base.
    if isinstance(result, (list, tuple)):
        return type(result)([_plain(x) for x in result])
    if hasattr(result, "_keys") and not type(result)._has_handler:
        result._keys &= ~PYTHON
    return result

"""Short cuts of calls on CUDA: see Note [Short cuts] in dispatch.

A short cut is for one entry and one device. It allocates memory, packs the addresses and
parameters, and launches (codegen/short_cuts/forms.py). Operands whose address is not a multiple of
16 bytes use the full dispatch, which may choose other kernels. Like a launch of the runtime, a
short cut reads the current device, the current stream, and the CUDA runtime in use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import runtime
from .._generated import short_forms as forms
from ...core import number_range
from ...core.arguments import ONE
from ...core.dtype import FLOATING
from ...core.geometry import Geometry
from ...dispatch import shortcuts
from ...dispatch.backend_select import TENSOR_KEYS
from ...dispatch.operator import Table
from ...dispatch.shortcuts import LONG, ShortCut
from ...dispatch.tls import BELOW, PLAIN, state
from ...kernels.cuda.launch import straight
from ...tensor.make import is_plain
from ...tensor.storage import Storage
from ...tensor.tensor import Tensor, blank
from .computed import Around, around, is_kept, long_way, store

_now = state.get
CUDA_KEYS = TENSOR_KEYS["cuda"]
_ALIGNED = 15  # These low bits of an address must be 0.


def learn(table: Table, kernel: Callable[..., Any], key: Any, entry: Any) -> None:
    """Store the short cut of the functional form for operands that have this entry.

    key: the geometry, the device and the low address bits of the first operand. Then, for the
    second operand, its geometry and low address bits or, if it is a number, its type.
    """
    found = _short_key(entry, key)
    entry.is_fresh = False
    if found is not None:
        geometry, device, launch, sizes = entry.geometry, key[1], entry.launch, _sizes(key)
        recorded = _around(table, 1 if len(key) == 3 else 2)
        if len(key) == 3:
            given = geometry, device, launch, sizes[0], _ALIGNED
            made = forms.cuda_unary(*given, (), long_way, recorded)
        else:
            make: Any = forms.cuda_with_number if len(key) == 4 else forms.cuda_binary
            made = make(geometry, device, launch, *sizes, recorded)
        shortcuts.learn(table, kernel, found, made, key[1])


def learn_with_params(
    table: Table, kernel: Callable[..., Any], args: tuple[Any, ...], geometry: Any,
    launch: Any,
) -> None:  # fmt: skip
    """Store the short cut of a kernel with one operand, for calls with these params. The params
    are, for example, the dimensions and the dtype of a reduction."""
    x, *params = args
    shape, device = x._geometry, x._device
    if geometry.numel and len(params) <= 3 and all(map(is_kept, params)):
        given = geometry, device, launch, shape.dtype.itemsize, 0, tuple(params)
        recorded = around(table, tuple(params), "cuda")

        def make(otherwise: ShortCut) -> ShortCut:
            return forms.cuda_unary(*given, otherwise, recorded)

        store(table, kernel, shape, make, device)


def _around(table: Table, count: int) -> Around:
    """Return the functions with which a pointwise short cut of `count` operands records a call."""
    return around(table, (ONE,) * (len(table.operator.schema.arguments) - count), "cuda")


def learn_inplace(table: Table, kernel: Callable[..., Any], key: Any, entry: Any) -> None:
    """Store the short cut of the in-place form."""
    found = _short_key(entry, key)
    entry.is_fresh = False
    if found is not None:
        make = forms.cuda_inplace_number if len(key) == 4 else forms.cuda_inplace
        made = make(key[1], entry.launch, *_sizes(key))
        shortcuts.learn(table, kernel, found, made, key[1])


def learn_turned(table: Table, kernel: Callable[..., Any], key: Any, entry: Any) -> None:
    """Store the short cut of a call with a number as its first operand. key: the type of the
    number; then, for the second operand, its geometry, its device and its low address bits."""
    entry.is_fresh = False
    kind, shape, device, low = key
    if low or not entry.geometry.numel:
        return
    run, pack, tail = straight(entry.launch, device.index)
    allocate, size = allocating(entry.geometry, device), shape.dtype.itemsize
    begin, finish = _around(table, 2)

    def short(number: Any, x: Any) -> Any:
        now, node = _now(), None
        if x._keys is not CUDA_KEYS or x._device is not device:
            return None
        address = x._storage._data.ptr + x._offset * size
        if address & _ALIGNED or now is not PLAIN and now is not BELOW:
            return None
        if x._autograd is not None and now is not BELOW and (node := begin(number, x)) is LONG:
            return None
        tensor = allocate()
        run(pack(tensor._storage._data.ptr, number, address, tail))
        return tensor if node is None else finish(tensor, node)

    shortcuts.learn(table, kernel, (kind, shape), short, device)


def learn_scaled(
    table: Table, kernel: Callable[..., Any], key: Any, entry: Any, alpha: Any, *, is_inplace: bool
) -> None:
    """Store the short cut of a call with two tensors and any float `alpha` in the range of the
    dtype. key: as in `learn`."""
    common, found = entry.plan.common_dtype, _short_key(entry, key)
    if found is None or type(alpha) is not float or common.category != FLOATING or len(key) != 5:
        return
    place, device = (*found, float), key[1]
    if shortcuts.left(table, place, device) is not None:
        return
    largest, launch, index = number_range.largest_float(common), entry.launch, device.index
    allocate, (size_a, size_b) = allocating(entry.geometry, device), _sizes(key)

    def short(self: Any, other: Any, alpha: float) -> Any:
        if self._keys is not CUDA_KEYS or self._device is not device or _now() is not PLAIN:
            return None
        if other._keys is not CUDA_KEYS or other._device is not device:
            return None
        if other._autograd is not None and not is_plain(other) or not -largest <= alpha <= largest:
            return None
        storage, theirs = self._storage, other._storage
        a = storage._data.ptr + self._offset * size_a
        b = theirs._data.ptr + other._offset * size_b
        if (a | b) & _ALIGNED:
            return None
        if not is_inplace:
            if self._autograd is not None and not is_plain(self):
                return None
            tensor = allocate()
            launch(index, (tensor._storage._data.ptr, a, b), (alpha,))
            return tensor
        if self._autograd is not None and not forms.may_write(self):
            return None
        if theirs is storage or storage.may_alias or theirs.may_alias:
            return None
        launch(index, (a, a, b), (alpha,))
        storage.version += 1
        return self

    shortcuts.learn(table, kernel, place, short, device)


def allocating(shape: Geometry, device: Any) -> Callable[[], Tensor]:
    """Return a function that makes an uninitialised tensor of this geometry on CUDA."""
    nbytes = shape.extent * shape.dtype.itemsize
    take = runtime.cuda().taker(nbytes, device.index)

    def make() -> Tensor:
        storage = Storage()
        storage._data = take()
        storage._array = None
        storage._nbytes = nbytes
        storage.device = device
        storage.version = 0
        tensor = blank()
        tensor._geometry = shape
        tensor._keys = CUDA_KEYS
        tensor._device = device
        tensor._storage = storage
        tensor._offset = 0
        tensor._array = tensor._autograd = None
        return tensor

    return make


def _sizes(key: Any) -> list[int]:
    """Return the item size, in bytes, of each operand that is a tensor."""
    return [
        geometry.dtype.itemsize for geometry in (key[0], *key[3:4]) if type(geometry) is Geometry
    ]


def _short_key(entry: Any, key: Any) -> Any:
    """Return the key that public functions look up, or None if there can be no short cut."""
    shape, device, low, *other = key
    if device.type != "cuda" or low or other[1:] not in ([], [0]) or not entry.geometry.numel:
        return None
    return (shape, other[0]) if other else shape


def copied(
    table: Table, self: Tensor, geometry: Any, launch: Any, params: tuple[Any, ...] = (),
    behind: tuple[Any, ...] = (),
) -> ShortCut:  # fmt: skip
    """Return a short cut that copies a tensor like self to a new tensor of this geometry. The
    launch supports addresses of any alignment. params: the arguments after the operand that calls
    pass. behind: all arguments after the operand."""
    given = geometry, self._device, launch, self._geometry.dtype.itemsize, 0, params
    return forms.cuda_unary(*given, long_way, around(table, behind, "cuda"))

"""Short cuts of calls on CUDA: see Note [Short cuts] in dispatch.

A short cut is for one entry and one device. It allocates memory, packs the addresses and
parameters, and launches (codegen/short_cuts/forms.py). Operands whose address is not a multiple of
16 bytes use the full dispatch, which may choose other kernels. Like a launch of the runtime, a
short cut reads the current device, the current stream, and the CUDA runtime in use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._generated import short_forms as forms
from ...core.geometry import Geometry
from ...dispatch import shortcuts
from ...dispatch.backend_select import TENSOR_KEYS
from ...dispatch.operator import Table
from ...dispatch.shortcuts import ShortCut
from .computed import is_kept

CUDA_KEYS = TENSOR_KEYS["cuda"]
_ALIGNED = 15  # These low bits of an address must be 0.


def learn(table: Table, kernel: Callable[..., Any], key: Any, entry: Any) -> None:
    """Store the functional form's short cut for an entry's operands.

    key: the geometry, the device and the low address bits of the first operand. Then, for the
    second operand, its geometry and low address bits or, if it is a number, its type.
    """
    found = _short_key(entry, key)
    if found is not None:
        geometry, device, launch, sizes = entry.geometry, key[1], entry.launch, _sizes(key)
        if len(key) == 3:
            made = forms.cuda_unary(geometry, device, launch, sizes[0], _ALIGNED, ())
        else:
            make = forms.cuda_with_number if len(key) == 4 else forms.cuda_binary
            made = make(geometry, device, launch, *sizes)
        shortcuts.learn(table, kernel, found, made, key[1])


def learn_with_params(
    table: Table, kernel: Callable[..., Any], args: tuple[Any, ...], geometry: Any,
    launch: Any,
) -> None:  # fmt: skip
    """Store the short cut of a kernel with one operand for these params, such as the dimensions and
    the dtype of a reduction."""
    x, *params = args
    shape, device = x._geometry, x._device
    if geometry.numel and len(params) <= 3 and all(map(is_kept, params)):
        size = shape.dtype.itemsize
        found = forms.cuda_unary(geometry, device, launch, size, 0, tuple(params))
        shortcuts.learn(table, kernel, shape, found, device)


def learn_inplace(table: Table, kernel: Callable[..., Any], key: Any, entry: Any) -> None:
    """Store the short cut of the in-place form."""
    found = _short_key(entry, key)
    if found is not None:
        make = forms.cuda_inplace_number if len(key) == 4 else forms.cuda_inplace
        made = make(key[1], entry.launch, *_sizes(key))
        shortcuts.learn(table, kernel, found, made, key[1])


def _sizes(key: Any) -> list[int]:
    """Return the item size, in bytes, of each operand that is a tensor."""
    return [
        geometry.dtype.itemsize for geometry in (key[0], *key[3:4]) if type(geometry) is Geometry
    ]


def _short_key(entry: Any, key: Any) -> Any:
    """Return the key that public functions look up, or None if there can be no short cut."""
    entry.is_fresh = False
    shape, device, low, *other = key
    if device.type != "cuda" or low or other[1:] not in ([], [0]) or not entry.geometry.numel:
        return None
    return (shape, other[0]) if other else shape


def copied(shape: Any, device: Any, geometry: Any, launch: Any) -> ShortCut:
    """Return a short cut that copies its operand to a new tensor of this geometry. The launch
    receives the tensors and reads their addresses.
    """
    return forms.cuda_unary(geometry, device, launch, shape.dtype.itemsize, 0, ())

"""Short cuts of CUDA calls that have any arguments and a fixed sequence of launches: see Note
[Short cuts] in dispatch.

A short cut is for the geometries of the tensors and the values of all other arguments in one call.
The launch's numbers and scalars are packed once. For other values, the short cut calls the one that
was stored before it. The forms in cuda.py are faster, but they exist only for the most frequent
signatures.
"""

from __future__ import annotations

from typing import Any

from .._generated.short_forms import may_write
from ...core.arguments import NUMBERS, are_equal
from ...core.geometry import Geometry
from ...dispatch import shortcuts
from ...dispatch.operator import Table
from ...dispatch.shortcuts import LONG, ShortCut
from ...dispatch.tls import BELOW, PLAIN, state
from ...kernels.cuda.launch import numbered
from ...tensor.make import is_plain
from ...tensor.tensor import Tensor
from .computed import is_kept, only_plain, store
from .cuda import CUDA_KEYS, allocating

_now = state.get


def learn(
    table: Table, kernel: Any, args: tuple[Any, ...], shape: Geometry | tuple[Geometry, ...],
    launch: Any, operands: tuple[Any, ...], scalars: tuple[Any, ...] = (), low_bits: int = 15,
    order: tuple[int, ...] | None = None, found_by: int | None = None,
) -> None:  # fmt: skip
    """Store the short cut of a call that returns new tensors.

    args: all arguments of the call. shape: the geometry of the result, or of several results, which
    the call returns as a tuple. operands: the launch's operands after the results. scalars: the
    launch's scalars. low_bits: the bits of the addresses that must be 0, because the launch depends
    on them. order: the positions in args of the operands that are tensors; by default, those of all
    tensors in args. found_by: the number of arguments, from the first one on, in the key that finds
    the short cut; by default, the key has all tensors.
    """
    device: Any = next((x._device for x in args if isinstance(x, Tensor)), None)
    key = None if device is None else _key(table, args, device, low_bits, found_by)
    shapes = shape if isinstance(shape, tuple) else (shape,)
    if key is None or device is None or device.type != "cuda" or not shapes[0].numel:
        return
    outs = (None,) * len(shapes)
    run, pack, tail = numbered(launch, device.index, (*outs, *_numbers(operands)), scalars)
    reads, params, count = _reads(args, order), _params(args), len(args)
    allocate, *others = [allocating(of, device) for of in shapes]
    front, begin, finish = _recording(table, args)

    def make(otherwise: ShortCut) -> ShortCut:
        def short(*given: Any) -> Any:
            if len(given) != count:
                return None
            for n, value in params:
                x = given[n]
                if x is not value and not are_equal((x,), (value,)):
                    return otherwise(*given)
            now, node, has_history = _now(), None, False
            if now is not PLAIN and now is not BELOW:
                return None
            addresses, low = [], 0
            for n, size in reads:
                x = given[n]
                if x._keys is not CUDA_KEYS or x._device is not device:
                    return None
                if x._autograd is not None and not is_plain(x):
                    has_history = True
                address = x._storage._data.ptr + x._offset * size
                addresses.append(address)
                low |= address
            if low & low_bits:
                return None
            if has_history and now is not BELOW and (node := begin(*given[:front])) is LONG:
                return None
            tensor = allocate()
            if others:
                made = (tensor, *[one() for one in others])
                run(pack(*[x._storage._data.ptr for x in made], *addresses, tail))
                return made if node is None else finish(made, node)
            run(pack(tensor._storage._data.ptr, *addresses, tail))
            return tensor if node is None else finish(tensor, node)

        return short

    store(table, kernel, key, make, device)


def learn_inplace(
    table: Table, kernel: Any, args: tuple[Any, ...], launch: Any, operands: tuple[Any, ...],
    scalars: tuple[Any, ...] = (), low_bits: int = 15, order: tuple[int, ...] | None = None,
) -> None:  # fmt: skip
    """Store the short cut of a call that writes to its first argument and returns it. The arguments
    are those of `learn`."""
    self = args[0]
    device = self._device
    key = _key(table, args, device, low_bits)
    if key is None or device.type != "cuda" or not self._geometry.numel:
        return
    run, pack, tail = numbered(launch, device.index, (None, *_numbers(operands)), scalars)
    reads, params, count = _reads(args, order), _params(args), len(args)
    own = self._geometry.dtype.itemsize

    def make(otherwise: ShortCut) -> ShortCut:
        def short(*given: Any) -> Any:
            if len(given) != count:
                return None
            for n, value in params:
                x = given[n]
                if x is not value and not are_equal((x,), (value,)):
                    return otherwise(*given)
            self = given[0]
            if self._keys is not CUDA_KEYS or self._device is not device:
                return None
            if self._autograd is not None and not may_write(self) or _now() is not PLAIN:
                return None
            storage = self._storage
            low = written = storage._data.ptr + self._offset * own
            addresses = [written]
            for n, size in reads:
                if not n:
                    addresses.append(written)
                    continue
                x = given[n]
                theirs = x._storage
                if x._keys is not CUDA_KEYS or x._device is not device or theirs is storage:
                    return None
                if x._autograd is not None and not is_plain(x):
                    return None
                if storage.may_alias or theirs.may_alias:
                    return None
                address = theirs._data.ptr + x._offset * size
                addresses.append(address)
                low |= address
            if low & low_bits:
                return None
            run(pack(*addresses, tail))
            storage.version += 1
            return self

        return short

    store(table, kernel, key, make, device)


def _recording(table: Table, args: tuple[Any, ...]) -> tuple[int, Any, Any]:
    """Return the functions with which a short cut records a call, and the number of arguments that
    the first one takes."""
    front = next((n for n, x in enumerate(args) if not isinstance(x, Tensor)), len(args))
    found = None
    if len(args) == len(table.operator.schema.arguments):
        if not any([isinstance(x, Tensor) for x in args[front:]]):
            found = shortcuts.recording(table, args[front:], "cuda")
        if found is None:
            front, found = len(args), shortcuts.recording(table, None, "cuda")
    return front, *(found or (_only_plain, None))


def _only_plain(*given: Any) -> Any:
    return only_plain(*[x for x in given if isinstance(x, Tensor)])


def _key(
    table: Table, args: tuple[Any, ...], device: Any, low_bits: int, found_by: int | None = None
) -> Any:
    """Return the key that public functions look up, or None if there can be no short cut."""
    parts = list[Any]()
    arguments = table.operator.schema.arguments
    for n, (x, argument) in enumerate(zip(args, arguments)):
        if isinstance(x, Tensor):
            if x._keys is not CUDA_KEYS or x._device is not device or x._address() & low_bits:
                return None
            parts.append(x._geometry)
        elif not is_kept(x):
            return None
        elif found_by is not None and n < found_by or x is None and argument.type.has_tensor:
            parts.append(x)
        elif argument.type.has_tensor:
            parts.append(type(x))
    return parts[0] if len(parts) == 1 else tuple(parts)


def _numbers(operands: tuple[Any, ...]) -> list[Any]:
    """Return the numbers among a launch's operands, and None for each tensor."""
    return [x if type(x) in NUMBERS else None for x in operands]


def _reads(args: tuple[Any, ...], order: tuple[int, ...] | None) -> list[tuple[int, int]]:
    """Return the position in args and the item size of each operand that is a tensor."""
    if order is None:
        order = tuple([n for n, x in enumerate(args) if isinstance(x, Tensor)])
    return [(n, args[n]._geometry.dtype.itemsize) for n in order]


def _params(args: tuple[Any, ...]) -> list[tuple[int, Any]]:
    return [(n, x) for n, x in enumerate(args) if not isinstance(x, Tensor)]

"""Short cuts of CPU calls that read or write indexed elements, such as gather and scatter_add_.

Unlike in computed.py, tensors may follow other arguments. The loop checks the indices before it
writes. For an index out of range, the short cut returns None, and the full dispatch raises the
error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy import empty, ndarray

from .._generated import short_forms as forms
from ...core.arguments import are_equal
from ...core.device import CPU
from ...core.dtype import int64
from ...dispatch import shortcuts
from ...dispatch.operator import Table
from ...dispatch.shortcuts import LONG, ShortCut
from ...dispatch.tls import BELOW, PLAIN, state
from ...kernels import stub
from ...kernels.cpu.quiet import run
from ...tensor.make import CPU_KEYS, from_array, is_plain
from ...tensor.tensor import Tensor
from ..indexed import Places, launch_of
from . import cuda_calls
from .computed import Around, comes_again, is_beside, only_plain, store

_now = state.get


def learn_read(
    table: Table, kernel: Callable[..., Any], args: tuple[Any, ...], at: Places, made: Tensor
) -> None:
    """Store the short cut of a call that reads elements by indices, once the call is repeated.

    args: all arguments, self first. at: the places of the elements, which one index tensor selects.
    made: the result.
    """
    shape = made._geometry
    is_direct = _is_direct(at, args[0]) and any([x is at.indices[0] for x in args])
    if is_direct and made._device is not CPU:
        _learn_read_on_cuda(table, kernel, args, at, made)
        return
    if not (is_direct and shape.nbytes and shape.in_numpy) or not comes_again(table, kernel, args):
        return
    (place,), params = _places(args)
    loop, walk = stub.cpu("gather").gather, (at.led, at.begin, at.wraps)
    of = at.target._geometry.sizes
    sizes, element = shape.sizes, shape.dtype.np
    recorded: Around = shortcuts.recording(table) or (only_plain, None)
    begin, finish = recorded

    def make(otherwise: ShortCut) -> ShortCut:
        def short(self: Any, *rest: Any) -> Any:
            for n, value in params:
                if rest[n] is not value and not are_equal((rest[n],), (value,)):
                    return otherwise(self, *rest)
            index, now, node = rest[place], _now(), None
            if self._keys is not CPU_KEYS or index._keys is not CPU_KEYS:
                return None
            if now is not PLAIN and now is not BELOW:
                return None
            if self._autograd is not None or index._autograd is not None:
                if now is not BELOW and (node := begin(self, *rest)) is LONG:
                    return None
            array, x = empty(sizes, element), self._get_array()
            if run(loop, array, x.reshape(of), (index._get_array(),), *walk):
                return None
            tensor = from_array(array, shape)
            return tensor if node is None else finish(tensor, node)

        return short

    store(table, kernel, tuple([x._geometry for x in args if isinstance(x, Tensor)]), make)


def _learn_read_on_cuda(
    table: Table, kernel: Callable[..., Any], args: tuple[Any, ...], at: Places, made: Tensor
) -> None:
    if made._geometry.numel and comes_again(table, kernel, args, made._device):
        launch = launch_of("gather", "gather", at, made._geometry, reads=True)
        cuda_calls.learn(table, kernel, args, made._geometry, launch, (None, None), low_bits=0)


def learn_write(
    table: Table, kernel: Callable[..., Any], args: tuple[Any, ...], loop: str, at: Places,
    value: Any, start: Tensor | None = None,
) -> None:  # fmt: skip
    """Store the short cut of a call that writes to elements by indices, if the operands need no
    conversion.

    args: all arguments, self first. value: the last tensor in args, or the number in args: on CUDA
    the number itself, on the CPU a tensor. start: a number that is written to the elements first.
    """
    places, params = _places(args)
    if args[0]._device is not CPU:
        _learn_write_on_cuda(table, kernel, args, loop, at, value)
        return
    loops, walk = stub.cpu("scatter"), (at.led, at.begin, at.wraps)
    into, first = getattr(loops, loop), loops.scatter
    number = value._get_array() if len(places) == 1 else None
    before = None if start is None else start._get_array()
    of, indices = at.target._geometry.sizes, at.indices[0]._geometry.sizes
    if not _is_direct(at, args[0]) or args[1 + places[0]]._geometry.dtype is not int64:
        return

    def written(x: Any, rest: tuple[Any, ...]) -> bool:
        """Write to the elements of an array. Return False if an index is out of range."""
        index = (rest[places[0]]._get_array().reshape(indices),)
        x = x.reshape(of)
        if before is not None and run(first, x, before, index, *walk):
            return False
        given = rest[places[1]]._get_array() if number is None else number
        return not run(into, x, given, index, *walk)

    def make(otherwise: ShortCut) -> ShortCut:
        def short(self: Any, *rest: Any) -> Any:
            for n, given in params:
                if rest[n] is not given and not are_equal((rest[n],), (given,)):
                    return otherwise(self, *rest)
            if self._keys is not CPU_KEYS or _now() is not PLAIN:
                return None
            if self._autograd is not None and not forms.may_write(self):
                return None
            storage, x = self._get_storage(), self._get_array()
            if not all([is_beside(storage, x, rest[n]) for n in places]):
                return None
            if not written(x, rest):
                return None
            storage.version += 1
            return self

        vars(short)["written"] = written, params
        return short

    store(table, kernel, tuple([x._geometry for x in args if isinstance(x, Tensor)]), make)


def learn_functional(
    table: Table, kernel: Callable[..., Any], args: tuple[Any, ...], made: Tensor, inplace: Table
) -> None:
    """Store the short cut of a functional form, once the call is repeated. It copies self and
    writes to the copy as the in-place form's short cut does.

    args: all arguments, self first. made: the result. inplace: the table of the in-place form.
    """
    shape, key = made._geometry, tuple([x._geometry for x in args if isinstance(x, Tensor)])
    written, known = getattr(inplace.short.get(key), "written", (None, ()))
    places, params = _places(args)
    if written is None or not shape.is_contiguous or not are_equal((params,), (known,)):
        return
    if not comes_again(table, kernel, args):
        return

    copy = ndarray.copy if shape.in_numpy else stub.cpu("copy").contiguous

    def make(otherwise: ShortCut) -> ShortCut:
        def short(self: Any, *rest: Any) -> Any:
            for n, given in params:
                if rest[n] is not given and not are_equal((rest[n],), (given,)):
                    return otherwise(self, *rest)
            if (now := _now()) is not PLAIN and now is not BELOW:
                return None
            for x in (self, *[rest[n] for n in places]):
                if x._keys is not CPU_KEYS or x._autograd is not None and not is_plain(x):
                    return None
            array = copy(self._get_array())  # row-major
            return from_array(array, shape) if written(array, rest) else None

        return short

    store(table, kernel, key, make)


def _learn_write_on_cuda(
    table: Table, kernel: Callable[..., Any], args: tuple[Any, ...], loop: str, at: Places,
    value: Any,
) -> None:  # fmt: skip
    tensors = [n for n, x in enumerate(args) if isinstance(x, Tensor)]
    if not _is_direct(at, args[0]) or args[tensors[1]] is not at.indices[0]:
        return
    has_number = len(tensors) == 2
    shape, order = None if has_number else value._geometry, (tensors[-1], tensors[1])
    launch = launch_of("scatter", loop, at, shape, reads=False)
    cuda_calls.learn_inplace(
        table, kernel, args, launch, (value if has_number else None, None), low_bits=0,
        order=order[has_number:],
    )  # fmt: skip


def learn_put(
    table: Table, kernel: Callable[..., Any], args: tuple[Any, Any, Tensor],
    find: Callable[[], Places],
) -> None:  # fmt: skip
    """Store the short cut of `index_put_` without accumulation, once the call is repeated.

    args: self, the indices and the values. find: a function that returns the places that were
    written.
    """
    self, indices, values = args
    if not self._geometry.numel or not comes_again(table, kernel, (self, *indices, values)):
        return
    at = find()
    is_direct = at.target is self and len(at.indices) == len(indices)
    if not is_direct or not all([x is y for x, y in zip(at.indices, indices)]):
        return
    into, walk = stub.cpu("scatter").scatter, (at.led, at.begin, at.wraps)

    def short(self: Any, indices: Any, values: Any) -> Any:
        if self._keys is not CPU_KEYS or _now() is not PLAIN:
            return None
        if self._autograd is not None and not forms.may_write(self):
            return None
        storage, x = self._get_storage(), self._get_array()
        if not all([is_beside(storage, x, other) for other in (*indices, values)]):
            return None
        if run(into, x, values._get_array(), [i._get_array() for i in indices], *walk):
            return None
        storage.version += 1
        return self

    shapes = [x._geometry for x in (self, *indices, values)]
    shortcuts.learn(table, kernel, tuple(shapes), short)


def learn_masked(
    table: Table, kernel: Callable[..., Any], args: tuple[Tensor, Tensor, Tensor]
) -> None:
    """Store the short cut of `masked_scatter_`, once the call is repeated. args: self, the mask and
    the source."""
    shapes = tuple([x._geometry for x in args])
    if not shapes[0].numel or not comes_again(table, kernel, args):
        return
    put = stub.cpu("nonzero").put

    def short(self: Any, mask: Any, source: Any) -> Any:
        if self._keys is not CPU_KEYS or _now() is not PLAIN:
            return None
        if self._autograd is not None and not forms.may_write(self):
            return None
        storage, x = self._get_storage(), self._get_array()
        if not is_beside(storage, x, mask) or not is_beside(storage, x, source):
            return None
        if put(x, mask._get_array(), source._get_array().reshape(-1)):
            return None  # Nothing was written; the kernel will report the error.
        storage.version += 1
        return self

    shortcuts.learn(table, kernel, shapes, short)


def _is_direct(at: Places, x: Tensor) -> bool:
    """Return True if the places are in x itself, or in a view of all its elements in order."""
    return at.target is x or at.order is None and x._geometry.is_contiguous


def _places(args: tuple[Any, ...]) -> tuple[list[int], tuple[tuple[int, Any], ...]]:
    """Return, for the arguments after self, the positions of tensors, and (position, value) of each
    other argument.
    """
    rest = [*enumerate(args[1:])]
    return (
        [n for n, x in rest if isinstance(x, Tensor)],
        tuple([(n, x) for n, x in rest if not isinstance(x, Tensor)]),
    )

"""Indices of nonzero elements. On a device, the host waits for the number of these elements.

Source: aten/src/ATen/native/TensorAdvancedIndexing.cpp, nonzero_out_cpu.
"""

from __future__ import annotations

from .._generated import calls, operators
from ..core.device import CPU
from ..core.dtype import bool_, int64
from ..core.geometry import Geometry, Sizes, contiguous_geometry, geometry
from ..kernels import stub
from ..structured import arguments, forms
from ..structured.missing import ask_inplace
from ..tensor.make import allocate, from_array
from ..tensor.tensor import Tensor

out = forms.out_of_functional

# A block has this number of elements, as in kernels/cuda/nonzero.cu.
PER_BLOCK = 2048


class Marks:
    """The plan of the family nonzero for stubs. The operand `marks` is row-major and has one byte
    per element of a tensor; a mark is set where the element is nonzero.

    nonzero_count: operands (counts, marks). It writes to the int64 counts[b] the number of set
    marks before block b, where a block has PER_BLOCK marks; the last entry is the total. nonzero:
    operands (out, marks, counts). It writes the coordinates of set marks to out, dimension by
    dimension.
    """

    __slots__ = ("op", "sizes", "shape", "stride_bytes", "dtypes", "common_dtype", "numel",
                 "n_outputs")  # fmt: skip
    op: str
    sizes: Sizes
    shape: tuple[int]
    stride_bytes: tuple[tuple[int], tuple[int]]
    numel: int
    n_outputs: int

    def __init__(self, op: str, sizes: Sizes, numel: int) -> None:
        self.op, self.sizes, self.numel, self.n_outputs = op, sizes, numel, 1
        self.shape, self.stride_bytes = (numel,), ((8,), (1,))
        self.dtypes, self.common_dtype = (int64, bool_), bool_


def nonzero(key_set: int, self: Tensor) -> Tensor:
    of, place = self._geometry, self._device
    if place is CPU:
        if of.dtype.is_opaque:  # -0.0 does not count as nonzero, but one of its bits is 1.
            self = calls.ne_Tensor(self, 0)
        found = stub.cpu("nonzero").nonzero(self._get_array())
        return from_array(found.T, _columns(found.shape[1], of.ndim))
    if of.numel == 0:
        return allocate(_columns(0, of.ndim), place)
    marks = calls.contiguous(calls.ne_Tensor(self, 0))
    layout = Marks("nonzero", of.sizes, of.numel)
    blocks = -(-of.numel // PER_BLOCK)
    counts = allocate(contiguous_geometry((blocks + 1,), int64), place)
    count = stub.bind("nonzero", "nonzero_count", place.type, layout)
    count(place.index, (counts._address(), marks._address()))
    marks_in_all = int(calls.item(calls.select_int(counts, 0, blocks)))
    made = allocate(_columns(marks_in_all, of.ndim), place)
    if made._geometry.numel:
        write = stub.bind("nonzero", "nonzero", place.type, layout)
        write(place.index, (made._address(), marks._address(), counts._address()))
    return made


def _columns(count: int, ndim: int) -> Geometry:
    """Return the geometry of a column-major matrix with one row per nonzero element, as in
    PyTorch."""
    return geometry((count, ndim), (1, count), int64)


def nonzero_numpy(key_set: int, self: Tensor) -> tuple[Tensor, ...]:
    if not self._geometry.ndim:
        self = calls.unsqueeze(self, 0)
    return tuple(calls.unbind_int(calls.nonzero(self), 1))


def nonzero_static(key_set: int, self: Tensor, size: int, fill_value: int = -1) -> Tensor:
    rows = arguments.integer("nonzero_static", "size", size, least=0)
    fill = arguments.integer("nonzero_static", "fill_value", fill_value)
    made = allocate(contiguous_geometry((rows, self._geometry.ndim), int64), self._device)
    ask_inplace(operators.fill__Scalar, made, fill)
    if self._device.type == "meta":
        return made
    found = calls.nonzero(self)
    count = min(rows, found._geometry.sizes[0])
    part = calls.slice_Tensor(made, 0, 0, count)
    ask_inplace(operators.copy_, part, calls.slice_Tensor(found, 0, 0, count), False)
    return made

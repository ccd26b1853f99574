"""Matrix products: mm of two matrices; matmul, which takes 2-d operands only so far."""

from __future__ import annotations

from typing import Any

from .._generated import calls
from ..core import errors
from ..core.device import CPU
from ..core.dtype import dtype
from ..core.geometry import contiguous_geometry
from ..dispatch.operator import Operator
from ..iterator import overlap
from ..kernels import stub
from ..kernels.cpu.quiet import run
from ..tensor import Tensor, allocate
from .pointwise import Kernel
from .resize import resize_output


def _result(op: str, self: Tensor, mat2: Tensor) -> tuple[int, int, dtype]:
    """Rows, columns and dtype of the product, after the operands were found to fit."""
    a, b = self._geometry, mat2._geometry
    if a.ndim != 2:
        raise errors.must(op, "self", "be a matrix", self, kind=errors.ShapeError)
    if b.ndim != 2:
        raise errors.must(op, "mat2", "be a matrix", mat2, kind=errors.ShapeError)
    if self._device is not mat2._device:
        raise errors.mixed_devices(op, self, "self", mat2, "mat2")
    if a.dtype is not b.dtype:
        raise errors.must(op, "mat2", f"have self's dtype {a.dtype.short}", mat2, kind=errors.DtypeError)
    if a.sizes[1] != b.sizes[0]:
        raise errors.must(op, "mat2", f"have {a.sizes[1]} rows, as self has columns", mat2, kind=errors.ShapeError)
    return a.sizes[0], b.sizes[1], a.dtype


class Product:
    """What a registered stub gets as the plan of `mm`: out[m, n] = sum over k of a[m, k] * b[k, n].

    shape: (m, n, k). stride_bytes, dtypes: of out, a and b; strides are (row, column).
    """

    __slots__ = ("op", "shape", "stride_bytes", "dtypes", "common_dtype", "numel", "n_outputs")

    def __init__(self, out: Tensor, a: Tensor, b: Tensor) -> None:
        operands = (out._geometry, a._geometry, b._geometry)
        self.op = "mm"
        self.shape = (*out._geometry.sizes, a._geometry.sizes[1])
        self.stride_bytes = tuple([g.stride_bytes for g in operands])
        self.dtypes = tuple([g.dtype for g in operands])
        self.common_dtype, self.numel, self.n_outputs = out._geometry.dtype, out._geometry.numel, 1


def _product(out: Tensor, self: Tensor, mat2: Tensor) -> Tensor:
    if out._geometry.numel == 0 or out._device.type == "meta":
        return out
    if out._device is CPU:
        run(stub.cpu("matmul").mm, self._get_array(), mat2._get_array(), out._get_array())
        return out
    (m, k), n = self._geometry.sizes, mat2._geometry.sizes[1]
    bind_op = stub.registered("matmul", "mm", out._device.type)
    if bind_op is not None:
        pointers = (out._address(), self._address() if k else 0, mat2._address() if k else 0)
        bind_op("mm", Product(out, self, mat2))(out._device.index, pointers, ())
        return out
    from ..kernels.cuda import launch

    launch.matmul(out._geometry.dtype)(
        out._device.index, out._address(), self._address() if k else 0, mat2._address() if k else 0, m, n, k,
        self._geometry.strides, mat2._geometry.strides, out._geometry.strides,
    )  # fmt: skip
    return out


def functional(operator: Operator, loop: str) -> Kernel:
    def kernel(key_set: int, self: Tensor, mat2: Tensor) -> Tensor:
        rows, columns, element = _result(loop, self, mat2)
        return _product(allocate(contiguous_geometry((rows, columns), element), self._device), self, mat2)

    return kernel


def out(operator: Operator, loop: str) -> Kernel:
    def kernel(key_set: int, self: Tensor, mat2: Tensor, out: Tensor) -> Tensor:
        rows, columns, element = _result(loop, self, mat2)
        if out._device is not self._device:
            raise errors.mixed_devices(loop, self, "self", out, "out")
        if out._geometry.dtype is not element:
            raise errors.must(loop, "out", f"have the result's dtype {element.short}", out, kind=errors.DtypeError)
        _check_apart(loop, out, self, "self")
        _check_apart(loop, out, mat2, "mat2")
        if out._geometry.sizes != (rows, columns):
            resize_output(loop, out, contiguous_geometry((rows, columns), element))
        return _product(out, self, mat2)

    return kernel


def _check_apart(op: str, out: Tensor, operand: Tensor, arg: str) -> None:
    """A product cannot be written over its own operand, not even in full."""
    storage = out._storage
    if out is operand or storage is not None and storage is operand._storage:
        size = out._geometry.dtype.itemsize
        kind = overlap.FULL if out is operand else overlap.pair_overlap(
            out._geometry, out._offset * size, operand._geometry, operand._offset * size
        )  # fmt: skip
        if kind != overlap.NO:
            raise errors.must(op, "out", f"not share memory with '{arg}'", out)


def matmul(key_set: int, self: Tensor, other: Any) -> Tensor:
    for name, operand in (("self", self), ("other", other)):
        if operand._geometry.ndim != 2:
            raise errors.must("matmul", name, "be a matrix", operand, kind=errors.ShapeError)
    return calls.mm(self, other)  # type: ignore[no-any-return]

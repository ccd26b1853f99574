"""Matrix products: mm of two matrices, addmm and linear; matmul, of matrices and vectors so far."""

from __future__ import annotations

import math
from typing import Any

from .._generated import calls
from ..core import errors, number_range
from ..core.device import CPU
from ..core.arguments import NUMBERS
from ..core.dtype import BOOL, FLOATING, dtype
from ..core.geometry import Geometry, contiguous_geometry
from ..dispatch.operator import Operator
from ..iterator import overlap
from ..kernels import stub
from ..kernels.cpu.quiet import run
from ..tensor.make import allocate
from ..tensor.tensor import Tensor
from ..structured.pointwise import Kernel
from ..structured.resizing import resize_output


# Small ints are one object each: the usual alpha and beta need no look at their range.
_ONE = 1


def _result(op: str, self: Tensor, mat2: Tensor, first: str = "self") -> tuple[int, int, dtype]:
    """Rows, columns and dtype of the product, after the operands were found to fit."""
    a, b = self._geometry, mat2._geometry
    if a.ndim != 2:
        raise errors.wrong_shape(op, first, "be a matrix", self)
    if b.ndim != 2:
        raise errors.wrong_shape(op, "mat2", "be a matrix", mat2)
    if self._device is not mat2._device:
        raise errors.mixed_devices(op, self, first, mat2, "mat2")
    if a.dtype is not b.dtype:
        raise errors.wrong_dtype(op, "mat2", f"have {first}'s dtype {a.dtype.short}", mat2)
    if a.sizes[1] != b.sizes[0]:
        rule = f"have {a.sizes[1]} rows, as {first} has columns"
        raise errors.wrong_shape(op, "mat2", rule, mat2)
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
    stub.cuda("matmul").mm(out._geometry.dtype)(
        out._device.index, out._address(), self._address() if k else 0, mat2._address() if k else 0,
        m, n, k, self._geometry.strides, mat2._geometry.strides, out._geometry.strides,
    )  # fmt: skip
    return out


def functional(operator: Operator, loop: str) -> Kernel:
    def kernel(key_set: int, self: Tensor, mat2: Tensor) -> Tensor:
        rows, columns, element = _result(loop, self, mat2)
        shape = contiguous_geometry((rows, columns), element)
        return _product(allocate(shape, self._device), self, mat2)

    return kernel


def out(operator: Operator, loop: str) -> Kernel:
    def kernel(key_set: int, self: Tensor, mat2: Tensor, out: Tensor) -> Tensor:
        rows, columns, element = _result(loop, self, mat2)
        if out._device is not self._device:
            raise errors.mixed_devices(loop, self, "self", out, "out")
        if out._geometry.dtype is not element:
            raise errors.wrong_dtype(loop, "out", f"have the result's dtype {element.short}", out)
        wanted = contiguous_geometry((rows, columns), element)
        shape = wanted if out._geometry.sizes != wanted.sizes else None
        overlap.check_out(loop, out, shape, self=self, mat2=mat2)
        if shape is not None:
            resize_output(loop, out, wanted)
        return _product(out, self, mat2)

    return kernel


def matmul(key_set: int, self: Tensor, other: Any) -> Tensor:
    rows, columns = self._geometry.ndim, other._geometry.ndim
    if rows == columns == 2:
        return calls.mm(self, other)
    for name, operand in (("self", self), ("other", other)):
        if operand._geometry.ndim not in (1, 2):
            raise errors.wrong_shape("matmul", name, "be a matrix or a vector", operand)
    if 1 in (rows, columns) and self._geometry.sizes[-1] != other._geometry.sizes[0]:
        rule = f"have {self._geometry.sizes[-1]} rows, as self has columns"
        raise errors.wrong_shape("matmul", "other", rule, other)
    left = calls.unsqueeze(self, 0) if rows == 1 else self
    made = calls.mm(left, calls.unsqueeze(other, 1) if columns == 1 else other)
    if columns == 1:
        made = calls.squeeze_dim(made, 1)
    return calls.squeeze_dim(made, 0) if rows == 1 else made


# --- addmm ----------------------------------------------------------------------------------------


def _addmm_result(self: Tensor, mat1: Tensor, mat2: Tensor, beta: Any, alpha: Any) -> Geometry:
    """The layout of a new result, after the operands were found to fit."""
    rows, columns, element = _result("addmm", mat1, mat2, "mat1")
    given = self._geometry
    if self._device is not mat1._device:
        raise errors.mixed_devices("addmm", self, "self", mat1, "mat1")
    if given.dtype is not element:
        raise errors.wrong_dtype("addmm", "self", f"have mat1's dtype {element.short}", self)
    if element.category == BOOL:
        raise errors.wrong_dtype("addmm", "self", "not be bool", self)
    sizes = (1, 1, *given.sizes)[-2:]
    if given.ndim > 2 or sizes[0] not in (1, rows) or sizes[1] not in (1, columns):
        raise errors.wrong_shape("addmm", "self", f"broadcast to [{rows},{columns}]", self)
    for arg, x in (("beta", beta), ("alpha", alpha)):
        if type(x) not in NUMBERS:
            raise errors.wrong_type("addmm", arg, "be a number", x)
        if type(x) is float and element.category < FLOATING:
            raise errors.must("addmm", arg, f"fit {element.short}, which the operands have", x)
        if x is not _ONE:
            number_range.check("addmm", arg, x, element)
    return contiguous_geometry((rows, columns), element)


def _addmm_into(
    out: Tensor, self: Tensor, mat1: Tensor, mat2: Tensor, beta: Any, alpha: Any
) -> Tensor:
    shape = out._geometry
    if shape.numel == 0 or out._device.type == "meta":
        return out
    if out._device is CPU:
        array = out._get_array()
        shares = out._storage is not None and out._storage is self._storage
        added = array if out is self or shares else self._get_array()
        if shares and out is not self:
            added = self._get_array().copy()
        matrices = added, mat1._get_array(), mat2._get_array()
        run(stub.cpu("matmul").addmm, *matrices, beta, alpha, array)
        return out
    if out._device.type != "cuda":  # a device that brings mm and pointwise operators brings this
        product = calls.mm(mat1, mat2)
        scaled = product if alpha == 1 else calls.mul_Tensor(product, alpha)
        made = scaled if beta == 0 else calls.add_Tensor(scaled, self, beta)
        return calls.copy_(out, made, False)

    (m, k), n = mat1._geometry.sizes, shape.sizes[1]
    given = self._geometry
    strides = [0 if size == 1 else by for size, by in zip(given.sizes, given.strides)]
    stub.cuda("matmul").addmm(shape.dtype)(
        out._device.index, out._address(), mat1._address() if k else 0, mat2._address() if k else 0,
        m, n, k, mat1._geometry.strides, mat2._geometry.strides, shape.strides, self._address(),
        (0, 0, *strides)[-2:], beta, alpha,
    )  # fmt: skip
    return out


def added_functional(operator: Operator, loop: str) -> Kernel:
    def kernel(
        key_set: int, self: Tensor, mat1: Tensor, mat2: Tensor, beta: Any = 1, alpha: Any = 1
    ) -> Tensor:
        made = allocate(_addmm_result(self, mat1, mat2, beta, alpha), mat1._device)
        return _addmm_into(made, self, mat1, mat2, beta, alpha)

    return kernel


def added_inplace(operator: Operator, loop: str) -> Kernel:
    def kernel(
        key_set: int, self: Tensor, mat1: Tensor, mat2: Tensor, beta: Any = 1, alpha: Any = 1
    ) -> Tensor:
        wanted = _addmm_result(self, mat1, mat2, beta, alpha)
        if self._geometry.sizes != wanted.sizes:
            rule = f"have the result's sizes {list(wanted.sizes)}"
            raise errors.wrong_shape("addmm_", "self", rule, self)
        _check_written(self, self, mat1, mat2)
        return _addmm_into(self, self, mat1, mat2, beta, alpha)

    return kernel


def added_out(operator: Operator, loop: str) -> Kernel:
    def kernel(
        key_set: int, self: Tensor, mat1: Tensor, mat2: Tensor, beta: Any, alpha: Any, out: Tensor
    ) -> Tensor:
        wanted = _addmm_result(self, mat1, mat2, beta, alpha)
        if out._device is not mat1._device:
            raise errors.mixed_devices("addmm", mat1, "mat1", out, "out")
        if out._geometry.dtype is not wanted.dtype:
            rule = f"have the result's dtype {wanted.dtype.short}"
            raise errors.wrong_dtype("addmm", "out", rule, out)
        shape = wanted if out._geometry.sizes != wanted.sizes else None
        _check_written(out, self, mat1, mat2, shape)
        if shape is not None:
            resize_output("addmm", out, wanted)
        return _addmm_into(out, self, mat1, mat2, beta, alpha)

    return kernel


def _check_written(
    out: Tensor, self: Tensor, mat1: Tensor, mat2: Tensor, shape: Geometry | None = None
) -> None:
    """`shape` is what `out` is about to have, where that is another geometry than its own."""
    overlap.check_out("addmm", out, shape, mat1=mat1, mat2=mat2)
    if out is not self:
        overlap.check_apart("addmm", out, self, "self", shape)


def _name_what_does_not_fit(given: Geometry, weight: Tensor, bias: Tensor | None) -> None:
    """Raise in linear's words what mm and addmm refuse in theirs."""
    features, shape = given.sizes[-1], weight._geometry
    if features != shape.sizes[1]:
        rule = f"have {features} columns, as input has features"
        raise errors.wrong_shape("linear", "weight", rule, weight) from None
    for arg, x in (("weight", weight), ("bias", bias)):
        if x is not None and x._geometry.dtype is not given.dtype:
            rule = f"have input's dtype {given.dtype.short}"
            raise errors.wrong_dtype("linear", arg, rule, x) from None
    if bias is not None and bias._geometry.sizes not in ((), (1,), (shape.sizes[0],)):
        rule = f"have {shape.sizes[0]} elements, as weight has rows"
        raise errors.wrong_shape("linear", "bias", rule, bias) from None


def linear(key_set: int, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """addmm where input is a matrix and there is a bias; PyTorch's rows of any dimensions."""
    given = input._geometry
    if weight._geometry.ndim not in (1, 2):
        raise errors.wrong_shape("linear", "weight", "be a matrix or a vector", weight)
    if not given.ndim:
        raise errors.wrong_shape("linear", "input", "have a dimension of features", input)
    if weight._geometry.ndim == 1:  # one feature, whose dimension the result does not have
        made = calls.linear(input, calls.unsqueeze(weight, 0))
        made = calls.squeeze_dim(made, -1)
        return made if bias is None else calls.add_Tensor(made, bias)
    rows = input
    if given.ndim != 2:  # counted without the features, of which there may be none
        rows = calls.reshape(input, (math.prod(given.sizes[:-1]), given.sizes[-1]))
    turned = calls.t(weight)
    try:
        made = calls.mm(rows, turned) if bias is None else calls.addmm(bias, rows, turned)
    except (errors.ShapeError, errors.DtypeError):
        _name_what_does_not_fit(given, weight, bias)
        raise
    if given.ndim == 2:
        return made
    return calls.reshape(made, (*given.sizes[:-1], weight._geometry.sizes[0]))

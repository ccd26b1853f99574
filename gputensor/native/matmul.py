"""Matrix products: mm, addmm and linear for matrices; matmul for any number of dimensions.

On CUDA, cuBLAS computes large products (kernels/cublas.py). Our own kernel, which accepts any
strides, computes all other products.
"""

from __future__ import annotations

import math
from typing import Any

from .. import runtime
from .._generated import calls
from ..core import errors, number_range
from ..core.device import CPU
from ..core.arguments import NUMBERS
from ..core.dtype import (
    BOOL, FLOATING, complex64, complex128, dtype, float32, float64,
)  # fmt: skip
from ..core.geometry import Geometry, Sizes, contiguous_geometry
from ..core.memory_format import contiguous_format
from ..dispatch.operator import Operator
from ..dispatch.shortcuts import Seen, is_due
from ..iterator import overlap
from ..iterator.broadcast import broadcast_sizes, strides_over
from ..kernels import cublas, stub
from ..kernels.cpu.quiet import run
from ..tensor.make import allocate, from_array
from ..tensor.tensor import Tensor
from ..structured import arguments, float8, library
from ..structured.shortcuts import cuda_products
from ..structured.shortcuts import computed as short, pointwise as short_pointwise
from ..structured.pointwise import Kernel
from .copy import copy_, copy_launch
from .view import with_sizes


# CPython has one object for each small int. The usual alpha and beta are recognised by identity and
# need no check of their range.
_ONE = 1
_BLAS = frozenset((float32, float64, complex64, complex128))


def _write_by_cublas(
    op: str, out: Tensor, self: Tensor | None, a: Tensor, b: Tensor, beta: Any = 0, alpha: Any = 1
) -> None:
    """Write beta * self + alpha * a @ b to `out`, which may be `self`. Without `self`, beta is
    0."""
    if self is not None and self is not out and beta != 0:
        copy_(0, out, self)
    calling = runtime.cuda().blas(op, out._device.index)
    if calling is None:  # the emulator
        library.write(op, cublas.on_host, (out,), out._geometry.dtype, a, b, alpha, beta)
        return
    a, b = [x if cublas.form(x._geometry) else _rows(x) for x in (a, b)]
    found, into = cublas.form(out._geometry), out
    if found is None or found[0]:
        into = _rows(out)
    run = cublas.product(into._geometry, a._geometry, b._geometry)
    with calling as (routines, handle):
        run(routines, handle, into._address(), a._address(), b._address(), alpha, beta)
    if into is not out:
        copy_(0, out, into)


def _rows(x: Tensor) -> Tensor:
    """Return a row-major copy."""
    return copy_(
        0, allocate(contiguous_geometry(x._geometry.sizes, x._geometry.dtype), x._device), x
    )


def result(
    op: str, a: Tensor, b: Tensor, first: str = "self", second: str = "mat2", ndim: int = 2
) -> Geometry:
    """Check the operands of a matrix product (ndim=2) or of a batch of products (ndim=3). Return
    the layout of a new result. first, second: the operands' names."""
    x, y = a._geometry, b._geometry
    is_batch = ndim == 3
    if x.ndim != ndim or y.ndim != ndim:
        rule = "be a batch of matrices, of 3 dimensions" if is_batch else "be a matrix"
        raise errors.wrong_shape(op, *((first, rule, a) if x.ndim != ndim else (second, rule, b)))
    arguments.check_alike(op, first, a, second, b)
    if x.dtype.is_opaque and (is_batch or not x.dtype.is_float8):
        raise errors.not_computed(op, first, x.dtype, a)
    if x.sizes[-1] != y.sizes[-2] or is_batch and x.sizes[0] != y.sizes[0]:
        count = f"{x.sizes[0]} matrices of " if is_batch else ""
        rule = f"have {count}{x.sizes[-1]} rows, as {first} has columns"
        raise errors.wrong_shape(op, second, rule, b)
    return contiguous_geometry((*x.sizes[:-1], y.sizes[-1]), x.dtype)


class Product:
    """The plan of `mm` for registered stubs. out[m, n] is the sum over k of a[m, k] * b[k, n].

    shape: (m, n, k). stride_bytes, dtypes: of out, a and b. Strides are (row, column).
    """

    __slots__ = ("op", "shape", "stride_bytes", "dtypes", "common_dtype", "numel", "n_outputs")

    def __init__(self, out: Tensor, a: Tensor, b: Tensor) -> None:
        operands = (out._geometry, a._geometry, b._geometry)
        self.op: str = "mm"
        self.shape = (*out._geometry.sizes, a._geometry.sizes[1])
        self.stride_bytes = tuple([g.stride_bytes for g in operands])
        self.dtypes: tuple[dtype, ...] = tuple([g.dtype for g in operands])
        self.common_dtype, self.numel, self.n_outputs = out._geometry.dtype, out._geometry.numel, 1


def product_into(op: str, out: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Write a @ b to `out`, for one product (op: mm) or a batch of products (op: bmm)."""
    shape = out._geometry
    if shape.numel == 0 or out._device.type == "meta":
        return out
    if shape.dtype.is_float8:
        return float8.written(calls.mm, out, a, b)
    if out._device is CPU:
        run(stub.cpu("matmul").mm, a._get_array(), b._get_array(), out._get_array())
        return out
    (*batch, m, n), k = shape.sizes, a._geometry.sizes[-1]
    pointers = (out._address(), a._address() if k else 0, b._address() if k else 0)
    if batch and out._device.type != "cuda":
        # A registered device has its own kernel, which is called for each matrix.
        if k == 0:
            return calls.zero_(out)
        for i in range(batch[0]):
            part, x, y = [calls.select_int(t, 0, i) for t in (out, a, b)]
            calls.copy_(part, calls.mm(x, y), False)
        return out
    bind_op = stub.registered("matmul", "mm", out._device.type)
    if bind_op is not None:
        bind_op("mm", Product(out, a, b))(out._device.index, pointers, ())
    elif cublas.takes(shape.dtype, shape.sizes, k):
        _write_by_cublas(op, out, None, a, b)
    else:
        strides = [t._geometry.strides for t in (a, b, out)]
        walks = map(walk, strides) if batch else strides
        kernel = stub.cuda("matmul").mm(shape.dtype)
        kernel(out._device.index, *pointers, m, n, k, *walks, *batch)
    return out


def _calls_blas(out: Geometry, mat2: Geometry) -> bool:
    """Return True if BLAS computes the product by one direct call. Return False if BLAS does not
    support the operands, or if the loop `mm` may use threads."""
    k, n = mat2.sizes[-2:]
    is_large = out.ndim == 2 and stub.cpu("matmul").uses_threads(out.sizes[0], n, k)
    return out.dtype in _BLAS and out.nbytes > 0 and mat2.numel > 0 and not is_large


class _CpuEntry:
    """A cached entry for products of two layouts on the CPU. Short cuts are made from it. See the
    entries of structured/pointwise/."""

    __slots__ = ("geometry", "loop", "numpy_allocates", "block", "is_fresh")

    def __init__(self, geometry: Geometry, mat2: Geometry) -> None:
        self.geometry, self.block, self.is_fresh = geometry, 0, True
        # True if NumPy allocates the result of BLAS, which is row-major. Large results are
        # allocated by gputensor, so that they are aligned.
        self.numpy_allocates = geometry.in_numpy and _calls_blas(geometry, mat2)
        loops = stub.cpu("matmul")
        self.loop = loops.dot if self.numpy_allocates else loops.mm


def functional(operator: Operator, loop: str) -> tuple[Kernel, Kernel]:
    def cpu(key_set: int, self: Tensor, mat2: Tensor) -> Tensor:
        key = (self._geometry, mat2._geometry)
        table = operator.table
        entry = table.plans.get(key)
        if entry is None:
            entry = table.remember(key, _CpuEntry(result(loop, self, mat2), mat2._geometry))
        elif entry.is_fresh:
            short_pointwise.learn(table, cpu, key, entry)
        if not entry.numpy_allocates:
            return product_into(loop, allocate(entry.geometry, CPU), self, mat2)
        return from_array(run(entry.loop, self._get_array(), mat2._get_array()), entry.geometry)

    def others(key_set: int, self: Tensor, mat2: Tensor) -> Tensor:
        made = allocate(result(loop, self, mat2), self._device)
        product_into(loop, made, self, mat2)
        if made._device.type == "cuda":
            cuda_products.learn(operator.table, others, loop, (self, mat2), made)
        return made

    return cpu, others


def out(operator: Operator, loop: str) -> Kernel:
    def kernel(key_set: int, self: Tensor, mat2: Tensor, out: Tensor) -> Tensor:
        library.check_out(loop, out, result(loop, self, mat2), self=self, mat2=mat2)
        return product_into(loop, out, self, mat2)

    return kernel


def matmul(key_set: int, self: Tensor, other: Any) -> Tensor:
    """Compute the product by mm, mv, bmm and other operators, chosen by the operands' dimensions as
    in PyTorch. Source: aten/src/ATen/native/LinearAlgebra.cpp, _matmul_impl and should_fold."""
    rows, columns = self._geometry.ndim, other._geometry.ndim
    if rows == columns == 2:
        return calls.mm(self, other)
    for name, operand, ndim in (("self", self, rows), ("other", other, columns)):
        if ndim == 0:
            raise errors.wrong_shape("matmul", name, "have a dimension at least", operand)
    inner = other._geometry.sizes[-2 if columns > 1 else 0]
    if self._geometry.sizes[-1] != inner:
        rule = f"have {self._geometry.sizes[-1]} rows, as self has columns"
        raise errors.wrong_shape("matmul", "other", rule, other)
    if rows == columns == 1:
        return calls.dot(self, other)
    if rows == 2 and columns == 1:
        return calls.mv(self, other)
    if rows == 1 and columns == 2:
        return calls.squeeze_dim(calls.mm(calls.unsqueeze(self, 0), other), 0)
    if _folds(self, other):
        return _folded(self, other)
    return _batched(self, other)


def _folds(self: Tensor, other: Tensor) -> bool:
    """Return True if the batch dimensions of the larger operand are folded into the rows of one
    matrix. Source: should_fold."""
    first = self._geometry.ndim >= other._geometry.ndim
    large, small = (self, other) if first else (calls.mT(other), self)
    if large._geometry.ndim < 3 or small._geometry.ndim > 2:
        return False
    if small.requires_grad:
        return True
    if self._geometry.ndim == 2:
        return False
    if large._geometry.numel == 0:
        return True
    sizes, strides = large._geometry.sizes, large._geometry.strides
    return all(strides[i] == strides[i + 1] * sizes[i + 1] for i in range(len(sizes) - 2))


def _folded(self: Tensor, other: Tensor) -> Tensor:
    turns = other._geometry.ndim > self._geometry.ndim
    large = calls.mT(other) if turns else self
    small = other if not turns else calls.t(self) if self._geometry.ndim == 2 else self
    sizes = large._geometry.sizes
    rows = calls.reshape(large, (math.prod(sizes[:-1]), sizes[-1]))
    if small._geometry.ndim == 1:
        return with_sizes(calls.mv(rows, small), sizes[:-1])
    made = with_sizes(calls.mm(rows, small), (*sizes[:-1], small._geometry.sizes[1]))
    return calls.contiguous(calls.mT(made), contiguous_format) if turns else made


def _batched(self: Tensor, other: Tensor) -> Tensor:
    a, b = self._geometry.sizes, other._geometry.sizes
    # Fold an operand with one matrix if it needs a gradient. If it were expanded, its gradient
    # would be as large as the batch.
    if len(a) == len(b) == 3 and a[0] != b[0]:
        if a[0] == 1 and self.requires_grad:
            return matmul(0, calls.squeeze_dim(self, 0), other)
        if b[0] == 1 and other.requires_grad:
            return matmul(0, self, calls.squeeze_dim(other, 0))
    vector = len(b) == 1
    batch = broadcast_sizes(a[:-2], () if vector else b[:-2])
    if batch is None:
        rule = f"have batches that broadcast with self's {list(a[:-2])}"
        raise errors.wrong_shape("matmul", "other", rule, other)
    count = math.prod(batch)
    rows, inner = (a[-2] if len(a) > 1 else 1), a[-1]
    left = calls.expand(self, (*batch, rows, inner), False)
    left = calls.reshape(left, (count, rows, inner))
    if vector:
        right = calls.reshape(calls.expand(other, (*batch, inner), False), (count, inner, 1))
    else:
        right = calls.expand(other, (*batch, inner, b[-1]), False)
        right = calls.reshape(right, (count, inner, b[-1]))
    kept = (*batch, *a[-2:-1], *(() if vector else b[-1:]))
    return with_sizes(calls.bmm(left, right), kept)


# --- addmm ----------------------------------------------------------------------------------------


def _names(op: str) -> tuple[str, str]:
    return ("mat1", "mat2") if op == "addmm" else ("batch1", "batch2")


def added_result(op: str, self: Tensor, a: Tensor, b: Tensor, beta: Any, alpha: Any) -> Geometry:
    """Check the operands of addmm, baddbmm or addbmm. Return the layout of the product."""
    first, second = _names(op)
    wanted, given = result(op, a, b, first, second, 2 if op == "addmm" else 3), self._geometry
    sizes = wanted.sizes[1:] if op == "addbmm" else wanted.sizes
    arguments.check_alike(op, first, a, "self", self)
    if wanted.dtype.category == BOOL:
        raise errors.wrong_dtype(op, "self", "not be bool", self)
    if given.sizes != sizes and broadcast_sizes(given.sizes, sizes) != sizes:
        raise errors.wrong_shape(op, "self", f"broadcast to {list(sizes)}", self)
    _check_scales(op, wanted.dtype, beta, alpha)
    return wanted


def _check_scales(op: str, element: dtype, beta: Any, alpha: Any) -> None:
    """Raise unless beta and alpha are numbers that fit the operands' dtype."""
    for arg, x in (("beta", beta), ("alpha", alpha)):
        if type(x) not in NUMBERS:
            raise errors.wrong_type(op, arg, "be a number", x)
        if x is not _ONE:
            number_range.check(op, arg, x, element)


def cut(element: dtype, scale: Any) -> Any:
    """Return beta or alpha as a number of the operands' dtype. For integers, the fraction is
    truncated.

    Source: aten/src/ATen/native/LinearAlgebra.cpp, `beta.to<scalar_t>()`.
    """
    if element.category >= FLOATING or type(scale) is int:
        return scale
    return int(scale.real)


def _added_without_cuda(
    out: Tensor, self: Tensor, a: Tensor, b: Tensor, beta: Any, alpha: Any, multiply: Any
) -> bool:
    """Write beta * self + alpha * multiply(a, b) to `out` and return True. On CUDA, write nothing
    and return False, so that the caller launches a kernel."""
    if out._geometry.numel == 0 or out._device.type == "meta":
        return True
    if out._device is CPU:
        array, added = out._get_array(), self._get_array()
        if out is not self and out._storage is not None and out._storage is self._storage:
            added = added.copy()
        matrices = added, a._get_array(), b._get_array()
        run(stub.cpu("matmul").addmm, *matrices, beta, alpha, array)
        return True
    if out._device.type == "cuda":
        return False
    # `multiply` and pointwise operators suffice, so a device need not implement addmm.
    product = multiply(a, b)
    scaled = product if alpha == 1 else calls.mul_Tensor(product, alpha)
    calls.copy_(out, scaled if beta == 0 else calls.add_Tensor(scaled, self, beta), False)
    return True


def _added(self: Tensor, mat1: Tensor, mat2: Tensor, beta: Any, alpha: Any) -> Tensor:
    return calls.addmm(self, mat1, mat2, beta=beta, alpha=alpha)


def added_into(
    op: str, out: Tensor, self: Tensor, a: Tensor, b: Tensor, beta: Any, alpha: Any
) -> Tensor:
    """Write beta * self + alpha * a @ b to `out`, for one product or a batch of products."""
    shape = out._geometry
    if shape.dtype.is_float8:
        return float8.written(_added, out, self, a, b, beta, alpha)
    beta, alpha = cut(shape.dtype, beta), cut(shape.dtype, alpha)
    if _added_without_cuda(
        out, self, a, b, beta, alpha, calls.mm if shape.ndim == 2 else calls.bmm
    ):
        return out
    (*batch, m, n), k = shape.sizes, a._geometry.sizes[-1]
    if cublas.takes(shape.dtype, shape.sizes, k):
        _write_by_cublas(op, out, self, a, b, beta, alpha)
        return out
    given = self._geometry
    added = strides_over(given.sizes, given.strides, shape.sizes)
    stub.cuda("matmul").addmm(shape.dtype)(
        out._device.index, out._address(), a._address() if k else 0, b._address() if k else 0,
        m, n, k, walk(a._geometry.strides), walk(b._geometry.strides), walk(shape.strides),
        self._address(), walk(added), beta, alpha, *batch,
    )  # fmt: skip
    return out


def walk(strides: Sizes) -> Sizes:
    """Return the strides in the order rows, columns and, for a batch, matrices."""
    return (*strides[-2:], *strides[:-2])


def added_functional(operator: Operator, loop: str) -> Kernel:
    def kernel(
        key_set: int, self: Tensor, mat1: Tensor, mat2: Tensor, beta: Any = 1, alpha: Any = 1
    ) -> Tensor:
        table, key = operator.table, (self._geometry, mat1._geometry, mat2._geometry)
        is_on_cpu = self._device is CPU and mat1._device is CPU and mat2._device is CPU
        known: Seen | None = table.plans.get(key) if is_on_cpu else None
        if known is not None and beta is known.value[1] and alpha is known.value[2]:
            shape = known.value[0]
            if is_due(known, table):
                known.short = table.short
                args = (self, mat1, mat2, beta, alpha)
                short.learn(table, kernel, args, _added_short(shape, *args[2:]))
        else:
            shape = added_result("addmm", self, mat1, mat2, beta, alpha)
            if is_on_cpu:
                table.remember(key, Seen((shape, beta, alpha)))
        made = allocate(shape, mat1._device)
        added_into("addmm", made, self, mat1, mat2, beta, alpha)
        if made._device.type == "cuda":
            scales = cut(shape.dtype, beta), cut(shape.dtype, alpha)
            args, copy = (self, mat1, mat2, beta, alpha), copy_launch(made, self)
            cuda_products.learn(operator.table, kernel, "addmm", args, made, scales, copy)
        return made

    return kernel


def _added_short(shape: Geometry, mat2: Tensor, beta: Any, alpha: Any) -> Any:
    loops = stub.cpu("matmul")
    if beta is _ONE and alpha is _ONE and _calls_blas(shape, mat2._geometry):
        return short.made_of(loops.added, shape)
    beta, alpha = cut(shape.dtype, beta), cut(shape.dtype, alpha)
    return short.made_by(lambda x, a, b, out: loops.addmm(x, a, b, beta, alpha, out), shape)


def inplace_of(op: str) -> Kernel:
    """Make the in-place kernel of addmm or baddbmm."""
    first, second = _names(op)

    def kernel(
        key_set: int, self: Tensor, a: Tensor, b: Tensor, beta: Any = 1, alpha: Any = 1
    ) -> Tensor:
        wanted = added_result(op, self, a, b, beta, alpha)
        if self._geometry.sizes != wanted.sizes:
            rule = f"have the result's sizes {list(wanted.sizes)}"
            raise errors.wrong_shape(f"{op}_", "self", rule, self)
        overlap.check_out(op, self, **{first: a, second: b})
        return added_into(op, self, self, a, b, beta, alpha)

    return kernel


def out_of(op: str) -> Kernel:
    """Make the out kernel of addmm or baddbmm."""
    first, second = _names(op)

    def kernel(
        key_set: int, self: Tensor, a: Tensor, b: Tensor, beta: Any, alpha: Any, out: Tensor
    ) -> Tensor:
        wanted = added_result(op, self, a, b, beta, alpha)
        read = {first: a, second: b} | ({} if out is self else {"self": self})
        if out is self and out._geometry.sizes != wanted.sizes:
            self = calls.clone(self, None)
        library.check_out(op, out, wanted, **read)
        return added_into(op, out, self, a, b, beta, alpha)

    return kernel


def added_inplace(operator: Operator, loop: str) -> Kernel:
    return inplace_of(loop)


def added_out(operator: Operator, loop: str) -> Kernel:
    return out_of(loop)


def _name_what_does_not_fit(given: Geometry, weight: Tensor, bias: Tensor | None) -> None:
    """Raise an error that names the arguments of `linear`, for operands that mm and addmm would
    reject."""
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
    """Return addmm if input is a matrix and there is a bias. Otherwise, like PyTorch, multiply the
    input as one matrix of rows, then add the bias.
    """
    given = input._geometry
    if weight._geometry.ndim not in (1, 2):
        raise errors.wrong_shape("linear", "weight", "be a matrix or a vector", weight)
    if not given.ndim:
        raise errors.wrong_shape("linear", "input", "have a dimension of features", input)
    # A vector as weight means one output feature, and the result has no feature dimension.
    if weight._geometry.ndim == 1:
        made = calls.linear(input, calls.unsqueeze(weight, 0))
        made = calls.squeeze_dim(made, -1)
        return made if bias is None else calls.add_Tensor(made, bias)
    rows = input
    if given.ndim != 2:  # -1 is not used, because the number of features may be 0.
        rows = calls.reshape(input, (math.prod(given.sizes[:-1]), given.sizes[-1]))
    turned = calls.t(weight)
    try:
        made = calls.mm(rows, turned) if bias is None else calls.addmm(bias, rows, turned)
    except (errors.ShapeError, errors.DtypeError):
        _name_what_does_not_fit(given, weight, bias)
        raise
    if given.ndim == 2:
        return made
    sizes = *given.sizes[:-1], weight._geometry.sizes[0]
    return with_sizes(made, sizes) if bias is None else calls.view(made, sizes)

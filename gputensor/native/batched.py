"""Products of batches of matrices: bmm, baddbmm, and addbmm, which adds up the products."""

from __future__ import annotations

from typing import Any

from .._generated import calls
from ..core import errors
from ..core.device import CPU
from ..core.dtype import BOOL
from ..core.geometry import Geometry, contiguous_geometry
from ..iterator import overlap
from ..iterator.broadcast import broadcast_sizes
from ..kernels import stub
from ..kernels.cpu.quiet import run
from ..structured import arguments, library
from ..tensor.make import allocate
from ..tensor.tensor import Tensor
from .matmul import added_into, by_library, check_scales, multiply, walk


def _check(op: str, first: str, batch1: Tensor, second: str, batch2: Tensor) -> Geometry:
    """Check the operands and return the layout of a new result."""
    a, b = batch1._geometry, batch2._geometry
    for arg, x in ((first, batch1), (second, batch2)):
        if x._geometry.ndim != 3:
            raise errors.wrong_shape(op, arg, "be a batch of matrices, of 3 dimensions", x)
    arguments.check_alike(op, first, batch1, second, batch2)
    if a.dtype.is_opaque:
        raise errors.not_computed(op, first, a.dtype, batch1)
    if (a.sizes[0], a.sizes[2]) != b.sizes[:2]:
        rule = f"have {a.sizes[0]} matrices of {a.sizes[2]} rows, as {first} has columns"
        raise errors.wrong_shape(op, second, rule, batch2)
    return contiguous_geometry((*a.sizes[:2], b.sizes[2]), a.dtype)


def _into(out: Tensor, a: Tensor, b: Tensor) -> Tensor:
    shape = out._geometry
    if shape.numel == 0 or out._device.type == "meta":
        return out
    if out._device is CPU:
        run(stub.cpu("matmul").mm, a._get_array(), b._get_array(), out._get_array())
        return out
    count, m, n = shape.sizes
    k = a._geometry.sizes[2]
    # A registered device has its own kernel, which is called for each matrix.
    if out._device.type != "cuda":
        if k == 0:
            return calls.zero_(out)
        for i in range(count):
            part, x, y = [calls.select_int(t, 0, i) for t in (out, a, b)]
            calls.copy_(part, calls.mm(x, y), False)
    elif by_library(shape.dtype, count * m * n * k):
        library.write("bmm", multiply, (out,), a, b)
    else:
        stub.cuda("matmul").mm(shape.dtype)(
            out._device.index, out._address(), a._address() if k else 0, b._address() if k else 0,
            m, n, k, walk(a._geometry.strides), walk(b._geometry.strides), walk(shape.strides),
            count,
        )  # fmt: skip
    return out


def bmm(key_set: int, self: Tensor, mat2: Tensor) -> Tensor:
    wanted = _check("bmm", "self", self, "mat2", mat2)
    return _into(allocate(wanted, self._device), self, mat2)


def bmm_out(key_set: int, self: Tensor, mat2: Tensor, out: Tensor) -> Tensor:
    library.check_out("bmm", out, _check("bmm", "self", self, "mat2", mat2), self=self, mat2=mat2)
    return _into(out, self, mat2)


# --- baddbmm --------------------------------------------------------------------------------------


def _check_added(
    op: str, self: Tensor, batch1: Tensor, batch2: Tensor, beta: Any, alpha: Any
) -> Geometry:
    wanted = _check(op, "batch1", batch1, "batch2", batch2)
    sizes = wanted.sizes if op == "baddbmm" else wanted.sizes[1:]
    given, element = self._geometry, wanted.dtype
    arguments.check_alike(op, "batch1", batch1, "self", self)
    if element.category == BOOL:
        raise errors.wrong_dtype(op, "self", "not be bool", self)
    if given.ndim > len(sizes) or broadcast_sizes(given.sizes, sizes) != sizes:
        raise errors.wrong_shape(op, "self", f"broadcast to {list(sizes)}", self)
    check_scales(op, element, beta, alpha)
    return wanted


def baddbmm(
    key_set: int, self: Tensor, batch1: Tensor, batch2: Tensor, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    wanted = _check_added("baddbmm", self, batch1, batch2, beta, alpha)
    return added_into(
        "baddbmm", allocate(wanted, batch1._device), self, batch1, batch2, beta, alpha
    )


def baddbmm_(
    key_set: int, self: Tensor, batch1: Tensor, batch2: Tensor, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    wanted = _check_added("baddbmm", self, batch1, batch2, beta, alpha)
    if self._geometry.sizes != wanted.sizes:
        rule = f"have the result's sizes {list(wanted.sizes)}"
        raise errors.wrong_shape("baddbmm_", "self", rule, self)
    overlap.check_out("baddbmm", self, batch1=batch1, batch2=batch2)
    return added_into("baddbmm", self, self, batch1, batch2, beta, alpha)


def baddbmm_out(
    key_set: int, self: Tensor, batch1: Tensor, batch2: Tensor, beta: Any, alpha: Any, out: Tensor
) -> Tensor:
    wanted = _check_added("baddbmm", self, batch1, batch2, beta, alpha)
    read = {"batch1": batch1, "batch2": batch2} | ({} if out is self else {"self": self})
    if out is self and out._geometry.sizes != wanted.sizes:
        self = calls.clone(self, None)
    library.check_out("baddbmm", out, wanted, **read)
    return added_into("baddbmm", out, self, batch1, batch2, beta, alpha)


def addbmm(
    key_set: int, self: Tensor, batch1: Tensor, batch2: Tensor, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    """Compute the sum of products as one product of longer rows. This product determines the order
    of the additions.
    """
    _check_added("addbmm", self, batch1, batch2, beta, alpha)
    count, rows, inner = batch1._geometry.sizes
    left = calls.reshape(calls.permute(batch1, (1, 0, 2)), (rows, count * inner))
    right = calls.reshape(batch2, (count * inner, batch2._geometry.sizes[2]))
    return calls.addmm(self, left, right, beta, alpha)

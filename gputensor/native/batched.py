"""Products of batches of matrices: bmm, baddbmm, and addbmm, which adds up the products."""

from __future__ import annotations

from typing import Any

from .._generated import calls, operators
from ..structured import library
from ..structured.shortcuts import cuda_products
from ..structured.pointwise import Kernel
from ..tensor.make import allocate
from ..tensor.tensor import Tensor
from . import matmul
from .matmul import added_into, added_result, product_into, result


def bmm(key_set: int, self: Tensor, mat2: Tensor) -> Tensor:
    made = allocate(result("bmm", self, mat2, ndim=3), self._device)
    product_into("bmm", made, self, mat2)
    if made._device.type == "cuda":
        cuda_products.learn(operators.bmm.table, bmm, "bmm", (self, mat2), made)
    return made


def bmm_out(key_set: int, self: Tensor, mat2: Tensor, out: Tensor) -> Tensor:
    library.check_out("bmm", out, result("bmm", self, mat2, ndim=3), self=self, mat2=mat2)
    return product_into("bmm", out, self, mat2)


# --- sums with products ---------------------------------------------------------------------------


def baddbmm(
    key_set: int, self: Tensor, batch1: Tensor, batch2: Tensor, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    made = allocate(added_result("baddbmm", self, batch1, batch2, beta, alpha), batch1._device)
    return added_into("baddbmm", made, self, batch1, batch2, beta, alpha)


baddbmm_: Kernel = matmul.inplace_of("baddbmm")
baddbmm_out: Kernel = matmul.out_of("baddbmm")
for _kernel in (baddbmm_, baddbmm_out):
    _kernel.__module__ = __name__  # A kernel's family is the name of its module.


def addbmm(
    key_set: int, self: Tensor, batch1: Tensor, batch2: Tensor, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    """Return beta * self + alpha * (sum of the products). The sum is one product of matrices that
    are joined along the inner dimension. That product determines the order of the additions.
    """
    added_result("addbmm", self, batch1, batch2, beta, alpha)
    count, rows, inner = batch1._geometry.sizes
    left = calls.reshape(calls.permute(batch1, (1, 0, 2)), (rows, count * inner))
    right = calls.reshape(batch2, (count * inner, batch2._geometry.sizes[2]))
    return calls.addmm(self, left, right, beta, alpha)

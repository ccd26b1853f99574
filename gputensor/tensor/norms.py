"""`x.norm()` and `gt.norm`, whose `p` may be a name. Source: torch/functional.py."""

from __future__ import annotations

from typing import Any

from .._generated import calls
from ..core.arguments import sequence
from ..dispatch.refusal import declares


@declares(
    self="Tensor", p="float?|str", dim="int?|int[]", keepdim="bool", dtype="ScalarType?",
    out="Tensor?",
)  # fmt: skip
def norm(
    self: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None,
    out: Any = None,
) -> Any:  # fmt: skip
    """The p-norm of all elements as one vector, or along dimensions.

    Args:
        p: a number; "fro", the root of the sum of squares; "nuc", the sum of singular values of
            the matrices in two dimensions.
    """
    if isinstance(p, str):
        dims = sequence(dim)
        if p != "fro" or dims is not None and len(dims) > 2:
            dims = tuple(range(self.ndim)) if dims is None else tuple(dims)
            if out is None:
                return calls.linalg_matrix_norm_str_ord(self, p, dims, keepdim, dtype)
            return calls.linalg_matrix_norm_str_ord_out(self, p, dims, keepdim, dtype, out)
        p = 2
    to = () if out is None else (out,)
    if dim is not None or keepdim:
        dim = () if dim is None else dim
        if dtype is None:
            return (calls.norm_out if to else calls.norm_ScalarOpt_dim)(self, p, dim, keepdim, *to)
        along = calls.norm_dtype_out if to else calls.norm_ScalarOpt_dim_dtype
        return along(self, p, dim, keepdim, dtype, *to)
    if dtype is None:
        return (calls.norm_Scalar_out if to else calls.norm_Scalar)(
            self, 2 if p is None else p, *to
        )
    of_all = calls.norm_ScalarOpt_dtype_out if to else calls.norm_ScalarOpt_dtype
    return of_all(self, p, dtype, *to)

"""Methods whose arguments determine the operator or the number of results, such as `x.norm()` and
`x.unique()`.

Source of these functions: torch/functional.py.
"""

from __future__ import annotations

from typing import Any

from .._generated import calls
from ..core.arguments import flag, sequence
from ..dispatch.refusal import declares


@declares(
    input="Tensor", p="float?|str", dim="int?|int[]", keepdim="bool", dtype="ScalarType?",
    out="Tensor?",
)  # fmt: skip
def norm(
    input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, out: Any = None,
    dtype: Any = None,
) -> Any:  # fmt: skip
    """Return the p-norm of the flattened tensor, or the norms along dimensions.

    Args:
        p: a number; "fro", the root of the sum of squares; "nuc", the sum of singular values of
            the matrices in two dimensions.
    """
    if isinstance(p, str):
        dims = sequence(dim)
        if p != "fro" or dims is not None and len(dims) > 2:
            dims = tuple(range(input.ndim)) if dims is None else tuple(dims)
            if out is None:
                return calls.linalg_matrix_norm_str_ord(input, p, dims, keepdim, dtype)
            return calls.linalg_matrix_norm_str_ord_out(input, p, dims, keepdim, dtype, out)
        p = 2
    p = 2 if p is None else p
    if out is None:
        return calls.linalg_vector_norm(input, p, dim, keepdim, dtype)
    return calls.linalg_vector_norm_out(input, p, dim, keepdim, dtype, out)


def norm_of(
    self: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Any:
    """Return the p-norm. See gt.norm."""
    return norm(self, p, dim, keepdim, None, dtype)


norm_of.__name__ = "norm"


# --- results that depend on options; the operators always return three results ------------------


@declares(input="Tensor", dim="int?")
def unique(
    input: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """Return the sorted unique elements, or unique slices along dim.

    Args:
        return_inverse: also return, for each element, its index among the unique elements.
        return_counts: also return the count of each unique element.
    """
    flags = [flag("unique", name, value) for name, value in (
        ("sorted", sorted), ("return_inverse", return_inverse), ("return_counts", return_counts)
    )]  # fmt: skip
    found = calls._unique2(input, *flags) if dim is None else calls.unique_dim(input, dim, *flags)
    return _asked(found, flags[1], flags[2])


@declares(input="Tensor", dim="int?")
def unique_consecutive(
    input: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Return the elements, or slices along dim, that differ from their predecessor. The other
    results are as in `unique`."""
    inverse = flag("unique_consecutive", "return_inverse", return_inverse)
    counts = flag("unique_consecutive", "return_counts", return_counts)
    return _asked(calls.unique_consecutive(input, inverse, counts, dim), inverse, counts)


def _asked(found: Any, inverse: bool, counts: bool) -> Any:
    results = (found[0], *found[1 : 1 + inverse], *found[2 : 2 + counts])
    return results if len(results) > 1 else found[0]

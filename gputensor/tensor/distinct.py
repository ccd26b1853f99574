"""`x.unique()` and `x.unique_consecutive()`, which give as many results as are asked for.

The operators under them always give three. Source of the forms: torch/functional.py.
"""

from __future__ import annotations

from typing import Any

from .._generated import calls
from ..core.arguments import flag
from ..dispatch.refusal import declares


@declares(self="Tensor", dim="int?")
def unique(
    self: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """The different elements in order, or the different slices of dim.

    Args:
        return_inverse: also where each element is among them.
        return_counts: also how often each is there.
    """
    flags = [flag("unique", name, value) for name, value in (
        ("sorted", sorted), ("return_inverse", return_inverse), ("return_counts", return_counts)
    )]  # fmt: skip
    found = calls._unique2(self, *flags) if dim is None else calls.unique_dim(self, dim, *flags)
    return _asked(found, flags[1], flags[2])


@declares(self="Tensor", dim="int?")
def unique_consecutive(
    self: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Elements without those that equal the one before them, or slices of dim; the other results
    as of `unique`."""
    inverse = flag("unique_consecutive", "return_inverse", return_inverse)
    counts = flag("unique_consecutive", "return_counts", return_counts)
    return _asked(calls.unique_consecutive(self, inverse, counts, dim), inverse, counts)


def _asked(found: Any, inverse: bool, counts: bool) -> Any:
    results = (found[0], *found[1 : 1 + inverse], *found[2 : 2 + counts])
    return results if len(results) > 1 else found[0]

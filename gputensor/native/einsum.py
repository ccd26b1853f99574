"""einsum, and operators that are computed like it: tensordot, bilinear, _trilinear.

Two operands at a time are multiplied as a batch of matrix products. A dimension that both operands
have becomes a batch dimension if it is needed later. Otherwise the product sums over it. Source:
aten/src/ATen/native/Linear.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from .._generated import calls
from ..core import errors
from ..structured import arguments
from ..tensor.tensor import Tensor

Sizes = tuple[int, ...]


def _bad(rule: str, got: Any) -> Exception:
    return errors.must("einsum", "equation", rule, got)


def einsum(
    key_set: int, equation: str, tensors: Sequence[Tensor], path: Sequence[int] | None = None
) -> Tensor:
    if not tensors:
        raise errors.must("einsum", "tensors", "hold a tensor at least", 0)
    if len(tensors) == 2 and path is None:
        product = _of_pair(equation, *[x._geometry.sizes for x in tensors])
        if product is not None:
            made = _multiplied(product, *tensors)
            sizes = made._geometry.sizes
            # A view has PyTorch's strides also in dimensions of size 1.
            return calls.view(made, sizes) if 1 in sizes else made
    terms, _ = _parsed(equation)
    if len(terms) != len(tensors):
        raise _bad(f"have {len(tensors)} terms, as there are operands", equation)
    for number, (labels, x) in enumerate(zip(terms, tensors)):
        ndim, named = x._geometry.ndim, len(labels) - (... in labels)
        if named > ndim or (named != ndim and ... not in labels):
            rule = f"name {ndim} dimensions of operand {number}"
            raise errors.wrong_shape("einsum", "equation", rule, x)
    named_terms, order, count = _named(equation, tuple([x._geometry.ndim for x in tensors]))
    operands = [_aligned(x, labels, order) for x, labels in zip(tensors, named_terms)]
    _check_sizes(operands, order, equation)
    return _contracted(operands, count, path)


@lru_cache(maxsize=256)
def _parsed(equation: str) -> tuple[list[list[Any]], list[Any] | None]:
    """Return (labels of each operand, labels of the result). The labels of the result are None if
    the equation has no arrow."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = [_labels(term, equation) for term in left.split(",")]
    return terms, _labels(right, equation) if arrow else None


@lru_cache(maxsize=256)
def _named(equation: str, ndims: Sizes) -> tuple[list[list[str]], list[str], int]:
    """Return three values: the labels of each operand, in which ellipses are expanded; all labels,
    those of the result first; and the number of labels in the result."""
    terms, right = _parsed(equation)
    wide = max([n - len(term) + 1 for n, term in zip(ndims, terms) if ... in term], default=0)
    rest = [f"...{i}" for i in range(wide)]
    named_terms = [_spread(labels, ndim, rest) for labels, ndim in zip(terms, ndims)]
    flat = [name for labels in named_terms for name in labels]
    if right is not None:
        result = [y for x in right for y in (rest if x is ... else [x])]
        for name in result:
            if result.count(name) > 1:
                raise _bad(f"name {name!r} once in the result", equation)
            if name not in flat and name not in rest:
                raise _bad(f"name {name!r} in an operand, as in the result", equation)
    else:
        once = sorted([x for x in set(flat) - set(rest) if flat.count(x) == 1], key=_order)
        result = [*rest, *once]
    order = [*result, *sorted(set(flat) - set(result), key=_order)]
    return named_terms, order, len(result)


def _order(label: str) -> tuple[bool, str]:
    return label.islower(), label


def _labels(term: str, equation: str) -> list[Any]:
    """Return the labels of a term: a str for each letter, and Ellipsis for `...`."""
    found: list[Any] = []
    at = 0
    while at < len(term):
        if term.startswith("...", at) and ... not in found:
            found.append(...)
            at += 3
        elif term[at].isascii() and term[at].isalpha():
            found.append(term[at])
            at += 1
        else:
            raise _bad("have letters, commas, one '->' and an ellipsis a term", equation)
    return found


def _spread(labels: list[Any], ndim: int, rest: list[str]) -> list[str]:
    """Return the labels with the ellipsis expanded. Ellipses are aligned at their last
    dimensions."""
    count = ndim - (len(labels) - 1)
    return [y for label in labels for y in (rest[len(rest) - count :] if label is ... else [label])]


def _aligned(x: Tensor, labels: list[str], order: list[str]) -> Tensor:
    """Return the operand with one dimension per label, in the order `order`. For a repeated label,
    the diagonal is taken."""
    kept: list[str] = []
    for label in labels:
        if label in kept:
            first = kept.index(label)
            sizes = x._geometry.sizes
            if sizes[first] != sizes[len(kept)]:
                raise errors.wrong_shape("einsum", "operands", f"have one size for {label!r}", x)
            x = calls.movedim_int(calls.diagonal(x, 0, first, len(kept)), -1, first)
        else:
            kept.append(label)
    for label in order:
        if label not in kept:
            x = calls.unsqueeze(x, len(kept))
            kept.append(label)
    dims = tuple([kept.index(label) for label in order])
    return x if dims == tuple(range(len(dims))) else calls.permute(x, dims)


def _check_sizes(operands: list[Tensor], order: list[str], equation: str) -> None:
    for place, label in enumerate(order):
        sizes = {x._geometry.sizes[place] for x in operands} - {1}
        if len(sizes) > 1:
            given = next(x for x in operands if x._geometry.sizes[place] == max(sizes))
            raise errors.wrong_shape("einsum", "operands", f"have one size for {label!r}", given)


def _contracted(operands: list[Tensor], kept: int, path: Sequence[int] | None) -> Tensor:
    """Contract two operands at a time: in the order of `path`, or from left to right if path is
    None. Sum over the dimensions with index `kept` and above."""
    ndim = operands[0]._geometry.ndim
    steps = list(path) if path is not None else []
    while len(operands) > 1:
        i, j = (steps.pop(0), steps.pop(0)) if len(steps) > 1 else (0, 1)
        if not 0 <= i < len(operands) or not 0 <= j < len(operands) or i == j:
            rule = "name two of the operands that are left at a time"
            raise errors.must("einsum", "path", rule, tuple(path or ()))
        b, a = (operands.pop(max(i, j)), operands.pop(min(i, j)))
        summed = [d for d in range(kept, ndim) if all(x._geometry.sizes[d] == 1 for x in operands)]
        for d in summed:  # Sum a dimension before the product if only one operand has it.
            if a._geometry.sizes[d] == 1 and b._geometry.sizes[d] != 1:
                b = calls.sum_dim_IntList(b, (d,), True, None)
            elif b._geometry.sizes[d] == 1 and a._geometry.sizes[d] != 1:
                a = calls.sum_dim_IntList(a, (d,), True, None)
        made = _sumproduct_pair(a, b, [d for d in summed if a._geometry.sizes[d] != 1])
        if path is None:
            operands.insert(0, made)
        else:
            operands.append(made)
    found = operands[0]
    rest = tuple(range(kept, ndim))
    if any(found._geometry.sizes[d] != 1 for d in rest):
        return calls.sum_dim_IntList(found, rest, False, None)
    return calls.view(found, found._geometry.sizes[:kept]) if rest else found


def _sumproduct_pair(a: Tensor, b: Tensor, summed: list[int]) -> Tensor:
    """Multiply two operands and sum over the dimensions `summed`, which remain with size 1."""
    if not summed:
        return calls.mul_Tensor(a, b)
    for d in summed:
        size_a, size_b = a._geometry.sizes[d], b._geometry.sizes[d]
        if size_a != 1 and size_b == 1:
            a = calls.sum_dim_IntList(a, (d,), True, None)
        elif size_b != 1 and size_a == 1:
            b = calls.sum_dim_IntList(b, (d,), True, None)
    places = tuple(range(a._geometry.ndim))
    sizes = a._geometry.sizes, b._geometry.sizes
    return _multiplied(_product(*sizes, places, places, tuple(summed), len(places)), a, b)


# --- two operands as batches of matrices ----------------------------------------------------------


class _Matrices(NamedTuple):
    """How an operand becomes matrices: its dimensions in another order, then other sizes. None if
    the operand already has this order or these sizes."""

    dims: Sizes | None
    sizes: Sizes | None


class _Product(NamedTuple):
    """How two operands are multiplied. is_exchanged: True if the second operand comes first. sizes,
    dims: the sizes of the product, and then the order of its dimensions, or None as above."""

    is_exchanged: bool
    left: _Matrices
    right: _Matrices
    sizes: Sizes | None
    dims: Sizes | None


def _multiplied(product: _Product, a: Tensor, b: Tensor) -> Tensor:
    if product.is_exchanged:
        a, b = b, a
    made = calls.bmm(_as_matrices(a, product.left), _as_matrices(b, product.right))
    if product.sizes is not None:
        made = calls.view(made, product.sizes)
    return made if product.dims is None else calls.permute(made, product.dims)


def _as_matrices(x: Tensor, wanted: _Matrices) -> Tensor:
    if wanted.dims is not None:
        x = calls.permute(x, wanted.dims)
    return x if wanted.sizes is None else calls.reshape(x, wanted.sizes)


@lru_cache(maxsize=1024)
def _of_pair(equation: str, size_a: Sizes, size_b: Sizes) -> _Product | None:
    """Return the product that computes an equation of two operands. Return None if one product does
    not, or if the equation does not fit the operands."""
    terms, _ = _parsed(equation)
    sizes = size_a, size_b
    if len(terms) != 2 or any(
        len(set(term)) != len(term)
        or (len(term) - 1 > len(of) if ... in term else len(term) != len(of))
        for term, of in zip(terms, sizes)
    ):
        return None
    named, order, kept = _named(equation, (len(size_a), len(size_b)))
    known = [dict(zip(labels, of)) for labels, of in zip(named, sizes)]
    a, b = [tuple([size_of.get(label, 1) for label in order]) for size_of in known]
    is_product = len(order) > kept and all(
        m == n and m != 1 if place >= kept else m == n or 1 in (m, n)
        for place, (m, n) in enumerate(zip(a, b))
    )
    if not is_product:
        return None
    places = [tuple([order.index(label) for label in labels]) for labels in named]
    return _product(a, b, *places, tuple(range(kept, len(order))), kept)


@lru_cache(maxsize=1024)
def _product(
    a: Sizes, b: Sizes, places_a: Sizes, places_b: Sizes, summed: Sizes, kept: int
) -> _Product:
    """Return the product of operands with the sizes a and b, which is summed over some dimensions.

    a, b: sizes of equally many dimensions, 1 for a dimension that an operand lacks. places_a,
    places_b: the numbers of those dimensions that an operand has, in its order. kept: the number of
    dimensions that the result has.
    """
    both: list[int] = []
    of_a: list[int] = []
    of_b: list[int] = []
    over = [d for d in summed if a[d] != 1 and b[d] != 1]
    for d in range(len(a)):
        if d not in summed:
            alone = of_a if a[d] != 1 else of_b
            (both if a[d] != 1 and b[d] != 1 else alone).append(d)
    # Exchange the operands if this brings the result closer to row-major.
    is_exchanged = bool(of_a and of_b and of_a[0] > of_b[-1])
    if is_exchanged:
        a, b, of_a, of_b, places_a, places_b = b, a, of_b, of_a, places_b, places_a
    left = _matrices(a, places_a, both, of_a, over)
    right = _matrices(b, places_b, both, over, of_b)
    order = [*both, *of_a, *of_b]
    order += [d for d in range(kept) if d not in order]
    sizes = tuple([a[d] if d in of_a or d in both else b[d] for d in order[:kept]])
    sizes = tuple([1 if d in summed else size for d, size in zip(order, sizes)])
    made = [math.prod([of[d] for d in dims]) for of, dims in ((a, both), (a, of_a), (b, of_b))]
    dims = tuple([order.index(d) for d in range(kept)])
    return _Product(is_exchanged, left, right, _or_none(sizes, made), _or_none(dims, range(kept)))


def _matrices(sizes: Sizes, places: Sizes, *groups: list[int]) -> _Matrices:
    """Return how an operand becomes a tensor with one dimension per group. sizes, places: as in
    `_product`. Dimensions in no group have size 1."""
    grouped = [d for group in groups for d in group if d in places]
    order = [*grouped, *[d for d in places if d not in grouped]]
    dims = tuple([places.index(d) for d in order])
    wanted = tuple([math.prod([sizes[d] for d in group]) for group in groups])
    return _Matrices(_or_none(dims, range(len(dims))), _or_none(wanted, [sizes[d] for d in order]))


def _or_none(wanted: Sizes, given: Sequence[int]) -> Sizes | None:
    return None if wanted == tuple(given) else wanted


# --- tensordot ------------------------------------------------------------------------------------


def tensordot(key_set: int, self: Tensor, other: Tensor, dims_self: Any, dims_other: Any) -> Tensor:
    """Contract dimensions of two tensors. Source: aten/src/ATen/native/Linear.cpp, tensordot."""
    first = arguments.ints("tensordot", "dims_self", dims_self)
    second = arguments.ints("tensordot", "dims_other", dims_other)
    if len(first) != len(second):
        raise errors.must("tensordot", "dims_other", f"name {len(first)} dimensions", second)
    first = arguments.dims("tensordot", first, self._geometry.ndim, "dims_self")
    second = arguments.dims("tensordot", second, other._geometry.ndim, "dims_other")
    a, b = self, other
    for i, j in zip(first, second):
        m, n = a._geometry.sizes[i], b._geometry.sizes[j]
        if m == 1:
            b = calls.sum_dim_IntList(b, (j,), True, _own(b))
        elif n == 1:
            a = calls.sum_dim_IntList(a, (i,), True, _own(a))
        elif m != n:
            raise errors.wrong_shape("tensordot", "other", f"have size {m} at dimension {j}", other)
    left, right, sizes = _of_tensordot(a._geometry.sizes, b._geometry.sizes, first, second)
    return calls.view(calls.mm(_as_matrices(a, left), _as_matrices(b, right)), sizes)


@lru_cache(maxsize=1024)
def _of_tensordot(
    a: Sizes, b: Sizes, first: Sizes, second: Sizes
) -> tuple[_Matrices, _Matrices, Sizes]:
    """Return how the operands become matrices, and the sizes of the result."""
    places_a, places_b = tuple(range(len(a))), tuple(range(len(b)))
    kept_a = [d for d in places_a if d not in first]
    kept_b = [d for d in places_b if d not in second]
    left = _matrices(a, places_a, kept_a, [*first])
    right = _matrices(b, places_b, [*second], kept_b)
    return left, right, (*[a[d] for d in kept_a], *[b[d] for d in kept_b])


def _own(x: Tensor) -> Any:
    return x._geometry.dtype


# --- three operands -------------------------------------------------------------------------------


def _trilinear(
    key_set: int, i1: Tensor, i2: Tensor, i3: Tensor, expand1: Any, expand2: Any, expand3: Any,
    sumdim: Any, unroll_dim: int = 1,
) -> Tensor:  # fmt: skip
    """Return the sum of the products of three tensors, in a single step. Source:
    aten/src/ATen/native/Linear.cpp, _trilinear."""
    ndim = i1._geometry.ndim + len(expand1)
    arguments.dim("_trilinear", unroll_dim, ndim, "unroll_dim")
    operands: list[Tensor] = []
    for x, places in ((i1, expand1), (i2, expand2), (i3, expand3)):
        for place in sorted(arguments.ints("_trilinear", "expand", places)):
            x = calls.unsqueeze(x, place)
        if x._geometry.ndim != ndim:
            raise errors.wrong_shape("_trilinear", "i1, i2, i3", f"have {ndim} dimensions each", x)
        operands.append(x)
    summed = list(arguments.dims("_trilinear", sumdim, ndim, "sumdim"))
    a, b, c = operands
    early = [d for d in summed if c._geometry.sizes[d] == 1]
    made = _sumproduct_pair(_sumproduct_pair(a, b, early), c, summed)
    return calls.squeeze_dims(made, tuple(summed)) if summed else made


def bilinear(
    key_set: int, input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    a, b, w = input1._geometry.sizes, input2._geometry.sizes, weight._geometry.sizes
    if len(a) != len(b) or a[:-1] != b[:-1] or not a:
        rule = f"have input1's sizes {list(a[:-1])} before the last"
        raise errors.wrong_shape("bilinear", "input2", rule, input2)
    if len(w) != 3 or w[1:] != (a[-1], b[-1]):
        rule = f"have sizes [features, {a[-1]}, {b[-1]}]"
        raise errors.wrong_shape("bilinear", "weight", rule, weight)
    if bias is not None and bias._geometry.sizes != (w[0],):
        raise errors.wrong_shape("bilinear", "bias", f"have {w[0]} elements", bias)
    first = (
        calls.reshape(input1, (-1, a[-1]))
        if a[-1]
        else calls.reshape(input1, (math.prod(a[:-1]), 0))
    )
    second = calls.reshape(input2, (first._geometry.sizes[0], b[-1]))
    made = calls._trilinear(first, weight, second, (1, 3), (0,), (1, 2), (2, 3), 1)
    made = calls.reshape(made, (*a[:-1], w[0]))
    return made if bias is None else calls.add_Tensor(made, bias)

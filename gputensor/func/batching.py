"""`vmap`: applies a function of single tensors to a batch of tensors at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from .._generated import functions
from ..core import errors
from ..dispatch.refusal import declares
from ..structured.generator import all_marks, return_all_to
from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree
from . import custom_function
from .levels import batched, physical
from .vmap_level import VmapLevel

_RANDOMNESS = ("error", "different", "same")


@declares(randomness="str", chunk_size="int?")
def vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """Return a function that maps `func` over a dimension of its arguments.

    Args:
        in_dims: for each argument the dimension to map over, or None; one number for all arguments,
            or a structure with the nesting of the arguments.
        out_dims: the position of the mapped dimension in each result.
        randomness: for operators that draw random numbers: "error", "different" numbers for each
            entry, or the "same" for all.
        chunk_size: the number of entries to compute at once; by default all.

    >>> gt.vmap(gt.dot)(gt.ones(2, 3), gt.ones(2, 3))
    tensor([3., 3.])
    """
    if not callable(func):
        raise errors.wrong_type("vmap", "func", "be callable", func)
    if randomness not in _RANDOMNESS:
        raise errors.wrong_value("vmap", "randomness", f"be one of {_RANDOMNESS}", randomness)
    if chunk_size is not None and (not isinstance(chunk_size, int) or chunk_size < 1):
        raise errors.wrong_value("vmap", "chunk_size", "be None or at least 1", chunk_size)
    custom_function.install()

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = pytree.tree_flatten(args)
        dims = _dims_of("in_dims", in_dims, args, leaves)
        size = _size(leaves, dims)
        if chunk_size is None or chunk_size >= size:
            made, form, at = _run(func, size, leaves, tree, dims, kwargs, out_dims, randomness)
            return pytree.tree_unflatten(made, form)
        parts = []
        marks = all_marks() if randomness == "same" else None
        for start in range(0, size, chunk_size):
            if marks is not None:
                return_all_to(marks)
            count = min(chunk_size, size - start)
            some = [x if d is None else x.narrow(d, start, count) for x, d in zip(leaves, dims)]
            parts.append(_run(func, count, some, tree, dims, kwargs, out_dims, randomness))
        form, at = parts[0][1:]
        joined = [
            group[0] if d is None else functions.cat(group, d)
            for group, d in zip(zip(*[made for made, _, _ in parts]), at)
        ]
        return pytree.tree_unflatten(joined, form)

    return mapped


def _run(
    func: Callable[..., Any], size: int, leaves: list[Any], tree: Any, dims: list[Any],
    kwargs: dict[str, Any], out_dims: Any, randomness: str,
) -> tuple[list[Any], Any, list[Any]]:  # fmt: skip
    """Run the function. Return the leaves of the results, their tree, and the batch dimension of
    each leaf."""
    level = VmapLevel(size, randomness)
    with level:
        given = [x if d is None else batched(level, x.movedim(d, 0)) for x, d in zip(leaves, dims)]
        result = func(*pytree.tree_unflatten(given, tree), **kwargs)
    made, form = pytree.tree_flatten(result)
    at = _dims_of("out_dims", out_dims, result, made)
    return [_unwrapped(level, x, d) for x, d in zip(made, at)], form, at


def _unwrapped(level: VmapLevel, x: Any, dim: int | None) -> Any:
    if not isinstance(x, Tensor):
        if dim is None:
            return x
        raise errors.wrong_type("vmap", "func", "return Tensors where out_dims is not None", x)
    if dim is not None:
        return physical(level, x).movedim(0, dim)
    if level.owns(x):
        raise errors.wrong_value("vmap", "out_dims", "be a dimension of a result with a batch", dim)
    return x


def _dims_of(arg: str, dims: Any, value: Any, leaves: list[Any]) -> list[Any]:
    """Return the mapped dimension of each leaf of `value`, or None for a leaf that is not
    mapped."""
    found = list(_spread(arg, dims, value))
    if len(found) != len(leaves):
        raise errors.wrong_value("vmap", arg, "be nested as the arguments or results are", dims)
    checked = []
    for d, x in zip(found, leaves):
        if d is None or arg == "out_dims":
            checked.append(d)
            continue
        if not isinstance(x, Tensor):
            raise errors.wrong_value("vmap", arg, "be None for an argument that is not a Tensor", d)
        ndim = x._geometry.ndim
        if not -ndim <= d < ndim:
            raise errors.dim_out_of_range("vmap", d, ndim)
        checked.append(d % ndim)
    return checked


def _spread(arg: str, dims: Any, value: Any) -> Iterator[Any]:
    if dims is None or type(dims) is int:
        yield from [dims] * len(pytree.tree_leaves(value))
    elif isinstance(dims, dict) and isinstance(value, dict) and dims.keys() == value.keys():
        for name in value:
            yield from _spread(arg, dims[name], value[name])
    elif isinstance(dims, (list, tuple)):
        items = value if isinstance(value, (list, tuple)) else (value,)
        if len(dims) != len(items):
            rule = f"have {len(items)} parts, as the arguments or results have"
            raise errors.wrong_value("vmap", arg, rule, dims)
        for d, item in zip(dims, items):
            yield from _spread(arg, d, item)
    else:
        raise errors.wrong_type("vmap", arg, "hold ints and None", dims)


def _size(leaves: list[Any], dims: list[Any]) -> int:
    """Return the size of the batch, which is the size of each mapped dimension."""
    sizes = {x._geometry.sizes[d] for x, d in zip(leaves, dims) if d is not None}
    if not sizes:
        raise errors.wrong_value("vmap", "in_dims", "name a dimension of an argument", None)
    if len(sizes) > 1:
        got = errors.Got(f"sizes {sorted(sizes)}")
        raise errors.wrong_shape("vmap", "in_dims", "name dimensions of one size", got)
    return int(sizes.pop())

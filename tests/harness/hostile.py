"""Bad tensors for operands: other sizes, dtypes and devices, and indices far out of range."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gputensor as gt


def _sized(sizes: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Callable[[Any], Any]:
    return lambda x: gt.ones(sizes(tuple(x.shape)), dtype=x.dtype, device=x.device)


def _of(dtype: Any, number: Any = 1) -> Callable[[Any], Any]:
    return lambda x: gt.full(tuple(x.shape), number, dtype=dtype or x.dtype, device=x.device)


def _one_place_out(x: Any) -> Any:
    places = gt.zeros(tuple(x.shape), dtype=gt.int64)
    places.view(-1)[-1:] = 100
    return places.to(x.device)


_PLACES = (-1, 7, -7, 100, 2**31, 2**32, 2**62, 2**63 - 1, -(2**63), -(2**31) - 1)
_DTYPES = "bool uint8 int16 int32 int64 uint32 float16 bfloat16 float64 complex64".split()

# name -> tensor that replaces an operand, on its device
TENSORS: dict[str, Callable[[Any], Any]] = {
    "empty": _sized(lambda sizes: (0,)),
    "first size 0": _sized(lambda sizes: (0, *sizes[1:])),
    "last size 0": _sized(lambda sizes: (*sizes[:-1], 0)),
    "0-d": _sized(lambda sizes: ()),
    "more dims": _sized(lambda sizes: (2, *sizes)),
    "more dims behind": _sized(lambda sizes: (*sizes, 2)),
    "fewer dims": _sized(lambda sizes: sizes[1:]),
    "longer": _sized(lambda sizes: tuple([n + 1 for n in sizes])),
    "shorter": _sized(lambda sizes: tuple([max(n - 1, 0) for n in sizes])),
    "sizes of 1": _sized(lambda sizes: (1,) * len(sizes)),
    "9 dims": _sized(lambda sizes: (1,) * 9),
    **{f"as {name}": _of(getattr(gt, name)) for name in _DTYPES},
    **{f"{number} as int64": _of(gt.int64, number) for number in _PLACES},
    **{f"{number} as int32": _of(gt.int32, number) for number in (-1, 100, 2**31 - 1, -(2**31))},
    "255 as uint8": _of(gt.uint8, 255),
    "one place out": _one_place_out,
    **{f"{number}": _of(None, number) for number in (float("nan"), float("inf"), -1, 2.0**40)},
    "other device": lambda x: gt.ones(
        tuple(x.shape), dtype=x.dtype, device="meta" if x.device.type == "cpu" else "cpu"
    ),
    "leaf": lambda x: _of(None)(x).requires_grad_(),
    "expanded": lambda x: gt.ones((1,) * x.ndim, dtype=x.dtype, device=x.device).expand(x.shape),
    "conjugated": lambda x: _of(gt.complex64)(x).conj(),
}
# bincount makes as many bins as the largest element says.
TOO_MANY_BINS = ("2147483648 as int64", "4294967296 as int64", "2147483647 as int32")


def tensors_in(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return the positions of tensors in arguments."""
    for place, x in tree.items() if type(tree) is dict else enumerate(tree):
        if isinstance(x, gt.Tensor):
            yield (*path, place)
        elif type(x) in (list, tuple, dict):
            yield from tensors_in(x, (*path, place))


def exchanged(tree: Any, path: tuple[Any, ...], make: Callable[[Any], Any]) -> Any:
    """Return the arguments with another tensor at a position. Raises the error if that tensor
    cannot be made."""
    found: Any = dict(tree) if type(tree) is dict else list(tree)
    at = path[0]
    found[at] = make(tree[at]) if len(path) == 1 else exchanged(tree[at], path[1:], make)
    return tuple(found) if type(tree) is tuple else found

"""Calls with a dimension, or with operands of few dimensions, that PyTorch and gputensor have."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

SIZES = ((), (1,), (3,), (0,), (1, 3), (2, 1), (2, 0))
DIMS = (0, -1, 1, -2, 2)

Call = Callable[[Any, Any, int], Any]


def _reduction(name: str, **options: Any) -> Call:
    return lambda L, x, d: getattr(L, name)(x, d, **options)


CALLS: dict[str, Call] = {
    "flip": lambda L, x, d: L.flip(x, (d,)),
    "flip_none": lambda L, x, d: L.flip(x, ()),
    "flip_twice": lambda L, x, d: L.flip(x, (d, d)),
    **{n: _reduction(n) for n in ("sum", "mean", "amax", "amin", "any", "all", "argmax", "argmin")},
    **{f"{n}_kept": _reduction(n, keepdim=True) for n in ("sum", "amax", "any", "argmax")},
    **{f"{n}_none": (lambda n: lambda L, x, d: getattr(L, n)(x, ()))(n) for n in ("sum", "any",
    "amax")},
    "softmax": lambda L, x, d: x.softmax(d),
    "log_softmax": lambda L, x, d: x.log_softmax(d),
    **{n: (lambda n: lambda L, x, d: getattr(x.clone(), n)(d))(n) for n in ("squeeze_",
    "unsqueeze_")},
    **{n: (lambda n: lambda L, x, d: getattr(x, n)(d))(n) for n in ("squeeze", "unsqueeze",
    "unbind")},
    "size": lambda L, x, d: (x.size(d), x.stride(d)),
    "select": lambda L, x, d: x.select(d, 0),
    "narrow": lambda L, x, d: x.narrow(d, 0, 1),
    "narrow_none": lambda L, x, d: x.narrow(d, 0, 0),
    "split": lambda L, x, d: x.split(1, d),
    "split_sizes": lambda L, x, d: x.split([1], d),
    "split_no_sizes": lambda L, x, d: x.split([], d),
    "chunk": lambda L, x, d: x.chunk(2, d),
    "unfold": lambda L, x, d: x.unfold(d, 1, 1),
    "transpose": lambda L, x, d: x.transpose(d, 0),
    "transpose_": lambda L, x, d: x.clone().transpose_(d, d),
    "movedim": lambda L, x, d: x.movedim(0, d),
    "swapaxes": lambda L, x, d: x.swapaxes(d, -1),
    "permute": lambda L, x, d: x.permute((d,)),
    "permute_none": lambda L, x, d: x.permute(()),
    "flatten": lambda L, x, d: x.flatten(d, -1),
    "unflatten": lambda L, x, d: x.unflatten(d, (1, -1)),
    "diagonal": lambda L, x, d: x.diagonal(0, d, 0),
    "cat": lambda L, x, d: L.cat([x, x], d),
    "stack": lambda L, x, d: L.stack([x, x], d),
    "expand": lambda L, x, d: x.expand((2, *x.shape)),
    "repeat": lambda L, x, d: x.repeat((2,) * max(x.ndim, 1)),
    "view": lambda L, x, d: x.view(-1),
    "reshape": lambda L, x, d: x.reshape(1, *x.shape),
    "index": lambda L, x, d: x[None],
    "t": lambda L, x, d: x.t(),
    "T": lambda L, x, d: x.T,
    "mT": lambda L, x, d: x.mT,
    "matmul": lambda L, x, d: x @ x,
    "matmul_turned": lambda L, x, d: x @ x.t(),
    "matmul_vector": lambda L, x, d: x @ L.ones(3, device=x.device),
    "matmul_before": lambda L, x, d: L.ones(2, device=x.device) @ x,
    "linear": lambda L, x, d: L.nn.functional.linear(x, x),
    "linear_vector": lambda L, x, d: L.nn.functional.linear(x, L.ones(3, device=x.device)),
}  # fmt: skip


def outcome(call: Call, L: Any, sizes: tuple[int, ...], d: int, device: str) -> Any:
    """Return the results as (sizes, strides, dtype, values), or the exception."""
    x = L.arange(float(math.prod(sizes))).reshape(sizes).to(device)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _plain(call(L, x, d))
    except Exception as error:
        return error


def _plain(found: Any) -> Any:
    if isinstance(found, (list, tuple)):
        return [_plain(x) for x in found]
    if not hasattr(found, "stride"):
        return found
    values = None if str(found.device) == "meta" else found.reshape(-1).tolist()
    return (list(found.shape), list(found.stride()), str(found.dtype).partition(".")[2], values)


def without_values(found: Any) -> Any:
    if isinstance(found, list):
        return [without_values(x) for x in found]
    return found[:3] if isinstance(found, tuple) else found


def close(a: Any, b: Any) -> bool:
    """Return True for equal values; the last bits may differ where exponentials were summed."""
    if isinstance(a, list):
        return len(a) == len(b) and all(close(x, y) for x, y in zip(a, b))
    if not isinstance(a, tuple):
        return bool(a == b)
    return all(math.isclose(x, y, rel_tol=1e-5) or x != x and y != y for x, y in zip(a[3], b[3]))

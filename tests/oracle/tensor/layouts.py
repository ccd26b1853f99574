"""Random layouts made by the same steps in PyTorch and gputensor, and their comparison."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch

import gputensor as gt
from gputensor.core import dtype as dtypes

DTYPES = [d.name for d in dtypes.ALL]
Pair = tuple[Any, Any]


def torch_dtype(name: str) -> torch.dtype:
    return getattr(torch, name)


def gt_dtype(name: str) -> Any:
    return getattr(gt, name)


def random_sizes(rng: random.Random, max_ndim: int = 5) -> tuple[int, ...]:
    """Return sizes of 0 to `max_ndim` dimensions, with a size of 0 in about one of twelve cases."""
    ndim = rng.randint(0, max_ndim)
    sizes = [rng.choice((1, 2, 2, 3, 3, 4, 5)) for _ in range(ndim)]
    if ndim and rng.random() < 0.08:
        sizes[rng.randrange(ndim)] = 0
    return tuple(sizes)


def values(rng: random.Random, sizes: tuple[int, ...], name: str) -> np.ndarray[Any, Any]:
    """Return small values that every dtype represents exactly, with zeros, and negative values if
    the dtype has them."""
    low = 0 if name == "bool" or name.startswith("uint") else -4
    made = np.random.default_rng(rng.getrandbits(32)).integers(low, 9, sizes)
    if name in ("complex64", "complex128"):
        return made + 1j * np.flip(made)
    return made * 0.5 if name.startswith(("float", "bfloat")) else made


def pair_of(rng: random.Random, sizes: tuple[int, ...], name: str) -> Pair:
    """Return row-major tensors of both libraries with equal values."""
    if 0 in sizes:  # NumPy gives empty arrays strides of 0
        return torch.empty(sizes, dtype=torch_dtype(name)), gt.empty(sizes, dtype=gt_dtype(name))
    array = np.empty(sizes, getattr(dtypes, name if name != "bool" else "bool_").np)
    array[...] = values(rng, sizes, name).astype(array.dtype)
    ours = gt.from_numpy(array)
    raw = torch.from_numpy(array.reshape(-1).view(np.uint8).copy())
    return raw.view(torch_dtype(name)).reshape(sizes), ours


def random_pair(rng: random.Random, name: str | None = None, max_ndim: int = 5) -> Pair:
    """Return a pair in a random layout: permuted, stepped, narrowed, expanded, with size-1 dims."""
    name = name or rng.choice(DTYPES)
    pair = pair_of(rng, random_sizes(rng, max_ndim), name)
    for _ in range(rng.randint(0, 4)):
        pair = _step(rng, pair, max_ndim)
    return pair


def _step(rng: random.Random, pair: Pair, max_ndim: int) -> Pair:
    theirs, ours = pair
    ndim = theirs.ndim
    kind = rng.choice(
        ("permute", "slice", "select", "unsqueeze", "expand", "narrow", "format", "transpose")
    )
    if kind == "unsqueeze" and ndim < max_ndim:
        dim = rng.randint(-ndim - 1, ndim)
        return theirs.unsqueeze(dim), ours.unsqueeze(dim)
    if not ndim:
        return pair
    dim = rng.randrange(ndim)
    size = theirs.shape[dim]
    if kind == "permute":
        order = list(range(ndim))
        rng.shuffle(order)
        return theirs.permute(order), ours.permute(order)
    if kind == "transpose":
        other = rng.randrange(ndim)
        return theirs.transpose(dim, other), ours.transpose(dim, other)
    if kind == "slice":
        index = [slice(None)] * ndim
        index[dim] = slice(rng.randint(0, size), None, rng.randint(1, 2))
        return theirs[tuple(index)], ours[tuple(index)]
    if kind == "select" and size:
        at = rng.randrange(-size, size)
        return theirs.select(dim, at), ours.select(dim, at)
    if kind == "narrow" and size:
        start = rng.randrange(size)
        length = rng.randint(0 if rng.random() < 0.1 else 1, size - start)
        return theirs.narrow(dim, start, length), ours.narrow(dim, start, length)
    if kind == "expand":
        sizes = [rng.choice((2, 3)) if n == 1 and rng.random() < 0.7 else n for n in theirs.shape]
        return theirs.expand(sizes), ours.expand(sizes)
    if kind == "format" and ndim == 4:
        return theirs.contiguous(memory_format=torch.channels_last), ours.contiguous(
            memory_format=gt.channels_last
        )
    return pair


def raw_bytes(tensor: Any) -> bytes:
    """Return the elements of a tensor of either library in row-major order, as bytes."""
    if isinstance(tensor, torch.Tensor):
        flat = tensor.clone(memory_format=torch.contiguous_format).reshape(-1)
        return bytes(flat.view(torch.uint8).numpy().tobytes()) if flat.numel() else b""
    return bytes(np.ascontiguousarray(tensor.cpu()._get_array()).tobytes())


def assert_same(
    theirs: Any, ours: Any, what: str, *, strides: bool = True, exact: bool = True
) -> None:
    """Check that PyTorch's and our result agree in sizes, strides, dtype and elements."""
    assert tuple(theirs.shape) == tuple(ours.shape), (
        f"{what}: sizes {tuple(theirs.shape)}, got {tuple(ours.shape)}"
    )
    assert str(theirs.dtype).removeprefix("torch.") == ours.dtype.name, (
        f"{what}: {theirs.dtype}, got {ours.dtype}"
    )
    if strides:
        assert theirs.stride() == ours.stride(), (
            f"{what}: strides {theirs.stride()}, got {ours.stride()}"
        )
    if exact:
        assert _equal(theirs, ours), f"{what}: elements differ\n{theirs}\n{ours}"


def _equal(theirs: Any, ours: Any) -> bool:
    """True if bytes are equal; all NaNs are equal."""
    x, y = raw_bytes(theirs), raw_bytes(ours)
    if x == y or ours.dtype.category < 2:
        return x == y
    part = ours.dtype.to_real.np
    a, b = (np.frombuffer(z, part).astype(np.float64) for z in (x, y))
    return bool(
        np.array_equal(a, b, equal_nan=True)
        and (np.signbit(a) == np.signbit(b))[~np.isnan(a)].all()
    )


def describe(theirs: Any) -> str:
    return (
        f"{str(theirs.dtype).removeprefix('torch.')}{list(theirs.shape)} strides {theirs.stride()}"
    )


def unsigned(pairs: list[Any]) -> bool:
    """True if an operand has a dtype for which PyTorch lacks kernels that gputensor has."""
    names = {str(p[0].dtype) for p in pairs if isinstance(p[0], torch.Tensor)}
    return bool(names & {"torch.uint16", "torch.uint32", "torch.uint64"})

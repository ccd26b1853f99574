"""Data types of the benchmark `operators`: operands, calls, and groups that combine them.

A call is written as PyTorch's users write it; `torch` and `F` stand for the measured library. The
other files of this folder list the calls by family.
"""

from __future__ import annotations

import ast
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# the number of elements for each of the three sizes
K, K100, M4 = 1 << 10, 100_000, 1 << 22
# Sizes up to this limit, such as windows, channels or heads, are not changed by --scale.
_KEPT = 16


def scaled(n: int, scale: int) -> int:
    """Return the size n divided by `scale`. Sizes that are equal stay equal."""
    return n if n <= _KEPT else max(_KEPT, n // scale)


# --- operands -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Operand:
    """One argument of a call. kind: how the elements are made. For the kind `number`, the argument
    is not a tensor but an int: the size.

    low, high: the range of the elements. For integers `high` is a size, and is divided by `scale`.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    low: float = -3.0
    high: float = 3.0
    kind: str = "uniform"

    def array(self, seed: str, scale: int = 1) -> Any:
        """Return the elements as a NumPy array. For the kind `number`, return an int. The seed
        determines the elements.

        A bfloat16 operand is float32 here, because NumPy lacks bfloat16.
        """
        shape = tuple(scaled(n, scale) for n in self.shape)
        if self.kind == "number":
            return shape[0]
        random = np.random.default_rng(zlib.crc32(f"{seed} {shape}".encode()))
        if self.kind == "permutation":
            return random.permutation(shape[0])
        if self.dtype == "bool":
            return random.random(shape, np.float32) < self.high
        if self.dtype.startswith(("int", "uint")):
            high = max(int(self.low) + 1, scaled(int(self.high), scale))
            return random.integers(int(self.low), high, shape, np.dtype(self.dtype))
        made: Any = random.random(shape, np.float32) * np.float32(self.high - self.low)
        made += np.float32(self.low)
        if self.kind == "ascending":
            made.sort()
        if self.kind == "invertible":
            made = made / len(made.T) + 2 * np.eye(shape[-1], dtype=np.float32)
        elif self.kind == "definite":
            made = made @ made.swapaxes(-1, -2) / shape[-1] + np.eye(shape[-1], dtype=np.float32)
        if self.dtype.startswith("complex"):
            made = made + 1j * made[..., ::-1]
        kept = "float32" if self.dtype == "bfloat16" else self.dtype
        return np.asarray(made).astype(kept, copy=False)


def floats(*shape: int, dtype: str = "float32", low: float = -3.0, high: float = 3.0) -> Operand:
    return Operand(shape, dtype, low, high)


def positive(*shape: int, dtype: str = "float32") -> Operand:
    return Operand(shape, dtype, 0.1, 3.0)


def integers(*shape: int, below: int, low: int = 0, dtype: str = "int64") -> Operand:
    return Operand(shape, dtype, low, below)


def masks(*shape: int, share: float = 0.5) -> Operand:
    """Return booleans of which a fraction `share` is true."""
    return Operand(shape, "bool", high=share)


def number(n: int) -> Operand:
    return Operand((n,), kind="number")


def ascending(n: int) -> Operand:
    return Operand((n,), kind="ascending")


def permutation(n: int) -> Operand:
    """Return the indices from 0 to n - 1, in random order."""
    return Operand((n,), "int64", kind="permutation")


def invertible(*shape: int) -> Operand:
    return Operand(shape, low=-1.0, high=1.0, kind="invertible")


def definite(*shape: int) -> Operand:
    return Operand(shape, low=-1.0, high=1.0, kind="definite")


# --- calls ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """A timed expression, `text`. numpy: the expression for NumPy and SciPy, or "" if there is
    none.

    setup: statements that run once before, for each library. agree: an expression of the result `r`
    to compare with PyTorch's, for results that are not determined (the order of equal elements, the
    signs of vectors, random numbers). rtol: the tolerance; None means the tolerance of the dtype.
    """

    name: str
    text: str
    numpy: str = ""
    setup: str = ""
    agree: str = ""
    rtol: float | None = None


@dataclass(frozen=True)
class Group:
    """Calls of one family, with the same operands. label: the text that is appended to the name of
    each call."""

    family: str
    operands: Mapping[str, Operand]
    calls: tuple[Call, ...]
    label: str = ""


@dataclass(frozen=True)
class Case:
    """One call of the benchmark, with its operands."""

    number: int
    family: str
    name: str
    call: Call
    operands: dict[str, Operand] = field(hash=False)

    def matches(self, parts: Iterable[str]) -> bool:
        """Return True if the family or the name contains one of the parts."""
        return any(part.lower() in f"{self.family}: {self.name}".lower() for part in parts)


def cases(groups: Iterable[Group]) -> Iterator[Case]:
    """Return all calls of all groups, numbered from 1."""
    number = 0
    for group in groups:
        for call in group.calls:
            number += 1
            used = _names(call.setup) | _names(call.text)
            operands = {name: of for name, of in group.operands.items() if name in used}
            name = f"{call.name}, {group.label}" if group.label else call.name
            yield Case(number, group.family, name, call, operands)


def _names(text: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}


def backward(name: str, text: str, of: str = "x") -> Call:
    """Return a call that computes the derivatives of `text` with respect to the operands `of`. The
    forward pass is part of the setup, so it is not timed."""
    # The incoming gradient `g` is neither constant nor equal to the result, because the derivatives
    # of softmax and of norms would then be zero.
    return Call(
        f"backward of {name}",
        f"torch.autograd.grad(r, [{of}], g, retain_graph=True)",
        setup=f"[t.requires_grad_() for t in [{of}]]; r = {text}; g = r.detach() ** 2",
    )


def step(name: str, text: str, of: str) -> Call:
    """Return a call that computes the mean of `text`, and its derivatives with respect to the
    operands `of`."""
    setup = f"[t.requires_grad_() for t in [{of}]]"
    return Call(name, f"torch.autograd.grad({text}.mean(), [{of}])", setup=setup)

"""Conjugates, negatives and efficient zeros against PyTorch's: random programs of views, reads and
writes.

Values, sizes, strides and both bits are compared after every step, and the memory at the end.
Excluded: `view_as_real` and other dtypes of lazy views (both raise), x / zero (PyTorch: inf for any
x), `resize_` of an efficient zero (PyTorch 2.13 crashes).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.dispatch import dispatcher
from gputensor.fallbacks.lazy_views import _passes

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]

PROGRAMS = 2000
STEPS = 8


def private(library: Any, name: str) -> Any:
    return getattr(library, name) if library is torch else getattr(gt.ops.aten, name)


Step = Callable[[Any, Any, Any], Any]
# (library, the current tensor, a plain one of the base's values) -> the next current tensor
VIEWS: dict[str, Step] = {
    "conj": lambda lib, x, y: x.conj(),
    "_neg_view": lambda lib, x, y: private(lib, "_neg_view")(x),
    "real": lambda lib, x, y: x.real,
    "imag": lambda lib, x, y: x.imag if x.is_complex() else x,
    "t": lambda lib, x, y: x.t() if x.ndim == 2 else x,
    "select": lambda lib, x, y: x[-1] if x.ndim and x.shape[0] else x,
    "slice": lambda lib, x, y: x[::2] if x.ndim else x,
    "reshape": lambda lib, x, y: x.reshape(-1),
    "expand": lambda lib, x, y: x.unsqueeze(0).expand(2, *x.shape) if x.ndim < 3 else x,
    "detach": lambda lib, x, y: x.detach(),
    "contiguous": lambda lib, x, y: x.contiguous(),
    "resolve_conj": lambda lib, x, y: x.resolve_conj(),
    "resolve_neg": lambda lib, x, y: x.resolve_neg(),
}
READS: dict[str, Step] = {
    "clone": lambda lib, x, y: x.clone(),
    "add": lambda lib, x, y: x + 1,
    "mul": lambda lib, x, y: x * x,
    "mixed": lambda lib, x, y: lib.cat([x.reshape(-1), y.reshape(-1)]) if x.dtype == y.dtype else x,
    "neg": lambda lib, x, y: -x,
    "abs": lambda lib, x, y: x.abs(),
    "sum": lambda lib, x, y: x.sum(0) if x.ndim else x,
    "to": lambda lib, x, y: x.to(lib.complex128),
    "conj_physical": lambda lib, x, y: x.conj_physical(),
    "empty_like": lambda lib, x, y: lib.zeros_like(x),
    "flip": lambda lib, x, y: x.flip(0) if x.ndim else x,
    "eq": lambda lib, x, y: (x == x.clone()) * x,
}
WRITES: dict[str, Step] = {
    "add_": lambda lib, x, y: x.add_(2),
    "mul_": lambda lib, x, y: x.mul_(x),
    "neg_": lambda lib, x, y: x.neg_(),
    "fill_": lambda lib, x, y: x.fill_(3),
    "zero_": lambda lib, x, y: x.zero_(),
    "copy_": lambda lib, x, y: x.copy_(y.reshape(-1)[0].conj()),
    "conj_physical_": lambda lib, x, y: x.conj_physical_(),
    "out": lambda lib, x, y: lib.add(x, 1, out=x),
    "into": lambda lib, x, y: lib.mul(x.clone(), 2, out=x),
}
NAMES = [*VIEWS, *VIEWS, *READS, *WRITES]


def values(x: Any) -> np.ndarray:
    x = x.detach().resolve_conj().resolve_neg()
    return np.array(x.numpy(force=True))


def state(x: Any) -> tuple[Any, ...]:
    # PyTorch's abs of complex numbers keeps unusual strides of dimensions of size 1, unlike other
    # operators.
    walked = tuple(s for n, s in zip(x.shape, x.stride()) if n > 1) if x.numel() else ()
    return (tuple(x.shape), walked, str(x.dtype).split(".")[-1], x.is_conj(), x.is_neg())


def run(library: Any, base: Any, program: list[str]) -> list[Any]:
    """Return the result of each step, or the kind of its error."""
    x, seen = base, []
    plain = base.clone()
    for name in program:
        step = (VIEWS | READS | WRITES)[name]
        try:
            x = step(library, x, plain)
        except (RuntimeError, TypeError, NotImplementedError, IndexError):
            seen.append("refused")
            continue
        seen.append((state(x), values(x)))
    return seen


def test_random_programs() -> None:
    rng = random.Random(1)
    refused = compared = 0
    for number in range(PROGRAMS):
        sizes = rng.choice([(3,), (2, 3), (), (1, 2, 2), (0, 2)])
        numbers = np.random.default_rng(number).integers(-4, 5, (*sizes, 2)).astype(np.float32)
        array = np.asarray(numbers[..., 0] + 1j * numbers[..., 1], np.complex64)
        program = [rng.choice(NAMES) for _ in range(STEPS)]
        ours, theirs = gt.from_numpy(array.copy()), torch.from_numpy(array.copy())
        found, wanted = run(gt, ours, program), run(torch, theirs, program)
        for name, a, b in zip(program, found, wanted):
            assert (a == "refused") == (b == "refused"), (program, name, a, b)
            if a == "refused":
                refused += 1
                continue
            assert a[0] == b[0], (number, sizes, program, name, a[0], b[0])
            np.testing.assert_allclose(a[1], b[1], rtol=1e-6, err_msg=str((program, name)))
            compared += 1
        np.testing.assert_allclose(values(ours), values(theirs), rtol=1e-6, err_msg=str(program))
    assert compared > PROGRAMS * 5 and refused < compared / 5


def test_efficient_zeros() -> None:
    calls: dict[str, Any] = {
        "x+1": lambda lib, x, y: x + 1, "x*y": lambda lib, x, y: x * y, "y*x": lambda lib, x,
        y: y * x,
        "x+y": lambda lib, x, y: x + y, "y-x": lambda lib, x, y: y - x, "x-x": lambda lib, x,
        y: x - x,
        "x/y": lambda lib, x, y: x / (y + 1), "alpha": lambda lib, x, y: lib.add(x, y, alpha=3),
        "neg": lambda lib, x, y: -x, "sum": lambda lib, x, y: x.sum(0), "clone": lambda lib, x,
        y: x.clone(),
        "t": lambda lib, x, y: x.t(), "view": lambda lib, x, y: x.view(-1), "to": lambda lib, x,
        y: x.to(lib.float64),
        "zeros_like": lambda lib, x, y: lib.zeros_like(x), "copy": lambda lib, x, y: y.copy_(x),
        "contiguous": lambda lib, x, y: x.t().contiguous(), "conj": lambda lib, x, y: x.conj(),
        "2x": lambda lib, x, y: x * 2, "expand": lambda lib, x, y: x[None].expand(2, 2, 3),
        "add_": lambda lib, x, y: x.add_(1), "fill_": lambda lib, x, y: x.fill_(0),
        "copy_": lambda lib, x, y: x.copy_(y),
        "numpy": lambda lib, x, y: x.numpy(),
    }  # fmt: skip
    for dtype in ("float32", "float64", "complex64", "int64"):
        for name, call in calls.items():
            found = []
            for lib in (gt, torch):
                x = private(lib, "_efficientzerotensor")((2, 3), dtype=getattr(lib, dtype))
                try:
                    made = call(lib, x, lib.arange(6, dtype=lib.float32).reshape(2, 3))
                    zero = bool(private(lib, "_is_zerotensor")(made))
                    found.append(
                        (
                            tuple(made.shape),
                            str(made.dtype).split(".")[-1],
                            zero,
                            values(made.clone()).tolist(),
                        )
                    )
                except RuntimeError:
                    found.append(("refused",))
            assert found[0] == found[1], (dtype, name)


FALLBACK_BITS = {"Conjugate": 1, "Negative": 2, "ZeroTensor": 3}


@pytest.mark.parametrize("key", FALLBACK_BITS)
def test_what_falls_through_there_is_not_materialised_here(key: str) -> None:
    """In PyTorch, kernels of these operators get the lazy bit. In gputensor they fall through, have
    a kernel, or are listed."""
    from gputensor.dispatch import keys

    bit = keys.functionality_bit(key)
    # In PyTorch, BLAS and LAPACK conjugate themselves; a zero without memory cannot be resized. For
    # other composites, the parts handle the bit in gputensor.
    blas = {"mm", "addmm", "bmm", "baddbmm", "dot", "vdot"}
    lapack = {"linalg_solve_triangular", "linalg_svd"}
    parts = {"_unsafe_view", "repeat_interleave"}
    named = {
        "Conjugate": blas | lapack | parts, "Negative": lapack | parts,
        "ZeroTensor": {"resize", "add.Scalar", "mul.Scalar", "dot", "vdot", "_unsafe_view"},
    }[key]  # fmt: skip
    checked = 0
    for operator in dispatcher.operators():
        if operator.namespace != "aten" or not operator.is_defined:
            continue
        lines = torch._C._dispatch_dump_table(operator.qualified_name).splitlines()
        line = next((line for line in lines if line.startswith(f"{key}:")), "")
        if "fallthrough" not in line or not any(
            a.type.has_tensor for a in operator.schema.arguments
        ):
            continue
        checked += 1
        own = keys.runtime_key(key) in operator.kernels
        name = operator.qualified_name.removeprefix("aten::")
        base = name.partition(".")[0].removesuffix("_")
        assert own or _passes(operator, bit) or {name, base} & named, name
    assert checked > 30

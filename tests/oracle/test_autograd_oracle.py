"""Gradients equal PyTorch's: on its own samples of the operators, and in random programs."""

from __future__ import annotations

import functools
import random
import sys
import types
import unittest
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from codegen import emit_nodes, load
from gputensor.core.errors import GpuTensorError

from .autograd_programs import Run, step

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("one_thread")]

PROGRAMS = 5000
PER_TEST = 250


# --- random programs ------------------------------------------------------------------------------


def run_program(seed: int) -> str | None:
    """None if both libraries agree on a program, else where they differ."""
    r, numbers = random.Random(seed), np.random.default_rng(seed)
    shapes = [(2, 3), (3,), (2, 3), ()]
    values = [
        np.asarray(numbers.uniform(0.5, 1.5, s) * np.where(numbers.random(s) < 0.3, -1, 1))
        for s in shapes
    ]
    wants = [True, r.random() < 0.5, False, r.random() < 0.3]
    theirs, ours = Run(torch, values, wants), Run(gt, values, wants)
    for number in range(r.randint(1, 20)):
        made = step(r, [tuple(x.shape) for x in theirs.pool])
        if theirs.is_ambiguous(made):
            continue
        a, b = theirs.do(made), ours.do(made)
        if a is not b:
            return f"step {number} {made}: {a} against {b}"
        if theirs.facts() != ours.facts():
            return f"step {number} {made}: {theirs.facts()} against {ours.facts()}"
    for number, (x, y) in enumerate(zip(theirs.values(), ours.values())):
        if not np.allclose(x, y, rtol=1e-9, equal_nan=True):
            return f"value {number}: {x} against {y}"
    a, b = theirs.backward(), ours.backward()
    if a is not b:
        return f"backward: {a} against {b}"
    for number, (g, h) in enumerate(zip(theirs.grads(), ours.grads())):
        if a is None and not _is_close(g, h):
            return f"gradient {number}: {g} against {h}"
    return None


def _is_close(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    return np.allclose(a, b, rtol=1e-7, atol=1e-9, equal_nan=True)


@pytest.mark.parametrize("first", range(0, PROGRAMS, PER_TEST))
def test_random_programs(first: int) -> None:
    wrong = {seed: found for seed in range(first, first + PER_TEST) if (found := run_program(seed))}
    assert not wrong


# --- PyTorch's samples ----------------------------------------------------------------------------


NAMES = sorted({op.base for op in load.load().ops if op.derivatives or op.is_implicit})
NAMES += [f"nn.functional.{name}" for name in gt.nn.functional.__all__]


@functools.cache
def _operators() -> dict[str, list[Any]]:
    """Entries of PyTorch's operator database by name; imported late, since it takes seconds."""
    # PyTorch's test tools import it for assertions that nothing here makes.
    stand_in = types.ModuleType("expecttest")
    stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
    sys.modules.setdefault("expecttest", stand_in)
    from torch.testing._internal.common_methods_invocations import op_db

    found: dict[str, list[Any]] = {}
    for op in op_db:
        # those of partial_views read beside their input, which a copy of it does not have
        is_copyable = op.variant_test_name != "partial_views"
        if op.supports_autograd and is_copyable and _ours(op.name) is not None:
            found.setdefault(op.name, []).append(op)
    return found


def _ours(name: str) -> Callable[..., Any] | None:
    if name.startswith("nn.functional."):
        return getattr(gt.nn.functional, name.rpartition(".")[2], None)
    found = getattr(gt, name, None)
    if callable(found) and not isinstance(found, type):
        return found
    method = getattr(gt.Tensor, name, None)
    return method if callable(method) else None


class _Entered:
    """A sample's arguments for gputensor, and the leaves in it."""

    def __init__(self, sample: Any) -> None:
        self.leaves: list[tuple[Any, Any]] = []
        self.input = self.enter(sample.input)
        self.args = self.enter(tuple(sample.args))
        self.kwargs = {name: self.enter(value) for name, value in sample.kwargs.items()}

    def enter(self, x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            plain = x.detach().resolve_conj().resolve_neg()
            made = gt.from_dlpack(plain.clone(memory_format=torch.preserve_format))
            if x.requires_grad:
                made.requires_grad_()
                self.leaves.append((x, made))
            return made
        if isinstance(x, (tuple, list)):
            return type(x)([self.enter(y) for y in x]) if type(x) in (tuple, list) else tuple(x)
        if isinstance(x, torch.dtype):
            return getattr(gt, str(x).removeprefix("torch."))
        if isinstance(x, torch.memory_format):
            return getattr(gt, str(x).removeprefix("torch."))
        return x


def _results(x: Any) -> list[Any]:
    return list(x) if isinstance(x, (tuple, list)) else [x]


@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_the_samples(name: str) -> None:
    compared = 0
    for op in _operators().get(name, ()):
        for dtype in (torch.float64, torch.complex128):
            if dtype in op.supported_backward_dtypes("cpu"):
                for sample in op.sample_inputs("cpu", dtype, requires_grad=True):
                    compared += _compare(op, sample)
    if not compared:
        pytest.skip("PyTorch has no samples of this operator, or none that is one of ours")


def _compare(op: Any, sample: Any) -> bool:
    """True if the gradients of a sample are equal; False if we do not have the form it calls."""
    entered = _Entered(sample)
    try:
        function: Any = _ours(op.name)
        found = _results(function(entered.input, *entered.args, **entered.kwargs))
    except (TypeError, GpuTensorError):
        return False
    expected = _results(op(sample.input, *sample.args, **sample.kwargs))
    assert len(expected) == len(found), sample
    pairs = [(x, y) for x, y in zip(expected, found) if x.requires_grad]
    assert all(y.requires_grad for _, y in pairs), sample
    if not pairs:
        return False
    behind = [torch.randn_like(x) for x, _ in pairs]
    theirs = torch.autograd.grad(
        [x for x, _ in pairs], [x for x, _ in entered.leaves], behind, allow_unused=True
    )
    mine = gt.autograd.grad(
        [y for _, y in pairs], [y for _, y in entered.leaves],
        [gt.from_dlpack(b.resolve_conj().contiguous()) for b in behind], allow_unused=True,
    )  # fmt: skip
    for a, b in zip(theirs, mine):
        x, y = _plain(a), _plain(b)
        assert _is_close(x, y), f"{sample}: {x} against {y}"
    return True


def _plain(g: Any) -> Any:
    return None if g is None else g.detach().resolve_conj().resolve_neg().numpy()


def test_enough_operators_are_compared() -> None:
    assert len(set(_operators()) & set(NAMES)) > 40


# --- names ----------------------------------------------------------------------------------------


def test_node_classes_are_named_as_pytorchs() -> None:
    theirs = set(dir(torch._C._functions)) | {"CopyBackwards"}
    ours = set(emit_nodes.node_names(load.load()).values())
    assert len(ours) > 50 and ours - theirs <= {
        # operators that PyTorch has under another name, or has no class for in Python
        "ReshapeAliasBackward0",
    }

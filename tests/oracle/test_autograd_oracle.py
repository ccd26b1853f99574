"""Gradients in random programs equal PyTorch's; test_op_db_oracle.py has PyTorch's samples."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from codegen import emit_nodes, load

from .autograd_programs import Run, step

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("one_thread")]

PROGRAMS = 5000
PER_TEST = 250


# --- random programs ------------------------------------------------------------------------------


def run_program(seed: int) -> str | None:
    """Run a program with both libraries. Return None if they agree, otherwise the difference."""
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


# --- names ----------------------------------------------------------------------------------------


def test_node_classes_are_named_as_pytorchs() -> None:
    theirs = set(dir(torch._C._functions)) | {"CopyBackwards"}
    ours = set(emit_nodes.node_names(load.load()).values())
    assert len(ours) > 50 and ours - theirs <= {
        # operators with another name in PyTorch, or without a Python class there
        "AttentionWithDropoutBackward0", "BinomialBackward0", "ReshapeAliasBackward0",
        "BitwiseAndBackward0", "BitwiseLeftShiftBackward0",
        "BitwiseNotBackward0", "BitwiseOrBackward0", "BitwiseRightShiftBackward0",
        "BitwiseXorBackward0", "ConvolutionWeightGradientBackward0", "CopyBackward0",
        "CrossEntropyBackward0",
        "CtcLossBackwardBackward0", "GcdBackward0",
        "HardsigmoidBackwardBackward0", "HeavisideBackward0", "LargerBackwardBackward0",
        "LcmBackward0", "LogicalAndBackward0", "LogicalNotBackward0", "LogicalOrBackward0",
        "LogicalXorBackward0", "MishBackwardBackward0", "NativeGroupNormBackwardBackward0",
        "RnnLayerBackward0", "ScatterBackward2", "ScatterBackward3", "SiluBackwardBackward0",
        "SpecialNdtrBackward0",
    }  # fmt: skip

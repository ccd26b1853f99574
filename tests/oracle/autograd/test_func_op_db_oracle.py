"""PyTorch's samples of its operators in vmap and forward derivatives, in both libraries.

Calls that PyTorch rejects, and operators that gputensor lacks, are not counted.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.utils import _pytree as pytree

pytest.importorskip("torch")

import torch

from tests.op_db import gradients, replay

from .. import op_db

pytestmark = pytest.mark.oracle

SAMPLES = 2  # of an operator
SHARE = 0.95  # the share of operators that must pass every sample that PyTorch passes
COUNTED = {"vmap": 500, "jvp": 400}  # operators at least
# Random results; functions that op_db defines; indices that select an element twice.
LEFT_OUT = (
    "dropout", "rrelu", "empty", "rand", "fractional", "multi_head", "normal", "multinomial",
    "bernoulli", "lowrank", "indices_backward", "pinv.singular", "max_unpool1d.", "max_unpool2d.",
    "max_unpool3d.",
)  # fmt: skip
Run = Callable[[Any, list[Any], tuple[Any, ...]], list[Any]]


class Sample:
    """A call as a function of its leaves. at: the indices of leaves that are tensors."""

    def __init__(self, op: Any, sample: Any) -> None:
        self.op, self.process = op, sample.output_process_fn_grad
        given = [sample.input, *sample.args], sample.kwargs
        leaves, self.form = pytree.tree_flatten(given)
        self.leaves = [x.detach() if isinstance(x, torch.Tensor) else x for x in leaves]
        self.at = [n for n, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
        self.tracked = [n for n in self.at if leaves[n].requires_grad]

    def call(self, function: Any, leaves: list[Any], is_ours: bool) -> list[Any]:
        """Return the results, with the wrappers of PyTorch's own derivative tests: for operands
        that are Hermitian or triangular, and results that are determined except for a phase."""
        args, kwargs = pytree.tree_unflatten(leaves, self.form)

        def called(*args: Any, **kwargs: Any) -> Any:
            given = [*args]
            if is_ours and self.op.name in op_db._SWAPPED:
                given[:2] = given[1::-1]
            return function(*given, **kwargs)

        made = self.op.gradcheck_wrapper(called, *args, **kwargs)
        found = op_db._flat(self.process(made))
        return [y for y in found if isinstance(y, (torch.Tensor, gt.Tensor))]


def mapped(sample: Sample) -> Iterator[tuple[list[Any], Run]]:
    """Return batches of equal entries: as first dimension of all tensors, and as last dimension of
    each tensor alone, as in PyTorch's test/functorch/common_utils.py."""
    count = len(sample.at)
    alone = [tuple(-1 if n == m else None for n in range(count)) for m in range(count)]
    for dims in dict.fromkeys([(0,) * count, (-1,) * count, *alone]):
        leaves, in_dims = list(sample.leaves), [None] * len(sample.leaves)
        for n, d in zip(sample.at, dims):
            if d is not None:
                leaves[n], in_dims[n] = torch.stack([leaves[n]] * 2, d), d

        def run(lib: Any, leaves: list[Any], _: Any, d: Any = tuple(in_dims)) -> list[Any]:
            function = _function(sample, lib)
            call = lambda *xs: sample.call(function, list(xs), lib is gt)  # noqa: E731
            return list(lib.vmap(call, d)(*leaves))

        yield leaves, run


def moved(sample: Sample) -> Iterator[tuple[list[Any], Run]]:
    """Return tangents for all operands that can have one."""
    xs = [sample.leaves[n] for n in sample.tracked]
    generator = torch.Generator().manual_seed(3)
    ts = [torch.randn(x.shape, dtype=x.dtype, generator=generator) for x in xs]

    def run(lib: Any, leaves: list[Any], tangents: tuple[Any, ...]) -> list[Any]:
        function = _function(sample, lib)

        def call(*xs: Any) -> Any:
            given = list(leaves)
            for n, x in zip(sample.tracked, xs):
                given[n] = x
            ys = sample.call(function, given, lib is gt)
            return tuple([y for y in ys if y.is_floating_point() or y.is_complex()])

        primals = tuple([leaves[n] for n in sample.tracked])
        ys, dys = lib.func.jvp(call, primals, tangents)
        return [*ys, *dys]

    yield (
        [*sample.leaves, *ts],
        lambda lib, leaves, _: run(
            lib, leaves[: len(sample.leaves)], tuple(leaves[len(sample.leaves) :])
        ),
    )


def _function(sample: Sample, lib: Any) -> Any:
    return gradients.function(sample.op.name) if lib is gt else sample.op


def ours(leaves: list[Any]) -> list[Any]:
    enter = replay.Entered("cpu")
    return [enter(op_db.snapshot(x)) for x in leaves]


def agrees(wanted: list[Any], found: list[Any]) -> bool:
    if len(wanted) != len(found):
        return False
    for a, b in zip(wanted, found):
        if tuple(a.shape) != tuple(b.shape):
            return False
        if a.dtype in (torch.bfloat16, torch.complex32):
            a, b = (x.to(lib.complex64 if x.is_complex() else lib.float32)
                    for x, lib in ((a, torch), (b, gt)))  # fmt: skip
        a = a.clone() if a._is_zerotensor() else a
        p, q = a.detach().resolve_conj().resolve_neg().numpy(), replay.to_numpy(b)
        finite = np.abs(p[np.isfinite(p)]).max(initial=0) if p.dtype.kind in "fc" else 0
        tolerance = 2e-4 if p.dtype in (np.float32, np.complex64) else 1e-5
        atol = tolerance * max(1.0, float(finite)) / 10
        if not np.allclose(q, p, rtol=tolerance, atol=atol, equal_nan=True):
            return False
    return True


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    ("kind", "cases", "dtype"),
    [("vmap", mapped, torch.float32), ("jvp", moved, torch.float64)], ids=["vmap", "jvp"],
)  # fmt: skip
def test_most_of_what_pytorch_passes(kind: str, cases: Any, dtype: Any) -> None:
    whole: dict[str, bool] = {}
    for op in op_db.op_db():
        name = f"{op.name}.{op.variant_test_name}"
        drawn = any(name.endswith(part) if part[-1] == "." else part in name for part in LEFT_OUT)
        if drawn or dtype not in op.dtypes:
            continue
        if gradients.function(op.name) is None or kind == "jvp" and not op.supports_forward_ad:
            continue
        try:
            samples = list(itertools.islice(op_db.samples(op, dtype, kind == "jvp"), SAMPLES))
        except Exception:  # this build of PyTorch has none
            continue
        for case in itertools.chain(*[cases(Sample(op, s)) for s in samples]):
            try:
                random.seed(0)
                wanted, given = case[1](torch, case[0], ()), ours(case[0])
            except Exception:  # an object of PyTorch, which a snapshot cannot contain
                continue
            try:
                passed = agrees(wanted, case[1](gt, given, ()))
            except Exception:
                passed = False
            whole[name] = whole.get(name, True) and passed
    failed = sorted(name for name, passed in whole.items() if not passed)
    assert len(whole) > COUNTED[kind]
    assert len(failed) <= (1 - SHARE) * len(whole), failed

"""Autocast against PyTorch's: policies, dtypes of results and gradients in random programs,
scaling.

PyTorch without CUDA runs the CPU's autocast; CUDA's list is compared with the header in its wheel.
"""

from __future__ import annotations

import random
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from codegen.load import load
from gputensor.core.errors import GpuTensorError

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("one_thread")]

PROGRAMS = 2000
PER_TEST = 250


# --- policies -------------------------------------------------------------------------------------


def their_keys(name: str) -> set[str]:
    """Return the Autocast keys at which PyTorch has a kernel for one of gputensor's operators."""
    try:
        dump = torch._C._dispatch_dump(name)
    except RuntimeError:
        return set()
    return {
        key
        for key, kernel in re.findall(r"^(Autocast\w+): (.*)", dump, re.MULTILINE)
        if "fallthrough" not in kernel
    }


def our_operators() -> list[str]:
    """Return gputensor's operators, except overloads that forward to an overload with the
    policy."""
    found = [f"aten::{op.name}" for op in load().ops if not op.is_forward]
    assert len(found) > 1000
    return found


@pytest.mark.parametrize("device", ["CPU", "CUDA"])
def test_the_same_operators_have_a_policy(device: str) -> None:
    ours = _shared(gt.amp.policies(device.lower()))
    assert {name for name in our_operators() if f"Autocast{device}" in their_keys(name)} == set(
        ours
    )


def _shared(policies: dict[str, str]) -> dict[str, str]:
    """Return policies of operators that PyTorch has, too. Its recurrent layers are composed of
    products, each with a policy; in gputensor they are one operator with the policy of products."""
    assert policies.pop("aten::_rnn_layer") == "lower_precision_fp"
    return policies


def test_the_policies_of_cuda_are_those_of_the_header() -> None:
    header = (Path(torch.__file__).parent / "include/ATen/autocast_mode.h").read_text()
    theirs = {}
    for policy in ("LOWER_PRECISION_FP", "FP32", "FP32_SET_OPT_DTYPE", "PROMOTE"):
        body = header.split(f"#define AT_FORALL_{policy}(_)")[1].split("\n\n")[0]
        for name, overload in re.findall(r"_\((\w+)(?:, (\w+))?\)", body):
            theirs["aten::" + (f"{name}.{overload}" if overload else name)] = policy.lower()
    assert len(theirs) > 80
    # These are only in autocast_mode.cpp.
    theirs["aten::binary_cross_entropy"] = "banned"
    theirs |= dict.fromkeys(("aten::norm.Scalar", "aten::norm.ScalarOpt_dim"), "fp32_append_dtype")
    assert _shared(gt.amp.policies("cuda")) == {
        name: p for name, p in theirs.items() if name in our_operators()
    }


def test_the_default_dtypes() -> None:
    for device in ("cpu", "cuda"):
        assert str(gt.get_autocast_dtype(device)).removeprefix("gputensor") == str(
            torch.get_autocast_dtype(device)
        ).removeprefix("torch")


# --- random programs ------------------------------------------------------------------------------

DTYPES = ("float32", "float32", "bfloat16", "float16", "float64", "int64", "complex64")
UNARY = ("exp", "sum", "mean", "neg", "abs", "clone", "t", "view_as_complex", "contiguous")
BINARY = ("mm", "mm", "matmul", "matmul", "add", "mul", "minimum", "eq")
Step = tuple[Any, ...]


def program(r: random.Random, one_dtype: bool) -> list[Step]:
    steps: list[Step] = []
    dtype = r.choice(("bfloat16", "float16"))
    for _ in range(r.randint(3, 25)):
        kind = r.choices(
            ("unary", "binary", "list", "sum", "enter", "leave", "nograd", "inplace"),
            (5, 8, 3, 1, 3, 2, 1, 1),
        )[0]
        a, b = r.random(), r.random()
        if kind == "unary":
            steps.append((kind, r.choice(UNARY), a))
        elif kind in ("binary", "nograd"):
            steps.append((kind, r.choice(BINARY), a, b))
        elif kind == "list":
            steps.append((kind, r.choice(("cat", "stack")), a, b, r.random()))
        elif kind == "sum":
            steps.append((kind, a, r.choice((None, "float32", "bfloat16", "float64"))))
        elif kind == "enter":
            chosen = dtype if one_dtype else r.choice(("bfloat16", "float16"))
            steps.append((kind, chosen, r.random() < 0.8, one_dtype))
        elif kind == "inplace":
            steps.append((kind, r.choice(("exp_", "neg_", "mul_")), a, b))
        else:
            steps.append((kind,))
    return steps


class Run:
    """A pool of tensors of one library, and the blocks entered."""

    def __init__(self, lib: Any, r: random.Random) -> None:
        self.lib, self.blocks = lib, ExitStack()
        self.stack: list[Any] = []
        self.pool, self.leaves = [], []
        for number in range(6):
            name = r.choice(DTYPES)
            x = lib.tensor([[0.5, -0.25], [0.125, 1.0]]).to(getattr(lib, name))
            if name != "int64" and (number < 2 or r.random() < 0.4):
                x = x.requires_grad_()
                self.leaves.append(x)
            self.pool.append(x)

    def at(self, place: float) -> Any:
        return self.pool[int(place * len(self.pool))]

    def do(self, step: Step) -> str:
        """Return the outcome of a step: the new tensor's properties, or that it raised."""
        kind, *args = step
        if kind == "enter":
            dtype, enabled, cached = args
            block = self.lib.autocast("cpu", getattr(self.lib, dtype), enabled, cached)
            block.__enter__()
            self.stack.append(block)
            return "entered"
        if kind == "leave":
            if self.stack:
                self.stack.pop().__exit__(None, None, None)
            return "left"
        if self.is_beyond(kind, *args):
            return "skipped"
        try:
            made = self.call(kind, *args)
        except (RuntimeError, TypeError, GpuTensorError) as error:
            return "unknown 16-bit" if "Unexpected floating ScalarType" in str(error) else "raised"
        self.pool.append(made)
        return self.facts(made)

    def is_beyond(self, kind: str, *args: Any) -> bool:
        """True for steps that only one of the libraries supports, with and without autocast."""
        operands = [self.at(a) for a in args if isinstance(a, float)]
        dtypes = [x.dtype for x in operands]
        if args[0] in ("mm", "matmul"):  # matrices only, and no products of bool
            return self.lib.bool in dtypes or any(x.ndim != 2 for x in operands)
        if args[0] in ("view_as_complex", "abs"):
            return dtypes[0] in (self.lib.bool, self.lib.float16)
        return self.lib.float16 in dtypes and any(x.is_complex() for x in operands)  # complex32

    def call(self, kind: str, *args: Any) -> Any:
        if kind == "unary":
            x = self.at(args[1])
            return (
                self.lib.view_as_complex(x)
                if args[0] == "view_as_complex"
                else getattr(x, args[0])()
            )
        if kind == "binary":
            return getattr(self.at(args[1]), args[0])(self.at(args[2]))
        if kind == "nograd":
            with self.lib.no_grad():
                return getattr(self.at(args[1]), args[0])(self.at(args[2]))
        if kind == "list":
            return getattr(self.lib, args[0])([self.at(place) for place in args[1:]])
        if kind == "sum":
            x, dtype = self.at(args[0]), args[1]
            return x.sum(0) if dtype is None else x.sum(0, dtype=getattr(self.lib, dtype))
        name, x, y = args[0], self.at(args[1]).clone(), self.at(args[2])
        return x.mul_(y) if name == "mul_" else getattr(x, name)()

    @staticmethod
    def facts(x: Any) -> str:
        return f"{str(x.dtype).partition('.')[2]} {tuple(x.shape)} {x.requires_grad} {x.is_leaf}"

    def finish(self) -> list[str]:
        """Leave the blocks and run backward. Return the gradients' properties."""
        while self.stack:
            self.stack.pop().__exit__(None, None, None)
        total = None
        for x in self.pool:
            if x.requires_grad:
                part = (x.abs() if x.is_complex() else x).to(self.lib.float64).sum()
                total = part if total is None else total + part
        if total is not None:
            total.backward()
        return ["none" if x.grad is None else self.facts(x.grad) for x in self.leaves]


def run_program(seed: int) -> str | None:
    """Run a program with both libraries. Return None if they agree, otherwise the difference."""
    r = random.Random(seed)
    # PyTorch's cache ignores dtypes, so programs that change them disable it
    steps = program(r, one_dtype=r.random() < 0.5)
    theirs, ours = Run(torch, random.Random(seed)), Run(gt, random.Random(seed))
    try:
        for number, step in enumerate(steps):
            a = theirs.do(step)
            if a == "unknown 16-bit":  # gputensor promotes where PyTorch raises
                continue
            b = ours.do(step)
            if a != b:
                return f"step {number} {step}: {a} against {b}"
        a_grads, b_grads = theirs.finish(), ours.finish()
        return None if a_grads == b_grads else f"gradients {a_grads} against {b_grads}"
    finally:
        for run in (theirs, ours):
            while run.stack:
                run.stack.pop().__exit__(None, None, None)


@pytest.mark.parametrize("start", range(0, PROGRAMS, PER_TEST))
def test_random_programs_have_the_same_dtypes(start: int) -> None:
    wrong = {
        seed: found
        for seed in range(start, start + PER_TEST)
        if (found := run_program(seed)) is not None
    }
    assert not wrong, f"{len(wrong)} programs differ, the first: {next(iter(wrong.items()))}"


def test_programs_do_something() -> None:
    """Most steps succeed, and many under autocast give 16-bit results."""
    outcomes = []
    for seed in range(200):
        r = random.Random(seed)
        run = Run(torch, random.Random(seed))
        outcomes += [run.do(step) for step in program(r, True)]
        run.finish()
    assert sum(o == "raised" for o in outcomes) < 0.3 * len(outcomes)
    assert sum(o.startswith("bfloat16") for o in outcomes) > 100


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "tolerance"), [("bfloat16", 2.0**-6), ("float16", 2.0**-9)])
def test_a_network_computes_the_same(dtype: str, tolerance: float) -> None:
    numbers = np.random.default_rng(3)
    x, w1, w2 = (
        numbers.standard_normal(s).astype(np.float32) / 4 for s in ((8, 16), (16, 12), (12, 4))
    )
    results = []
    for lib in (torch, gt):
        a, first, second = (
            lib.tensor(x.tolist()),
            *(lib.tensor(w.tolist()).requires_grad_() for w in (w1, w2)),
        )
        with lib.autocast("cpu", getattr(lib, dtype)):
            hidden = lib.maximum(a @ first, lib.zeros((8, 12)))
            loss = (hidden @ second + a[:, :4]).exp().sum()
        loss.backward()
        results.append([np.array(t.tolist()) for t in (loss.detach(), first.grad, second.grad)])
    for theirs, ours in zip(*results):
        np.testing.assert_allclose(
            ours, theirs, rtol=tolerance, atol=tolerance * np.abs(theirs).max()
        )


# --- GradScaler -----------------------------------------------------------------------------------


class SGD:
    def __init__(self, parameters: list[Any]) -> None:
        self.param_groups = [{"params": parameters}]
        self.steps = 0

    def step(self) -> None:
        self.steps += 1


@pytest.mark.parametrize("seed", range(20))
def test_scalers_agree_step_for_step(seed: int) -> None:
    histories = []
    for lib in (torch, gt):
        r = random.Random(seed)
        parameters = [lib.tensor([1.0, -2.0]).requires_grad_() for _ in range(2)]
        scaler = lib.amp.GradScaler(
            "cpu",
            init_scale=2.0 ** r.randint(0, 20),
            growth_interval=r.randint(1, 4),
            growth_factor=r.choice((2.0, 1.5)),
            backoff_factor=r.choice((0.5, 0.1)),
        )
        optimizer, history = SGD(parameters), []
        for _ in range(30):
            for p in parameters:
                p.grad = None
            scaler.scale((parameters[0] * parameters[1] * r.uniform(1, 9)).sum()).backward()
            if r.random() < 0.3:
                with lib.no_grad():
                    parameters[r.randrange(2)].grad[r.randrange(2)] = r.choice(
                        (float("inf"), float("nan"), -float("inf"))
                    )
            early = r.random() < 0.5
            if early:
                scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update(64.0 if r.random() < 0.05 else None)
            history.append(
                (scaler.state_dict(), optimizer.steps, repr(parameters[0].grad.tolist()))
            )
        histories.append(history)
    assert histories[0] == histories[1]

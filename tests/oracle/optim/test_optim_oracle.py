"""gt.optim against torch.optim: parameters after 50 steps, and states loaded from PyTorch."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gputensor as gt

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

CASES = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"lr": 0.01, "weight_decay": 0.1}),
    ("Adam", {"amsgrad": True}),
    (
        "Adam",
        {
            "weight_decay": 0.1,
            "decoupled_weight_decay": True,
            "betas": (0.8, 0.95),
            "maximize": True,
        },
    ),
    ("AdamW", {}),
    ("AdamW", {"lr": 0.01, "amsgrad": True, "maximize": True}),
    ("RMSprop", {}),
    ("RMSprop", {"lr": 0.001, "momentum": 0.9, "centered": True, "weight_decay": 0.1}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.5}),
    ("Adadelta", {}),
    ("Adadelta", {"lr": 0.5, "rho": 0.8, "weight_decay": 0.1, "maximize": True}),
    ("Adamax", {}),
    ("Adamax", {"lr": 0.01, "betas": (0.8, 0.9), "weight_decay": 0.1, "maximize": True}),
    ("ASGD", {}),
    ("ASGD", {"lr": 0.1, "lambd": 0.01, "t0": 10, "alpha": 0.5, "weight_decay": 0.1}),
    ("ASGD", {"lr": 0.1, "t0": 0, "maximize": True}),
    ("NAdam", {}),
    ("NAdam", {"lr": 0.01, "weight_decay": 0.1, "momentum_decay": 6e-3, "maximize": True}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {}),
    ("RAdam", {"lr": 0.01, "betas": (0.8, 0.95), "weight_decay": 0.1, "maximize": True}),
    ("RAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("Rprop", {}),
    ("Rprop", {"lr": 0.1, "etas": (0.4, 1.5), "step_sizes": (0.01, 0.5), "maximize": True}),
    ("Adafactor", {}),
    ("Adafactor", {"lr": 0.1, "weight_decay": 0.1, "d": 1.5, "maximize": True}),
    ("Adafactor", {"beta2_decay": -0.5, "eps": (1e-3, 1e-2)}),
]
# A step has about six roundings of half an ulp, which add up over 50 steps; PyTorch fuses some
# operations.
ULP = 50
NOT_COMPLEX = {("Adafactor", "c16")}


def leaves(lib: Any, values: list[np.ndarray]) -> list[Any]:
    return [lib.from_numpy(x.copy()).requires_grad_() for x in values]


def steps(
    random: np.random.Generator, theirs: tuple[Any, Any], ours: tuple[Any, Any], count: int
) -> None:
    for _ in range(count):
        for p, q in zip(theirs[1], ours[1]):
            g = random.normal(size=p.shape)
            g = (g + 1j * random.normal(size=p.shape) if p.is_complex() else g).astype(
                q.detach().numpy().dtype
            )
            p.grad, q.grad = torch.from_numpy(g.copy()), gt.from_numpy(g.copy())
        theirs[0].step()
        ours[0].step()


def compare(theirs: list[Any], ours: list[Any]) -> None:
    for p, q in zip(theirs, ours):
        x, y = p.detach().numpy(), q.detach().numpy()
        scale = np.finfo(x.dtype).eps * np.abs(x).max()
        assert x.dtype == y.dtype and np.abs(x - y).max() <= ULP * scale


@pytest.mark.parametrize("of", ["f4", "f8", "c16"])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_steps(name: str, options: dict[str, Any], of: str) -> None:
    if (name, of) in NOT_COMPLEX:
        pytest.skip("PyTorch's takes no complex parameters")
    random = np.random.default_rng(0)
    values = [random.normal(size=(5, 7)).astype(of), random.normal(size=3).astype(of)]
    a, b = leaves(torch, values), leaves(gt, values)
    theirs = (getattr(torch.optim, name)(a, foreach=False, **options), a)
    ours = (getattr(gt.optim, name)(b, **options), b)
    steps(random, theirs, ours, 50)
    compare(a, b)


def on_our_side(found: Any) -> Any:
    """Return PyTorch's state dict with our tensors in it."""
    if torch.is_tensor(found):
        return gt.from_numpy(found.detach().numpy().copy())
    if isinstance(found, dict):
        return {name: on_our_side(value) for name, value in found.items()}
    return [on_our_side(x) for x in found] if isinstance(found, list) else found


def on_their_side(found: Any) -> Any:
    if isinstance(found, gt.Tensor):
        return torch.from_numpy(found.detach().numpy().copy())
    if isinstance(found, dict):
        return {name: on_their_side(value) for name, value in found.items()}
    return [on_their_side(x) for x in found] if isinstance(found, list) else found


def form(found: Any) -> Any:
    """Return the structure of a state dict: names, options, and dtypes and sizes of tensors."""
    if isinstance(found, float):
        return "a float"
    if torch.is_tensor(found) or isinstance(found, gt.Tensor):
        return str(found.dtype).rpartition(".")[2], tuple(found.shape)
    if isinstance(found, dict):
        return {name: form(value) for name, value in found.items()}
    return [form(x) for x in found] if isinstance(found, list) else found


@pytest.mark.parametrize(("name", "options"), CASES)
def test_states_go_both_ways(name: str, options: dict[str, Any]) -> None:
    """Each library continues from the other's state, and the dicts have the same structure."""
    random = np.random.default_rng(1)
    values = [random.normal(size=(4,)), random.normal(size=(3, 2))]
    a, b = leaves(torch, values), leaves(gt, values)

    def made() -> tuple[tuple[Any, Any], tuple[Any, Any]]:
        theirs = getattr(torch.optim, name)(a, foreach=False, **options)
        return (theirs, a), (getattr(gt.optim, name)(b, foreach=False, **options), b)

    first, then = made(), made()
    assert form(first[1][0].state_dict()) == form(first[0][0].state_dict())
    steps(random, *first, 5)
    theirs, ours = first[0][0].state_dict(), first[1][0].state_dict()
    assert form(ours) == form(theirs)
    then[0][0].load_state_dict(on_their_side(ours))
    then[1][0].load_state_dict(on_our_side(theirs))
    steps(random, *then, 20)
    compare(a, b)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_rate_that_is_a_tensor(name: str, options: dict[str, Any]) -> None:
    random = np.random.default_rng(2)
    values = [random.normal(size=(4,)), random.normal(size=(3, 2)), random.normal(size=())]
    a, b = leaves(torch, values), leaves(gt, values)
    lr = options.get("lr", 0.25)
    options = {**options, "lr": lr}
    theirs = getattr(torch.optim, name)(a, foreach=False, **options), a
    ours = (
        getattr(gt.optim, name)(b, **{**options, "lr": gt.tensor([lr], dtype=gt.float64)}),
        b,
    )
    steps(random, theirs, ours, 10)
    compare(a, b)


COUNTS = [case for case in CASES if case[0] not in ("SGD", "Adagrad", "Adafactor")]


@pytest.mark.parametrize(("name", "options"), COUNTS)
def test_steps_counted_on_the_device(name: str, options: dict[str, Any]) -> None:
    """With capturable=True the numbers of a state are float32 tensors, as in PyTorch, which does
    not support the option on the CPU."""
    random = np.random.default_rng(3)
    values = [random.normal(size=(4,)).astype("f4"), random.normal(size=(3, 2)).astype("f4")]
    a, b = leaves(torch, values), leaves(gt, values)
    theirs = getattr(torch.optim, name)(a, foreach=False, **options), a
    ours = getattr(gt.optim, name)(b, capturable=True, **options), b
    steps(random, theirs, ours, 12)
    for p, q in zip(a, b):
        np.testing.assert_allclose(q.detach().numpy(), p.detach().numpy(), rtol=2e-4, atol=1e-5)
    assert all(isinstance(ours[0].state[q]["step"], gt.Tensor) for q in b)


@pytest.mark.parametrize("options", [
    {}, {"lr": 0.02, "momentum": 0.8, "nesterov": False, "weight_decay": 0.0},
    {"adjust_lr_fn": "match_rms_adamw", "ns_steps": 3},
    {"ns_coefficients": (3.0, -4.0, 2.0), "eps": 1e-3},
], ids=str)  # fmt: skip
def test_steps_of_muon(options: dict[str, Any]) -> None:
    """Its directions are bfloat16 matrices, with eight bits of precision."""
    random = np.random.default_rng(4)
    values = [random.normal(size=sizes).astype("f4") for sizes in ((4, 7), (7, 3), (1, 1))]
    a, b = leaves(torch, values), leaves(gt, values)
    theirs, ours = torch.optim.Muon(a, **options), gt.optim.Muon(b, **options)
    steps(random, (theirs, a), (ours, b), 10)
    assert form(ours.state_dict()) == form(theirs.state_dict())
    moved = 10 * options.get("lr", 1e-3)
    for p, q in zip(a, b):
        difference = np.abs(q.detach().numpy() - p.detach().numpy()).max()
        assert difference <= 2**-6 * moved * np.sqrt(max(p.shape))


@pytest.mark.parametrize("options", [
    {}, {"lr": 0.1, "max_iter": 7, "history_size": 2}, {"lr": 0.5, "max_eval": 3},
    {"line_search_fn": "strong_wolfe"},
    {"line_search_fn": "strong_wolfe", "history_size": 3, "max_iter": 9},
    {"line_search_fn": "strong_wolfe", "lr": 20, "max_eval": 12},
    {"tolerance_grad": 0.3}, {"tolerance_change": 0.05},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("of", ["f8", "c16"])
def test_steps_of_lbfgs(options: dict[str, Any], of: str) -> None:
    """Compares the loss at each call of the closure, for a few steps on Rosenbrock's function in
    several dimensions. From the third step on, each library continues from the other's state."""
    random = np.random.default_rng(5)
    values = [random.normal(size=3).astype(of), random.normal(size=(2, 2)).astype(of)]
    seen: dict[Any, list[float]] = {torch: [], gt: []}

    def made(lib: Any, given: list[Any]) -> tuple[Any, Any, Any]:
        parameters = leaves(lib, given)
        optimizer = lib.optim.LBFGS(parameters, **options)

        def closure() -> Any:
            optimizer.zero_grad()
            flat = [lib.view_as_real(p) if p.is_complex() else p for p in parameters]
            x = lib.cat([p.reshape(-1) for p in flat])
            loss = ((1 - x[:-1]) ** 2 + 3 * (x[1:] - x[:-1] ** 2) ** 2).sum()
            loss.backward()
            seen[lib].append(loss.item())
            return loss

        return parameters, optimizer, closure

    def step(theirs: Any, ours: Any) -> None:
        assert ours[1].step(ours[2]).item() == pytest.approx(theirs[1].step(theirs[2]).item())
        np.testing.assert_allclose(seen[gt], seen[torch], rtol=1e-6, atol=1e-12)
        assert form(ours[1].state_dict()) == form(theirs[1].state_dict())

    theirs, ours = made(torch, values), made(gt, values)
    for _ in range(2):
        step(theirs, ours)
    now = [p.detach().numpy() for p in theirs[0]]
    states = theirs[1].state_dict(), ours[1].state_dict()
    theirs, ours = made(torch, now), made(gt, now)
    theirs[1].load_state_dict(on_their_side(states[1]))
    ours[1].load_state_dict(on_our_side(states[0]))
    for _ in range(2):
        step(theirs, ours)


def unrolled(
    lib: Any, name: str, options: dict[str, Any], values: list[np.ndarray], count: int
) -> tuple[list[Any], Any]:
    """Return the leaves, and the sum of the parameter after recorded steps on a quadratic
    function."""
    x, a, w = leaves(lib, values)
    made = {
        option: lib.from_numpy(value.copy()).requires_grad_()
        if isinstance(value, np.ndarray) else value
        for option, value in options.items()
    }  # fmt: skip
    if isinstance(betas := made.get("betas"), list):
        made["betas"] = tuple(lib.from_numpy(one.copy()).requires_grad_() for one in betas)
    p = x.clone()
    optimizer = getattr(lib.optim, name)([p], differentiable=True, **made)
    for _ in range(count):
        p.grad = a * p.clone() + p.clone() ** 3
        optimizer.step()
    more = [v for v in made.values() if not isinstance(v, (bool, int, float, tuple))]
    return [x, a, *more, *made.get("betas", ())], (p * w).sum()


F64 = functools.partial(np.array, dtype="f8")
RECORDED: list[tuple[str, dict[str, Any]]] = [
    *[(name, options) for name, options in CASES if name != "Adafactor" and "betas" not in options],
    ("SGD", {"lr": F64(0.1), "weight_decay": F64(0.02)}),
    ("SGD", {"lr": F64(0.1), "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("Adam", {"lr": F64(0.1), "weight_decay": F64(0.02), "betas": [F64(0.8), F64(0.9)]}),
    ("Adam", {"lr": F64(0.1), "amsgrad": True}),
    ("AdamW", {"lr": F64(0.1), "weight_decay": F64(0.02), "betas": [F64(0.8), F64(0.9)]}),
]


@pytest.fixture
def counts_in_double() -> Iterator[None]:
    """Let states count steps in float64, because PyTorch computes with the count."""
    for lib in (torch, gt):
        lib.set_default_dtype(lib.float64)
    yield
    for lib in (torch, gt):
        lib.set_default_dtype(lib.float32)


@pytest.mark.usefixtures("counts_in_double")
@pytest.mark.parametrize(("name", "options"), RECORDED)
@pytest.mark.parametrize("count", [1, 3])
def test_recorded_steps(name: str, options: dict[str, Any], count: int) -> None:
    random = np.random.default_rng(6)
    values = [np.array([0.5, -1.5, 2.5]), random.uniform(1, 2, 3), random.normal(size=3)]
    found = []
    for lib in (torch, gt):
        inputs, out = unrolled(lib, name, {**options, "foreach": False}, values, count)
        try:
            grads = lib.autograd.grad(out, inputs, allow_unused=True)
        except RuntimeError as error:
            # its own state is overwritten, which is only possible for one step
            assert lib is torch and count > 1 and "modified by an inplace operation" in str(error)
            pytest.skip("PyTorch records one step of this optimizer only")
        found.append([out, *grads])
    for x, y in zip(*found):
        if x is None:
            assert y is None
        else:
            np.testing.assert_allclose(y.detach().numpy(), x.detach().numpy(), 1e-9, 1e-12)


def test_an_optimizer_steps_other_tensors_for_a_while() -> None:
    found = []
    for lib in (torch, gt):
        own = lib.ones(3, requires_grad=True)
        optimizer = lib.optim.Adam([own], lr=0.1, foreach=False)
        own.grad = lib.ones(3)
        optimizer.step()
        state = optimizer.state_dict()
        given = {name: x.clone() if isinstance(x, type(own)) else x
                 for name, x in state["state"][0].items()}  # fmt: skip
        group = {**state["param_groups"][0], "lr": 0.5}
        other = lib.zeros(3, requires_grad=True)
        other.grad = lib.arange(3.0)
        kept = {"state": {0: given}, "param_groups": [group]}
        with lib.optim.swap_in_optimizer_params_and_state(optimizer, {"p": other}, kept):
            optimizer.step()
            assert optimizer.param_groups[0]["lr"] == 0.5
        optimizer.step()
        assert optimizer.param_groups[0]["params"][0] is own
        found.append([own, other, *given.values()])
    for x, y in zip(*found):
        np.testing.assert_allclose(y.detach().numpy(), x.detach().numpy(), 1e-6)

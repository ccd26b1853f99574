"""gt.optim: steps, states and errors. Values: tests/oracle/optim/test_optim_oracle.py."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.core import errors


def leaf(*values: float) -> gt.Tensor:
    return gt.tensor(list(values), requires_grad=True)


def test_a_step_is_made_in_place_and_not_recorded() -> None:
    p, frozen = leaf(1.0, 2.0), leaf(3.0)
    optimizer = gt.optim.SGD([p, frozen], lr=0.5)
    (p * p).sum().backward()
    version = p._version
    optimizer.step()
    assert p.tolist() == [0.0, 0.0] and p.is_leaf and p.requires_grad and p._version == version + 1
    assert frozen.tolist() == [3.0] and not optimizer.state


def test_gradients_are_forgotten_or_zeroed() -> None:
    p = leaf(1.0)
    optimizer = gt.optim.SGD([p])
    p.grad = gt.ones(1)
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.tolist() == [0.0]
    optimizer.zero_grad()
    assert p.grad is None


def test_a_closure_runs_with_recording_on() -> None:
    p = leaf(2.0)
    optimizer = gt.optim.Adam([p], lr=0.1)

    def closure() -> gt.Tensor:
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with gt.no_grad():
        assert optimizer.step(closure).item() == 4.0
    assert p.item() == pytest.approx(1.9, rel=1e-6)


def test_groups_have_options_of_their_own() -> None:
    a, b = leaf(0.0), leaf(0.0)
    optimizer = gt.optim.SGD([{"params": [a]}, {"params": b, "lr": 0.25}], lr=1.0)
    a.grad, b.grad = gt.ones(1), gt.ones(1)
    optimizer.step()
    assert (a.item(), b.item()) == (-1.0, -0.25)
    assert "lr: 0.25" in repr(optimizer) and repr(optimizer).startswith("SGD (")
    assert "weight_decay: 0\n\nParameter Group 1\n" in repr(optimizer)


@pytest.mark.parametrize("make", [
    lambda p: gt.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    lambda p: gt.optim.Adam(p, amsgrad=True),
], ids=["SGD", "Adam"])  # fmt: skip
def test_a_state_survives_saving(make: Any, tmp_path: Any) -> None:
    def steps(optimizer: Any, p: Any, first: int, last: int) -> None:
        for n in range(first, last):
            p.grad = gt.tensor([n + 1.0, -0.5 * n])
            optimizer.step()

    whole = leaf(1.0, 2.0)
    steps(make([whole]), whole, 0, 6)
    p = leaf(1.0, 2.0)
    optimizer = make([p])
    steps(optimizer, p, 0, 3)
    gt.save({"p": p.detach(), "optimizer": optimizer.state_dict()}, tmp_path / "kept")
    kept = gt.load(tmp_path / "kept")
    q = kept["p"].requires_grad_()
    again = make([q])
    again.load_state_dict(kept["optimizer"])
    steps(again, q, 3, 6)
    assert q.tolist() == whole.tolist()
    given = kept["optimizer"]["state"][0]
    assert all(
        again.state[q][name] is not x for name, x in given.items() if isinstance(x, gt.Tensor)
    )


@pytest.mark.parametrize("sizes", [(), (1,)])
def test_a_state_of_pytorch_counts_steps_in_a_tensor(sizes: tuple[int, ...]) -> None:
    p, q = (gt.ones(sizes).requires_grad_() for _ in range(2))
    ours, loaded = gt.optim.Adam([p], lr=0.1), gt.optim.Adam([q], lr=0.1)
    for x, optimizer in ((p, ours), (q, loaded)):
        x.grad = gt.full(sizes, 0.5)
        optimizer.step()
    kept = ours.state_dict()
    kept["state"][0]["step"] = gt.tensor(1.0)
    loaded.load_state_dict(kept)
    for optimizer in (ours, loaded):
        optimizer.step()
    assert loaded.state[q]["step"] == 2 and q.tolist() == p.tolist()


def test_complex_parameters() -> None:
    p = gt.tensor([1 + 2j], requires_grad=True)
    for optimizer in (gt.optim.SGD([p], lr=0.5), gt.optim.Adam([p], lr=0.5)):
        p.grad = gt.tensor([2 - 2j])
        optimizer.step()
    assert p.tolist() == [pytest.approx(-0.5 + 3.5j)]


def test_refusals() -> None:
    p = leaf(1.0)
    for make, kind, message in (
        (lambda: gt.optim.SGD(p), TypeError, "SGD: 'params' must be a sequence"),
        (lambda: gt.optim.SGD([]), ValueError, "SGD: 'params' must not be empty"),
        (lambda: gt.optim.SGD([1.0]), TypeError, "SGD: 'params' must hold Tensors"),
        (lambda: gt.optim.SGD([p * 1]), ValueError, "SGD: 'params' must hold leaves"),
        (
            lambda: gt.optim.SGD([{"params": [p]}, {"params": [leaf(2.0), p]}]),
            ValueError,
            "SGD: 'params' must hold each Tensor in one group",
        ),
        (
            lambda: gt.optim.SGD([{"params": [p]}, {"params": [("q", leaf(2.0))]}]),
            ValueError,
            "SGD: 'params' must have names in all groups or in none",
        ),
        (lambda: gt.optim.Adam([p], lr=-1.0), ValueError, "Adam: 'lr' must not be negative"),
        (lambda: gt.optim.Adam([p], betas=(0.9, 1.0)), ValueError, "Adam: 'betas' must be in"),
        (
            lambda: gt.optim.SGD([p], nesterov=True),
            ValueError,
            "SGD: 'nesterov' must come with a momentum",
        ),
    ):
        with pytest.raises(kind, match=message) as caught:
            make()
        assert isinstance(caught.value, errors.GpuTensorError)


def test_a_parameter_held_twice() -> None:
    """As in PyTorch, it warns, and each step moves the parameter twice."""
    p, q = leaf(1.0), leaf(1.0)
    with pytest.warns(UserWarning, match="SGD: a group holds a parameter twice"):
        optimizer = gt.optim.SGD([q, p, p], lr=0.25, momentum=0.5)
    p.grad = gt.ones_like(p)
    optimizer.step()
    assert p.tolist() == [1.0 - 0.25 - 0.25 * 1.5] and q.tolist() == [1.0]
    assert optimizer.state_dict()["param_groups"][0]["params"] == [0, 1, 1]


def test_a_state_of_other_groups_changes_nothing() -> None:
    a, b = leaf(1.0), leaf(1.0)
    optimizer = gt.optim.SGD([a], lr=0.5)
    with pytest.raises(ValueError, match=r"SGD: 'state_dict' must have groups of \[1\] parameters"):
        optimizer.load_state_dict(gt.optim.SGD([a, b]).state_dict())
    assert optimizer.param_groups[0]["lr"] == 0.5


def test_hyperparameters_may_be_scalars_of_numpy() -> None:
    """Hyperparameters may be NumPy scalars, because programs compute schedules with NumPy."""
    found = []
    for kind in (float, np.float64, np.float32):
        p = gt.ones(3, requires_grad=True)
        optimizers = [
            gt.optim.SGD([p], lr=kind(0.5), momentum=kind(0.25)),
            gt.optim.Adam([p], lr=kind(0.5)),
        ]
        for optimizer in optimizers:
            p.grad = None
            (p * p).sum().backward()
            optimizer.step()
        found.append(p.tolist())
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("optimizer", [gt.optim.SGD, gt.optim.Adam])
def test_a_rate_that_is_a_tensor(optimizer: Any) -> None:
    stepped = []
    for rate in (0.5, gt.tensor(0.5)):
        p = gt.ones(3, requires_grad=True)
        p.grad = gt.ones(3)
        optimizer([p], lr=rate).step()
        stepped.append(p.tolist())
    assert stepped[0] == stepped[1]


@pytest.mark.parametrize("kind", [gt.optim.SGD, gt.optim.Adam, gt.optim.AdamW, gt.optim.Adagrad])
def test_loops_of_pytorch_are_taken_and_step_alike(kind: Any) -> None:
    found = []
    for options in ({}, {"foreach": True}, {"fused": True}, {"fused": None, "foreach": False}):
        p = gt.ones(3, requires_grad=True)
        p.grad = gt.arange(3.0)
        kind([p], lr=0.1, **options).step()
        found.append(p.detach().clone())
    assert all(gt.equal(x, found[0]) for x in found)
    with pytest.raises(ValueError, match="'fused' must not come with foreach=True"):
        kind([p], foreach=True, fused=True)
    if "fused" in inspect.signature(kind).parameters:
        with pytest.raises(ValueError, match="'fused' must not come with differentiable=True"):
            kind([p], differentiable=True, fused=True)
    assert gt.optim.RMSprop([p], foreach=True).param_groups[0]["foreach"]


RECORDED = [
    (gt.optim.SGD, {"weight_decay": 0.1}), (gt.optim.Adam, {}),
    (gt.optim.Adam, {"amsgrad": True}), (gt.optim.AdamW, {}), (gt.optim.Adamax, {}),
    (gt.optim.NAdam, {}), (gt.optim.RAdam, {"betas": (0.5, 0.6)}), (gt.optim.Adagrad, {}),
    (gt.optim.RMSprop, {"momentum": 0.9, "centered": True}), (gt.optim.Adadelta, {}),
    (gt.optim.ASGD, {"t0": 1, "lambd": 0.1}), (gt.optim.Rprop, {}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "options"), RECORDED)
def test_gradients_flow_through_recorded_steps(kind: Any, options: dict[str, Any]) -> None:
    """Gradients reach the initial parameter, the tensors from which the gradient was computed, and
    the rate."""

    def stepped(x: gt.Tensor, a: gt.Tensor, lr: gt.Tensor) -> gt.Tensor:
        p = x.clone()
        optimizer = kind([p], lr=lr, differentiable=True, **options)
        for _ in range(4):
            p.grad = a * p.clone() ** 3
            optimizer.step()
        return p

    def double(*values: float) -> gt.Tensor:
        return gt.tensor(values, dtype=gt.float64, requires_grad=True)

    default = gt.get_default_dtype()
    gt.set_default_dtype(gt.float64)  # of the numbers of a state
    try:
        inputs = double(0.5, -1.5), double(1.0, 2.0), double(0.1)
        assert gt.autograd.gradcheck(stepped, inputs, atol=1e-6)
        rate = gt.autograd.grad(stepped(*inputs)[0], inputs[2])[0]
        assert rate.item() != 0
    finally:
        gt.set_default_dtype(default)


def test_recorded_steps_of_a_complex_parameter() -> None:
    x, lr = gt.tensor([1 + 2j, 0.5j], dtype=gt.complex128), gt.tensor(0.1, dtype=gt.float64)
    x.requires_grad_(), lr.requires_grad_()

    def stepped(x: gt.Tensor, lr: gt.Tensor) -> gt.Tensor:
        p = x.clone()
        optimizer = gt.optim.RMSprop([p], lr=lr, differentiable=True)
        for _ in range(2):
            p.grad = p.clone() * (1 - 1j)
            optimizer.step()
        return p

    assert gt.autograd.gradcheck(stepped, (x, lr))


def test_a_recorded_step_writes_to_no_leaf() -> None:
    p = leaf(1.0, 2.0)
    p.grad = gt.ones(2)
    optimizer = gt.optim.Adam([p], differentiable=True)
    with pytest.raises(RuntimeError, match="Adam: 'params' must hold no leaf that requires grad"):
        optimizer.step()
    assert p.tolist() == [1.0, 2.0] and not optimizer.state
    with pytest.raises(ValueError, match="SGD: 'params' must hold leaves"):
        gt.optim.SGD([p * 1])
    kept = p * 1
    kept.retain_grad()
    (kept * kept).sum().backward()
    gt.optim.SGD([kept], lr=0.5).step()
    assert kept.tolist() == [0.0, 0.0]


def test_a_step_that_is_refused_is_not_counted() -> None:
    p = leaf(1.0)
    optimizer = gt.optim.ASGD([p], lr=0.5, alpha=0.5, lambd=-3.0)
    p.grad = gt.ones(1)
    for _ in range(2):
        with pytest.raises(ValueError, match="ASGD: 'alpha' must lead to a rate, with lambd"):
            optimizer.step()
        assert p.tolist() == [1.0] and not optimizer.state
    optimizer.param_groups[0]["lambd"] = 0.0
    optimizer.step()
    optimizer.param_groups[0]["lambd"] = -3.0
    with pytest.raises(ValueError, match="'alpha'"):
        optimizer.step()
    assert p.tolist() == [0.5] and optimizer.state[p]["step"] == 1


def one(kind: Any = gt.optim.SGD, **options: Any) -> Any:
    p = leaf(1.0, 2.0)
    p.grad = gt.ones(2)
    return kind([p], **options)


def test_hooks_of_a_step_run_around_it_in_order() -> None:
    optimizer, ran = one(lr=0.5), []
    of = gt.optim.optimizer

    def note(name: str) -> Any:
        def hook(which: Any, args: Any, kwargs: Any) -> None:
            assert which is optimizer and args == (optimizer,) and kwargs == {}
            ran.append((name, which.param_groups[0]["params"][0][0].item()))

        return hook

    handles = [
        optimizer.register_step_post_hook(note("after")),
        optimizer.register_step_pre_hook(note("before")),
        of.register_optimizer_step_pre_hook(note("before all")),
        of.register_optimizer_step_post_hook(note("after all")),
    ]
    optimizer.step()
    assert ran == [("before all", 1.0), ("before", 1.0), ("after", 0.5), ("after all", 0.5)]
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert len(ran) == 4


def test_a_hook_may_change_what_a_step_is_called_with() -> None:
    optimizer, called = one(), []
    optimizer.register_step_pre_hook(lambda o, args, kwargs: ((o, lambda: called.append(1)), {}))
    optimizer.step()
    assert called == [1]
    wrong = one()
    wrong.register_step_pre_hook(lambda o, args, kwargs: 1)
    with pytest.raises(errors.GpuTensorError, match=r"'hook' must return None or \(args, kwargs\)"):
        wrong.step()
    for kind in ("step_pre", "step_post", "state_dict_pre", "load_state_dict_post"):
        with pytest.raises(TypeError, match=f"register_{kind}_hook: 'hook' must be callable"):
            getattr(optimizer, f"register_{kind}_hook")(1)


def test_hooks_of_a_users_optimizer_run_once_and_after_a_step_that_failed_again() -> None:
    class Twice(gt.optim.SGD):
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            super().step(closure)
            super().step()

    optimizer, ran = one(Twice, lr=0.25), []
    optimizer.register_step_post_hook(lambda *_: ran.append(1))
    optimizer.step()
    assert ran == [1] and optimizer.param_groups[0]["params"][0][0].item() == 0.5
    with pytest.raises(ZeroDivisionError):
        optimizer.step(lambda: 1 / 0)
    optimizer.step()
    assert ran == [1, 1]


def test_hooks_of_state_dicts() -> None:
    optimizer, ran = one(gt.optim.Adam), []
    optimizer.register_state_dict_pre_hook(lambda o: ran.append("second"))
    optimizer.register_state_dict_pre_hook(lambda o: ran.append("first"), prepend=True)
    optimizer.register_state_dict_post_hook(lambda o, found: {**found, "more": 1})
    found = optimizer.state_dict()
    assert ran == ["first", "second"] and found["more"] == 1
    again = one(gt.optim.Adam)

    def other_rate(o: Any, given: Any) -> Any:
        return {**given, "param_groups": [{**given["param_groups"][0], "lr": 0.75}]}

    again.register_load_state_dict_pre_hook(other_rate)
    again.register_load_state_dict_post_hook(lambda o: ran.append(o.param_groups[0]["lr"]))
    again.load_state_dict(found)
    assert ran[2:] == [0.75] and found["param_groups"][0]["lr"] == 1e-3


def test_a_copy_has_the_state_and_no_hooks() -> None:
    optimizer = one(gt.optim.Adam)
    optimizer.register_step_post_hook(lambda *_: pytest.fail("called"))
    optimizer_copy = copy.deepcopy(optimizer)
    optimizer_copy.step()
    (p,) = optimizer_copy.param_groups[0]["params"]
    assert optimizer_copy.state[p]["step"] == 1 and not optimizer.state


def test_parameters_with_names() -> None:
    model = gt.nn.Linear(2, 1)
    optimizer = gt.optim.SGD(model.named_parameters(), lr=0.5)
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]
    with pytest.raises(ValueError, match="SGD: 'params' must be all with names or all without"):
        gt.optim.SGD([("a", leaf(1.0)), leaf(2.0)])


def test_states_of_numbers_are_tensors_in_a_state_dict() -> None:
    optimizer = one(gt.optim.NAdam)
    optimizer.step()
    kept = optimizer.state_dict()["state"][0]
    assert kept["step"].shape == kept["mu_product"].shape == ()
    assert kept["step"].dtype is gt.float32 and kept["step"].item() == 1.0


def test_a_users_optimizer_keeps_a_state_of_its_own() -> None:
    class Counting(gt.optim.Optimizer):
        def __init__(self, params: Any, lr: float) -> None:
            super().__init__(params, {"lr": lr})

        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            for group in self.param_groups:
                for p in group["params"]:
                    self.state[p]["seen"] = self.state[p].get("seen", 0) + 1
                    p.data.add_(p.grad, alpha=-group["lr"])

    optimizer = one(Counting, lr=0.5)
    optimizer.step()
    again = one(Counting, lr=0.25)
    again.load_state_dict(optimizer.state_dict())
    again.step()
    assert again.state_dict()["state"] == {0: {"seen": 2}}
    assert again.param_groups[0]["params"][0].tolist() == [0.5, 1.5]


@pytest.mark.parametrize(("make", "said"), [
    (lambda p: gt.optim.SparseAdam(p), "SparseAdam: 'params' must have sparse gradients, which"),
    (lambda p: gt.optim.Adam(p, lr=gt.ones(2)), "Adam: 'lr' must have one element"),
    (lambda p: gt.optim.NAdam(p, betas=(0.9, 1.0)), r"NAdam: 'betas' must be in \[0, 1\)"),
    (lambda p: gt.optim.NAdam(p, betas=0.9), "NAdam: 'betas' must be two numbers"),
    (lambda p: gt.optim.NAdam(p, momentum_decay=-1), "'momentum_decay' must not be negative"),
    (lambda p: gt.optim.Rprop(p, etas=(1.5, 1.2)), r"'etas' must be in \(0, 1\) and above 1"),
    (lambda p: gt.optim.Adadelta(p, rho=1.5), r"Adadelta: 'rho' must be in \[0, 1\]"),
    (lambda p: gt.optim.Adafactor(p, d=0.5), "Adafactor: 'd' must be at least 1"),
    (lambda p: gt.optim.Adafactor(p, beta2_decay=1), "'beta2_decay' must not be positive"),
    (lambda p: gt.optim.Adafactor(p, eps=(-1, 1)), "Adafactor: 'eps' must not be negative"),
    (lambda p: gt.optim.LBFGS(p, line_search_fn="x"), "'line_search_fn' must be None or 'strong"),
    (lambda p: gt.optim.LBFGS([{"params": p}, {"params": [leaf(1.0)]}]), "'params' must be one gr"),
    (lambda p: gt.optim.LBFGS(p).step(), "LBFGS: 'closure' must be given"),
    (lambda p: gt.optim.Muon(p), "Muon: 'params' must be real matrices"),
    (lambda p: gt.optim.Muon([gt.ones(1, 1)], ns_steps=100), r"'ns_steps' must be an int in \[0, "),
    (lambda p: gt.optim.Muon([gt.ones(1, 1)], adjust_lr_fn="x"), "'adjust_lr_fn' must be None"),
])  # fmt: skip
def test_options_that_are_refused(make: Any, said: str) -> None:
    with pytest.raises(errors.GpuTensorError, match=said):
        make([leaf(1.0)])


def test_a_rate_of_asgd_that_is_none_changes_no_parameter() -> None:
    optimizer = one(gt.optim.ASGD, alpha=1e300, lambd=1.0)
    with pytest.raises(errors.GpuTensorError, match="ASGD: 'alpha' must lead to a rate"):
        optimizer.step()
    assert optimizer.param_groups[0]["params"][0].tolist() == [1.0, 2.0]


@pytest.mark.parametrize(("change", "said"), [
    (lambda o, p, s: (o, {}, s), "'swapin_parameters' must hold 1 tensors"),
    (lambda o, p, s: (o, p, {}), "'swapin_optim_state' must have a dict 'state'"),
    (lambda o, p, s: (o, p, {**s, "param_groups": []}), "must have 1 groups"),
    (lambda o, p, s: (o, p, {**s, "param_groups": [{"params": [0]}]}), "must have the options"),
    (lambda o, p, s: (o, p, {**s, "state": {5: {}}}), "must have a state of its parameters"),
    (lambda o, p, s: (gt.optim.Adam([leaf(1.0)]), p, s), "'optimizer' must have a state"),
])  # fmt: skip
def test_what_cannot_be_swapped_in_changes_nothing(change: Any, said: str) -> None:
    optimizer = one(gt.optim.Adam)
    optimizer.step()
    before, groups = optimizer.state, copy.copy(optimizer.param_groups)
    swapped = change(optimizer, {"p": leaf(0.0, 0.0)}, optimizer.state_dict())
    with pytest.raises(ValueError, match=said):
        with gt.optim.swap_in_optimizer_params_and_state(*swapped):
            pass
    assert optimizer.state is before and optimizer.param_groups == groups


def test_options_of_a_users_formula_are_not_checked() -> None:
    class Three(gt.optim.Optimizer):
        def __init__(self, params: Any) -> None:
            super().__init__(params, {"lr": -0.5, "betas": (0.9, 0.99, 0.999), "eps": (1e-8, 0.0)})

        def step(self, closure: Any = None) -> None:
            self.state["shared"] = gt.ones(1)

    optimizer = Three([gt.nn.Parameter(gt.ones(1))])
    optimizer.step()
    assert optimizer.state_dict()["state"]["shared"].tolist() == [1.0]


def test_numbers_of_a_state_may_be_tensors() -> None:
    p = gt.ones(1, requires_grad=True)
    optimizer = gt.optim.ASGD([p], lr=0.5)
    p.grad = gt.ones(1)
    optimizer.step()
    optimizer.state[p]["eta"] = gt.tensor(0.5)
    optimizer.step()
    assert isinstance(optimizer.state[p]["eta"], gt.Tensor)
    assert float(optimizer.state[p]["eta"]) == pytest.approx(0.5, abs=1e-3)

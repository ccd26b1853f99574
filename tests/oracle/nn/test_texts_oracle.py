"""Modules and optimizers print PyTorch's texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import gputensor as gt

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle


def _loaded(t: Any) -> Any:
    names = {"weight": t.zeros(1, 1), "more": t.zeros(1)}
    return t.nn.Linear(1, 1).load_state_dict(names, strict=False)


TEXTS: dict[str, Callable[[Any], Any]] = {
    "equal modules of a list": lambda t: t.nn.ModuleList(
        [t.nn.Linear(1, 1), t.nn.Linear(1, 1), t.nn.ReLU(), t.nn.Linear(1, 1)]
    ),
    "nested lists": lambda t: t.nn.ModuleList(
        [t.nn.ModuleList([t.nn.Tanh(), t.nn.Tanh()]) for _ in range(3)]
    ),
    "an empty list": lambda t: t.nn.ModuleList(),
    "a transformer": lambda t: t.nn.Transformer(4, 2, 2, 1, 8, batch_first=True),
    "a list of parameters": lambda t: t.nn.ParameterList([t.ones(2, 3), t.ones(())]),
    "a dict of parameters": lambda t: t.nn.ParameterDict({"a": t.ones(2), "b": t.ones(1).double()}),
    "one parameter": lambda t: t.nn.ParameterDict({"a": t.ones(2)}),
    "values that are no parameters": lambda t: [
        t.nn.ParameterList([t.ones(1), 2, None]),
        t.nn.ParameterDict({"a": t.ones(1), "b": "c"}),
    ],
    "convolutions": lambda t: [
        t.nn.Conv2d(1, 2, 3, padding="same"),
        t.nn.ConvTranspose2d(3, 4, 3, 2, 1, 1, bias=False),
        t.nn.Conv1d(2, 2, 3, padding=1, padding_mode="reflect", bias=False, groups=2, dilation=2),
    ],
    "functions": lambda t: [
        t.nn.CosineSimilarity(0),
        t.nn.LocalResponseNorm(3, k=2.0),
        t.nn.PairwiseDistance(1.0),
        t.nn.Softshrink(),
        t.nn.Hardshrink(0.1),
    ],
    "tables": lambda t: [
        t.nn.Embedding(3, 4, 1, max_norm=1.0, norm_type=1.0, scale_grad_by_freq=True),
        t.nn.EmbeddingBag(3, 4, mode="sum", padding_idx=1),
    ],
    "transforms": lambda t: t.distributions.ComposeTransform(
        [t.distributions.ExpTransform(), t.distributions.SigmoidTransform()]
    ),
    "missing and unexpected names": _loaded,
    "an optimizer": lambda t: t.optim.Adam(t.nn.Linear(1, 1).parameters(), lr=0.1),
    "a group": lambda t: t.optim.SGD([{"params": [t.ones(1)], "lr": 0.1}], lr=1.0).param_groups,
    "a state": lambda t: t.optim.SGD([{"params": [t.ones(1)], "lr": 0.1}], lr=1.0).state_dict(),
}


@pytest.mark.parametrize("name", TEXTS)
def test_modules_and_optimizers_print_pytorchs_texts(name: str) -> None:
    assert repr(TEXTS[name](gt)).replace("gputensor.", "torch.") == repr(TEXTS[name](torch))


@pytest.mark.parametrize("t", [gt, torch], ids=["gputensor", "torch"])
def test_an_optimizer_with_its_own_step_counts_in_its_own_way(t: Any) -> None:
    class Counting(t.optim.Optimizer):  # type: ignore[misc]
        def __init__(self, params: Any) -> None:
            super().__init__(params, {"lr": 0.5})

        def step(self, closure: Any = None) -> None:
            for group in self.param_groups:
                for p in group["params"]:
                    state = self.state[p]
                    state["step"] = state.get("step", 0) + 1
                    p.data.add_(p.grad, alpha=-group["lr"])

    p = t.nn.Parameter(t.ones(1))
    made = Counting([p])
    for _ in range(2):
        (p * p).sum().backward()
        made.step()
    kept = made.state_dict()
    assert kept["state"] == {0: {"step": 2}} and type(kept["state"][0]["step"]) is int
    again = Counting([p])
    again.load_state_dict(kept)
    assert type(again.state[p]["step"]) is int and again.state_dict() == kept


@pytest.mark.parametrize("t", [gt, torch], ids=["gputensor", "torch"])
def test_a_gradient_of_several_numbers_is_a_runtime_error(t: Any) -> None:
    with pytest.raises(RuntimeError):
        t.func.grad(lambda x: x)(t.ones(2))

"""gt.nn's losses against torch.nn's: values, first and second gradients, over reductions, weights,
dtypes, broadcasting and unusual numbers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gputensor as gt

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("one_thread")]

WITHIN = {"float64": 1e-9, "float32": 3e-5, "bfloat16": 3e-2}
# PyTorch differentiates these only once; for infinite values its second derivative is NaN.
ONCE = ("CTCLoss", "MultiMarginLoss", "MultiLabelMarginLoss")
REDUCTIONS = ("none", "mean", "sum")


def drawn(random: Any, *sizes: int, low: float = -2, high: float = 2) -> np.ndarray:
    return random.uniform(low, high, sizes)


def signs(random: Any, *sizes: int) -> np.ndarray:
    return np.where(random.random(sizes) < 0.5, -1.0, 1.0)


def calls(random: Any) -> Iterator[tuple[str, list[Any], dict[str, Any]]]:
    """Yield (module, inputs, options); floating inputs get the dtype, and the first input a
    gradient."""
    x = drawn(random, 3, 4)
    share = drawn(random, 3, 4, low=0.05, high=0.95)
    classes = random.integers(0, 3, 5)
    logs = np.log(random.dirichlet(np.ones(4), (6, 3)))
    for name in ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss"):
        for sizes in ((3, 4), (4,), (3, 1)):
            yield name, [x, drawn(random, *sizes)], {}
        yield name, [drawn(random, 0, 3), drawn(random, 0, 3)], {}
        yield name, [np.array(odd), np.array(odd[::-1])], {"reduction": "none"}
    yield "SmoothL1Loss", [x, drawn(random, 3, 4)], {"beta": 0.3}
    yield "HuberLoss", [x, drawn(random, 3, 4)], {"delta": 0.3}
    for weight in (None, drawn(random, 4, low=0.1)):
        yield "BCELoss", [share, drawn(random, 3, 4, low=0, high=1)], {"weight": weight}
        for often in (None, drawn(random, 4, low=0.1)):
            options = {"weight": weight, "pos_weight": often}
            yield "BCEWithLogitsLoss", [x, drawn(random, 3, 4, low=0, high=1)], options
        yield "MultiLabelSoftMarginLoss", [x, share], {"weight": weight}
        yield "MultiMarginLoss", [x, random.integers(0, 4, 3)], {"weight": weight, "margin": 0.7}
        yield "MultiMarginLoss", [x, random.integers(0, 4, 3)], {"weight": weight, "p": 2}
    yield "MultiLabelMarginLoss", [x, np.array([[0, 3, -1, 1], [2, -1, 0, 0], [1, 2, 3, 0]])], {}
    yield "MultiLabelMarginLoss", [drawn(random, 40, 33), random.integers(-1, 33, (40, 33))], {}
    for log_target in (False, True):
        yield "KLDivLoss", [x, drawn(random, 3, 4, low=0.1)], {"log_target": log_target}
    for log_input in (False, True):
        options = {"log_input": log_input, "full": True}
        yield "PoissonNLLLoss", [share, drawn(random, 3, 4, low=0.2, high=4)], options
    yield "GaussianNLLLoss", [x, drawn(random, 3, 4), drawn(random, 3, 1, low=0.1)], {"full": True}
    yield "SoftMarginLoss", [x, signs(random, 3, 4)], {}
    yield "HingeEmbeddingLoss", [x, signs(random, 3, 4)], {"margin": 0.7}
    yield "MarginRankingLoss", [x[0], drawn(random, 4), signs(random, 4)], {"margin": 0.3}
    yield "CosineEmbeddingLoss", [x, drawn(random, 3, 4), signs(random, 3)], {"margin": 0.1}
    for options in ({"swap": True}, {"p": 3.0}):
        yield "TripletMarginLoss", [x, drawn(random, 3, 4), drawn(random, 3, 4)], options
    yield "TripletMarginWithDistanceLoss", [x, drawn(random, 3, 4), drawn(random, 3, 4)], {}
    for weight in (None, drawn(random, 3, low=0.1)):
        for ignored in (-100, 1):
            options = {"weight": weight, "ignore_index": ignored}
            yield "NLLLoss", [drawn(random, 5, 3), classes], options
            planes = [drawn(random, 2, 3, 2, 2), random.integers(0, 3, (2, 2, 2))]
            yield "NLLLoss", planes, options
            for smoothing in (0.0, 0.2):
                more = options | {"label_smoothing": smoothing}
                yield "CrossEntropyLoss", [drawn(random, 5, 3), classes], more
                yield "CrossEntropyLoss", planes, more
        chances = [drawn(random, 5, 3), random.dirichlet(np.ones(3), 5)]
        yield "CrossEntropyLoss", chances, {"weight": weight, "label_smoothing": 0.2}
    texts = [logs, random.integers(1, 4, (3, 2)), np.array([6, 4, 1]), np.array([2, 1, 2])]
    for spares in (False, True):
        yield "CTCLoss", texts, {"zero_infinity": spares}
    many = np.log(random.dirichlet(np.full(6, 9.0), (8, 4)))
    lengths = [np.array([8, 8, 5, 7]), np.array([3, 2, 2, 1])]
    for labels in (random.integers(0, 5, (4, 3)), random.integers(0, 5, 8)):
        yield "CTCLoss", [many, labels, *lengths], {"blank": 5}


odd = [math.nan, 1.0, math.inf, -math.inf, 1e30, -1e30, 0.0, -0.0]
CALLS = list(calls(np.random.default_rng(0)))
IDS = [f"{n}-{name}" for n, (name, _, _) in enumerate(CALLS)]


def theirs(x: Any, dtype: str) -> Any:
    made = torch.from_numpy(np.ascontiguousarray(x))
    return made.to(getattr(torch, dtype)) if made.is_floating_point() else made


def ours(x: Any, dtype: str) -> Any:
    made = gt.from_numpy(np.ascontiguousarray(x))
    return made.to(getattr(gt, dtype)) if made.is_floating_point() else made


def results(library: Any, enter: Any, call: Any, dtype: str, reduction: str) -> list[Any]:
    """Return the loss, its gradient and its second gradient, as float64."""
    name, inputs, options = call
    given = [enter(x, dtype) for x in inputs]
    first = given[0].detach().requires_grad_()
    fixed = {k: enter(v, dtype) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    module = getattr(library.nn, name)(**{"reduction": reduction} | fixed)
    loss = module(first, *given[1:])
    (slope,) = library.autograd.grad((loss * loss).sum(), first, create_graph=name not in ONCE)
    found = [loss, slope]
    if dtype != "bfloat16" and slope.requires_grad and np.isfinite(inputs[0]).all():
        found += library.autograd.grad(slope.sum(), first, allow_unused=True)
    wide = library.float64
    return [None if x is None else x.detach().to(wide).numpy() for x in found]


def test_every_loss_is_here() -> None:
    named = {name for name in dir(torch.nn) if name.endswith("Loss") or name == "NLLLoss2d"}
    assert not {name for name in named if not hasattr(gt.nn, name)}
    tested = {name for name, _, _ in CALLS} | {"LinearCrossEntropyLoss", "NLLLoss2d"}
    assert named - tested <= {"AdaptiveLogSoftmaxWithLoss"}


@pytest.mark.parametrize("dtype", WITHIN)
@pytest.mark.parametrize("call", CALLS, ids=IDS)
def test_as_pytorchs(call: Any, dtype: str) -> None:
    within = WITHIN[dtype]
    if (call[0], dtype) == ("BCEWithLogitsLoss", "bfloat16"):
        within = 0.1  # PyTorch rounds each of its steps to bfloat16, gputensor the result alone
    for reduction in REDUCTIONS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                wanted = results(torch, theirs, call, dtype, reduction)
            except NotImplementedError:
                assert dtype == "bfloat16"  # PyTorch's CPU has no kernel
                return
            found = results(gt, ours, call, dtype, reduction)
        for x, y in zip(found, wanted):
            if y is None or x is None:
                assert x is None or not x.any()
                continue
            np.testing.assert_allclose(x, y, rtol=within, atol=within)


def test_clusters_of_classes() -> None:
    torch.manual_seed(0)
    reference = torch.nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 6, 9], div_value=1.5, head_bias=True)
    module = gt.nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 6, 9], div_value=1.5, head_bias=True)
    module.load_state_dict({k: v.numpy() for k, v in reference.state_dict().items()})
    x, y = np.random.default_rng(0).normal(size=(12, 8)).astype(np.float32), np.arange(12)
    wanted, found = (
        reference(torch.from_numpy(x), torch.from_numpy(y)),
        module(gt.from_numpy(x), gt.from_numpy(y)),
    )
    wanted.loss.backward()
    found.loss.backward()
    pairs = [(found.output, wanted.output), (found.loss, wanted.loss)]
    pairs += [(module.log_prob(gt.from_numpy(x)), reference.log_prob(torch.from_numpy(x)))]
    pairs += [(p.grad, q.grad) for p, q in zip(module.parameters(), reference.parameters())]
    for ours_, theirs_ in pairs:
        np.testing.assert_allclose(
            ours_.detach().numpy(), theirs_.detach().numpy(), rtol=2e-5, atol=2e-6
        )
    guessed = module.predict(gt.from_numpy(x)).tolist()
    assert guessed == reference.predict(torch.from_numpy(x)).tolist()

"""Names and arguments that PyTorch deprecates and still accepts, as old programs use them."""

from __future__ import annotations

import numpy as np
import pytest

import gputensor as gt
from gputensor import nn
from gputensor.as_torch import functions, stand_ins
from gputensor.nn import functional as F

X = gt.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
CLASSES = gt.tensor([0, 2])


@pytest.mark.parametrize(
    ("size_average", "reduce", "reduction"),
    [(True, None, "mean"), (False, None, "sum"), (None, True, "mean"), (None, False, "none"),
     (False, True, "sum"), (False, False, "none")],
)  # fmt: skip
def test_size_average_and_reduce_select_a_reduction(
    size_average: bool | None, reduce: bool | None, reduction: str
) -> None:
    old = {"size_average": size_average, "reduce": reduce}
    with pytest.warns(UserWarning, match=f"use reduction='{reduction}'"):
        found = F.mse_loss(X, X + 2, **old)
    assert found.tolist() == F.mse_loss(X, X + 2, reduction=reduction).tolist()
    with pytest.warns(UserWarning, match="reduction"):
        found = F.nll_loss(X, CLASSES, **old)
    assert found.tolist() == F.nll_loss(X, CLASSES, reduction=reduction).tolist()
    with pytest.warns(UserWarning, match="CrossEntropyLoss"):
        loss = nn.CrossEntropyLoss(**old)
    assert loss.reduction == reduction
    assert loss(X, CLASSES).tolist() == F.cross_entropy(X, CLASSES, reduction=reduction).tolist()


@pytest.mark.parametrize("function", [F.softmax, F.log_softmax, F.softmin])
@pytest.mark.parametrize(("ndim", "dim"), [(0, 0), (1, 0), (2, 1), (3, 0), (4, 1)])
def test_softmax_without_a_dim(function, ndim: int, dim: int) -> None:
    x = gt.rand((2,) * ndim)
    with pytest.warns(UserWarning, match=f"use dim={dim}"):
        found = function(x)
    assert found.tolist() == function(x, dim).tolist()


def test_softmax_modules_without_a_dim() -> None:
    with pytest.warns(UserWarning, match="use dim=1"):
        assert nn.Softmax()(X).tolist() == F.softmax(X, 1).tolist()


@pytest.mark.parametrize(
    ("old", "args"),
    [("uniform", (0.0, 2.0)), ("normal", ()), ("constant", (3.0,)), ("eye", ()),
     ("xavier_uniform", ()), ("xavier_normal", ()), ("kaiming_uniform", ()),
     ("kaiming_normal", ()), ("orthogonal", ()), ("sparse", (0.5,))],
)  # fmt: skip
def test_initialisers_without_an_underscore(old: str, args: tuple[float, ...]) -> None:
    gt.manual_seed(0)
    wanted = getattr(nn.init, f"{old}_")(gt.empty(4, 4), *args)
    gt.manual_seed(0)
    x = gt.empty(4, 4)
    with pytest.warns(FutureWarning, match=f"{old}: .* use {old}_"):
        assert getattr(nn.init, old)(x, *args) is x
    assert x.tolist() == wanted.tolist()


def test_clip_grad_norm_without_an_underscore() -> None:
    p = nn.Parameter(gt.zeros(2))
    p.grad = gt.tensor([3.0, 4.0])
    with pytest.warns(FutureWarning, match="use clip_grad_norm_"):
        assert nn.utils.clip_grad_norm([p], 1.0).item() == 5.0
    assert p.grad.norm().item() == pytest.approx(1.0)


def test_new_makes_a_tensor_of_the_same_type() -> None:
    x = X.to(gt.float64)
    assert x.new(2, 3).shape == (2, 3) and x.new(2, 3).dtype is gt.float64
    assert x.new().shape == (0,) and x.new(np.int64(4)).shape == (4,)
    assert x.new(x.shape).shape == x.shape
    assert x.new([1, 2]).tolist() == x.new((1, 2)).tolist() == x.new(np.array([1, 2])).tolist()
    assert x.new(x).data_ptr() == x.data_ptr()
    assert x.new(X).dtype is gt.float64


def test_a_multiple_of_a_size_is_a_size() -> None:
    assert type(X.shape * 2) is gt.Size and 2 * X.shape == (2, 3, 2, 3)


def test_gradients_take_only_inputs() -> None:
    x = gt.ones(2, requires_grad=True)
    y = x * 3
    (found,) = gt.autograd.grad(y.sum(), x, None, True, False, True, True)
    assert found.tolist() == gt.autograd.grad(y.sum(), x, only_inputs=True)[0].tolist() == [3, 3]
    with pytest.warns(UserWarning, match="'only_inputs' is deprecated"):
        gt.autograd.grad((x * 3).sum(), x, only_inputs=False)


@pytest.mark.parametrize(
    ("args", "wanted"),
    [((0, 2), [0.0, 1.0, 2.0]), ((1, 2, 0.5), [1.0, 1.5, 2.0]), ((3, 1, -1), [3.0, 2.0, 1.0])],
)
def test_range_has_both_ends(args: tuple[float, ...], wanted: list[float]) -> None:
    with pytest.warns(UserWarning, match="range: it is deprecated; use arange"):
        made = functions.range_(*args)
    assert made.tolist() == wanted and made.dtype is gt.float32


def test_assert_allclose_ignores_the_dtype() -> None:
    with pytest.warns(FutureWarning, match="use assert_close"):
        functions.assert_allclose(X, X.to(gt.float64))
    with pytest.warns(FutureWarning), pytest.raises(AssertionError, match="no match"):
        functions.assert_allclose(X, X + 1, msg="no match")


def test_small_functions_of_torch() -> None:
    of = stand_ins.STAND_INS["torch"]
    assert of["spmm"](X, X.T).tolist() == (X @ X.T).tolist()
    assert of["typename"](X).endswith(".FloatTensor") and of["typename"](3) == "int"
    assert of["typename"](nn.Linear(1, 1)).endswith("linear.Linear")
    of["set_float32_matmul_precision"]("high")
    assert of["get_float32_matmul_precision"]() == "high"
    of["set_float32_matmul_precision"]("highest")


@pytest.mark.parametrize(
    "call",
    [lambda: nn.init.xavier_uniform_(gt.empty(3)), lambda: nn.init.eye_(gt.empty(3)),
     lambda: nn.init.kaiming_normal_(gt.empty(3, 3), mode="both"),
     lambda: nn.init.orthogonal_(gt.empty(3)), lambda: nn.init.calculate_gain("cubic")],
)  # fmt: skip
def test_initialisers_raise_pytorchs_value_error(call) -> None:
    """Programs catch it for biases, which have one dimension."""
    with pytest.raises(ValueError, match="must"):
        call()

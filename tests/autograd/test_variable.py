"""Attributes of autograd on a tensor: requires_grad, grad, grad_fn, is_leaf; and copies."""

from __future__ import annotations

import copy
import pickle

import pytest

import gputensor as gt


def test_a_new_tensor_is_a_leaf_without_history() -> None:
    x = gt.ones(3)
    assert not x.requires_grad and x.is_leaf and x.grad_fn is None and x.grad is None
    assert x.output_nr == 0 and not x._is_view() and x._base is None and x._autograd is None


@pytest.mark.parametrize(
    "make",
    [
        lambda: gt.ones(2, 3, requires_grad=True),
        lambda: gt.zeros((2, 3), requires_grad=True),
        lambda: gt.rand(2, 3, requires_grad=True),
        lambda: gt.empty(2, 3, requires_grad=True),
        lambda: gt.full((2, 3), 1.5, requires_grad=True),
        lambda: gt.arange(6.0, requires_grad=True),
        lambda: gt.ones_like(gt.ones(2), requires_grad=True),
        lambda: gt.tensor([1.0, 2.0], requires_grad=True),
        lambda: gt.ones(2).requires_grad_(),
    ],
)
def test_leaves_that_require_grad(make) -> None:
    x = make()
    assert x.requires_grad and x.is_leaf and x.grad_fn is None
    y = x * 2
    assert y.requires_grad and not y.is_leaf and y.grad_fn.name() == "MulBackward0"
    assert y.grad_fn.next_functions[0][0].variable is x


def test_nodes_are_named_as_pytorchs() -> None:
    x = gt.ones(2, 3, requires_grad=True)
    made = {
        "CloneBackward0": x.clone(), "SumBackward0": x.sum(), "SumBackward1": x.sum(0),
        "MeanBackward1": x.mean(1), "TBackward0": x.t(), "SelectBackward0": x[0],
        "SliceBackward0": x[:1], "ViewBackward0": x.view(6), "UnbindBackward0": x.unbind()[1],
        "CatBackward0": gt.cat([x, x]), "DivBackward0": x / 2, "DivBackward2": x // 2,
        "ToCopyBackward0": x.double(), "CopyBackwards": gt.zeros(2, 3).copy_(x),
        "FillBackward2": x.clone().fill_(1), "SqueezeBackward1": x.squeeze(0),
    }  # fmt: skip
    assert {name: type(y.grad_fn).__name__ for name, y in made.items()} == {n: n for n in made}
    assert made["UnbindBackward0"].output_nr == 1


def test_what_is_recorded_is_there_to_be_looked_at() -> None:
    x, y = gt.ones(2, requires_grad=True), gt.ones(2)
    node = (x * y).grad_fn
    assert node._saved_other is y and node.next_functions[1] == (None, 0)
    assert (x + 1).grad_fn._saved_alpha == 1
    node.metadata["note"] = 1
    assert node.metadata == {"note": 1}
    with pytest.raises(AttributeError):
        _ = node.nothing
    assert node._saved_self is None  # y needs no gradient, so x was not kept


def test_requires_grad_of_what_is_not_floating_or_no_leaf() -> None:
    with pytest.raises(RuntimeError, match="only Tensors of floating point"):
        gt.arange(3).requires_grad_()
    y = gt.ones(2, requires_grad=True) * 2
    y.requires_grad_()
    with pytest.raises(RuntimeError, match="of leaf variables"):
        y.requires_grad = False
    x = gt.ones(2, requires_grad=True)
    x.requires_grad = False
    assert not (x * 2).requires_grad


def test_results_that_have_no_gradient() -> None:
    x = gt.ones(3, requires_grad=True)
    assert not (x > 0).requires_grad and not x.to(gt.int64).requires_grad
    assert not x.detach().requires_grad and x.detach().is_leaf
    assert not gt.zeros(3, dtype=gt.int32).copy_(x).requires_grad


def test_grad_is_another_tensor_like_its_own() -> None:
    x = gt.ones(3)
    x.grad = gt.zeros(3)
    assert x.grad.tolist() == [0, 0, 0]
    x.grad = None
    assert x.grad is None
    with pytest.raises(TypeError):
        x.grad = 1
    for wrong in (gt.zeros(2), gt.zeros(3, dtype=gt.float64), x):
        with pytest.raises(RuntimeError):
            x.grad = wrong
    x.grad = gt.zeros(3)
    del x.grad
    assert x.grad is None


def test_grad_of_a_tensor_that_is_no_leaf_warns() -> None:
    y = gt.ones(2, requires_grad=True) * 2
    with pytest.warns(UserWarning, match="not a leaf"):
        assert y.grad is None
    y.retain_grad()
    assert y.grad is None and y.retains_grad


def test_repr_tells() -> None:
    x = gt.ones(1, requires_grad=True)
    assert repr(x) == "tensor([1.], requires_grad=True)"
    assert repr(x + 1) == "tensor([2.], grad_fn=<AddBackward0>)"


def test_out_forms_are_not_differentiated() -> None:
    x = gt.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="out=... arguments don't support automatic"):
        gt.add(x, 1, out=gt.empty(3))
    with pytest.raises(RuntimeError, match="out=... arguments"):
        gt.add(gt.ones(3), 1, out=x)
    with gt.no_grad():
        assert gt.add(x, 1, out=gt.empty(3)).tolist() == [2, 2, 2]


def test_tensors_with_history_keep_their_sizes_and_leave_by_detach_only() -> None:
    x = gt.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="cannot resize"):
        x.resize_(2)
    with pytest.raises(RuntimeError):
        x.set_(gt.zeros(3))
    with gt.no_grad():
        assert x.set_(gt.ones(3)) is x and x.requires_grad
    for leave in (lambda: x.numpy(), lambda: x.__array__(), lambda: x.__dlpack__()):
        with pytest.raises((RuntimeError, BufferError), match="not require grad"):
            leave()
    assert x.detach().numpy().tolist() == [1, 1, 1] and x[0].item() == 1


def test_copies_of_leaves() -> None:
    x = gt.tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    twin = copy.deepcopy(x)
    assert twin.requires_grad and twin.is_leaf and twin.grad.tolist() == x.grad.tolist()
    assert twin.grad is not x.grad
    assert pickle.loads(pickle.dumps(x)).requires_grad
    assert not pickle.loads(pickle.dumps(gt.ones(1))).requires_grad
    with pytest.raises(RuntimeError, match="leaves"):
        copy.deepcopy(x * 2)


def test_data_counts_its_own_versions() -> None:
    x = gt.ones(2, requires_grad=True)
    y = x * x
    x.data.add_(1)
    assert x.tolist() == [2, 2] and x._version == 0
    y.sum().backward()
    assert x.grad.tolist() == [4, 4]


def test_an_operand_without_a_derivative_is_refused_and_not_taken_for_a_constant() -> None:
    """The error has PyTorch's wording; a silent zero would be a wrong gradient."""
    scores, target = gt.zeros(2, 3), gt.tensor([0, 1])
    weight = gt.ones(3, requires_grad=True)
    with pytest.raises(
        RuntimeError,
        match="'nll_loss_forward' is not differentiable with respect to argument 'weight'",
    ):
        gt.nn.functional.nll_loss(scores, target, weight)
    with gt.no_grad():
        gt.nn.functional.nll_loss(scores, target, weight)
    gt.nn.functional.nll_loss(scores, target, weight.detach())

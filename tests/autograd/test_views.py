"""Views and in-place operators: writes update histories, or raise if they cannot."""

from __future__ import annotations

import warnings

import pytest

import gputensor as gt


def leaf(*sizes: int):
    return gt.arange(float(gt.ones(sizes).numel())).view(sizes).clone().requires_grad_()


def test_a_view_knows_its_base() -> None:
    x = gt.ones(2, 3)
    v = x.view(6)[1:]
    assert v._is_view() and v._base is x and not x._is_view()
    assert not x.detach()._is_view() and not v.requires_grad
    assert x.unbind()[0]._base is x


def test_a_write_to_a_view_is_a_write_to_its_base() -> None:
    x = leaf(2, 3)
    c = x.clone()
    v = c[0]
    v.mul_(3)
    assert type(c.grad_fn).__name__ == "CopySlices"
    assert type(v.grad_fn).__name__ == "AsStridedBackward0"
    c.sum().backward()
    assert x.grad.tolist() == [[3, 3, 3], [1, 1, 1]]


def test_a_view_follows_a_write_to_its_base_and_to_another_view() -> None:
    x = leaf(4)
    c = x.clone()
    v, w = c[:2], c[1:3]
    c.mul_(2)
    w.mul_(5)
    (v * gt.tensor([1.0, 10.0])).sum().backward()
    assert x.grad.tolist() == [2, 100, 0, 0]


def test_a_plain_tensor_gets_a_history_by_a_write() -> None:
    w = leaf(3)
    b = gt.ones(3)
    v = b[:2]
    b.mul_(w)
    assert b.requires_grad and v.requires_grad and not v.is_leaf
    v.sum().backward()
    assert w.grad.tolist() == [1, 1, 0]
    b2 = gt.zeros(3)
    b2[0] = leaf(1)[0]
    assert [n and type(n).__name__ for n, _ in b2.grad_fn.next_functions] == [
        None,
        "SelectBackward0",
    ]


def test_leaves_are_not_written_to() -> None:
    x = leaf(3)
    with pytest.raises(RuntimeError, match="^a leaf Variable that requires grad"):
        x.add_(1)
    for write in (lambda: x[0].add_(1), lambda: x.view(3).zero_(), lambda: x.__setitem__(0, 1.0)):
        with pytest.raises(RuntimeError, match="^a view of a leaf Variable"):
            write()
    assert x.tolist() == [0, 1, 2] and x._version == 0
    with gt.no_grad():
        x.add_(1)
    assert x.tolist() == [1, 2, 3]


def test_saved_tensors_are_not_written_to() -> None:
    x = leaf(3)
    y = x * 1
    z = y * y
    y.add_(1)
    with pytest.raises(
        RuntimeError,
        match="modified by an inplace operation: .* is at version 1; expected version 0",
    ):
        z.sum().backward()
    y = x.exp()
    y[0] = 1.0
    with pytest.raises(RuntimeError, match="output 0 of ExpBackward0, is at version 1"):
        y.sum().backward()
    y = x + 1
    y.add_(1)  # add keeps nothing
    y.sum().backward()


def test_an_in_place_operator_keeps_what_it_overwrites() -> None:
    x, w = leaf(3), leaf(3)
    c = x.clone()
    c.mul_(w)
    c.sum().backward()
    assert x.grad.tolist() == w.tolist() and w.grad.tolist() == x.tolist()
    x.grad = None
    x.clone().exp_().sum().backward()
    assert gt.testing.assert_close(x.grad, x.detach().exp()) is None


def test_views_made_in_no_grad_are_not_written_to_later() -> None:
    for make in (lambda: gt.ones(4), lambda: leaf(4).clone()):
        b = make()
        with gt.no_grad():
            v = b[:2]
            v.add_(1)
        with pytest.raises(RuntimeError, match="created in no_grad mode and is being modified"):
            v.mul_(leaf(2))
    b = leaf(4).clone()
    with gt.no_grad():
        v = b[:2]
    b.mul_(2)
    with pytest.raises(RuntimeError, match="no_grad mode and its base or another view"):
        v + 1


def test_one_of_several_views_is_not_written_to() -> None:
    u = leaf(2, 2).clone().unbind()
    with pytest.raises(RuntimeError, match="one of several that a function returned and is being"):
        u[0].mul_(2)
    b = leaf(2, 2).clone()
    first, _ = b.split(1)
    b.mul_(2)
    with pytest.raises(RuntimeError, match="one of several"):
        first.sum()


def test_in_place_views_change_the_view_alone() -> None:
    x = leaf(2, 3)
    c = x.clone()
    c.t_()
    assert c.shape == (3, 2) and type(c.grad_fn).__name__ == "TBackward1"
    v = c[:, :1]
    v.squeeze_()
    (v * gt.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [[1, 2, 3], [0, 0, 0]]


def test_lazy_and_reinterpreting_views_are_made_again_from_their_base() -> None:
    z = gt.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    c = z.clone()
    real = c.real
    c.mul_(2j)
    real.sum().backward()  # Re(2j z) = -2 Im z
    assert z.grad.tolist() == [-2j, -2j]
    z.grad = None
    c = z.clone()
    c.imag.mul_(3)
    (c * c.conj()).real.sum().backward()
    assert z.grad.tolist() == [2 + 36j, 6 - 18j]


def test_a_write_of_a_fresh_copy_counts_for_nobody() -> None:
    x = leaf(2, 3)
    assert (
        x.clone()._version == 0
        and gt.cat([x, x])._version == 0
        and x.t().contiguous()._version == 0
    )


def test_detach() -> None:
    x = leaf(3)
    y = x * 2
    d = y.detach()
    z = y * y
    d.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        z.sum().backward()
    y.detach_()
    assert y.is_leaf and not y.requires_grad
    with pytest.raises(RuntimeError, match="detach views"):
        x[0].detach_()


def test_a_base_that_comes_to_require_grad_after_its_view() -> None:
    b = gt.ones(4)
    v = b[:2]
    b.requires_grad_()
    assert v.requires_grad and (v * 2).grad_fn.next_functions[0] == (None, 0)
    with pytest.raises(RuntimeError, match="view of a leaf"):
        v.mul_(2)
    with gt.no_grad():
        b.add_(1)
    (v * 2).sum().backward()
    assert b.grad.tolist() == [2, 2, 0, 0]


def test_a_leaf_that_is_a_view() -> None:
    b = gt.ones(4)
    v = b[:2]
    v.requires_grad_()
    b.mul_(2)
    (v * v).sum().backward()
    assert v.is_leaf and v.grad.tolist() == [4, 4]


def test_views_of_a_base_that_was_frozen_or_detached() -> None:
    """As in PyTorch, a view with a history still requires grad, but its history ends there."""
    for freeze in (lambda x: x.requires_grad_(False), lambda x: x.detach_()):
        x = gt.ones(4, requires_grad=True)
        v, y = x.view(2, 2), x * 2
        freeze(x)
        x.mul_(3)
        z = v * 2
        assert v.requires_grad and v.grad_fn.name() == "AsStridedBackward0"
        assert v.grad_fn.next_functions == ((None, 0),)
        z.sum().backward()
        y.sum().backward()
        assert x.grad is None and z.tolist() == [[6, 6], [6, 6]]


def test_a_leaf_that_became_interior_since_the_forward_call() -> None:
    x, w = gt.ones(3, requires_grad=True), gt.ones(3, requires_grad=True)
    y = x * 2
    x.requires_grad_(False)
    x.mul_(w)
    with pytest.raises(RuntimeError, match="moved into the graph interior"):
        y.sum().backward()


def test_a_kernel_of_the_users_over_ours_counts_a_write_once() -> None:
    with gt.library.Library("aten", "IMPL") as library, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library.impl("abs_", lambda x: x.mul_(-1).add_(0), "CPU")
        library.impl("unsqueeze", lambda x, d: x.as_strided((1, *x.shape), (0, *x.stride())), "CPU")
        x = gt.ones(2)
        x.abs_()
        assert x._version == 1 and x.unsqueeze(0)._base is x


def test_second_derivatives_through_a_write_to_a_view_that_saves_its_result() -> None:
    x = gt.tensor([[1.0, 2.0]], requires_grad=True)
    made = (x * 1).view(2).relu_().pow(3).sum()
    (first,) = gt.autograd.grad(made, x, create_graph=True)
    (second,) = gt.autograd.grad(first.sum(), x)
    assert first.tolist() == [[3, 12]] and second.tolist() == [[6, 12]]

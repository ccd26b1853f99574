"""backward and grad: order, accumulation, retained graphs, errors."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import gputensor as gt
from gputensor.autograd import backward, grad
from gputensor.autograd.engine.run import queue_callback
from gputensor.core import errors


def leaf(*values: float):
    return gt.tensor([float(v) for v in values], requires_grad=True)


def test_gradients_accumulate() -> None:
    x = leaf(1, 2)
    for _ in range(2):
        (x * x).sum().backward()
    assert x.grad.tolist() == [4, 8]


def test_a_diamond_runs_each_node_once() -> None:
    x = leaf(2)
    seen = []
    y = x * 3
    y.register_hook(lambda g: seen.append(g.item()))
    (y * y + y).sum().backward()
    assert seen == [13] and x.grad.item() == 39


def test_broadcast_dtype_and_device_are_fitted() -> None:
    x = gt.ones(3, 1, requires_grad=True)
    y = gt.ones(2, 1, 4, dtype=gt.float64, requires_grad=True)
    n = gt.tensor(2.0, requires_grad=True)
    (x * y + n).sum().backward()
    assert x.grad.shape == (3, 1) and x.grad.dtype is gt.float32 and x.grad.tolist() == [[8]] * 3
    assert y.grad.shape == (2, 1, 4) and y.grad.dtype is gt.float64 and n.grad.item() == 24


def test_grad_leaves_grad_alone() -> None:
    x, w = leaf(1, 2), leaf(3, 4)
    y = (x * w).sum()
    gx, gw = grad(y, (x, w))
    assert gx.tolist() == [3, 4] and gw.tolist() == [1, 2] and x.grad is None and w.grad is None


def test_grad_of_what_is_no_leaf() -> None:
    x = leaf(1, 2)
    y = x * 3
    z = (y * y).sum()
    gy, gx = grad(z, (y, x))
    assert gy.tolist() == [6, 12] and gx.tolist() == [18, 36]
    (only,) = grad((y * y).sum(), [y], retain_graph=True)
    assert only.tolist() == [6, 12]


def test_grad_runs_only_what_leads_to_its_inputs() -> None:
    x, w = leaf(1), leaf(2)
    ran = []
    a, b = x * 2, w * 3
    b.grad_fn.register_hook(lambda *_: ran.append("b"))
    a.grad_fn.register_hook(lambda *_: ran.append("a"))
    grad((a * b).sum(), x)
    assert ran == ["a"]


def test_unused_inputs() -> None:
    x, w = leaf(1), leaf(2)
    with pytest.raises(RuntimeError, match="index 1 appears to not have been used"):
        grad((x * 2).sum(), (x, w))
    assert grad((x * 2).sum(), (x, w), allow_unused=True)[1] is None
    assert grad((x * 2).sum(), (x, w), materialize_grads=True)[1].tolist() == [0]
    with pytest.raises(RuntimeError, match="does not require grad"):
        grad((x * 2).sum(), gt.ones(1))


def test_grad_outputs() -> None:
    x = leaf(1, 2)
    assert grad(x * x, x, gt.tensor([1.0, 10.0]))[0].tolist() == [2, 40]
    backward([x * 2, (x * 3).sum()], [gt.ones(2), None])
    assert x.grad.tolist() == [5, 5]
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        (x * 2).backward(gt.ones(1))
    with pytest.raises(RuntimeError, match="does not require grad and does not have a grad_fn"):
        gt.ones(1).backward()
    with pytest.raises(RuntimeError, match="real scalar outputs"):
        gt.tensor([1j], requires_grad=True).sum().backward()
    with pytest.raises(TypeError):
        (x * 2).backward(3)
    with pytest.raises(RuntimeError, match="got 1 tensors and 2"):
        backward([x * 2], [gt.ones(2), gt.ones(2)])


def test_create_graph_to_any_order() -> None:
    x = leaf(2)
    y = x * x * x * x
    for expected in (32, 48, 48, 24):
        (y,) = grad(y.sum(), x, create_graph=True)
        assert y.item() == expected and y.requires_grad == (expected != 24 or y.grad_fn is not None)


def test_a_graph_is_used_up_unless_it_is_kept() -> None:
    x = leaf(1, 2)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()
    assert x.grad.tolist() == [4, 8]
    z = (x + 1).sum()  # keeps nothing, so nothing is freed
    z.backward()
    z.backward()
    with pytest.raises(RuntimeError, match="second time"):
        _ = y.grad_fn.next_functions[0][0]._saved_self


def test_backward_with_inputs() -> None:
    x, w = leaf(1), leaf(2)
    y = x * 3
    (y * w).sum().backward(inputs=[x])
    assert x.grad.item() == 6 and w.grad is None
    y = x * 3
    (y * w).sum().backward(inputs=[y, w])
    assert y.grad.item() == 2 and w.grad.item() == 3 and x.grad.item() == 6
    with pytest.raises(RuntimeError, match="not be empty"):
        (x * 2).sum().backward(inputs=[])


def test_only_formulas_that_are_wanted_run() -> None:
    a = gt.tensor([1.5, 2.0], requires_grad=True)
    b = gt.tensor([0.5, 3.0], requires_grad=True)
    z = gt.special.gammainc(a, b).sum()  # has no derivative with respect to a
    (found,) = gt.autograd.grad(z, b, retain_graph=True)
    assert found.allclose(gt.tensor([0.48394144, 0.14936121]))
    with pytest.raises(RuntimeError, match="derivative"):
        gt.autograd.grad(z, a)


def test_what_is_left_out_once_has_derivatives_again() -> None:
    x = gt.tensor([1.5, 2.0], requires_grad=True)
    y = gt.tensor([0.5, 3.0], requires_grad=True)
    (by_y,) = gt.autograd.grad((x**y).sum(), y, create_graph=True)
    (by_both,) = gt.autograd.grad(by_y.sum(), x)
    assert by_both.allclose((x ** (y - 1) * (1 + y * x.log())).detach())


def test_a_gradient_is_never_shared() -> None:
    x, w, g = leaf(1, 2), leaf(1, 2), gt.ones(2)
    (x + w).backward(g)
    assert len({t.data_ptr() for t in (x.grad, w.grad, g)}) == 3
    kept = []
    y = x * 1
    y.register_hook(kept.append)
    x.grad = None
    y.backward(g)
    x.grad.add_(1)
    assert g.tolist() == [1, 1] and kept[0].tolist() == [1, 1]
    x.grad = None
    x.view(2).backward(g)
    assert x.grad.data_ptr() != g.data_ptr()


def test_gradients_lie_as_their_leaves() -> None:
    x = gt.ones(2, 3).t().requires_grad_()
    (x * gt.ones(3, 2)).sum().backward()
    assert x.grad.stride() == x.stride()
    e = gt.ones(3, 4)[:, ::2].requires_grad_()
    (e * 2).sum().backward()
    assert e.grad.is_contiguous()


def test_the_gradient_of_a_transposed_weight_is_taken_over() -> None:
    x, weight = gt.rand(8, 3), gt.rand(5, 3, requires_grad=True)
    turned = gt.rand(3, 8).t().requires_grad_()
    loss = (gt.nn.functional.linear(x, weight).relu() + turned.mm(weight.t())).sum()
    with gt.dispatch.trace() as lines:
        loss.backward()
    assert not any("copy_" in line for line in lines)
    assert weight.grad.stride() == (3, 1) and turned.grad.stride() == (1, 8)


def test_nodes_run_youngest_first_and_a_leaf_as_soon_as_it_can() -> None:
    ran: list[str] = []
    leaves = {name: leaf(2) for name in "abc"}
    for name, x in leaves.items():
        x.register_post_accumulate_grad_hook(lambda x, name=name: ran.append(name))
    made: dict[str, gt.Tensor] = {}

    def record(name: str, y: gt.Tensor) -> gt.Tensor:
        y.grad_fn.register_hook(lambda after, before: ran.append(name))
        made[name] = y
        return y

    old = record("old", leaves["a"] * 2)
    side = record("side", leaves["b"] * leaves["c"])
    young = record("young", old * leaves["c"])
    record("sum", young + side).sum().backward()
    assert ran == ["sum", "young", "side", "b", "c", "old", "a"]


def test_accumulating_counts_as_a_write() -> None:
    x = leaf(1)
    (x * 2).sum().backward()
    before = x.grad._version
    (x * 2).sum().backward()
    assert x.grad._version == before + 1


def test_wrong_gradients_are_named() -> None:
    class Wrong(gt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return gt.ones(7)

    with pytest.raises(
        RuntimeError, match=r"WrongBackward returned an invalid gradient at index 0 - got f32\[7\]"
    ):
        Wrong.apply(leaf(1, 2)).sum().backward()


def test_backward_inside_backward() -> None:
    x = leaf(3)

    class Inner(gt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            with gt.enable_grad():
                again = x.detach().requires_grad_()
                (again * again).sum().backward()
            return again.grad * g

    Inner.apply(x).sum().backward()
    assert x.grad.item() == 6


def test_nothing_is_recorded_by_backward_itself() -> None:
    x = leaf(1, 2)
    (x * x).sum().backward()
    assert not x.grad.requires_grad and x.grad.is_leaf
    y = leaf(1, 2)
    (y * y).sum().backward(create_graph=True)
    assert y.grad.requires_grad
    y.grad = None


def test_backward_within_backward_may_nest_as_deeply_as_it_likes() -> None:
    """The engine continues in another thread, as in PyTorch. The thread's state and users'
    interrupts are unaffected."""
    seen = []

    class Nested(gt.autograd.Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            return x * 1

        @staticmethod
        def backward(ctx, g):
            seen.append((gt.is_grad_enabled(), gt.is_autocast_enabled("cpu")))
            if ctx.depth:
                with gt.enable_grad():
                    x = gt.ones(3, requires_grad=True)
                    Nested.apply(x, ctx.depth - 1).sum().backward()
                    return g + x.grad, None
            if x_fails:
                raise KeyError("innermost")
            return g, None

    for x_fails in (False, True):
        with gt.autocast("cpu"):
            x = gt.ones(3, requires_grad=True)
            y = Nested.apply(x, 150).sum()
        if x_fails:
            with pytest.raises(KeyError, match="innermost"):
                y.backward()
        else:
            y.backward()
            assert x.grad.tolist() == [151.0] * 3  # type: ignore[union-attr]
    assert set(seen) == {(False, False)} and len(seen) == 302


def test_the_derivative_of_a_derivative_that_is_constant_almost_everywhere() -> None:
    x = gt.tensor([-2.0, 0.0, 3.0], requires_grad=True)
    (g,) = gt.autograd.grad(x.abs().sum(), x, create_graph=True)
    assert g.requires_grad and g.tolist() == [-1, 0, 1]
    g.sum().backward()
    assert x.grad.tolist() == [0, 0, 0]  # type: ignore[union-attr]


FORK_IN_A_BACKWARD = """
import os, threading
import gputensor as gt
from gputensor.autograd.engine import accumulate
threading.Thread(target=accumulate._accumulating.acquire).start()  # as in a backward of its own
child = os.fork()
if child == 0:
    x = gt.ones(2, requires_grad=True)
    x.sum().backward()
    print(x.grad.tolist(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
os._exit(0)
"""


def test_a_forked_child_goes_backward_while_another_thread_of_its_parent_did() -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK_IN_A_BACKWARD]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (answer.stdout, answer.stderr) == ("[1.0, 1.0]\n", "")


@pytest.mark.parametrize("norm", [gt.linalg.matrix_norm, gt.linalg.vector_norm, gt.norm])
def test_the_gradient_of_a_norm_at_zero_is_zero(norm) -> None:
    x = gt.zeros(2, 2, requires_grad=True)
    norm(x).backward()
    assert x.grad is not None and x.grad.tolist() == [[0, 0], [0, 0]]


def test_callbacks_run_at_the_end_of_backward() -> None:
    seen: list[str] = []

    def last() -> None:
        seen.append("last")

    def first() -> None:
        seen.append(f"first, gradient {x.grad is not None}")
        queue_callback(last)

    def hook(grad: Any) -> None:
        seen.append("hook")
        queue_callback(first)

    x = gt.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(hook)
    y.sum().backward()
    assert seen == ["hook", "first, gradient True", "last"]
    with pytest.raises(errors.AutogradError, match="this thread runs no backward pass"):
        queue_callback(last)

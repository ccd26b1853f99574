"""gt.autograd.graph: hooks of saved tensors; also the effect of `x.data = y`."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import gputensor as gt
from gputensor.autograd import graph, saved
from gputensor.core import errors


@pytest.fixture(autouse=True)
def _as_before():
    yield
    assert not saved.saved_hooks.get() and not saved._watching and saved._plain


def cube(x: Any) -> Any:
    return (x * x * x.exp()).sum()


def test_what_is_saved_goes_through_the_hooks() -> None:
    log: list[Any] = []

    def pack(x: Any) -> Any:
        log.append(("pack", gt.is_grad_enabled()))
        return x.numpy().copy()

    def unpack(packed: Any) -> Any:
        log.append("unpack")
        return gt.from_numpy(packed)

    x = gt.full((3,), 2.0, requires_grad=True)
    with graph.saved_tensors_hooks(pack, unpack):
        y = cube(x)
    assert log == [("pack", False)] * 5
    expected = gt.full((3,), 2.0, requires_grad=True)
    cube(expected).backward()
    y.backward()
    assert x.grad.tolist() == expected.grad.tolist() and log.count("unpack") == 5
    with pytest.raises(RuntimeError, match="a second time"):
        y.backward()


def test_derivatives_of_derivatives_reach_what_was_saved() -> None:
    found = []
    for hooks in (
        graph.saved_tensors_hooks(lambda x: x.detach().clone(), lambda x: x),
        gt.enable_grad(),
    ):
        x = gt.full((3,), 2.0, requires_grad=True)
        with hooks:
            y = cube(x)
        (g,) = gt.autograd.grad(y, x, create_graph=True)
        g.sum().backward()
        found.append(x.grad.tolist())
    assert found[0] == found[1]


def test_a_function_saves_through_the_hooks() -> None:
    class Square(gt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return ctx.saved_tensors[0] * g * 2

    log: list[Any] = []
    x = gt.full((1,), 3.0, requires_grad=True)
    with graph.saved_tensors_hooks(
        lambda x: log.append(x.item()) or x, lambda x: log.append("back") or x
    ):
        Square.apply(x).backward()
    assert log == [3.0, "back"] and x.grad.tolist() == [6.0]


def test_hooks_nest_and_are_of_their_thread() -> None:
    log: list[str] = []

    def named(name: str) -> Any:
        return graph.saved_tensors_hooks(lambda x: log.append(name) or x, lambda x: x)

    x = gt.ones(1, requires_grad=True)
    with named("outer"):
        with named("inner"):
            x * x
        thread = threading.Thread(target=lambda: x * x)
        thread.start()
        thread.join()
        x.exp()
    x * x
    assert log == ["inner", "inner", "outer"]


def test_what_hooks_must_not_do() -> None:
    x = gt.ones(1, requires_grad=True)
    for hook in ("pack_hook", "unpack_hook"):
        with pytest.raises(TypeError, match=f"'{hook}' must be callable"):
            graph.saved_tensors_hooks(**{"pack_hook": print, "unpack_hook": print, hook: 3})
    with (
        graph.saved_tensors_hooks(lambda x: x.add_(1), lambda x: x),
        pytest.raises(RuntimeError, match="in place"),
    ):
        (x * 1).exp()
    with graph.saved_tensors_hooks(lambda x: x, lambda x: 3):
        y = x * x
    with pytest.raises(TypeError, match="unpack_hook: 'result' must be a Tensor"):
        y.backward()
    with graph.disable_saved_tensors_hooks("not here"):
        with pytest.raises(RuntimeError, match="not here"), graph.save_on_cpu():
            pass
        with gt.inference_mode():
            inferred = gt.ones(1)
    with (
        graph.save_on_cpu(),
        pytest.raises(RuntimeError, match="Inference tensors cannot be saved"),
    ):
        inferred * x


def test_save_on_cpu() -> None:
    from ..backend.devices import Runtime

    x = gt.full((3,), 2.0, requires_grad=True)
    with gt.autograd.graph.save_on_cpu():
        y = cube(x)
    y.backward()
    assert x.grad.isfinite().all() if hasattr(x.grad, "isfinite") else x.grad is not None
    with gt.backend.register("kept", "PrivateUse2", runtime=Runtime()) as device:
        device.register_stub("copy", _copied)
        there = gt.full((2,), 2.0).to("kept")
        with graph.save_on_cpu(pin_memory=True, device_type="kept"):
            packed = saved.save(there)
        assert packed.packed[1].device.type == "cpu" and packed.unpack(None).device == there.device


def _copied(op: str, plan: Any) -> Any:
    return lambda index, operands, scalars=(): None


# --- x.data = y -----------------------------------------------------------------------------------


def test_the_elements_of_another_tensor() -> None:
    x, y = gt.ones(3, requires_grad=True), gt.arange(3.0)
    version = x._version
    x.data = y
    assert x.tolist() == [0, 1, 2] and x.data_ptr() == y.data_ptr()
    assert x.requires_grad and x.is_leaf and x._version == version
    y.add_(1)
    assert x.tolist() == [1, 2, 3] and x._version == version
    x.data = gt.ones(2, 2)
    (x * x).sum().backward()
    assert x.grad.tolist() == [[2, 2], [2, 2]]


def test_a_graph_computes_with_what_the_leaf_has_now() -> None:
    x = gt.ones(3, requires_grad=True)
    y = x * x
    x.data = gt.full((3,), 5.0)
    y.sum().backward()
    assert x.grad.tolist() == [10, 10, 10]


def test_another_dtype() -> None:
    x = gt.ones(3, requires_grad=True)
    y = x * 2
    x.data = gt.ones(3, dtype=gt.float64)
    (x * 3).sum().backward()
    assert x.grad.dtype is gt.float64 and y.grad_fn is not None
    with pytest.raises(RuntimeError, match="must be floating point or complex"):
        x.data = gt.ones(3, dtype=gt.int64)
    with pytest.raises(TypeError, match="'value' must be a Tensor"):
        x.data = 3
    assert x.dtype is gt.float64 and x.tolist() == [1, 1, 1]


def test_gradients_of_a_batch() -> None:
    x, unused = gt.tensor([1.0, 2.0], requires_grad=True), gt.ones(1, requires_grad=True)
    y = gt.tensor([[1.0, 2.0], [0.0, 3.0]]) @ (x * x)
    options: dict[str, Any] = {"is_grads_batched": True, "allow_unused": True}
    found, none = gt.autograd.grad(y, (x, unused), gt.eye(2), create_graph=True, **options)
    assert none is None and found is not None and found.tolist() == [[2, 8], [0, 12]]
    (second,) = gt.autograd.grad(found.sum(), x, retain_graph=True)
    assert second is not None and second.tolist() == [2, 10]
    _, zeros = gt.autograd.grad(y, (x, unused), gt.eye(2), materialize_grads=True, **options)
    assert zeros is not None and zeros.tolist() == [0]
    one = (x * x).sum()
    wrong: list[Any] = [None, [None], [gt.eye(2), None], gt.tensor(1.0)]
    for given in wrong:
        results = [one] * (len(given) if isinstance(given, list) else 1)
        with pytest.raises(ValueError, match="'grad_outputs' must have a batch dimension in each"):
            gt.autograd.grad(results, x, given, **options)


def test_nodes_have_the_names_of_pytorch() -> None:
    x = gt.tensor([[1.0, 2.0]], requires_grad=True)
    made = [x.max(), x.max(1)[0], x.min(), x.min(1)[0], x.clamp(0, 1), x.clamp(x.detach())]
    assert [y.grad_fn.name() for y in made if y.grad_fn is not None] == [
        "MaxBackward1", "MaxBackward0", "MinBackward1", "MinBackward0", "ClampBackward1",
        "ClampBackward0",
    ]  # fmt: skip
    assert [y.output_nr for y in x.sort(1)] == [0, 0] and x.max(1)[0].output_nr == 0


def test_a_result_is_saved_only_for_a_derivative_that_reads_it() -> None:
    x = gt.tensor([2.0, 3.0], requires_grad=True)
    saved: list[gt.Tensor] = []
    with gt.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        for _ in range(4):  # the first calls find no short cuts
            saved.clear()
            y = x**2
            assert [t is x for t in saved] == [True]
        assert y.grad_fn is not None and y.grad_fn._saved_result is None
        y.sum().backward()
        assert x.grad is not None and x.grad.tolist() == [4.0, 6.0]
        saved.clear()
        gt.pow(2.0, x)
        assert len(saved) == 2


def test_zeros_for_unused_inputs_have_no_batch() -> None:
    """As in PyTorch, which makes them after the gradients of the batch."""
    x, unused = gt.ones(3, requires_grad=True), gt.ones(2, 5, requires_grad=True)
    options: dict[str, Any] = {"is_grads_batched": True, "materialize_grads": True}
    found = gt.autograd.grad(x * 2, (x, unused), gt.eye(3), **options)
    assert [tuple(g.shape) for g in found if g is not None] == [(3, 3), (2, 5)]


def test_an_edge_of_one_number_needs_no_incoming_gradient() -> None:
    x = gt.ones(3, requires_grad=True)
    edge = gt.autograd.graph.get_gradient_edge((x * 2).sum())
    assert gt.autograd.grad(edge, x)[0].tolist() == [2, 2, 2]
    with pytest.raises(errors.ArgumentError, match="must be given for an edge of several"):
        gt.autograd.grad(gt.autograd.graph.get_gradient_edge(x * 2), x)
    with pytest.raises(errors.ArgumentError, match="grad: 'inputs' must not be empty"):
        gt.autograd.grad(x.sum(), [])

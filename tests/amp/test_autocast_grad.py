"""Gradients through autocast: their dtypes, where backward runs, and custom Functions."""

from __future__ import annotations

from typing import Any

import pytest

import gputensor as gt
from gputensor.core import errors

X = gt.tensor([[1.0, 2.0], [3.0, 4.0]])
LOW = {"cpu": gt.bfloat16, "cuda": gt.float16}


def leaf(device: str = "cpu", dtype: Any = gt.float32) -> gt.Tensor:
    return gt.tensor([[1.0, 0.5], [0.25, 2.0]], device=device, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.full)])
def test_gradients_come_back_in_the_types_of_the_leaves(device: str) -> None:
    leaves = [leaf(device), leaf(device, gt.float16), leaf(device, gt.bfloat16)]
    w, half, b16 = leaves
    with gt.autocast(device):
        loss = (w.mm(half) + b16.mm(w)).exp().sum() + (w * w).sum()
    loss.backward()
    assert [x.grad.dtype for x in leaves] == [gt.float32, gt.float16, gt.bfloat16]


def test_two_passes_go_through_one_cast() -> None:
    w = leaf()
    with gt.autocast("cpu"):
        first, second = w.mm(X).sum(), w.mm(X).sum()
    first.backward()
    second.backward()
    assert w.grad.tolist() == [[6.0, 14.0], [6.0, 14.0]]  # type: ignore[union-attr]
    (gradient,) = gt.autograd.grad(leaf_sum(w), w)
    assert gradient.dtype is gt.float32


def leaf_sum(w: gt.Tensor) -> gt.Tensor:
    with gt.autocast("cpu"):
        return w.mm(w).mm(w).sum()


def test_gradients_of_several_uses_are_summed_in_float32() -> None:
    """bfloat16 cannot represent 1 + 2**-9. PyTorch sums at the cast, which loses the small part."""
    w = gt.ones(1, 1, requires_grad=True)
    with gt.autocast("cpu"):
        y = w.mm(gt.ones(1, 1)).float() + w.mm(gt.full((1, 1), 2.0**-9)).float()
    y.sum().backward()
    assert w.grad.item() == 1 + 2**-9  # type: ignore[union-attr]


def test_gradients_agree_with_casts_by_hand() -> None:
    w, v = leaf(), leaf()
    with gt.autocast("cpu"):
        loss = gt.cat([w.mm(X), X]).exp().sum()
    low = v.bfloat16().mm(X.bfloat16())
    by_hand = gt.cat([low.float(), X]).exp().sum()
    assert loss.item() == by_hand.item()
    loss.backward()
    by_hand.backward()
    assert w.grad.tolist() == v.grad.tolist()  # type: ignore[union-attr]


@pytest.mark.parametrize("create_graph", [False, True])
def test_backward_runs_outside_of_autocast(create_graph: bool) -> None:
    """This holds wherever backward is called. PyTorch would cast the float32 products of the
    backward pass."""
    w, hooks = leaf(), []
    y = w.mm(w).sum()
    w.register_hook(lambda g: hooks.append(gt.is_autocast_enabled("cpu")))
    with gt.autocast("cpu"), gt.dispatch.trace() as lines:
        y.backward(create_graph=create_graph)
        assert gt.is_autocast_enabled("cpu")
    assert any("aten::mm" in line for line in lines) and not any(
        "Autocast" in line for line in lines
    )
    assert hooks == [False] and w.grad.dtype is gt.float32  # type: ignore[union-attr]
    w.grad = None


def test_anomaly_mode_names_the_call() -> None:
    w = leaf()
    with gt.autograd.detect_anomaly(), gt.autocast("cpu"):
        y = w.mm(X)
        assert "test_anomaly_mode_names_the_call" in y.grad_fn.next_functions[0][0].trace
        assert y.grad_fn.next_functions[0][0].name() == "ToCopyBackward0"


class Product(gt.autograd.Function):
    """Records the dtypes and states that it gets."""

    seen: list[Any] = []

    @staticmethod
    @gt.amp.custom_fwd(device_type="cpu")
    def forward(ctx: Any, x: gt.Tensor, y: gt.Tensor) -> gt.Tensor:
        ctx.save_for_backward(x, y)
        return x.mm(y)

    @staticmethod
    @gt.amp.custom_bwd(device_type="cpu")
    def backward(ctx: Any, g: gt.Tensor) -> Any:
        x, y = ctx.saved_tensors
        Product.seen.append(
            (gt.is_autocast_enabled("cpu"), gt.get_autocast_dtype("cpu"), g.mm(y.t()).dtype)
        )
        return g.mm(y.t()).float(), x.t().mm(g.float()).float()


class InFloat32(gt.autograd.Function):
    @staticmethod
    @gt.amp.custom_fwd(device_type="cpu", cast_inputs=gt.float32)
    def forward(ctx: Any, x: gt.Tensor, more: Any) -> gt.Tensor:
        ctx.seen = [
            x.dtype,
            more["list"][0].dtype,
            more["wide"].dtype,
            gt.is_autocast_enabled("cpu"),
        ]
        ctx.save_for_backward(x)
        return x.mm(x)

    @staticmethod
    @gt.amp.custom_bwd(device_type="cpu")
    def backward(ctx: Any, g: gt.Tensor) -> Any:
        assert ctx.seen[:1] == [gt.float32] or not gt.is_autocast_enabled("cpu")
        (x,) = ctx.saved_tensors
        InFloat32.seen = [*ctx.seen, g.dtype, gt.is_autocast_enabled("cpu")]
        return (g.mm(x.t()) + x.t().mm(g)).to(gt.bfloat16), None


def test_custom_functions_run_backward_as_forward() -> None:
    w = leaf()
    with gt.autocast("cpu", gt.float16):
        y = Product.apply(w, X)
        assert y.dtype is gt.float16
    y.float().sum().backward()
    assert Product.seen.pop() == (True, gt.float16, gt.float16)
    Product.apply(w, X).sum().backward()
    assert Product.seen.pop() == (False, gt.bfloat16, gt.float32)
    assert w.grad.dtype is gt.float32 and not gt.is_autocast_enabled("cpu")


def test_custom_functions_may_cast_their_operands() -> None:
    b16 = leaf(dtype=gt.bfloat16)
    more = {"list": [X.half()], "wide": X.double()}
    with gt.autocast("cpu"):
        y = InFloat32.apply(b16, more)
    assert y.dtype is gt.float32
    y.sum().backward()
    expected = [gt.float32, gt.float32, gt.float64, False, gt.float32, False]
    assert InFloat32.seen == expected and b16.grad.dtype is gt.bfloat16
    assert InFloat32.apply(b16, more).dtype is gt.bfloat16  # outside nothing is cast


def test_custom_functions_that_lack_the_other_half() -> None:
    class NoForward(gt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: gt.Tensor) -> gt.Tensor:
            return x.exp()

        @staticmethod
        @gt.amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, g: gt.Tensor) -> Any:
            return g

    with pytest.raises(
        errors.GpuTensorError, match="must come from a forward decorated with custom_fwd"
    ):
        NoForward.apply(leaf()).sum().backward()
    with pytest.raises(TypeError, match="'ctx' must be the first argument"):
        gt.amp.custom_fwd(lambda x: x, device_type="cpu")(X)
    with pytest.raises(RuntimeError, match="^custom_fwd: 'device_type' must be one of"):
        gt.amp.custom_fwd(device_type="meta")
